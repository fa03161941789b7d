/* Execution of actions. The caller holds the progress lock. */
#ifndef TT_ENGINE_EXEC_ACTIONS_H
#define TT_ENGINE_EXEC_ACTIONS_H

#include "engine/state.h"

/* Performs one action, and updates the executor. False: not possible now. */
bool tt_op_perform(struct tt_op *op, const struct tt_action *a);
/* Reports that a put of this rank is locally complete. */
void tt_op_sent(struct tt_engine *e, uint64_t cookie);
/* Posts the puts that wires have delayed to combine them (tt_wire.together). */
void tt_ops_send_off(struct tt_engine *e);
/* Runs a straight-line program as far as possible. Returns whether it advanced. */
bool tt_op_run_in_order(struct tt_op *op);

/* Runs a straight-line program that is not exposed, without other work in between. Reads its
 * messages directly from the mailboxes. Returns false if other work is pending; the operation must
 * then be exposed and continues from its current step. */
bool tt_op_run_unexposed(struct tt_op *op);

/* Computes out[bytes] (and out2, if not NULL) = a op b, on whole elements. finish: this step
 * completes the elements. */
void tt_op_reduce(struct tt_op *op, uint8_t *out, uint8_t *out2, const uint8_t *a, const uint8_t *b,
                  uint64_t bytes, uint32_t stream, bool finish);

/* Returns the receive memory of a flow with `depth` slots per stream, in bytes. */
uint64_t tt_op_landing_bytes(const struct tt_op *op, uint32_t depth);
/* Returns the address of a symbolic buffer. */
uint8_t *tt_op_buffer(const struct tt_op *op, uint8_t buf);
/* Returns the flows with the executor's peer i. Looks them up on first use; connects if
 * necessary. NULL: the context has failed. */
struct tt_flow *tt_op_flow(struct tt_op *op, uint16_t i);
/* Sends a message of this operation to the peer. False: no room now. */
bool tt_op_send_cell(struct tt_op *op, struct tt_flow *f, enum tt_cell_type type, uint32_t tag,
                     const void *payload, uint32_t bytes);
/* Sends an eager message of this operation to the peer. The last credit is reserved for the
 * context's oldest collective, so that later collectives, and messages for later receives, cannot
 * starve it. Sends with the same tag consume credits in order. False: not possible now. */
bool tt_op_send_eager(struct tt_op *op, struct tt_flow *f, uint32_t tag, const void *payload,
                      uint32_t bytes);
/* Return the payload of an eager message that has arrived, and release it. */
const uint8_t *tt_op_eager_payload(const struct tt_op *op, uint16_t peer, uint32_t tag);
void tt_op_eager_consumed(struct tt_op *op, uint16_t peer, uint32_t tag);
/* Returns TT_FROM_OTHER_CORE (reduce.h) if a peer's data comes from another core's cache, else 0.
 */
uint32_t tt_op_remote_cache_flag(const struct tt_op *op, uint16_t peer);

/* tt_op_take_back_puts cancels, after a failure, the puts that peers have not read yet.
 * tt_op_drop_regions deregisters the buffers at the end; settled: all data from peers has
 * arrived. */
void tt_op_take_back_puts(struct tt_op *op);
void tt_op_drop_regions(struct tt_op *op, bool settled);
/* Returns whether the operation itself has registered this region, and will deregister it. */
bool tt_op_is_registered(const struct tt_op *op, const struct tt_region *r);

#endif
