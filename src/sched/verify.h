/* Proves a collective's schedules of all ranks: correct contributions in every byte of every rank,
 * no deadlock, no race, in bounds. Symbolic: tracks sets of contributing ranks per byte range, not
 * data. For tests and tools: it allocates. */
#ifndef TT_SCHED_VERIFY_H
#define TT_SCHED_VERIFY_H

#include "sched/algo.h"

/* Every rank's program, flattened (tests may change it before verifying). */
struct tt_program {
    uint32_t nranks;
    uint64_t nrounds;               /* maximum over all ranks */
    struct tt_coll *coll;           /* [nranks] */
    struct tt_step **steps;         /* [nranks][nsteps[rank]], each with the round that emitted
                                       it */
    uint64_t *nsteps;
    uint64_t *work_bytes;           /* [nranks] */
    bool direct_unsafe, pads;       /* as in the algorithm's table */
};

/* Builds the programs of all ranks; coll[nranks] is copied (its arrays are not). Release with
 * tt_program_fini. */
tutti_status tt_program_init(struct tt_program *p, const struct tt_algo *algo,
                             const struct tt_coll *coll, uint32_t nranks);
void tt_program_fini(struct tt_program *p);

/* Returns TUTTI_OK if proven; else TUTTI_ERR_INVALID, and why[why_bytes] has rank, step and byte
 * range (not logged).
 *
 * Proven properties, for any segmentation and any speeds:
 *  - Puts and waits of each pair match in order, tag and bytes. Steps stay within their buffers and
 *    on element boundaries. SRC is not written. A pipe has one writer and one later reader of the
 *    same bytes. Both ends of a message and of a pipe are in the same round, so an executor may
 *    hold one round at a time.
 *  - Every byte of every result is as in the collective's definition: for reductions, it contains
 *    each rank exactly once, the lower operand on the left, and is finished exactly once. No other
 *    byte of DST is written. No unwritten byte is read, except for WORK by barriers, and by
 *    algorithms that pad, if no result depends on it.
 *  - No deadlock, even if a put's source stays in use until its wait has run, every pipe and every
 *    pair holds only one piece at a time, and steps advance strictly in order; for any division of
 *    steps into segments (segments.h).
 *  - No deadlock if every rank runs its steps one after another in program order, as short programs
 *    are run: in an exchange, not all ranks wait before they put.
 *  - A barrier ends on no rank before it has begun on all ranks.
 *  - Unless direct_unsafe: data of a wait may arrive in DST or WORK as soon as its put is ready,
 *    because all earlier local steps on those bytes (and the peers that read them) are then known
 *    to be complete. */
tutti_status tt_verify(const struct tt_program *p, char *why, size_t why_bytes);

/* The waits whose data must not arrive early. */
struct tt_early {
    uint64_t unsafe;        /* number of such waits */
    uint32_t rank;          /* rank and step of the first one */
    uint64_t step;
};

/* Like tt_verify, but reports the last property in *out instead of checking it. */
tutti_status tt_verify_early(const struct tt_program *p, struct tt_early *out, char *why,
                             size_t why_bytes);

/* Contents of a piece of a message: `bytes` bytes from `offset` of the input of the rank in its
 * set, or their reduction over several ranks. */
struct tt_carried {
    uint32_t rank, step;    /* of the put */
    uint64_t offset, bytes;
    const uint64_t *set;    /* [(nranks + 63) / 64]; rank r is bit r % 64 of word r / 64; valid
                               during the call */
};
typedef void tt_carried_fn(const struct tt_carried *carried, void *arg);

/* Like tt_verify; if the program is proven, calls fn for the data of all puts, in order of rank,
 * step and offset. */
tutti_status tt_verify_traffic(const struct tt_program *p, tt_carried_fn *fn, void *arg, char *why,
                               size_t why_bytes);

#endif
