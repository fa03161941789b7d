/* Calls that start operations, and kept operations. The caller holds the progress lock; rooms above
 * use the calls that engine.h declares. */
#ifndef TT_ENGINE_CALLS_H
#define TT_ENGINE_CALLS_H

#include "engine/state.h"

/* Restarts the kept operation, if that is possible now. *done: it has already completed. loan:
 * TT_LOAN_OUT for a request. */
bool tt_op_begin_again(struct tt_op *op, const void *src, void *dst, uint32_t tag,
                       int64_t timeout_ms, enum tt_loan loan, bool *done);
/* Keeps a completed operation with status st for the next call, or frees it. kept: see tt_op_conf.
 */
void tt_op_keep_or_free(struct tt_op *op, struct tt_op **kept, tutti_status st);
/* Frees the kept operation of a plan if it is not reusable. */
void tt_op_drop_lapsed(struct tt_op **kept);
/* Frees a completed operation. */
void tt_op_free_here(struct tt_op *op);

#endif
