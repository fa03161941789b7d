/* Interface of an algorithm: each file in src/algo ends with a struct tt_algo, which one line of
 * src/algo/algos.c lists. */
#ifndef TT_SCHED_ALGO_H
#define TT_SCHED_ALGO_H

#include "sched/sched.h"

/* Cost of the slowest rank on the critical path: messages in sequence, bytes in its busiest
 * direction, bytes reduced, bytes copied locally. near_*: the part within a host, if the algorithm
 * distinguishes messages within a host from others. tt_cost_ns converts it to time with the
 * communicator's constants. */
struct tt_cost {
    double messages, bytes, reduced, copied;
    double near_messages, near_bytes;
};

struct tt_algo {
    const char *name;       /* "<collective>_<idea>", e.g. "allreduce_ring" */
    const char *summary;    /* when to use it, in a few words */
    const char *needs;      /* requirement on the call, e.g. "packed blocks"; NULL: none */
    enum tt_coll_kind kind;
    bool (*fits)(const struct tt_coll *c);      /* whether the algorithm supports this call:
                                                   correctness and limits, not performance */
    /* Like `fits`, for calls that name the algorithm. WORK may then be several times the data of
     * the call. NULL: `fits`, which limits WORK for any call. */
    bool (*fits_named)(const struct tt_coll *c);
    uint64_t (*nrounds)(const struct tt_coll *c);       /* 0 is valid: nothing to do */
    /* Emits round k, at most TT_ROUND_STEPS_MAX steps. */
    void (*round)(struct tt_sched *s, const struct tt_coll *c, uint64_t k);
    uint64_t (*work_bytes)(const struct tt_coll *c);    /* size of TT_BUF_WORK */
    uint32_t (*npeers)(const struct tt_coll *c);        /* upper bound on this rank's number of
                                                           peers */
    struct tt_cost (*cost)(const struct tt_coll *c);
    uint8_t quantizes;      /* reductions: the maximum supported enum tt_quantized */
    bool bounded;           /* no message is longer than tt_coll_chunk_bytes, and at most
                               tt_coll_chunks times that is in flight to one peer, i.e. sent and not
                               reported as consumed. All messages are streamed, regardless of their
                               length */
    bool by_stretches;      /* transfers the stretches of the call (tt_coll.stretches), not whole
                               blocks */
    bool by_name;           /* selected only by name, because neither its cost nor a simulation
                               before the call shows its benefit */
    bool pads;              /* messages have padding: bytes of WORK that are sent but are not part
                               of any result. Padded messages have tag 0; a message with another tag
                               is a single row from one rank to another */
    /* For `pads` of alltoallv: only the two ends of a row have its length, so 8 bytes with the
     * length are sent with it. The length of the row to `rank` (sent) is written to this offset of
     * WORK before the first round. The length of the row from `rank` is at the other offset after
     * the first length_rounds rounds. NULL: lengths are not sent. */
    uint64_t (*length_at)(const struct tt_coll *c, uint32_t rank, bool sent);
    uint64_t (*length_rounds)(const struct tt_coll *c);     /* 0: this call has no space for
                                                               lengths, and each row is sent
                                                               separately */
    bool direct_unsafe;     /* data of a wait must not arrive in DST or WORK before the wait is
                               executed (see tt_verify) */
};

#endif
