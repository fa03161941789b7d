/* Drawing of a plan. */
#ifndef TUTTI_TOOLS_PLAN_SVG_H
#define TUTTI_TOOLS_PLAN_SVG_H

#include <stdio.h>
#include "tools/plan/plan.h"

/* Draws the rounds [first, end) of the plan. Ranks are horizontal lines, grouped by socket and
 * host; rounds are columns; transfers are arrows, coloured by link. Every mark has a title with
 * details. */
void plan_svg(FILE *to, const struct plan *p, const struct tt_program *program,
              const struct tt_traffic *traffic, uint32_t first, uint32_t end);

#endif
