/* What an algorithm is: one file in src/algo ends in one of these, and one line in src/algo/algos.c names it. */
#ifndef TT_SCHED_ALGO_H
#define TT_SCHED_ALGO_H

#include "sched/sched.h"

/* What the slowest rank pays on the critical path: messages one after another, bytes through its busiest direction,
 * bytes reduced, bytes copied locally. `near`: of those the ones that stay on a host, where others leave it and the algorithm knows.
 * tt_cost_ns turns it into time with the constants of the communicator. */
struct tt_cost {
    double messages, bytes, reduced, copied;
    double near_messages, near_bytes;
};

struct tt_algo {
    const char *name;       /* "<collective>_<idea>", e.g. "allreduce_ring" */
    const char *summary;    /* when it is good, in a few words */
    const char *needs;      /* what a call must be for it to fit, as "packed blocks"; NULL: it always fits */
    enum tt_coll_kind kind;
    bool (*fits)(const struct tt_coll *c);      /* whether it can do this call: correctness and bounds, not speed */
    /* The same where the call names it: WORK may then be a few times what the call moves. NULL: as `fits`, which bounds WORK whatever the call. */
    bool (*fits_named)(const struct tt_coll *c);
    uint64_t (*nrounds)(const struct tt_coll *c);       /* 0 is fine: nothing to do */
    /* Emits round k, at most TT_ROUND_STEPS_MAX steps. */
    void (*round)(struct tt_sched *s, const struct tt_coll *c, uint64_t k);
    uint64_t (*work_bytes)(const struct tt_coll *c);    /* of TT_BUF_WORK */
    uint32_t (*npeers)(const struct tt_coll *c);        /* bound on the distinct peers this rank exchanges with */
    struct tt_cost (*cost)(const struct tt_coll *c);
    uint8_t quantizes;      /* reductions: the most that a quantized call may ask of it, enum tt_quantized */
    bool bounded;           /* no message is longer than tt_coll_chunk_bytes, and never is more than tt_coll_chunks times that on its way to one
                               peer: sent, and not said by it to be consumed. Messages are streamed whatever their length */
    bool by_stretches;      /* moves the stretches that the call lists (tt_coll.stretches), not whole blocks */
    bool by_name;           /* used where it is named: what it is for is in neither its cost nor a simulation before a call */
    bool pads;              /* messages have room that a call may leave empty: what WORK holds there travels with them, and comes to no result.
                               These have tag 0; what has another is one rank's row for another, and nothing else */
    /* pads, of alltoallv: how long a row is its two ends alone know, so 8 bytes that say it travel with it. What this rank sends to `rank` (sent) is written to this
     * offset of WORK before the first round; what `rank` sends to it is at the other offset once the first length_rounds rounds are over. NULL: nothing says it. */
    uint64_t (*length_at)(const struct tt_coll *c, uint32_t rank, bool sent);
    uint64_t (*length_rounds)(const struct tt_coll *c);     /* 0: this call has no room for that, and each row travels alone */
    bool direct_unsafe;     /* what lands in DST or WORK must not land before the wait's turn (see tt_verify) */
};

#endif
