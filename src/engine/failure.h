/* Losses, deadlines and their handling. The caller holds the progress lock, except for
 * tt_engine_lost and similar functions (engine.h). */
#ifndef TT_ENGINE_FAILURE_H
#define TT_ENGINE_FAILURE_H

#include "engine/state.h"

/* Returns whether a peer has left and its reason, if any, was received. Operations that need it
 * can then fail; until then, none does. */
bool tt_peer_is_gone(struct tt_engine *e, const struct tt_peer *p);
/* Processes the reports of other threads. */
void tt_take_failures(struct tt_engine *e);
/* Returns the next deadline of an operation after now, or a time shortly after now if one has
 * passed and a query is pending. Sets the deadlines of operations without one. */
uint64_t tt_next_deadline_ns(struct tt_engine *e, uint64_t now_ns);
/* Ends operations whose deadline has passed, and sends probes to the ranks that the others wait
 * for. */
void tt_check_deadlines(struct tt_engine *e);

#endif
