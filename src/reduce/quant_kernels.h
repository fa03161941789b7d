/* The inner loops of the codecs, over the f32 elements of one block; every instruction set has its own, and all give the same
 * bits: each expression below is of single IEEE operations, rounded to nearest even, in the order in which it is written. */
#ifndef TT_REDUCE_QUANT_KERNELS_H
#define TT_REDUCE_QUANT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Equidistant codes. A number x has the code round((x * half - base) / step) + zero, clamped to [0, top];
 * code q stands for (base + (q - zero) * step) * twice, clamped to [least, most], and `top` for top_value. */
struct tt_quant_linear {
    float half, twice;      /* 1; where differences could overflow, 1/2 and 2 */
    float base, step;       /* step > 0 to encode */
    int32_t zero, top;      /* top: 255 or 15 */
    float least, most, top_value;
};

/* 8-bit floats: x has the code of x * inverse, which code_max is never exceeded by; a code stands for its value * scale,
 * clamped to [-most, most]; NaN is the canonical one. */
struct tt_quant_float {
    float scale, inverse, most;
};

struct tt_quant_kernels {
    /* The least and the largest of x[n], n > 0; false if any is infinite or NaN. Of zeros either. */
    bool (*range)(const float *x, size_t n, float *least, float *largest);

    void (*encode_u8)(uint8_t *codes, const float *x, size_t n, const struct tt_quant_linear *l);
    void (*decode_u8)(float *x, const uint8_t *codes, size_t n, const struct tt_quant_linear *l);
    /* Two to a byte, the first in the lower half; half a byte that is left over is 0. */
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
