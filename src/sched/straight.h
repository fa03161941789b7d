/* Whether programs also get through when every rank runs its steps one after another, as short ones are run (engine/straight.c). */
#ifndef TT_SCHED_STRAIGHT_H
#define TT_SCHED_STRAIGHT_H

#include "sched/rules.h"

/* Runs all ranks step by step, in program order: a put is done at once, a wait stays until its put has run. Fails with a finding on a wait
 * that is in a circle of ranks each of which stays for the next. */
tutti_status tt_straight_check(const struct tt_program *p, const struct tt_links *links, const struct tt_finding *f);

#endif
