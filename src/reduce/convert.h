/* Conversions between f32 and the narrow floats, without branches, so loops over them can be
 * vectorized. Each is exact, or rounds once, to nearest even.
 *
 * A narrow float with M mantissa bits and exponent bias B is a shifted f32: shift its magnitude
 * left by 23 - M bits and multiply by 2^(127 - B). Subnormals are correct, since they are then
 * subnormal f32. */
#ifndef TT_REDUCE_CONVERT_H
#define TT_REDUCE_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline float tt_float_of_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t tt_bits_of_float(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Rounds a magnitude (f32 bits without sign), not NaN, to `mantissa` bits with exponent bias
 * `bias`, and limits the code to `code_max`: infinity, or the largest finite value if the type
 * saturates. */
static inline uint32_t tt_narrow_magnitude(uint32_t magnitude, int mantissa, int bias,
                                           uint32_t code_max)
{
    const int shift = 23 - mantissa;
    const uint32_t normal_min = (uint32_t)(128 - bias) << 23;

    /* normal: round as an integer; a carry into the exponent is correct */
    const uint32_t half = (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
    const uint32_t normal = ((magnitude + half) >> shift) - ((uint32_t)(127 - bias) << mantissa);

    /* subnormal: the addition rounds, because the last bit of the sum is the smallest subnormal */
    const uint32_t magic = (uint32_t)(127 + 24 - bias - mantissa) << 23;
    const uint32_t small =
        tt_bits_of_float(tt_float_of_bits(magnitude) + tt_float_of_bits(magic)) - magic;

    const uint32_t code = magnitude < normal_min ? small : normal;
    return code < code_max ? code : code_max;
}

static inline float tt_f16_widen(uint16_t h)
{
    const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t finite = tt_bits_of_float(tt_float_of_bits(magnitude) * 0x1p112f);
    const uint32_t quiet = magnitude > 0x0f800000 ? 0x00400000 : 0;
    const uint32_t special = magnitude | 0x7f800000 | quiet;

    return tt_float_of_bits(sign | (magnitude >= 0x0f800000 ? special : finite));
}

static inline uint16_t tt_f16_narrow(float f)
{
    const uint32_t bits = tt_bits_of_float(f), magnitude = bits & 0x7fffffff;
    const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    const uint32_t code =
        magnitude > 0x7f800000 ? nan : tt_narrow_magnitude(magnitude, 10, 15, 0x7c00);

    return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)code;
}

static inline float tt_bf16_widen(uint16_t h)
{
    return tt_float_of_bits((uint32_t)h << 16);
}

static inline uint16_t tt_bf16_narrow(float f)
{
    const uint32_t bits = tt_bits_of_float(f);
    const uint32_t nan = bits >> 16 | 0x40;
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline float tt_e4m3_widen(uint8_t v)
{
    const uint32_t magnitude = (uint32_t)(v & 0x7f) << 20, sign = (uint32_t)(v & 0x80) << 24;
    const uint32_t finite = tt_bits_of_float(tt_float_of_bits(magnitude) * 0x1p120f);

    return tt_float_of_bits(sign | (magnitude == 0x07f00000 ? 0x7fc00000 : finite));
}

static inline uint8_t tt_e4m3_narrow(float f)
{
    const uint32_t bits = tt_bits_of_float(f), magnitude = bits & 0x7fffffff;
    const uint32_t code =
        magnitude > 0x7f800000 ? 0x7f : tt_narrow_magnitude(magnitude, 3, 7, 0x7e);

    return (uint8_t)(bits >> 24 & 0x80) | (uint8_t)code;
}

/* e5m2 is the upper half of f16. */
static inline float tt_e5m2_widen(uint8_t v)
{
    return tt_f16_widen((uint16_t)(v << 8));
}

static inline uint8_t tt_e5m2_narrow(float f)
{
    const uint32_t bits = tt_bits_of_float(f), magnitude = bits & 0x7fffffff;
    const uint32_t nan = 0x7e | ((magnitude >> 21) & 3);
    const uint32_t code =
        magnitude > 0x7f800000 ? nan : tt_narrow_magnitude(magnitude, 2, 15, 0x7c);

    return (uint8_t)(bits >> 24 & 0x80) | (uint8_t)code;
}

#endif
