/* What performing takes; see op.h for who calls. Under the baton. */
#ifndef TT_ENGINE_PERFORM_H
#define TT_ENGINE_PERFORM_H

#include "engine/op.h"

/* Where ranks outnumber cores, messages of so many bytes between memory that is not shared are fetched by their receiver in one copy. */
#define TT_SINGLE_COPY_BYTES (2u << 20)

/* Does one action, and tells the executor. False: it cannot be done now. */
bool tt_op_perform(struct tt_op *op, const struct tt_action *a);
/* Lets go what wires have kept for puts that might follow (tt_wire.together). */
void tt_ops_send_off(struct tt_engine *e);
/* Runs a straight program as far as it goes; true if it went on. */
bool tt_op_run_straight(struct tt_op *op);

/* Runs a straight program that nobody else can see yet, in one go, with its messages taken from the mailboxes as they come.
 * False: something else has to be looked after; it goes on as an exposed operation, from where it stands. */
bool tt_op_run_at_once(struct tt_op *op);

/* out[bytes] (and out2, if not NULL) = a op b, of whole elements. finish: it is the step that completes them. */
void tt_op_reduce(struct tt_op *op, uint8_t *out, uint8_t *out2, const uint8_t *a, const uint8_t *b, uint64_t bytes,
                  uint32_t stream, bool finish);

/* Memory for a flow whose streams have so many slots. */
uint64_t tt_op_landing_bytes(const struct tt_op *op, uint32_t depth);
/* Where a symbolic buffer begins. */
uint8_t *tt_op_buffer(const struct tt_op *op, uint8_t buf);
/* The flows with the executor's peer i, looked up at their first use; connects if need be. NULL: the context has failed. */
struct tt_flow *tt_op_flow(struct tt_op *op, uint16_t i);
/* Sends the peer a message of this operation. False: no room now. */
bool tt_op_send_cell(struct tt_op *op, struct tt_flow *f, enum tt_cell_type type, uint32_t tag, const void *payload,
                     uint32_t bytes);
/* An eager message may go while there is credit; the last one is kept for the context's oldest collective, so that later ones, and
 * messages that its peer receives after it, cannot starve it. */
bool tt_op_has_eager_credit(const struct tt_op *op, const struct tt_flow *f);
/* The payload of an eager message that is here; and that it is not needed any more. */
const uint8_t *tt_op_eager_payload(const struct tt_op *op, uint16_t peer, uint32_t tag);
void tt_op_eager_consumed(struct tt_op *op, uint16_t peer, uint32_t tag);
/* Whether what a peer sends, where it lies, comes from another core: TT_FROM_FAR or 0 (reduce.h). */
uint32_t tt_op_from_far(const struct tt_op *op, uint16_t peer);

/* Whether all ranks wait for what others write. */
bool tt_op_is_mutual(const struct tt_op *op);
/* Whether what arrives through this wait had better come in a single copy: to its destination, or, where it is to be added to something, to memory of this process's own. */
bool tt_op_pays_single_copy(struct tt_op *op, const struct tt_exec_step *wait);
/* As was decided. */
bool tt_op_is_in_single_copies(const struct tt_op *op);
/* A READY of a rank has come, which says how long messages come in the next operation of this kind. */
void tt_op_copies_hear(struct tt_op *op, uint32_t rank, uint8_t says);
/* It is over, or a part of it is; well: what it took tells of the way that its messages of this host went. */
void tt_op_copies_end(struct tt_op *op, bool well);
/* It is kept from now on: whether its calls try both kinds of stores for long eager messages (stores.c). */
void tt_op_stores_settle(struct tt_op *op);
/* Of one that does: a call begins; a call has ended well. */
void tt_op_stores_begin(struct tt_op *op);
void tt_op_stores_learn(struct tt_op *op);
/* Giving back, at the end. settled: what peers were to write into its buffers has come. */
/* After a failure: what peers have not read yet of its puts they do not read any more, wherever that lies. */
void tt_op_take_back_puts(struct tt_op *op);
void tt_op_drop_regions(struct tt_op *op, bool settled);
/* Whether the operation has registered this region itself (so that it will drop it). */
bool tt_op_is_registered(const struct tt_op *op, const struct tt_region *r);
void tt_op_give_handle(struct tt_peer *p, int handle);
uint32_t tt_op_wire_index(const struct tt_engine *e, const struct tt_wire *w);

#endif
