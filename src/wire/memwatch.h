/* Detects changed pages of this process: unmapped, remapped, moved, or returned to the kernel, by
 * any call of any library. The kernel reports them by userfaultfd(2), which needs no privilege for
 * a process's own memory.
 *
 * Pages are registered in write-protect mode but never protected. They fault as usual, and only the
 * events UNMAP, REMAP and REMOVE are used. A thread that changes the mapping blocks in the kernel
 * until its event has been read. Therefore some thread must always read. It must not wait for
 * anything that another thread may hold while it frees memory, not even an allocator's lock.
 *
 * Only private anonymous memory can be watched (malloc, new, most tensors): a file may change under
 * its mapping without an event.
 * All calls from any thread. */
#ifndef TT_WIRE_MEMWATCH_H
#define TT_WIRE_MEMWATCH_H

#include <stdbool.h>
#include <stdint.h>

struct tt_memwatch {
    int fd;                     /* readable when there are events */
};

/* Returns whether this kernel allows the process to watch its memory, and sets *w. Otherwise *why
 * is the reason, in static storage. */
bool tt_memwatch_open(struct tt_memwatch *w, const char **why);
/* Only if nothing was ever watched: a thread that unmaps watched memory would block forever. */
void tt_memwatch_close(struct tt_memwatch *w);
/* Watches all pages of [begin, end) from now on, and returns whether that succeeded. They may be
 * watched already. */
bool tt_memwatch_add(struct tt_memwatch *w, uint64_t begin, uint64_t end);
/* Stops watching the pages of the range; unwatched and unmapped pages in it are ignored. */
void tt_memwatch_remove(struct tt_memwatch *w, uint64_t begin, uint64_t end);
/* Reads pending events and calls `gone` for each range of pages that has changed. unmapped: the
 * range has no memory any more, unless something was mapped there since. */
void tt_memwatch_read(struct tt_memwatch *w,
                      void (*gone)(void *arg, uint64_t begin, uint64_t end, bool unmapped),
                      void *arg);
/* Returns whether a change of watched pages is in progress, or has an unread event. If it returns
 * false after a read, gone was called for all earlier changes. */
bool tt_memwatch_is_changing(const struct tt_memwatch *w);

#endif
