/* Operations: perform the executor's actions on real memory and wires. The caller holds the
 * progress lock. */
#ifndef TT_ENGINE_OP_H
#define TT_ENGINE_OP_H

#include "engine/state.h"

/* Returns whether the operation has its final status. Any thread. */
static inline bool tt_op_is_over(const struct tt_op *op)
{
    return atomic_load_explicit(&((struct tt_op *)(uintptr_t)op)->status, memory_order_acquire) !=
           TUTTI_PENDING;
}
/* Advances an exposed operation as far as possible. Returns whether anything happened. May end
 * it. */
bool tt_op_run(struct tt_op *op);
/* Adds the exposed operation to those that each progress pass runs. */
void tt_op_wake(struct tt_op *op);
/* Removes an operation that could not advance from the awake list, until a message for it
 * arrives. */
void tt_op_sleep(struct tt_op *op);
/* Exposes waiting operations of c while there is room, and runs them. */
void tt_ops_expose(struct tt_context *c);
/* Ends all operations of a failed context with its status. */
void tt_ops_fail(struct tt_context *c);
/* Like tt_op_start; the caller holds the progress lock. */
tutti_status tt_op_start_here(struct tt_context *c, const struct tt_op_conf *conf,
                              struct tt_op **out);
/* Assigns the next message of rank `from` of the context to an unmatched receive, and starts it.
 * The context may have failed afterwards. */
void tt_op_matched(struct tt_op *op, uint32_t from);
/* Returns an operation without steps: a request of c that the application holds. NULL: out of
 * memory. */
struct tt_op *tt_op_blank(struct tt_context *c);
/* Ends an exposed or waiting operation. */
void tt_op_end(struct tt_op *op, tutti_status status, const char *why);
/* Returns the active operation of c with this key, or NULL. */
struct tt_op *tt_op_find(struct tt_context *c, uint32_t from, uint64_t opseq, bool p2p,
                         uint8_t kind);
/* Handles one message from a peer. False: a protocol error (logged); the link must be closed. */
bool tt_rx_dispatch(struct tt_engine *e, struct tt_peer *p, const struct tt_mail *mail);
/* The message of a send or receive uses streams instead of eager. */
void tt_op_choose_nontemporal(struct tt_op *op);
/* A put of this rank is locally complete. */
void tt_op_sent(struct tt_engine *e, uint64_t cookie);
/* Returns whether flow words have changed; does not process them. */
bool tt_op_has_flow_updates(const struct tt_op *op);
/* Describes the operation: call, number, step, and the rank that it waits for. */
void tt_op_describe(const struct tt_op *op, char *out, size_t cap);
#define TT_RANK_TEXT_BYTES 32
/* Prints "rank 2"; in an elastic run "member 7", because views may renumber the ranks. Returns
 * out. */
const char *tt_rank_text(const struct tt_engine *e, uint32_t rank, char out[TT_RANK_TEXT_BYTES]);
#define TT_OP_NUMBER_BYTES 64
/* Prints "operation 17", by seq; in an elastic run "operation 17 of tag 0", as its program
 * counts them. Returns out. */
const char *tt_op_number(const struct tt_op *op, char out[TT_OP_NUMBER_BYTES]);
/* Returns the job rank that it waits for, or UINT32_MAX. */
uint32_t tt_op_waits_for(const struct tt_op *op);
/* Sends a probe to the rank that it waits for. */
void tt_op_send_probe(struct tt_op *op);
/* Starts the kept operation again, if that is possible now; *done: it is over already. loan:
 * TT_LOAN_OUT for a request. */
bool tt_op_begin_again(struct tt_op *op, const void *src, void *dst, uint32_t tag,
                       int64_t timeout_ms, enum tt_loan loan, bool *done);
/* Keeps a completed operation with status st for the next call, or frees it. kept: see tt_op_conf.
 */
void tt_op_keep_or_free(struct tt_op *op, struct tt_op **kept, tutti_status st);
/* Frees the kept operation of a plan if it is not reusable. */
void tt_op_drop_lapsed(struct tt_op **kept);
/* After the end of a request: returns its kept operation to the plan, for the next call. False: it
 * has none, or it cannot be reused. Requires the progress lock. */
bool tt_op_give_back(struct tt_op *op);
/* Copies the message of a failure to the operation; NULL: it has none. */
void tt_op_set_why(struct tt_op *op, const char *why);
/* Keeps the memory of an operation that is in no list for a later one, or frees it. */
void tt_op_recycle(struct tt_engine *e, struct tt_op *op);
/* Frees the memory of an operation that is in no list. */
void tt_op_discard(struct tt_op *op);
/* Frees the memory of completed operations. Called when the engine is destroyed. */
void tt_ops_free_all(struct tt_engine *e);
/* Frees a context without requests. */
void tt_context_free(struct tt_context *c);
/* Prints the fields of this kind of call: "allreduce(count 12, type f32, op sum, algorithm
 * allreduce_ring)". */
void tt_opdesc_print(const struct tt_opdesc *d, char *out, size_t cap);
/* Returns a difference that tt_opdesc_print does not show, e.g. in the arrays of counts of two v
 * calls: ": ..." or "". */
const char *tt_opdesc_differ_in(const struct tt_opdesc *a, const struct tt_opdesc *b);

#endif
