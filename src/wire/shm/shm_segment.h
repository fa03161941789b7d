/* Anonymous shared segments: memfds, which leave nothing behind when a process dies. */
#ifndef TT_WIRE_SHM_SEGMENT_H
#define TT_WIRE_SHM_SEGMENT_H

#include <stddef.h>
#include "tutti/tutti.h"

struct tt_segment {
    int fd;
    void *base;
    size_t bytes;       /* multiple of the page size */
};

/* When the memory of a segment is allocated. */
enum tt_segment_pages {
    TT_PAGES_NOW,       /* lack of memory is an error of the call */
    TT_PAGES_LATER      /* at the first access to each page: for small segments that are rarely used
                           as a whole. Lack of memory is then handled by the kernel (OOM killer).
                           With vm.overcommit_memory=2: as NOW, because it would cause SIGBUS */
};

/* Creates and maps a zeroed segment; large ones on huge pages if the kernel provides them. On
 * success the caller owns *seg and releases it with tt_segment_fini; on error *seg is unchanged. */
tutti_status tt_segment_create(struct tt_segment *seg, size_t bytes, enum tt_segment_pages pages);
/* Maps a peer's segment. Takes ownership of its descriptor, on success and on error. PROTOCOL if
 * the file is smaller than `bytes`. */
tutti_status tt_segment_attach(struct tt_segment *seg, int fd, size_t bytes);
/* Replaces the mapping by private memory at the same addresses: writes there are not visible to
 * peers any more. Release it with tt_segment_fini. */
void tt_segment_detach(struct tt_segment *seg);
void tt_segment_fini(struct tt_segment *seg);

#endif
