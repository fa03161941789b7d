/* Plans as JSON; docs/plan-format.md describes the format. */
#ifndef TT_SCHED_JSON_H
#define TT_SCHED_JSON_H

#include <stdio.h>
#include "sched/verify.h"

#define TT_PLAN_FORMAT "tutti-plan-1"

/* Returns whether calls of that kind have plans; v kinds, send and recv do not. */
bool tt_plan_has_json(enum tt_coll_kind kind);

/* Writes the programs of all ranks. `name`: algorithm name (letters, digits and underscores). */
void tt_plan_write_json(FILE *to, const struct tt_program *p, const char *name);

#endif
