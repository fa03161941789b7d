/* Quantized operations. For the executor and for peers, such an operation works on packed blocks.
 * SRC, DST and all intermediate data are packed, and received data is forwarded unchanged.
 * Differences from other operations:
 *   - The packed SRC is created block by block before it is sent. A reduction step reads the
 *     caller's unpacked elements instead.
 *   - The caller's DST is written from the packed DST when all data has arrived. Thus a failure
 *     leaves it unchanged, also in an in-place call. If that is not required, an all-reduce writes
 *     final parts while it waits for other data.
 *   - Error feedback works on a copy of the residuals, which is written back at the same time.
 * The caller holds the progress lock. */
#ifndef TT_ENGINE_QUANTIZED_H
#define TT_ENGINE_QUANTIZED_H

#include "engine/state.h"

static inline bool tt_op_is_quantized(const struct tt_op *op)
{
    return op->conf.quant.quant != TUTTI_QUANT_NONE;
}

/* Replaces the caller's buffers by packed ones. False: out of memory. */
bool tt_op_quantized_begin(struct tt_op *op);
/* Ensures that bytes [at, at + bytes) of SRC's packed buffer are filled; packs only what is
 * missing. Call before they are read. */
void tt_op_quantized_need(struct tt_op *op, const uint8_t *at, uint64_t bytes);
/* Computes out (and out2, if not NULL) = a op b, in packed buffers or slots. finish: the step
 * completes the elements; TUTTI_AVG then divides. */
void tt_op_quantized_reduce(struct tt_op *op, void *out, void *out2, const uint8_t *a,
                            const uint8_t *b, uint64_t bytes, bool finish);
/* Unpacks some final data, if permitted. Returns whether it did. */
bool tt_op_quantized_ahead(struct tt_op *op);
/* Unpacks the remaining data to the caller's buffer, after all data has arrived. */
void tt_op_quantized_end(struct tt_op *op);
/* Frees the packed buffers. */
void tt_op_quantized_free(struct tt_op *op);

#endif
