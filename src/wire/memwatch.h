/* Tells when pages of this process are not those that they were: unmapped, replaced by another mapping, moved, given back to the kernel. By
 * whatever call, from whatever library: the kernel tells, by userfaultfd(2), which needs no privilege for memory of one's own.
 *
 * Pages are put under watch in write-protect mode, and never protected: they fault as ever, and nothing but the events is used
 * (UNMAP, REMAP, REMOVE). Who changes the mapping waits in the kernel until its event has been read. So somebody must always read: a thread that
 * waits for nothing that others hold while they free memory, not even for an allocator's lock.
 *
 * Only private anonymous memory can be watched (malloc, new, most of what tensors are in): what lies in a file may change under its
 * mapping, of which nobody is told.

 * All calls from any thread. */
#ifndef TT_WIRE_MEMWATCH_H
#define TT_WIRE_MEMWATCH_H

#include <stdbool.h>
#include <stdint.h>

struct tt_memwatch {
    int fd;                     /* readable when there are events */
};

/* Whether this kernel lets this process watch its memory; then *w is set. Else *why says why not, in static storage. */
bool tt_memwatch_open(struct tt_memwatch *w, const char **why);
/* Only where nothing was ever watched: who unmaps watched memory would wait for ever. */
void tt_memwatch_close(struct tt_memwatch *w);
/* Whether the pages [begin, end) are under watch from here on, all of them. They may be already. */
bool tt_memwatch_add(struct tt_memwatch *w, uint64_t begin, uint64_t end);
/* Ends that; those of them that are not watched, or not there, do not matter. */
void tt_memwatch_remove(struct tt_memwatch *w, uint64_t begin, uint64_t end);
/* Reads what has happened and calls gone for each stretch of pages: they are not those that they were; unmapped: nor
 * is there memory any more, unless somebody has mapped some since. */
void tt_memwatch_read(struct tt_memwatch *w, void (*gone)(void *arg, uint64_t begin, uint64_t end, bool unmapped),
                      void *arg);
/* Whether some watched pages are being changed just now, or were, and their event has not been read. False after a read: whatever had
 * happened to watched pages before, gone has been called for. */
bool tt_memwatch_is_changing(const struct tt_memwatch *w);

#endif
