/* Whether a program can deadlock, depending on how its steps are cut into segments and how much room pipes and pairs have. */
#ifndef TT_SCHED_SEGMENTS_H
#define TT_SCHED_SEGMENTS_H

#include "sched/rules.h"

/* Fails with a finding on a step that may wait for itself: if steps are cut into more segments than there is room for, or into fewer
 * than keep them apart. What it accepts cannot deadlock at any segmentation, with whatever room, in whatever order steps are tried:
 * with as little as one segment for each pair of ranks and none for pipes. */
tutti_status tt_segments_check(const struct tt_program *p, const struct tt_links *links, const struct tt_finding *f);

#endif
