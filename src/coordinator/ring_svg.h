/* A drawing of the ring of a run, with the measured bandwidth between its members. */
#ifndef TT_COORDINATOR_RING_SVG_H
#define TT_COORDINATOR_RING_SVG_H

#include <stdbool.h>
#include <stdio.h>
#include "coordinator/snapshot.h"

/* Writes one svg element. False, with nothing written: there is nothing to draw, or out of
 * memory. */
bool tt_ring_svg_ring(const struct tt_snapshot_links *l, FILE *to);

#endif
