/* Life cycle of operations. The caller holds the progress lock. */
#ifndef TT_ENGINE_OP_H
#define TT_ENGINE_OP_H

#include "engine/context.h"

/* Returns whether the operation has its final status. Any thread. */
static inline bool tt_op_is_over(const struct tt_op *op)
{
    return atomic_load_explicit(&((struct tt_op *)(uintptr_t)op)->status, memory_order_acquire) !=
           TUTTI_PENDING;
}
/* Advances an exposed operation as far as possible. Returns whether anything happened. The
 * operation may be over afterwards. */
bool tt_op_run(struct tt_op *op);
/* Exposes waiting operations of c while there is room, and runs them. */
void tt_ops_expose(struct tt_context *c);
/* Like tt_op_start; the caller holds the progress lock. */
tutti_status tt_op_start_here(struct tt_context *c, const struct tt_op_conf *conf,
                              struct tt_op **out);
/* Matches the unmatched receives with this tag, oldest first, with the started messages of
 * `from`, or of all ranks if `from` is NULL. The context may have failed afterwards. */
void tt_op_match_any(struct tt_context *c, uint32_t tag, struct tt_context_peer *from);
/* Assigns the number of a send or receive, or makes it an unmatched receive. NOMEM (logged). */
tutti_status tt_op_assign_p2p_key(struct tt_op *op);
/* Assigns the number of an operation that starts now. */
static inline tutti_status tt_op_assign_key(struct tt_op *op)
{
    struct tt_context *c = op->context;

    op->p2p = tt_is_p2p((uint8_t)op->conf.coll.kind);
    if (op->p2p)
        return tt_op_assign_p2p_key(op);
    op->seq = c->next_seq;
    c->next_seq += op->conf.parts ? 2 : 1;
    return TUTTI_OK;
}
/* Adds a kept operation that was started again to the active ones, because it could not complete at
 * once. The application already holds it. */
void tt_op_join_again(struct tt_op *op);
/* Returns an operation without steps: a request of c that the application holds. NULL: out of
 * memory. */
struct tt_op *tt_op_blank(struct tt_context *c);

#endif
