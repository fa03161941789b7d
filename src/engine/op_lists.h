/* Lists, memory and slots of operations. The caller holds the progress lock. */
#ifndef TT_ENGINE_OP_LISTS_H
#define TT_ENGINE_OP_LISTS_H

#include "engine/state.h"

/* Adds an exposed operation that is not in the awake list to it. */
void tt_op_join_awake(struct tt_op *op);
/* Adds the exposed operation to those that each progress pass runs. */
static inline void tt_op_wake(struct tt_op *op)
{
    if (!op->awake_at)
        tt_op_join_awake(op);
}
/* Removes an operation that could not advance from the awake list, until a message for it
 * arrives. */
void tt_op_sleep(struct tt_op *op);
/* Returns the active operation of c with this key, or NULL. */
struct tt_op *tt_op_find(struct tt_context *c, uint32_t from, uint64_t opseq, bool p2p,
                         uint8_t kind);
/* Removes an exposed operation from the lists. A list traversal may be at it. */
void tt_op_leave_active(struct tt_op *op);

/* Returns an operation with room for its peers and work memory. Reuses a freed one if possible.
 * NULL: out of memory. */
struct tt_op *tt_op_get(struct tt_engine *e, uint32_t peers_max, uint64_t work_bytes);
/* Assigns a free slot of the engine to the operation; its puts' cookies contain it. False: no slot
 * is free. */
bool tt_op_take_slot(struct tt_engine *e, struct tt_op *op);
/* Copies the message of a failure to the operation; NULL: it has none. */
void tt_op_set_why(struct tt_op *op, const char *why);
/* Keeps the memory of an operation that is in no list for a later one, or frees it. */
void tt_op_recycle(struct tt_engine *e, struct tt_op *op);
/* Frees the memory of an operation that is in no list. */
void tt_op_discard(struct tt_op *op);
/* Frees the memory of completed operations. Called when the engine is destroyed. */
void tt_ops_free_all(struct tt_engine *e);

#endif
