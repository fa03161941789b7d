/* Contexts that are over, and what their failed operations left. Under the baton.
 *
 * A flow of a failed operation keeps its handle and its landing memory: the peer may still put there. When a context has failed or is
 * closed, this rank puts nothing more for it, and says so to each peer that has opened a flow to it there: TT_CELL_ENDED, in order
 * after all its puts. Whoever hears that gives back what its operations left. */
#ifndef TT_ENGINE_ENDED_H
#define TT_ENGINE_ENDED_H

#include "engine/state.h"

/* The flow's operation has failed: keeps its handle and landing memory until the peer has said that the context ended there. */
void tt_flow_abandon(struct tt_context *c, struct tt_flow *f);
/* The flow is over: gives its handle and landing memory back. */
void tt_flow_give_back(struct tt_engine *e, struct tt_peer *p, int handle, const struct tt_landing *l);
/* The peer puts nothing more for context `id`. */
void tt_peer_has_ended(struct tt_engine *e, struct tt_peer *p, uint32_t id);
/* It has left in order, and puts nothing more at all. */
void tt_peer_has_gone(struct tt_engine *e, struct tt_peer *p);

/* This rank puts nothing more for c: tells the peers that count on it. */
void tt_context_ended(struct tt_context *c);
/* Context `id` is over here, and p has just opened a flow for it. If there is no room now, it is told later. */
void tt_tell_ended(struct tt_engine *e, struct tt_peer *p, uint32_t id);
/* Tells what had no room before. */
void tt_tell_ended_again(struct tt_engine *e);
void tt_peer_free_ended(struct tt_peer *p);

#endif
