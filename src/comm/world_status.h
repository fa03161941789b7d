/* The live view of a world: src/status with the world's overlay and engine. */
#ifndef TT_COMM_WORLD_STATUS_H
#define TT_COMM_WORLD_STATUS_H

#include "comm/comm.h"
#include "status/service.h"

/* Opens w->service. Call it before the engine starts. INVALID (logged): TUTTI_STATUS is invalid. */
tutti_status tt_world_open_status(struct tt_world *w);
/* Handles a payload of a neighbour; an invalid one is logged. The caller holds the overlay's
 * lock. */
void tt_world_handle_status(struct tt_world *w, const struct tt_overlay_event *ev);

#endif
