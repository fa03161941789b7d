/* Requests: operations as held by the application, from the call until it frees them, possibly
 * after their context was closed. The caller holds the progress lock. The application's calls
 * are in engine.h (tt_op_test, tt_op_wait, tt_op_free ...). A group is a request without steps,
 * whose members are operations that are started together. */
#ifndef TT_ENGINE_REQUESTS_H
#define TT_ENGINE_REQUESTS_H

#include "engine/state.h"

/* Record that the application holds the request, or has released it. */
void tt_request_hold(struct tt_op *op);
void tt_request_release(struct tt_op *op);
/* Completes the operation: sets its final status, and calls the callback of tt_op_notify. The
 * application may free it as soon as the progress lock is released. */
void tt_request_complete(struct tt_op *op, tutti_status status);
/* tt_op_is_over, for tt_engine_wait. Any thread. */
bool tt_request_is_over(void *op);
/* Returns the context of a request, or NULL if it was closed and the request is over. A guarded
 * context stays open until tt_request_unpin. guarded: that of the request, because an unguarded
 * context may already be freed. Call without the lock. */
struct tt_context *tt_request_pin(struct tt_op *op);
void tt_request_unpin(struct tt_context *c, bool guarded);
/* Detaches the application's requests (all over) from their context, which is being closed.
 * False: another thread uses a guarded request, and nothing has changed. */
bool tt_ops_orphan(struct tt_context *c);

/* Ends a group whose members are all over, with the status of the first failed member, by index. */
void tt_group_end(struct tt_op *group);
/* Called when a running member has its final status. The last member ends the group. */
void tt_group_member_over(struct tt_op *member);
/* Takes the members (all over) from a group. The caller frees each of the *n members, and the
 * array with free(). NULL: not a group, or empty. */
struct tt_op **tt_group_take_members(struct tt_op *group, size_t *n);

#endif
