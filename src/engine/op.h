/* Operations: what performs the executor's actions on real memory and wires. Under the baton. */
#ifndef TT_ENGINE_OP_H
#define TT_ENGINE_OP_H

#include "engine/state.h"

/* Whether it has its final status. Any thread. */
static inline bool tt_op_is_over(const struct tt_op *op)
{
    return atomic_load_explicit(&((struct tt_op *)(uintptr_t)op)->status, memory_order_acquire) != TUTTI_PENDING;
}
/* Advances an exposed operation as far as it goes; true if anything happened. May end it. */
bool tt_op_run(struct tt_op *op);
/* From now on passes of progress look at the exposed operation again. */
void tt_op_awaken(struct tt_op *op);
/* After a run in vain: passes need not look at it until a message for it comes. */
void tt_op_doze(struct tt_op *op);
/* Exposes waiting operations of c while there is room, and runs them. */
void tt_ops_expose(struct tt_context *c);
/* Ends all operations of a failed context with its status. */
void tt_ops_fail(struct tt_context *c);
/* Starts one, under the baton; as tt_op_start. */
tutti_status tt_op_start_here(struct tt_context *c, const struct tt_op_conf *conf, struct tt_op **out);
/* An unmatched receive gets the next message of rank `from` of the context, and begins. The context may have failed afterwards. */
void tt_op_matched(struct tt_op *op, uint32_t from);
/* An operation that is nothing yet but a request of c, which the application holds; NULL: no memory. */
struct tt_op *tt_op_blank(struct tt_context *c);
/* Ends an exposed or waiting operation. */
void tt_op_end(struct tt_op *op, tutti_status status, const char *why);
/* The active operation of c with this key; NULL: none. */
struct tt_op *tt_op_find(struct tt_context *c, uint32_t from, uint64_t opseq, bool p2p, uint8_t kind);
/* Handles one message from a peer. False: the link must die (a protocol error, logged). */
bool tt_deliver(struct tt_engine *e, struct tt_peer *p, const struct tt_mail *mail);
/* The message of a send or receive is streamed instead of eager. */
void tt_op_stream(struct tt_op *op);
/* A put of ours is locally complete. */
void tt_op_sent(struct tt_engine *e, uint64_t cookie);
/* Whether the flow words of the operation hold news; does not take them. */
bool tt_op_has_news(const struct tt_op *op);
/* One sentence: what it is, its number, its step, whom it waits for. */
void tt_op_describe(const struct tt_op *op, char *out, size_t cap);
#define TT_RANK_TEXT_BYTES 32
/* "rank 2"; in an elastic run, where ranks are those of a world that views may have shrunk in, "member 7". Returns out. */
const char *tt_rank_text(const struct tt_engine *e, uint32_t rank, char out[TT_RANK_TEXT_BYTES]);
#define TT_OP_NUMBER_BYTES 64
/* "operation 17", by seq; in an elastic run "operation 17 of tag 0", as its program counts them. Returns out. */
const char *tt_op_number(const struct tt_op *op, char out[TT_OP_NUMBER_BYTES]);
/* Job rank that it waits for; UINT32_MAX: none. */
uint32_t tt_op_waits_for(const struct tt_op *op);
/* Asks the rank it waits for (a nudge). */
void tt_op_nudge(struct tt_op *op);
/* Frees the memory of one that is in no list. */
void tt_op_discard(struct tt_op *op);
/* Frees the memory of ended operations, at the engine's end. */
void tt_ops_free_all(struct tt_engine *e);
/* Frees a context without requests. */
void tt_context_free(struct tt_context *c);
/* "allreduce(count 12, type f32, op sum, algorithm allreduce_ring)": what this kind of call has. */
void tt_opdesc_print(const struct tt_opdesc *d, char *out, size_t cap);
/* How calls differ in what tt_opdesc_print does not show, as v calls of one kind in their arrays of counts: ": ...", or nothing. */
const char *tt_opdesc_differ_in(const struct tt_opdesc *a, const struct tt_opdesc *b);

#endif
