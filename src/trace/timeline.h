/* The merged events of all ranks: the times of each segment. Pure. */
#ifndef TT_TRACE_TIMELINE_H
#define TT_TRACE_TIMELINE_H

#include <stddef.h>
#include "trace/trace.h"

/* Events of one rank, in order. */
struct tt_timeline_rank {
    const struct tt_trace_event *events;
    uint32_t nevents;
    int64_t ahead_ns;               /* offset of its clock from rank 0's */
};

/* A segment posted on a lane; a retransmit over another lane is a separate segment. Times are
 * relative to the first event of all ranks; TT_NEVER: not recorded. */
struct tt_timeline_segment {
    uint64_t posted_ns, completed_ns, arrived_ns;
    uint64_t bytes;
    uint32_t number, part;
    uint32_t row;
};

/* A lane between two ranks, in one direction. */
struct tt_timeline_row {
    uint32_t from, to;
    char wire[8];
    uint8_t lane, rail;
    uint32_t queue;                 /* of its first segment: it changes when the lane recovers */
    size_t first, end;              /* its segments, by number and part */
};

struct tt_timeline {
    struct tt_timeline_row *rows;   /* [nrows], by from, to, wire, lane */
    struct tt_timeline_segment *segments;   /* [nsegments], by row */
    size_t nrows, nsegments;
    uint64_t length_ns;             /* from the first event to the last */
};

/* Merges the events. NOMEM. The caller releases *t with tt_timeline_fini; `ranks` is copied. */
tutti_status tt_timeline_init(struct tt_timeline *t, const struct tt_timeline_rank *ranks,
                              uint32_t nranks);
void tt_timeline_fini(struct tt_timeline *t);

#define TT_TIMELINE_NAME_BYTES 96
/* Writes the name of a row among its sender's rows, e.g. "tcp to rank 1, lane 0" or "verbs to rank
 * 1, lane 2, QP 17, rail 0". Returns name. */
const char *tt_timeline_name(const struct tt_timeline_row *row, char name[TT_TIMELINE_NAME_BYTES]);

#endif
