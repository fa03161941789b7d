/* What an algorithm's table promises about its programs, beyond what tt_verify proves of them. For algorithms that come from outside;
 * allocates. */
#ifndef TT_SCHED_ROUNDS_H
#define TT_SCHED_ROUNDS_H

#include <stddef.h>
#include "sched/algo.h"

/* TUTTI_OK, or TUTTI_ERR_INVALID and why[why_bytes] (no log): all ranks have the same number of rounds, and none has more peers than it says.
 * coll: [nranks]; the programs are proven. NOMEM where there is no memory to look. */
tutti_status tt_rounds_check(const struct tt_algo *algo, const struct tt_coll *coll, uint32_t nranks, char *why,
                             size_t why_bytes);

#endif
