/* A plan as a picture. */
#ifndef TUTTI_TOOLS_PLAN_SVG_H
#define TUTTI_TOOLS_PLAN_SVG_H

#include <stdio.h>
#include "plan.h"

/* Rounds [first, end) of the plan: ranks are lines from left to right, grouped by socket and host, rounds are columns,
 * transfers are arrows, coloured by the link they take. Every mark has a title that tells more. */
void plan_svg(FILE *to, const struct plan *p, const struct tt_program *program, const struct tt_traffic *traffic,
              uint32_t first, uint32_t end);

#endif
