/* Quantized operations. To the executor, and to peers, such an operation is one over packed blocks: SRC, DST and whatever lies between them are
 * packed, and what arrives is forwarded as it came. Here is what differs:
 *  - The packed SRC is made as it is sent, block by block, once each. A reduction step does not read it, but the caller's elements.
 *  - The caller's DST is written when all is there, from the packed one: before that a failure leaves it as it was, also in place. Where it need not be
 *    left so, an all-reduce writes parts that are final while it waits for others.
 *  - Error feedback works on a copy, which becomes the caller's at the same time.
 * Under the baton. */
#ifndef TT_ENGINE_QUANTIZED_H
#define TT_ENGINE_QUANTIZED_H

#include "engine/state.h"

static inline bool tt_op_is_quantized(const struct tt_op *op) { return op->conf.quant.quant != TUTTI_QUANT_NONE; }

/* Puts packed buffers in place of the caller's. False: no memory for them. */
bool tt_op_quantized_begin(struct tt_op *op);
/* The bytes [at, at + bytes) of the packed SRC are about to be read: packs what of them is not packed yet. */
void tt_op_quantized_need(struct tt_op *op, const uint8_t *at, uint64_t bytes);
/* out (and out2, if not NULL) = a op b, in packed buffers or slots. finish: TUTTI_AVG divides. */
void tt_op_quantized_reduce(struct tt_op *op, void *out, void *out2, const uint8_t *a, const uint8_t *b, uint64_t bytes,
                            bool finish);
/* Writes a little of what is final, if it may; true if it did. */
bool tt_op_quantized_ahead(struct tt_op *op);
/* All is there: writes the rest of what the caller gets. */
void tt_op_quantized_end(struct tt_op *op);
/* Frees the rooms. */
void tt_op_quantized_free(struct tt_op *op);

#endif
