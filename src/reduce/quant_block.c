/* Derives kernel parameters from encoded words, and words from a range. docs/quantization.md
 * derives the error bounds from these expressions. */
#include "reduce/quant_block.h"

#include <math.h>

#include "base/status.h"
#include "reduce/convert.h"

#define NAN_BITS 0x7fc00000u    /* marks a poisoned block */
#define LARGE 0x1p126f          /* beyond this the difference of two numbers may overflow */

static int32_t top_of(enum tt_quant_codec codec)
{
    return codec == TT_QUANT_MINMAX_U8 || codec == TT_QUANT_ZERO_U8 ? 255 : 15;
}

static bool is_minmax(enum tt_quant_codec codec)
{
    return codec == TT_QUANT_MINMAX_U8 || codec == TT_QUANT_MINMAX_U4;
}

static bool is_zero(enum tt_quant_codec codec)
{
    return codec == TT_QUANT_ZERO_U8 || codec == TT_QUANT_ZERO_U4;
}

/* The exponent of the largest code of an 8-bit float type, which is 1.75 times a power of two in
 * both. */
static uint32_t exponent_of(enum tt_quant_codec codec)
{
    return codec == TT_QUANT_E4M3 ? 8 : 15;
}

uint32_t tt_quant_block_words(enum tt_quant_codec codec)
{
    return is_minmax(codec) || is_zero(codec) ? 2 : 1;
}

static float clamp(float x, float most)
{
    return x > most ? most : x < -most ? -most : x;
}

/* ---- kernel parameters ---- */

static void derive_minmax(struct tt_quant_linear *l, float least, float largest, int32_t top,
                          float most)
{
    const float half = least < -LARGE || largest > LARGE ? 0.5f : 1;

    *l = (struct tt_quant_linear){
        .half = half,
        .twice = 1 / half,
        .base = least * half,
        .step = (float)(((double)largest - (double)least) * (double)half / top),
        .top = top,
        .least = -most,
        .most = clamp(largest, most),
        .top_value = clamp(largest, most),
    };
    if (l->step == 0)       /* the range is too small to divide: all values are `least` */
        l->top_value = clamp(least, most);
}

static void derive_zero(struct tt_quant_linear *l, float scale, int32_t zero, int32_t top,
                        float most)
{
    *l = (struct tt_quant_linear){
        .half = 1,
        .twice = 1,
        .step = scale,
        .zero = zero,
        .top = top,
        .least = -most,
        .most = most,
        .top_value = clamp((float)(top - zero) * scale, most),
    };
}

static void derive_float(struct tt_quant_float *f, uint32_t scale_bits, float most)
{
    *f = (struct tt_quant_float){
        .scale = tt_float_of_bits(scale_bits),
        .inverse = tt_float_of_bits((254u << 23) - scale_bits),
        .most = most,
    };
}

/* ---- words ---- */

static bool read_minmax(struct tt_quant_block *b, enum tt_quant_codec codec, const uint32_t word[2],
                        float most)
{
    const float least = tt_float_of_bits(word[0]), largest = tt_float_of_bits(word[1]);

    if (!isfinite(least) || !isfinite(largest) || least > largest)
        return false;
    derive_minmax(&b->linear, least, largest, top_of(codec), most);
    return true;
}

static bool read_zero(struct tt_quant_block *b, enum tt_quant_codec codec, const uint32_t word[2],
                      float most)
{
    const float scale = tt_float_of_bits(word[0]);

    if (!isfinite(scale) || signbit(scale) || word[1] > (uint32_t)top_of(codec) ||
        (scale == 0 && word[1] != 0))
        return false;
    derive_zero(&b->linear, scale, (int32_t)word[1], top_of(codec), most);
    return true;
}

static bool read_float(struct tt_quant_block *b, enum tt_quant_codec codec, const uint32_t word[1],
                       float most)
{
    const uint32_t exponent = word[0] >> 23;

    if ((word[0] & 0x7fffff) != 0 || exponent < 1 || exponent > 255 - exponent_of(codec))
        return false;
    derive_float(&b->real, word[0], most);
    return true;
}

bool tt_quant_block_read(struct tt_quant_block *b, enum tt_quant_codec codec,
                         const uint32_t word[TT_QUANT_WORDS_MAX], float most)
{
    const bool two = tt_quant_block_words(codec) == 2;
    struct tt_quant_block read = { .word = { word[0], two ? word[1] : 0 } };
    const uint32_t mark = is_minmax(codec) ? NAN_BITS : 0;  /* second word of a poisoned block */
    bool legal;

    if (word[0] == NAN_BITS) {
        read.poisoned = true;
        legal = read.word[1] == mark;
    } else if (is_minmax(codec)) {
        legal = read_minmax(&read, codec, word, most);
    } else if (is_zero(codec)) {
        legal = read_zero(&read, codec, word, most);
    } else {
        legal = read_float(&read, codec, word, most);
    }
    if (legal)
        *b = read;
    return legal;
}

/* ---- from a range to words ---- */

/* Finds the scale that divides [least, largest], extended to include 0, into `top` steps, and the
 * code of 0. */
static void find_zero(uint32_t word[2], float least, float largest, int32_t top)
{
    const float low = least < 0 ? least : 0, high = largest > 0 ? largest : 0;
    const float scale = (float)(((double)high - (double)low) / top);
    const float ratio = scale > 0 ? -low / scale : 0;       /* at most 1.5 times `top` */
    const float zero = (ratio + 0x1p23f) - 0x1p23f;         /* rounded to nearest even */

    word[0] = tt_bits_of_float(scale);
    word[1] = (uint32_t)(zero < (float)top ? zero : (float)top);
}

/* Returns the smallest power of two that brings the largest magnitude into the range of codes. */
static uint32_t find_scale(float least, float largest, uint32_t exponent)
{
    const uint32_t bits = tt_bits_of_float(-least > largest ? -least : largest) & 0x7fffffff;
    const uint32_t power = (bits >> 23) + ((bits & 0x7fffff) > 0x600000);

    return (power > exponent ? power - exponent : 1) << 23;
}

void tt_quant_block_find(struct tt_quant_block *b, enum tt_quant_codec codec, bool finite,
                         float least, float largest, float most)
{
    uint32_t word[TT_QUANT_WORDS_MAX] = { NAN_BITS, is_minmax(codec) ? NAN_BITS : 0 };
    bool legal;

    if (finite && is_minmax(codec)) {
        word[0] = tt_bits_of_float(least + 0.0f);       /* changes -0 to 0 */
        word[1] = tt_bits_of_float(largest + 0.0f);
    } else if (finite && is_zero(codec)) {
        find_zero(word, least, largest, top_of(codec));
    } else if (finite) {
        word[0] = find_scale(least, largest, exponent_of(codec));
    }
    legal = tt_quant_block_read(b, codec, word, most);
    tt_assert(legal);
}
