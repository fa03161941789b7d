/* What an algorithm keeps to beyond what tt_verify proves: rounds that an executor can hold one at a time, and programs that also get
 * through step by step. For algorithms that come from outside; allocates. */
#ifndef TT_SCHED_ROUNDS_H
#define TT_SCHED_ROUNDS_H

#include <stddef.h>
#include "sched/algo.h"

/* TUTTI_OK, or TUTTI_ERR_INVALID and why[why_bytes] (no log): all ranks have the same number of rounds, a put and its wait are in rounds of
 * the same number, a pipe's writer and reader in the same round, no rank has more peers than it says, and in each round step by step no
 * ranks wait for each other. coll: [nranks]. NOMEM where there is no memory to look. */
tutti_status tt_rounds_check(const struct tt_algo *algo, const struct tt_coll *coll, uint32_t nranks, char *why,
                             size_t why_bytes);

#endif
