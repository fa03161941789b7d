/* Codecs of quantized collectives: floats are encoded in 8 or 4 bits, in blocks, each preceded by
 * its parameters. docs/quantization.md has the format, the exact arithmetic and the error bounds.
 * Encoded bytes and decoded values are identical on every machine and instruction set, regardless
 * of the calling thread's settings for denormals and rounding. Any thread.
 *
 * A block with an infinity or a NaN is *poisoned*: it decodes to NaN as a whole. No other block
 * contains NaN, and none decodes to infinity: values beyond the type's largest finite number become
 * that number. */
#ifndef TT_REDUCE_QUANT_H
#define TT_REDUCE_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* As enum tutti_quant, without NONE. */
enum tt_quant_codec {
    TT_QUANT_MINMAX_U8,     /* codes divide [min, max] of the block; both are exact */
    TT_QUANT_MINMAX_U4,
    TT_QUANT_ZERO_U8,       /* codes divide the smallest range that includes 0; zero is exact */
    TT_QUANT_ZERO_U4,
    TT_QUANT_E4M3,          /* 8-bit floats, times a power of two per block */
    TT_QUANT_E5M2,
    TT_QUANT_CODEC_COUNT
};

enum {
    TT_QUANT_BLOCK_MIN = 32,
    TT_QUANT_BLOCK_MAX = 4096,
    TT_QUANT_BLOCK_DEFAULT = 256,
};

/* Encoding parameters, equal at both ends. */
struct tt_quant {
    enum tt_quant_codec codec;
    uint32_t block;         /* elements: an even number from TT_QUANT_BLOCK_MIN to _MAX */
};

/* Returns whether the codec supports elements of `type` (F32, F64, F16, BF16). */
bool tt_quant_defined(const struct tt_quant *q, tutti_dtype type);

/* Like tutti_quant_name; "?" for an invalid value. */
const char *tt_quant_name(enum tt_quant_codec codec);

/* Returns the encoded size of `count` elements. */
size_t tt_quant_bytes(const struct tt_quant *q, size_t count);

/* Encodes src[count] to out[tt_quant_bytes]; returns the number of poisoned blocks. Blocks are
 * independent, so a range that begins at a block boundary is encoded as within the whole. No
 * overlap; any alignment. q and type must be defined. */
size_t tt_quant_encode(const struct tt_quant *q, void *out, const void *src, size_t count,
                       tutti_dtype type);

/* As tt_quant_encode, for src + residual. The encoding error becomes the new residual: error
 * feedback, which adds the error of one step to the next. The caller keeps residual[count],
 * initially zeros. For a poisoned block it becomes 0. */
size_t tt_quant_encode_feedback(const struct tt_quant *q, void *out, const void *src,
                                float *residual, size_t count, tutti_dtype type);

/* Decodes in[bytes] to dst[count]. `in` may be untrusted: PROTOCOL, with nothing written, if its
 * length is not tt_quant_bytes or the parameters of a block are invalid. */
tutti_status tt_quant_decode(const struct tt_quant *q, void *dst, const void *in, size_t bytes,
                             size_t count, tutti_dtype type);

/* dst[count] = a[count] + the decoded in[bytes], rounded once to the type; dst may equal a. Errors
 * as above. */
tutti_status tt_quant_decode_add(const struct tt_quant *q, void *dst, const void *a, const void *in,
                                 size_t bytes, size_t count, tutti_dtype type);

#endif
