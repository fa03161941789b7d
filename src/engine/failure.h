/* Handling of losses and deadlines. The caller holds the progress lock, except for tt_engine_lost
 * and similar functions (engine.h). */
#ifndef TT_ENGINE_FAILURE_H
#define TT_ENGINE_FAILURE_H

#include "engine/state.h"

/* Returns whether a peer has left, and the time to receive its reason is over. Operations that need
 * the peer do not fail before. */
bool tt_peer_is_gone(struct tt_engine *e, const struct tt_peer *p);
/* Processes the reports of other threads. */
void tt_take_failures(struct tt_engine *e);
/* Returns the next deadline of an operation after now, or a time shortly after now if one has
 * passed and a query is pending. Sets the deadlines of operations without one. */
uint64_t tt_next_deadline_ns(struct tt_engine *e, uint64_t now_ns);
/* Fails the operations whose deadline has passed, and sends the probes of the others. */
void tt_check_deadlines(struct tt_engine *e);

#endif
