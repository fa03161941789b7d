/* End of contexts: failure, notification of peers, and memory of failed operations. Unless stated
 * otherwise, the caller holds the progress lock.
 *
 * A flow of a failed operation keeps its handle and receive memory, because the peer may still
 * write to that memory. When a context has failed or is closed, this rank posts no further puts for
 * it. This rank then sends TT_CELL_ENDED to each peer that has opened a flow to it. The message is
 * ordered after all its puts. The receiver reclaims the memory of its failed operations. */
#ifndef TT_ENGINE_CONTEXT_END_H
#define TT_ENGINE_CONTEXT_END_H

#include "engine/state.h"

/* Keeps the handle and receive memory of a failed operation's flow until the peer has sent
 * TT_CELL_ENDED. */
void tt_flow_abandon(struct tt_context *c, struct tt_flow *f);
/* Releases the handle and receive memory of a completed flow. */
void tt_flow_free(struct tt_engine *e, struct tt_peer *p, int handle, const struct tt_bounce *l);
/* Called when the peer has sent TT_CELL_ENDED for context `id`. */
void tt_peer_context_ended(struct tt_engine *e, struct tt_peer *p, uint32_t id);
/* Called when the peer has closed its connection in order. It posts no more puts. */
void tt_peer_has_left(struct tt_engine *e, struct tt_peer *p);

/* Called when this rank posts no further puts for c. Notifies the peers that have opened a flow
 * to it. */
void tt_context_ended(struct tt_context *c);
/* Notifies p, which has just opened a flow, that context `id` has ended here. Queues the
 * notification if there is no room. */
void tt_context_notify_ended(struct tt_engine *e, struct tt_peer *p, uint32_t id);
/* Retries the queued notifications. */
void tt_context_retry_ended(struct tt_engine *e);
void tt_peer_free_ended(struct tt_peer *p);

/* Fails c and its operations. notify: also fail it on the other ranks. */
void tt_context_fail_here(struct tt_context *c, tutti_status status, const char *sentence,
                          bool notify);
/* Returns the message of the failure that ended the context. Read the context's status before. */
const char *tt_context_why(const struct tt_context *c);

#endif
