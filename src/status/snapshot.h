/* The data that this process reports, from its trace of operations and its table of communicators.
 * Takes no progress lock, so it works while other threads hang or compute. */
#ifndef TT_STATUS_SNAPSHOT_H
#define TT_STATUS_SNAPSHOT_H

#include "status/collect.h"
#include "status/report.h"

#define TT_SNAPSHOT_WAITS_MAX 8u
#define TT_SNAPSHOT_IDLE_MAX 512u       /* reported communicators without operation in progress */
#define TT_SNAPSHOT_ENDED_MAX 64u       /* ended operations in the details of a rank */

/* The rank that a collective in progress waits for. */
struct tt_snapshot_wait {
    uint64_t comm, seq;
    uint32_t rank;
};

struct tt_snapshot_source {
    /* Fills out[TT_SNAPSHOT_WAITS_MAX]. Returns the number of entries. NULL: unknown. */
    uint32_t (*waits)(void *arg, struct tt_snapshot_wait *out);
    /* Fills out[TT_STATUS_WIRES_MAX] with the lanes of this process: all fields except the ranks.
     * nrated: 1 if the fields of an interval are known. Returns the number of entries; 0: unknown
     * so far. NULL: unknown. */
    uint32_t (*lanes)(void *arg, struct tt_status_lanes *out);
    void *arg;
};

/* Adds the positions of this process, which is `rank` of the job, or its operations for
 * TT_COLLECT_RANK. Scans the whole trace. For TT_COLLECT_DUMP, starts a dump instead. */
void tt_status_snapshot(const struct tt_collect_query *q, uint32_t rank,
                        const struct tt_snapshot_source *source, struct tt_status_report *r);

#endif
