/* Requests: operations as held by the application, from the call until it frees them, possibly
 * after their context was closed. The caller holds the progress lock. The application's calls
 * are in engine.h (tt_op_test, tt_op_wait, tt_op_free ...). */
#ifndef TT_ENGINE_REQUESTS_H
#define TT_ENGINE_REQUESTS_H

#include "engine/state.h"

/* The application holds the request, or has released it. */
void tt_request_hold(struct tt_op *op);
void tt_request_release(struct tt_op *op);
/* Completes the operation: sets its final status, and calls the callback of tt_op_notify. The
 * application may free it as soon as the progress lock is released. */
void tt_request_complete(struct tt_op *op, tutti_status status);
/* tt_op_is_over, for tt_engine_wait. Any thread. */
bool tt_request_is_over(void *op);
/* Frees a completed operation; the caller holds the progress lock. */
void tt_op_free_here(struct tt_op *op);
/* Detaches the application's requests (all over) from their context, which is being closed.
 * False: another thread uses a guarded request, and nothing has changed. */
bool tt_ops_orphan(struct tt_context *c);

#endif
