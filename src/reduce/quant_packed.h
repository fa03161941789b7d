/* Packed blocks: the elements of a quantized collective. Each has the same number of bytes, a power
 * of two, so programs, segments and slots treat them like numbers: parameters and codes as in
 * quant.h, of as many elements as fit. An incomplete last block of a row is padded with its last
 * element; so is every sum. A block is thus always complete, and its range is that of its elements.
 *
 * Values are f32 in transit, regardless of the type: sums are rounded to the type only when they
 * are unpacked. A block with invalid parameters counts as poisoned. Results are bitwise identical
 * on every instruction set, regardless of the calling thread's settings. Any thread; any
 * alignment. */
#ifndef TT_REDUCE_QUANT_PACKED_H
#define TT_REDUCE_QUANT_PACKED_H

#include "reduce/quant.h"

struct tt_packed {
    enum tt_quant_codec codec;
    tutti_dtype type;           /* of unpacked elements: F32, F64, F16, BF16 */
    uint32_t block;             /* elements of a packed block */
    uint32_t bytes;             /* of a packed block */
};

/* Returns false if the codec does not exist or does not support the type. */
bool tt_packed_init(struct tt_packed *p, enum tt_quant_codec codec, tutti_dtype type);

/* Returns the number of blocks of `count` elements, including an incomplete last one. */
size_t tt_packed_blocks(const struct tt_packed *p, size_t count);

/* Packs src[count] to out[tt_packed_blocks]. residual[count] (may be NULL) is added to src, and
 * becomes the encoding error of that sum. */
void tt_packed_encode(const struct tt_packed *p, void *out, const void *src, float *residual,
                      size_t count);

/* dst[count] = the values of in[tt_packed_blocks], rounded once to the type. */
void tt_packed_decode(const struct tt_packed *p, void *dst, const void *in, size_t count);

/* One step of a reduction: out (and out2, if not NULL) = a + b, divided by divide_by unless that is
 * 1, and packed again. If b is NULL, `own` is used instead: this rank's unpacked part, which adds
 * no error. out may equal a or b. */
struct tt_packed_step {
    void *out, *out2;           /* [blocks] */
    const void *a, *b;          /* [blocks] */
    const void *own;            /* [count] elements of the type */
    size_t count;               /* elements; the arrays have tt_packed_blocks of these */
    uint32_t divide_by;
    float *residual;            /* [count], or NULL. With own, it is added to the input and set to
                                   the error; otherwise it is increased by the error. In units of
                                   the undivided sum */
};
void tt_packed_add(const struct tt_packed *p, const struct tt_packed_step *s);

/* Returns the error bound of a result as in tutti.h. `magnitude` and `range`: the sums over the
 * ranks of the block's largest magnitude and of its range (zero codecs: including 0), both divided
 * by the number of ranks for an average; times: number of quantizations. Includes the rounding of
 * `value` to the type. */
double tt_packed_bound(const struct tt_packed *p, double magnitude, double range, uint32_t times,
                       double value);

#endif
