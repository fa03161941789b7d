/* End of operations. The caller holds the progress lock. */
#ifndef TT_ENGINE_OP_END_H
#define TT_ENGINE_OP_END_H

#include "engine/state.h"

/* Ends all operations of a failed context with the context's status. */
void tt_ops_fail(struct tt_context *c);
/* Ends an exposed or waiting operation. Its memory is kept until the application frees the
 * request. */
void tt_op_end(struct tt_op *op, tutti_status status, const char *why);
/* Releases the operation's resources. After a failure, memory that peers may still write to
 * stays reserved until they confirm that they post no more puts. */
void tt_op_release_resources(struct tt_op *op, bool failed);
/* Releases the probes that the operation has sent. */
void tt_op_end_probes(struct tt_op *op);
/* Makes room for collective `seq` in the history, which grows to two entries, then TT_HISTORY. */
void tt_context_grow_history(struct tt_context *c, uint64_t seq);
/* Records a completed collective, for later detection of a mismatch. */
static inline void tt_op_record_history(const struct tt_op *op)
{
    struct tt_context *c = op->context;

    if (op->p2p)
        return;
    if (c->history_cap < TT_HISTORY)
        tt_context_grow_history(c, op->seq);
    if (c->history_cap)         /* else out of memory */
        c->history[op->seq & (c->history_cap - 1)] =
            (struct tt_history){ .opseq = op->seq, .desc = op->desc, .used = true };
}

#endif
