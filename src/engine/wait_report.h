/* The ranks that the operations of this process wait for, which other ranks query
 * (tt_engine_list_waits). The caller holds the progress lock. */
#ifndef TT_ENGINE_WAIT_REPORT_H
#define TT_ENGINE_WAIT_REPORT_H

#include "engine/state.h"

/* Records what an operation waited for when it failed, for ranks that wait for this one. Call
 * before it ends. */
void tt_op_has_failed(const struct tt_op *op, tutti_status status);
/* Records that an operation succeeded: earlier failures no longer block this rank. */
void tt_op_has_succeeded(const struct tt_op *op);
/* Records that a call on a failed context was refused. */
void tt_context_has_refused(const struct tt_context *c);
/* Publishes the ranks that the operations wait for now. Operations that cannot begin yet have only
 * one entry per context. */
void tt_waits_publish(struct tt_engine *e);

#endif
