/* Proves a collective's schedules of all ranks: right contributions in every byte of every rank, no deadlock, no race,
 * in bounds. Symbolic: follows sets of contributing ranks per byte range, not data. For tests and tools: it allocates.
 * */
#ifndef TT_SCHED_VERIFY_H
#define TT_SCHED_VERIFY_H

#include "sched/algo.h"

/* Every rank's program, flattened (tests may mutate it before verifying). */
struct tt_program {
    uint32_t nranks;
    uint64_t nrounds;               /* of the rank that has most */
    struct tt_coll *coll;           /* [nranks] */
    struct tt_step **steps;         /* [nranks][nsteps[rank]], each with the round that emitted it */
    uint64_t *nsteps;
    uint64_t *work_bytes;           /* [nranks] */
    bool direct_unsafe, pads;       /* as the algorithm says */
};

/* Builds the programs of all ranks; coll[nranks] is copied (its arrays are not). Ends with tt_program_fini. */
tutti_status tt_program_init(struct tt_program *p, const struct tt_algo *algo, const struct tt_coll *coll,
                             uint32_t nranks);
void tt_program_fini(struct tt_program *p);

/* TUTTI_OK if proven; else TUTTI_ERR_INVALID, and why[why_bytes] says rank, step and byte range (no log).
 *
 * What is proven, for any segmentation and any speeds:
 *  - Puts and waits of each pair match in order, tag and bytes; steps stay within their buffers and on elements; SRC
 *    is not written; a pipe has one writer and one later reader of the same bytes. Both ends of a message and of a pipe
 *    are in the same round, so that an executor that holds one round at a time gets through.
 *  - Every byte of every result is what the collective's definition says: for reductions each rank exactly once, the
 *    lower operand left, finished exactly once; nothing else of DST is written; nothing unwritten is read (but WORK by
 *    a barrier, and by an algorithm that pads: then no result comes from it).
 *  - No deadlock, even if a put's source stays in use until its wait has taken it, every pipe and every pair holds
 *    only one piece at a time, and steps go strictly forward; however steps are cut into segments (segments.h).
 *  - No deadlock either if every rank runs its steps one after another, in program order, as short programs are run: so
 *    in an exchange not everybody waits before it puts.
 *  - A barrier ends nowhere before it began everywhere.
 *  - Unless the algorithm says direct_unsafe: what a wait takes into DST or WORK may already land there as soon as its
 *    put is ready, because all earlier local steps on those bytes (and the peers that read them) are then known to be
 *    done. */
tutti_status tt_verify(const struct tt_program *p, char *why, size_t why_bytes);

/* The waits whose bytes may not land early. */
struct tt_early {
    uint64_t unsafe;        /* how many */
    uint32_t rank;          /* the first one */
    uint64_t step;
};

/* The same without the last property; *out tells about that one instead. */
tutti_status tt_verify_early(const struct tt_program *p, struct tt_early *out, char *why, size_t why_bytes);

/* What a piece of a message carries: `bytes` bytes, from `offset` of the input of the ranks in its set; of several
 * ranks: reduced. */
struct tt_carried {
    uint32_t rank, step;    /* of the put */
    uint64_t offset, bytes;
    const uint64_t *set;    /* [(nranks + 63) / 64], rank r's bit is r % 64 of word r / 64; valid during the call */
};
typedef void tt_carried_fn(const struct tt_carried *carried, void *arg);

/* tt_verify, and if it is proven all that is put, in order of rank, step and place. */
tutti_status tt_verify_traffic(const struct tt_program *p, tt_carried_fn *fn, void *arg, char *why, size_t why_bytes);

#endif
