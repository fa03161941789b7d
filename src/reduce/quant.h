/* Codecs of quantized collectives: floats become 8 or 4 bits each, by blocks, every block with parameters of its own in front of its
 * data. docs/quantization.md has the format, the exact arithmetic and the error bounds. The same bytes, and the same values of
 * them, on every machine and instruction set, whatever the calling thread does with denormals and rounding. Any thread.
 *
 * A block that has an infinity or a NaN in it is *poisoned*: all of it decodes to NaN. Nothing else does, and no infinity
 * comes out of a block: what the arithmetic would carry past the type's largest finite number becomes that. */
#ifndef TT_REDUCE_QUANT_H
#define TT_REDUCE_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* As enum tutti_quant, without NONE. */
enum tt_quant_codec {
    TT_QUANT_MINMAX_U8,     /* codes divide [min, max] of the block; both of them are exact */
    TT_QUANT_MINMAX_U4,
    TT_QUANT_ZERO_U8,       /* codes divide the least range that has 0 in it; zero is exact */
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

/* How floats are encoded; both ends know it beforehand. */
struct tt_quant {
    enum tt_quant_codec codec;
    uint32_t block;         /* elements: an even number from TT_QUANT_BLOCK_MIN to _MAX */
};

/* Whether there is such a codec for elements of `type` (F32, F64, F16, BF16). */
bool tt_quant_defined(const struct tt_quant *q, tutti_dtype type);

/* As tutti_quant_name; "?" for a value that is none. */
const char *tt_quant_name(enum tt_quant_codec codec);

/* The bytes of `count` encoded elements. */
size_t tt_quant_bytes(const struct tt_quant *q, size_t count);

/* out[tt_quant_bytes] = the encoded src[count]; returns how many blocks are poisoned. Blocks know nothing of each other, so a
 * range that begins with a block is encoded as it is in the whole. No overlap; any alignment. q and type must be defined. */
size_t tt_quant_encode(const struct tt_quant *q, void *out, const void *src, size_t count, tutti_dtype type);

/* The same for src + residual, and what was lost becomes the residual: error feedback, by which what one step rounds away the next one sends. The
 * caller keeps residual[count], zeros at first. Where a block is poisoned it becomes 0. */
size_t tt_quant_encode_feedback(const struct tt_quant *q, void *out, const void *src, float *residual, size_t count,
                                tutti_dtype type);

/* dst[count] = what in[bytes] decodes to. `in` may come from anybody: PROTOCOL, with nothing written, if its length is not
 * tt_quant_bytes or a block's parameters are none. */
tutti_status tt_quant_decode(const struct tt_quant *q, void *dst, const void *in, size_t bytes, size_t count,
                             tutti_dtype type);

/* dst[count] = a[count] + what in[bytes] decodes to, rounded once to the type; dst may equal a. Errors as above. */
tutti_status tt_quant_decode_add(const struct tt_quant *q, void *dst, const void *a, const void *in, size_t bytes,
                                 size_t count, tutti_dtype type);

#endif
