/* Queries to the neighbours in the control overlay, and their responses, for dumps: which
 * neighbours respond, and the offsets of their clocks (neighbours.h). Queries are sent only shortly
 * before a deadline, and for each dump. */
#ifndef TT_COMM_ROLL_CALL_H
#define TT_COMM_ROLL_CALL_H

#include "boot/boot.h"
#include "comm/comm.h"
#include "trace/dump_state.h"

/* Queries each neighbour, at most ten times a second. Called when an operation is near its
 * deadline, by any thread, also under the progress lock. */
void tt_roll_call_query(struct tt_world *w);
/* Handles a frame of a neighbour: a query or a response. The caller holds the overlay's lock. */
void tt_roll_call_handle(struct tt_world *w, const struct tt_overlay_event *ev);
/* The hooks of the engine; arg: the world. */
bool tt_roll_call_step(void *arg, bool begins);
void tt_roll_call_add(void *arg, struct tt_dump_state *s);

#endif
