/* Losses, deadlines and their handling. The caller holds the progress lock, except for
 * tt_engine_lost and similar functions (engine.h). */
#ifndef TT_ENGINE_FAILURE_H
#define TT_ENGINE_FAILURE_H

#include "engine/state.h"

/* Declares job rank `rank` lost: fails every context that contains it. `how` completes the
 * message, e.g. "its connection closed". */
void tt_peer_lost(struct tt_engine *e, uint32_t rank, const char *how);
/* The peer closed its connection in order: only operations that still need it fail. */
void tt_peer_left(struct tt_engine *e, struct tt_peer *p);
/* Returns whether a peer has left and its reason, if any, was received. Operations that need it
 * can then fail; until then, none does. */
bool tt_peer_is_gone(struct tt_engine *e, const struct tt_peer *p);
/* Records what an operation waited for when it failed, for ranks that wait for this one. Call
 * before it ends. */
void tt_op_has_failed(const struct tt_op *op, tutti_status status);
/* Records that an operation succeeded: earlier failures no longer block this rank. */
void tt_op_has_succeeded(const struct tt_op *op);
/* Records that a call on a failed context was refused. */
void tt_context_has_refused(const struct tt_context *c);
/* Processes the reports of other threads. */
void tt_take_failures(struct tt_engine *e);
/* Returns the next deadline of an operation after now, or a time shortly after now if one has
 * passed and a query is pending. Sets the deadlines of operations without one. */
uint64_t tt_next_deadline_ns(struct tt_engine *e, uint64_t now_ns);
/* Ends operations whose deadline has passed, and sends probes to the ranks that the others wait
 * for. */
void tt_check_deadlines(struct tt_engine *e);

#endif
