/* Inner loops of the codecs in portable C, for any CPU, in a form that compilers can vectorize. */
#include <string.h>

#include "reduce/convert.h"
#include "reduce/quant_kernels.h"

#define NAN_BITS 0x7fc00000u
/* Adding and then subtracting ROUNDER rounds a number below 2^22 to nearest even. */
#define ROUNDER 0x1.8p23f

/* ---- range ---- */

/* Maps finite floats to integers in the same order, -0 just before 0. The map is its own
 * inverse. */
static inline int32_t order_of(int32_t bits)
{
    return bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
}

static bool range_portable(const float *x, size_t n, float *least, float *largest)
{
    int32_t low = INT32_MAX, high = INT32_MIN, magnitude = 0;

    for (size_t i = 0; i < n; i++) {
        const int32_t bits = (int32_t)tt_bits_of_float(x[i]), order = order_of(bits),
                      size = bits & INT32_MAX;

        low = order < low ? order : low;
        high = order > high ? order : high;
        magnitude = size > magnitude ? size : magnitude;
    }
    *least = tt_float_of_bits((uint32_t)order_of(low));
    *largest = tt_float_of_bits((uint32_t)order_of(high));
    return magnitude < 0x7f800000;
}

/* ---- equidistant codes ---- */

static inline uint8_t code_of(float x, const struct tt_quant_linear *l)
{
    const float rounded = ((x * l->half - l->base) / l->step + ROUNDER) - ROUNDER;
    const int32_t code = (int32_t)rounded + l->zero;

    return (uint8_t)(code < 0 ? 0 : code > l->top ? l->top : code);
}

static inline float value_of(uint8_t code, const struct tt_quant_linear *l)
{
    const float value = (l->base + (float)(code - l->zero) * l->step) * l->twice;
    const float below = l->most < value ? l->most : value;
    const float clamped = l->least > below ? l->least : below;

    return code == l->top ? l->top_value : clamped;
}

static void encode_u8_portable(uint8_t *codes, const float *x, size_t n,
                               const struct tt_quant_linear *l)
{
    const struct tt_quant_linear linear = *l;

    for (size_t i = 0; i < n; i++)
        codes[i] = code_of(x[i], &linear);
}

static void decode_u8_portable(float *x, const uint8_t *codes, size_t n,
                               const struct tt_quant_linear *l)
{
    const struct tt_quant_linear linear = *l;

    for (size_t i = 0; i < n; i++)
        x[i] = value_of(codes[i], &linear);
}

static void encode_u4_portable(uint8_t *codes, const float *x, size_t n,
                               const struct tt_quant_linear *l)
{
    const struct tt_quant_linear linear = *l;

    for (size_t i = 0; i < n / 2; i++)
        codes[i] = (uint8_t)(code_of(x[2 * i], &linear) | code_of(x[2 * i + 1], &linear) << 4);
    if (n % 2)
        codes[n / 2] = code_of(x[n - 1], &linear);
}

static void decode_u4_portable(float *x, const uint8_t *codes, size_t n,
                               const struct tt_quant_linear *l)
{
    float values[16];

    for (uint8_t code = 0; code < 16; code++)
        values[code] = value_of(code, l);
    for (size_t i = 0; i < n; i++)
        x[i] = values[codes[i / 2] >> 4 * (i % 2) & 15];
}

/* ---- 8-bit floats ---- */

static inline float scaled_value(float value, const struct tt_quant_float *f)
{
    const float product = value * f->scale;
    const float below = f->most < product ? f->most : product;
    const float clamped = -f->most > below ? -f->most : below;

    return clamped == clamped ? clamped : tt_float_of_bits(NAN_BITS);
}

#define ENCODE(name, narrow) \
    static void name(uint8_t *codes, const float *x, size_t n, const struct tt_quant_float *f) \
    { \
        const float inverse = f->inverse; \
        for (size_t i = 0; i < n; i++) \
            codes[i] = narrow(x[i] * inverse); \
    }
#define DECODE(name, widen) \
    static void name(float *x, const uint8_t *codes, size_t n, const struct tt_quant_float *f) \
    { \
        const struct tt_quant_float real = *f; \
        for (size_t i = 0; i < n; i++) \
            x[i] = scaled_value(widen(codes[i]), &real); \
    }

ENCODE(encode_e4m3, tt_e4m3_narrow)
DECODE(decode_e4m3, tt_e4m3_widen)
ENCODE(encode_e5m2, tt_e5m2_narrow)
DECODE(decode_e5m2, tt_e5m2_widen)

/* ---- f16 ---- */

static void widen_f16_portable(float *x, const void *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;

        memcpy(&h, (const char *)src + 2 * i, sizeof h);
        x[i] = tt_f16_widen(h);
    }
}

static void narrow_f16_portable(void *dst, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = tt_f16_narrow(x[i]);

        memcpy((char *)dst + 2 * i, &h, sizeof h);
    }
}

const struct tt_quant_kernels tt_quant_portable = {
    .range = range_portable,
    .encode_u8 = encode_u8_portable,     .decode_u8 = decode_u8_portable,
    .encode_u4 = encode_u4_portable,     .decode_u4 = decode_u4_portable,
    .encode_e4m3 = encode_e4m3, .decode_e4m3 = decode_e4m3,
    .encode_e5m2 = encode_e5m2, .decode_e5m2 = decode_e5m2,
    .widen_f16 = widen_f16_portable,     .narrow_f16 = narrow_f16_portable,
};
