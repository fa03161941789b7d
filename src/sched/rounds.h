/* Checks those claims of an algorithm's table that tt_verify does not prove. For external
 * algorithms; allocates. */
#ifndef TT_SCHED_ROUNDS_H
#define TT_SCHED_ROUNDS_H

#include <stddef.h>
#include "sched/algo.h"

/* Checks that all ranks have the same number of rounds, and that none has more peers than claimed.
 * Returns TUTTI_OK, TUTTI_ERR_INVALID with the reason in why[why_bytes] (not logged), or NOMEM.
 * coll: [nranks]. The programs must have been proven. */
tutti_status tt_rounds_check(const struct tt_algo *algo, const struct tt_coll *coll,
                             uint32_t nranks, char *why, size_t why_bytes);

#endif
