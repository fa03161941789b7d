/* Deadlock check for in-order execution, in which every rank runs its steps one after another, as
 * short programs are run (engine/eager_fastpath.c). */
#ifndef TT_SCHED_IN_ORDER_H
#define TT_SCHED_IN_ORDER_H

#include "sched/rules.h"

/* Runs all ranks step by step in program order: a put completes at once, a wait blocks until its
 * put has run. Fails with a finding on a wait in a cycle of blocked ranks. */
tutti_status tt_in_order_check(const struct tt_program *p, const struct tt_links *links,
                               const struct tt_finding *f);

#endif
