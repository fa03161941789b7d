/* Inner loops of the codecs, over the f32 elements of one block, implemented per instruction set
 * with identical results: each expression below consists of single IEEE operations, rounded to
 * nearest even, in the order written. */
#ifndef TT_REDUCE_QUANT_KERNELS_H
#define TT_REDUCE_QUANT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Equidistant codes. A number x has the code round((x * half - base) / step) + zero, clamped to [0,
 * top]. Code q has the value (base + (q - zero) * step) * twice, clamped to [least, most]; `top`
 * has top_value. */
struct tt_quant_linear {
    float half, twice;      /* 1; if differences could overflow, 1/2 and 2 */
    float base, step;       /* step > 0 for encoding */
    int32_t zero, top;      /* top: 255 or 15 */
    float least, most, top_value;
};

/* 8-bit floats: x has the code of x * inverse, which never exceeds code_max. A code has its float
 * value * scale, clamped to [-most, most]; NaN is canonical. */
struct tt_quant_float {
    float scale, inverse, most;
};

struct tt_quant_kernels {
    /* Sets the minimum and maximum of x[n], n > 0; false if any is infinite or NaN. A zero may have
     * either sign. */
    bool (*range)(const float *x, size_t n, float *least, float *largest);

    void (*encode_u8)(uint8_t *codes, const float *x, size_t n, const struct tt_quant_linear *l);
    void (*decode_u8)(float *x, const uint8_t *codes, size_t n, const struct tt_quant_linear *l);
    /* Two codes per byte, the first in the lower half; an unused half is 0. */
    void (*encode_u4)(uint8_t *codes, const float *x, size_t n, const struct tt_quant_linear *l);
    void (*decode_u4)(float *x, const uint8_t *codes, size_t n, const struct tt_quant_linear *l);

    void (*encode_e4m3)(uint8_t *codes, const float *x, size_t n, const struct tt_quant_float *f);
    void (*decode_e4m3)(float *x, const uint8_t *codes, size_t n, const struct tt_quant_float *f);
    void (*encode_e5m2)(uint8_t *codes, const float *x, size_t n, const struct tt_quant_float *f);
    void (*decode_e5m2)(float *x, const uint8_t *codes, size_t n, const struct tt_quant_float *f);

    void (*widen_f16)(float *x, const void *src, size_t n);
    void (*narrow_f16)(void *dst, const float *x, size_t n);
};

extern const struct tt_quant_kernels tt_quant_portable;
#if defined(__x86_64__)
extern const struct tt_quant_kernels tt_quant_avx2;
#endif

#endif
