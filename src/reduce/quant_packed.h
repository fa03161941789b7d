/* Packed blocks: what a quantized collective has for elements. Each has the same number of bytes, a power of two, so that programs, segments
 * and slots deal with them as with numbers: parameters and codes as in quant.h, of as many elements as fill them. The last block of a
 * row that does not fill it goes on with its last element, which every sum then has there, too; so a block is always whole, and its range
 * that of elements.
 *
 * Values are f32 while they travel, whatever the type: sums are rounded to it only where they are unpacked. A block with parameters that
 * nobody writes counts as poisoned. The same bits on every instruction set, whatever the calling thread has set. Any thread; any alignment. */
#ifndef TT_REDUCE_QUANT_PACKED_H
#define TT_REDUCE_QUANT_PACKED_H

#include "reduce/quant.h"

struct tt_packed {
    enum tt_quant_codec codec;
    tutti_dtype type;           /* of elements that are not packed: F32, F64, F16, BF16 */
    uint32_t block;             /* elements of a packed block */
    uint32_t bytes;             /* of one */
};

/* False: there is no such codec, or not for elements of that type. */
bool tt_packed_init(struct tt_packed *p, enum tt_quant_codec codec, tutti_dtype type);

/* Blocks that `count` elements fill, the last one maybe in part. */
size_t tt_packed_blocks(const struct tt_packed *p, size_t count);

/* out[tt_packed_blocks] = src[count]. residual[count], or NULL: is added to src, and becomes what the packed values lack of that sum. */
void tt_packed_encode(const struct tt_packed *p, void *out, const void *src, float *residual, size_t count);

/* dst[count] = the values of in[tt_packed_blocks], rounded once to the type. */
void tt_packed_decode(const struct tt_packed *p, void *dst, const void *in, size_t count);

/* One step of a reduction: out (and out2, if not NULL) = a + b, divided by divide_by unless that is 1, packed anew. b is packed, or, if NULL, own: this
 * rank's part as it is, which adds no error. out may be a or b. */
struct tt_packed_step {
    void *out, *out2;           /* [blocks] */
    const void *a, *b;          /* [blocks] */
    const void *own;            /* [count] elements of the type */
    size_t count;               /* of which tt_packed_blocks */
    uint32_t divide_by;
    float *residual;            /* [count], or NULL. With own: added to it, and becomes what is lost; else grows by what is lost. What a division
                                   takes is not lost: the residual counts as parts of the sum */
};
void tt_packed_add(const struct tt_packed *p, const struct tt_packed_step *s);

/* How far a result may be off, as tutti.h says it: `magnitude` and `range`, the sums over the ranks of the block's largest magnitude and of its range (zero
 * codecs: with 0 in it), both divided by the number of ranks for an average; packed `times` times. With the rounding of `value` to the type. */
double tt_packed_bound(const struct tt_packed *p, double magnitude, double range, uint32_t times, double value);

#endif
