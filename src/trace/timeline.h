/* The events of all ranks, put together: what became of each segment. Pure. */
#ifndef TT_TRACE_TIMELINE_H
#define TT_TRACE_TIMELINE_H

#include <stddef.h>
#include "trace/trace.h"

/* What one rank has kept, in the order in which it happened. */
struct tt_timeline_rank {
    const struct tt_trace_event *events;
    uint32_t nevents;
    int64_t ahead_ns;               /* its clock, of rank 0's */
};

/* A segment that was posted on a lane; sent again over another lane it is another one. Times since the first event of all, or TT_NEVER: not seen. */
struct tt_timeline_segment {
    uint64_t posted_ns, completed_ns, arrived_ns;
    uint64_t bytes;
    uint32_t number, part;
    uint32_t row;
};

/* A lane, from the one to the other. */
struct tt_timeline_row {
    uint32_t from, to;
    char wire[8];
    uint8_t lane, rail;
    uint32_t queue;                 /* of its first segment: it changes when the lane had to be mended */
    size_t first, end;              /* its segments, by number and part */
};

struct tt_timeline {
    struct tt_timeline_row *rows;   /* [nrows], by from, to, wire, lane */
    struct tt_timeline_segment *segments;   /* [nsegments], by row */
    size_t nrows, nsegments;
    uint64_t length_ns;             /* from the first event to the last */
};

/* Puts them together. NOMEM. The caller's, ended by tt_timeline_fini; nothing of `ranks` is kept. */
tutti_status tt_timeline_init(struct tt_timeline *t, const struct tt_timeline_rank *ranks, uint32_t nranks);
void tt_timeline_fini(struct tt_timeline *t);

#define TT_TIMELINE_NAME_BYTES 96
/* "tcp to rank 1, lane 0", "verbs to rank 1, lane 2, QP 17, rail 0", for a row among its sender's. Returns name. */
const char *tt_timeline_name(const struct tt_timeline_row *row, char name[TT_TIMELINE_NAME_BYTES]);

#endif
