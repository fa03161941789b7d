/* Losses, deadlines and what is done about them. Under the baton, but tt_engine_lost and its like (engine.h). */
#ifndef TT_ENGINE_TROUBLE_H
#define TT_ENGINE_TROUBLE_H

#include "engine/state.h"

/* Job rank `rank` is gone: fails every context that holds it.
 * `how` is half a sentence ("its connection closed"). */
void tt_peer_lost(struct tt_engine *e, uint32_t rank, const char *how);
/* It closed in order: only operations that still need it fail. */
void tt_peer_left(struct tt_engine *e, struct tt_peer *p);
/* Whether a peer has left, and this process has heard why, if there is a reason: who needs it waits in vain. Until then nobody is to be told. */
bool tt_peer_is_gone(struct tt_engine *e, const struct tt_peer *p);
/* Keeps what an operation waited for when it failed, for ranks that wait for this one; before it ends. */
void tt_op_has_failed(const struct tt_op *op, tutti_status status);
/* An operation succeeds: earlier failures do not keep this rank from anything. */
void tt_op_has_succeeded(const struct tt_op *op);
/* A call on a context that failed before was refused. */
void tt_context_has_refused(const struct tt_context *c);
/* Takes what other threads have told. */
void tt_take_trouble(struct tt_engine *e);
/* The next deadline of an operation after now; soon, where one has passed and somebody is asked why. Sets the deadlines of those that have
 * none yet. */
uint64_t tt_next_deadline_ns(struct tt_engine *e, uint64_t now_ns);
/* Ends operations whose deadline has passed, and asks the ranks that the others wait for. */
void tt_check_deadlines(struct tt_engine *e);

#endif
