/* Descriptions of operations for error messages. The caller holds the progress lock. */
#ifndef TT_ENGINE_DESCRIBE_H
#define TT_ENGINE_DESCRIBE_H

#include "engine/state.h"

/* Describes the operation: call, number, step, and the rank that it waits for. */
void tt_op_describe(const struct tt_op *op, char *out, size_t cap);
#define TT_RANK_TEXT_BYTES 32
/* Prints "rank 2"; in an elastic run "member 7", because views may renumber the ranks. Returns
 * out. */
const char *tt_rank_text(const struct tt_engine *e, uint32_t rank, char out[TT_RANK_TEXT_BYTES]);
#define TT_OP_NUMBER_BYTES 64
/* Prints "operation 17", by seq; in an elastic run "operation 17 of tag 0", as counted by the
 * application. Returns out. */
const char *tt_op_number(const struct tt_op *op, char out[TT_OP_NUMBER_BYTES]);
/* Returns the job rank that the operation waits for, or UINT32_MAX. */
uint32_t tt_op_waits_for(const struct tt_op *op);
/* Prints the fields that apply to this kind of call: "allreduce(count 12, type f32, op sum,
 * algorithm allreduce_ring)". */
void tt_opdesc_print(const struct tt_opdesc *d, char *out, size_t cap);
/* Returns a difference that tt_opdesc_print does not show, e.g. in the arrays of counts of two v
 * calls: ": ..." or "". */
const char *tt_opdesc_differ_in(const struct tt_opdesc *a, const struct tt_opdesc *b);

#endif
