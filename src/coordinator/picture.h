/* The ring of a run, drawn on the bandwidth that was measured between its members. */
#ifndef TT_COORDINATOR_PICTURE_H
#define TT_COORDINATOR_PICTURE_H

#include <stdbool.h>
#include <stdio.h>
#include "coordinator/snapshot.h"

/* One svg element. False, and nothing written: there is nothing to draw, or no memory. */
bool tt_picture_ring(const struct tt_snapshot_links *l, FILE *to);

#endif
