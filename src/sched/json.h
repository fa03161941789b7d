/* Plans as JSON, in the form that docs/plan-format.md describes. */
#ifndef TT_SCHED_JSON_H
#define TT_SCHED_JSON_H

#include <stdio.h>
#include "sched/verify.h"

#define TT_PLAN_FORMAT "tutti-plan-1"

/* Whether calls of that kind have plans: those with counts of their own, send and recv do not. */
bool tt_plan_has_json(enum tt_coll_kind kind);

/* All ranks' programs. `name`: of the algorithm, of letters, digits and underscores. */
void tt_plan_write_json(FILE *to, const struct tt_program *p, const char *name);

#endif
