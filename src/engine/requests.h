/* Requests: operations as the application holds them, from the call until it frees them, which may be after their context was closed. Under the baton. What the
 * application does with them is in engine.h (tt_op_test, tt_op_wait, tt_op_free ...). */
#ifndef TT_ENGINE_REQUESTS_H
#define TT_ENGINE_REQUESTS_H

#include "engine/state.h"

/* The application holds the request; it has let it go. */
void tt_request_hold(struct tt_op *op);
void tt_request_let_go(struct tt_op *op);
/* The operation is over: sets its final status, and calls what waits for it (tt_op_notify). The application may free it as soon as the
 * baton is given. */
void tt_request_complete(struct tt_op *op, tutti_status status);
/* tt_op_is_over, for tt_engine_wait. Any thread. */
bool tt_request_is_over(void *op);
/* Frees it, which is over, under the baton. */
void tt_op_free_here(struct tt_op *op);
/* Makes the requests that the application still holds independent of their context, which goes; they are over. False: somebody uses a guarded
 * one, and nothing has changed. */
bool tt_ops_orphan(struct tt_context *c);

#endif
