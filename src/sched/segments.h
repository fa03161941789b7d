/* Deadlock check for any division of steps into segments and any space in pipes and pairs. */
#ifndef TT_SCHED_SEGMENTS_H
#define TT_SCHED_SEGMENTS_H

#include "sched/rules.h"

/* Fails with a finding on a step that may wait for itself: with more segments than space, or with
 * too few segments to separate dependent steps. An accepted program cannot deadlock with any
 * segmentation, any space and any order of steps; one segment of space per pair of ranks and none
 * for pipes suffice. */
tutti_status tt_segments_check(const struct tt_program *p, const struct tt_links *links,
                               const struct tt_finding *f);

#endif
