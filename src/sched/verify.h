/* Proves a collective's schedules of all ranks: right contributions in every byte of every rank, no deadlock, no race, in
 * bounds. Symbolic: follows sets of contributing ranks per byte range, not data. For tests and tools: it allocates. */
#ifndef TT_SCHED_VERIFY_H
#define TT_SCHED_VERIFY_H

#include "sched/algo.h"

/* Every rank's program, flattened (tests may mutate it before verifying). */
struct tt_program {
    uint32_t nranks;
    struct tt_coll *coll;           /* [nranks] */
    struct tt_step **steps;         /* [nranks][nsteps[rank]] */
    uint64_t *nsteps;
    uint64_t *work_bytes;           /* [nranks] */
};

/* Builds the programs of all ranks; coll[nranks] is copied (its arrays are not). Ends with tt_program_fini. */
tutti_status tt_program_init(struct tt_program *p, const struct tt_algo *algo, const struct tt_coll *coll, uint32_t nranks);
void tt_program_fini(struct tt_program *p);

/* TUTTI_OK if proven; else TUTTI_ERR_INVALID, and why[why_bytes] says rank, step and byte range (no log). */
tutti_status tt_verify(const struct tt_program *p, char *why, size_t why_bytes);

#endif
