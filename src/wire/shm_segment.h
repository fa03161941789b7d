/* Anonymous shared segments: memfds, so that nothing is left behind by any death. */
#ifndef TT_WIRE_SHM_SEGMENT_H
#define TT_WIRE_SHM_SEGMENT_H

#include <stddef.h>
#include "tutti/tutti.h"

struct tt_segment {
    int fd;
    void *base;
    size_t bytes;       /* multiple of the page size */
};

/* Creates and maps a zeroed segment whose memory exists now (no SIGBUS later); large ones on huge pages where the system
 * grants them. On success the caller owns *seg and ends it with tt_segment_fini; on error *seg is untouched. */
tutti_status tt_segment_create(struct tt_segment *seg, size_t bytes);
/* Maps a peer's segment from its descriptor, which the segment takes over, on success and on error. PROTOCOL if the file is
 * smaller than `bytes`. */
tutti_status tt_segment_attach(struct tt_segment *seg, int fd, size_t bytes);
/* Leaves the addresses usable, but as private memory: nobody sees what is written there any more. tt_segment_fini still ends it. */
void tt_segment_detach(struct tt_segment *seg);
void tt_segment_fini(struct tt_segment *seg);

#endif
