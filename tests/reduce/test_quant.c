#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include "base/bytes.h"
#include "base/log.h"
#include "base/prng.h"
#include "both_isas.h"
#include "guarded.h"
#include "reduce/quant.h"
#include "reduce/reduce.h"
#include "reference.h"
#include "support/unit.h"

enum { COUNT_MAX = 3 * 4096 + 100, BYTES_MAX = 2 * 4 * COUNT_MAX };

static const tutti_dtype types[] = { TUTTI_F32, TUTTI_F64, TUTTI_F16, TUTTI_BF16 };
enum { NTYPES = sizeof types / sizeof types[0] };

struct quant_case {
    struct tt_quant q;
    tutti_dtype type;
    size_t count;
    int kind;           /* distribution of numbers: see fill */
    uint64_t seed;
};

/* Distributions of the numbers in a case. */
static const char *const kinds[] = {
    "around 0", "all negative", "far from 0", "constant", "zeros of both signs", "denormal", "all magnitudes",
    "few denormal steps", "largest of both signs", "one large among small", "largest negative alone",
};
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

static void fail_case(const struct quant_case *c, const char *what, size_t i, double got,
                      double want)
{
    fail_msg("%s %s: %s at %zu: %a, not %a; block %u, count %zu, %s, seed %llu",
             tt_quant_name(c->q.codec), ref_name(c->type), what, i, got, want, c->q.block, c->count,
             kinds[c->kind], (unsigned long long)c->seed);
}

static bool is_u4(enum tt_quant_codec codec)
{
    return codec == TT_QUANT_MINMAX_U4 || codec == TT_QUANT_ZERO_U4;
}
static bool is_minmax(enum tt_quant_codec codec)
{
    return codec <= TT_QUANT_MINMAX_U4;
}
static bool is_real(enum tt_quant_codec codec)
{
    return codec >= TT_QUANT_E4M3;
}

/* ---- elements ---- */

static double load(const struct quant_case *c, const void *data, size_t i)
{
    const size_t element = ref_bytes(c->type);
    const uint64_t bits = ref_load((const char *)data + i * element, element);
    double d;
    float f;

    if (ref_format_of(c->type))
        return ref_decode(ref_format_of(c->type), (uint32_t)bits);
    memcpy(&d, &bits, sizeof d);
    memcpy(&f, &bits, sizeof f);
    return c->type == TUTTI_F64 ? d : (double)f;
}

static uint64_t bits_of(const struct quant_case *c, double value)
{
    const float f = (float)value;
    uint64_t bits = 0;

    if (ref_format_of(c->type))
        return ref_encode(ref_format_of(c->type), value);
    if (c->type == TUTTI_F64)
        memcpy(&bits, &value, sizeof value);
    else
        memcpy(&bits, &f, sizeof f);
    return bits;
}

static void store(const struct quant_case *c, void *data, size_t i, double value)
{
    const size_t element = ref_bytes(c->type);

    ref_store((char *)data + i * element, element, bits_of(c, value));
}

static double largest_of(tutti_dtype type)
{
    return type == TUTTI_F16 ? 65504 : type == TUTTI_BF16 ? 0x1.fep127 : (double)FLT_MAX;
}

/* Returns a number of the distribution, before rounding to the type. */
static double number(struct tt_prng *p, const struct quant_case *c, double constant)
{
    const double unit = (double)(tt_prng_u64(p) >> 11) * 0x1p-53, both = 2 * unit - 1;
    const double top = largest_of(c->type), tiny = c->type == TUTTI_F16 ? 0x1p-24 : 0x1p-149;

    switch (c->kind) {
    case 0:
        return both * both * both;
    case 1:
        return -3 - unit;
    case 2:
        return 1000 + unit;
    case 3:
        return constant;
    case 4:
        return tt_prng_below(p, 2) ? 0.0 : -0.0;
    case 5:
        return both * 0x1p-127;
    case 6:
        return ldexp(both, (int)tt_prng_below(p, 250) - 125);
    case 7:
        return tiny * (double)tt_prng_below(p, 400);
    case 8:
        return tt_prng_below(p, 3) ? both * top : both < 0 ? -top : top;
    case 9:
        return tt_prng_below(p, 100) ? both * 0.001 : 700 * both;
    default:
        return tt_prng_below(p, 9) ? -unit * 0x1p-20 : -top;
    }
}

static void fill(const struct quant_case *c, void *data)
{
    const double constants[] = { 1, -1, 0x1p-149, 0.1, -FLT_MAX, 65504 };
    const double top = largest_of(c->type);
    struct tt_prng p;
    double constant;

    tt_prng_init(&p, c->seed);
    constant = constants[tt_prng_below(&p, 6)];
    for (size_t i = 0; i < c->count; i++)
        store(c, data, i, fmax(-top, fmin(top, number(&p, c, constant))));
}

/* Draws a case, often with small counts and short last blocks. */
static struct quant_case draw_case(struct tt_prng *p, uint64_t seed)
{
    struct quant_case c = { .seed = seed };
    const uint32_t blocks = (uint32_t)tt_prng_below(p, 4);

    c.q.codec = (enum tt_quant_codec)tt_prng_below(p, TT_QUANT_CODEC_COUNT);
    c.q.block = 32u << tt_prng_below(p, tt_prng_below(p, 8) ? 4 : 8);
    c.type = types[tt_prng_below(p, NTYPES)];
    c.count = blocks * c.q.block + tt_prng_below(p, tt_prng_below(p, 2) ? 9 : c.q.block);
    c.count = c.count < COUNT_MAX ? c.count : COUNT_MAX;
    c.kind = (int)tt_prng_below(p, NKINDS);
    return c;
}

/* ---- the arithmetic of docs/quantization.md, one element at a time ---- */

static uint32_t bits_f32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

struct ref_block {
    bool poisoned;
    float low, high;        /* min-max: the range */
    float scale;            /* other codecs */
    int zero, top;
};

static struct ref_block ref_block_of(const struct quant_case *c, const float *x, size_t n)
{
    struct ref_block b = { .low = INFINITY,
                           .high = -INFINITY,
                           .top = is_u4(c->q.codec) ? 15 : 255 };

    for (size_t i = 0; i < n; i++) {
        b.poisoned |= !isfinite(x[i]);
        b.low = fminf(b.low, x[i]);
        b.high = fmaxf(b.high, x[i]);
    }
    if (is_real(c->q.codec)) {
        const float most = c->q.codec == TT_QUANT_E4M3 ? 448 : 57344;
        const float size = fmaxf(fabsf(b.low), fabsf(b.high));
        int power = -126;

        while (!b.poisoned && ldexp((double)most, power) < (double)size)
            power++;
        b.scale = ldexpf(1, power);
    } else if (!is_minmax(c->q.codec)) {
        const double low = fmin(0, (double)b.low), high = fmax(0, (double)b.high);

        b.scale = (float)((high - low) / b.top);
        b.zero = b.scale > 0 ? (int)fminf(nearbyintf((float)-low / b.scale), (float)b.top) : 0;
    }
    if (b.low == 0)
        b.low = 0;
    if (b.high == 0)
        b.high = 0;
    return b;
}

static float ref_half(const struct ref_block *b)
{
    return b->low < -0x1p126f || b->high > 0x1p126f ? 0.5f : 1;
}

static float ref_step(const struct ref_block *b)
{
    return (float)(((double)b->high - (double)b->low) * (double)ref_half(b) / b->top);
}

static uint32_t ref_code(const struct quant_case *c, const struct ref_block *b, float x)
{
    const float half = ref_half(b), step = ref_step(b);
    float code;

    if (b->poisoned)
        return 0;
    if (is_real(c->q.codec))
        return ref_encode(c->q.codec == TT_QUANT_E4M3 ? &ref_e4m3 : &ref_e5m2,
                          (double)x / (double)b->scale);
    if (is_minmax(c->q.codec))
        code = step == 0 ? 0 : nearbyintf((x * half - b->low * half) / step);
    else
        code = b->scale == 0 ? 0 : nearbyintf(x / b->scale) + (float)b->zero;
    return (uint32_t)fmaxf(0, fminf(code, (float)b->top));
}

/* In f32; not yet rounded to the type. */
static float ref_value(const struct quant_case *c, const struct ref_block *b, uint32_t code)
{
    const double most = largest_of(c->type);
    float value;

    if (b->poisoned)
        return NAN;
    if (is_real(c->q.codec)) {
        value = (float)(ref_decode(c->q.codec == TT_QUANT_E4M3 ? &ref_e4m3 : &ref_e5m2, code) *
                        (double)b->scale);
        if (isnan(value))
            return NAN;
    } else if (is_minmax(c->q.codec)) {
        const float half = ref_half(b), step = ref_step(b), steps = (float)code * step;

        value = (b->low * half + steps) / half;
        if ((int)code == b->top)
            value = step == 0 ? b->low : b->high;
        value = fminf(value, b->high);
    } else {
        value = (float)((int)code - b->zero) * b->scale;
    }
    return (float)fmax(-most, fmin(most, (double)value));
}

/* Encodes x[count]; returns the number of bytes. */
static size_t ref_encode_all(const struct quant_case *c, uint8_t *out, const float *x,
                             size_t *npoisoned)
{
    struct tt_writer w;

    *npoisoned = 0;
    tt_writer_init(&w, out, BYTES_MAX);
    for (size_t at = 0; at < c->count; at += c->q.block) {
        const size_t n = c->count - at < c->q.block ? c->count - at : c->q.block;
        const struct ref_block b = ref_block_of(c, x + at, n);
        const uint32_t nan_bits = 0x7fc00000;

        *npoisoned += b.poisoned;
        tt_write_u32(&w, b.poisoned ? nan_bits : bits_f32(is_minmax(c->q.codec) ? b.low : b.scale));
        if (!is_real(c->q.codec))
            tt_write_u32(&w, !is_minmax(c->q.codec) ? (b.poisoned ? 0 : (uint32_t)b.zero)
                             : b.poisoned           ? nan_bits
                                                    : bits_f32(b.high));
        for (size_t i = 0; i < n; i += is_u4(c->q.codec) ? 2 : 1) {
            const uint32_t first = ref_code(c, &b, x[at + i]);
            const uint32_t second =
                is_u4(c->q.codec) && i + 1 < n ? ref_code(c, &b, x[at + i + 1]) : 0;

            tt_write_u8(&w, (uint8_t)(first | second << 4));
        }
    }
    assert_false(w.bad);
    return tt_writer_bytes(&w);
}

static float as_f32(const struct quant_case *c, const void *data, size_t i)
{
    return (float)load(c, data, i);
}

/* ---- against the definition ---- */

/* Memory of one case; each ends at inaccessible memory, at any alignment. */
static struct guarded src, out, dst, sums;
static uint8_t expected[BYTES_MAX];
static float x32[COUNT_MAX];

static void *at_end(const struct guarded *g, size_t bytes)
{
    return g->at + g->bytes - bytes;
}

/* Returns the bits of a + x rounded once to the type. */
static uint64_t ref_sum(const struct quant_case *c, double a, float x)
{
    const double sum = c->type == TUTTI_F64 ? a + (double)x : (double)((float)a + x);

    return bits_of(c, isnan(sum) ? (double)NAN : sum);
}

static void check_values(const struct quant_case *c, const void *values, const void *a,
                         const char *what)
{
    const size_t element = ref_bytes(c->type);
    struct ref_block b = { 0 };

    for (size_t i = 0; i < c->count; i++) {
        const size_t n = c->count - i < c->q.block ? c->count - i : c->q.block;
        float value;
        uint64_t want;

        if (i % c->q.block == 0)
            b = ref_block_of(c, x32 + i, n);
        value = ref_value(c, &b, ref_code(c, &b, x32[i]));
        want = a ? ref_sum(c, load(c, a, i), value)
                 : bits_of(c, isnan(value) ? (double)NAN : (double)value);
        if (ref_load((const char *)values + i * element, element) != want)
            fail_case(c, what, i, load(c, values, i), (double)value);
    }
}

static void check_case(const struct quant_case *c, const void *data)
{
    const size_t bytes = tt_quant_bytes(&c->q, c->count), all = c->count * ref_bytes(c->type);
    void *encoded = at_end(&out, bytes), *decoded = at_end(&dst, all), *sum = at_end(&sums, all);
    size_t npoisoned, want_poisoned;

    for (size_t i = 0; i < c->count; i++)
        x32[i] = as_f32(c, data, i);
    npoisoned = tt_quant_encode(&c->q, encoded, data, c->count, c->type);
    if (ref_encode_all(c, expected, x32, &want_poisoned) != bytes)
        fail_case(c, "bytes", bytes, (double)bytes, 0);
    if (npoisoned != want_poisoned)
        fail_case(c, "poisoned blocks", 0, (double)npoisoned, (double)want_poisoned);
    for (size_t i = 0; i < bytes; i++)
        if (((uint8_t *)encoded)[i] != expected[i])
            fail_case(c, "encoded byte", i, ((uint8_t *)encoded)[i], expected[i]);
    assert_int_equal(tt_quant_decode(&c->q, decoded, encoded, bytes, c->count, c->type), TUTTI_OK);
    check_values(c, decoded, NULL, "decoded");
    assert_int_equal(tt_quant_decode_add(&c->q, sum, data, encoded, bytes, c->count, c->type),
                     TUTTI_OK);
    check_values(c, sum, data, "decoded and added");
    memcpy(sum, data, all);
    assert_int_equal(tt_quant_decode_add(&c->q, sum, sum, encoded, bytes, c->count, c->type),
                     TUTTI_OK);
    check_values(c, sum, data, "decoded and added in place");
}

static void codes_and_values_match_the_definition(void **state)
{
    const uint64_t first_seed = 1000;

    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + 6000; seed++) {
        struct tt_prng p;
        struct quant_case c;
        void *data;

        if (!unit_draw())
            continue;
        tt_prng_init(&p, seed);
        c = draw_case(&p, seed);
        data = at_end(&src, c.count * ref_bytes(c.type));
        fill(&c, data);
        check_case(&c, data);
    }
}

/* Arbitrary bits, including infinities and NaNs. */
static void definition_holds_for_any_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 1500; seed++) {
        struct tt_prng p;
        struct quant_case c;
        char *data;

        if (!unit_draw())
            continue;
        tt_prng_init(&p, seed);
        c = draw_case(&p, seed);
        data = at_end(&src, c.count * ref_bytes(c.type));
        for (size_t i = 0; i < c.count; i++)
            if (c.type == TUTTI_F64 || tt_prng_below(&p, 3))
                store(&c, data, i,
                      ldexp(1 + (double)(tt_prng_u64(&p) >> 12) * 0x1p-52,
                            (int)tt_prng_below(&p, 300) - 160));
            else
                ref_store(data + i * ref_bytes(c.type), ref_bytes(c.type), ref_random(&p, c.type));
        check_case(&c, data);
    }
}

static void block_aligned_range_encodes_alike(void **state)
{
    struct quant_case c = { { TT_QUANT_MINMAX_U8, 64 }, TUTTI_F32, 1000, 0, 4 };
    static float data[1000];
    static uint8_t whole[2048], part[2048];

    (void)state;
    fill(&c, data);
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++) {
        const size_t from = 5 * 64,
                     before = (c.q.codec = (enum tt_quant_codec)codec, tt_quant_bytes(&c.q, from));

        tt_quant_encode(&c.q, whole, data, 1000, TUTTI_F32);
        tt_quant_encode(&c.q, part, data + from, 1000 - from, TUTTI_F32);
        assert_memory_equal(whole + before, part, tt_quant_bytes(&c.q, 1000 - from));
    }
}

/* ---- error bounds ---- */

/* Returns the bound of docs/quantization.md for x in a block of [low, high], before rounding to the
 * type. */
static double bound_of(const struct quant_case *c, double x, double low, double high)
{
    const int top = is_u4(c->q.codec) ? 15 : 255;
    const double size = fmax(fabs(low), fabs(high));
    double range = high - low;

    if (is_real(c->q.codec)) {
        const bool e4m3 = c->q.codec == TT_QUANT_E4M3;
        const double scale = fmax(size / (e4m3 ? 224 : 28672), 0x1p-126);

        return fmax(fabs(x) * (e4m3 ? 0x1p-4 : 0x1p-3), scale * (e4m3 ? 0x1p-10 : 0x1p-17)) +
               0x1p-149;
    }
    if (!is_minmax(c->q.codec))
        range = fmax(high, 0) - fmin(low, 0);
    return range / (2 * top) + size * 0x1p-21 + top * 0x1p-149;
}

/* Returns the error of rounding the input to f32 and the value to the type. */
static double rounding_of(const struct quant_case *c, double size)
{
    return c->type == TUTTI_F64    ? size * 0x1p-24 + 0x1p-150
           : c->type == TUTTI_F16  ? size * 0x1p-11 + 0x1p-25
           : c->type == TUTTI_BF16 ? size * 0x1p-8 + 0x1p-134
                                   : 0;
}

static void check_bounds(const struct quant_case *c, const void *data, const void *decoded,
                         double *worst)
{
    for (size_t at = 0; at < c->count; at += c->q.block) {
        const size_t end = c->count - at < c->q.block ? c->count : at + c->q.block;
        double low = INFINITY, high = -INFINITY;

        for (size_t i = at; i < end; i++) {
            low = fmin(low, load(c, data, i));
            high = fmax(high, load(c, data, i));
        }
        for (size_t i = at; i < end; i++) {
            const double x = load(c, data, i), y = load(c, decoded, i);
            const double bound = bound_of(c, x, low, high) + rounding_of(c, fabs(y));

            if (!(fabs(y - x) <= bound))
                fail_case(c, "farther than the bound", i, y, x);
            *worst = fmax(*worst, fabs(y - x) / bound);
        }
    }
}

static void errors_stay_within_the_bound(void **state)
{
    double worst[TT_QUANT_CODEC_COUNT] = { 0 };

    (void)state;
    for (uint64_t seed = 50000; seed < 62000; seed++) {
        struct tt_prng p;
        struct quant_case c;
        void *data, *decoded;
        size_t bytes;

        if (!unit_draw())
            continue;
        tt_prng_init(&p, seed);
        c = draw_case(&p, seed);
        bytes = tt_quant_bytes(&c.q, c.count);
        data = at_end(&src, c.count * ref_bytes(c.type));
        decoded = at_end(&dst, c.count * ref_bytes(c.type));
        fill(&c, data);
        assert_int_equal(tt_quant_encode(&c.q, at_end(&out, bytes), data, c.count, c.type), 0);
        assert_int_equal(
            tt_quant_decode(&c.q, decoded, at_end(&out, bytes), bytes, c.count, c.type), TUTTI_OK);
        check_bounds(&c, data, decoded, &worst[c.q.codec]);
    }
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++)
        if (worst[codec] < (unit_share() == 1 ? 0.9 : 0.5))  /* bounds are tight: some element
                                                                comes near each of them */
            fail_msg("%s: the largest error is only %.3f of its bound",
                     tt_quant_name((enum tt_quant_codec)codec), worst[codec]);
}

/* Values that the codecs guarantee to keep exactly. */
static void range_ends_and_constants_are_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 3000; seed++) {
        struct tt_prng p;
        struct quant_case c;
        static float data[COUNT_MAX], decoded[COUNT_MAX];
        size_t low = 0, high = 0;

        tt_prng_init(&p, seed);
        c = draw_case(&p, seed);
        c.type = TUTTI_F32;
        c.q.block = 4096;
        c.count = 1 + c.count % 4096;
        fill(&c, data);
        data[tt_prng_below(&p, c.count)] = c.kind == 3 ? data[0] : 0;
        for (size_t i = 0; i < c.count; i++) {
            low = data[i] < data[low] ? i : low;
            high = data[i] > data[high] ? i : high;
        }
        tt_quant_encode(&c.q, expected, data, c.count, c.type);
        assert_int_equal(tt_quant_decode(&c.q, decoded, expected, tt_quant_bytes(&c.q, c.count),
                                         c.count, c.type),
                         0);
        for (size_t i = 0; i < c.count; i++)
            if (!is_minmax(c.q.codec) && data[i] == 0 && decoded[i] != 0)
                fail_case(&c, "zero", i, (double)decoded[i], 0);
        if (is_minmax(c.q.codec) && decoded[low] != data[low])
            fail_case(&c, "the least", low, (double)decoded[low], (double)data[low]);
        if (is_minmax(c.q.codec) && data[high] - data[low] >= 0x1p-140f &&
            decoded[high] != data[high])
            fail_case(&c, "the largest", high, (double)decoded[high], (double)data[high]);
    }
}

/* Decoded values can be encoded again without loss, if the codec guarantees it. */
static void second_round_is_lossless_where_promised(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 4000; seed++) {
        struct tt_prng p;
        struct quant_case c;
        static float data[COUNT_MAX], once[COUNT_MAX], twice[COUNT_MAX];
        size_t bytes;

        if (!unit_draw())
            continue;
        tt_prng_init(&p, seed);
        c = draw_case(&p, seed);
        c.type = TUTTI_F32;
        if (c.q.codec == TT_QUANT_ZERO_U8 || c.q.codec == TT_QUANT_ZERO_U4)
            continue;
        bytes = tt_quant_bytes(&c.q, c.count);
        fill(&c, data);
        tt_quant_encode(&c.q, expected, data, c.count, c.type);
        assert_int_equal(tt_quant_decode(&c.q, once, expected, bytes, c.count, c.type), TUTTI_OK);
        tt_quant_encode(&c.q, expected, once, c.count, c.type);
        assert_int_equal(tt_quant_decode(&c.q, twice, expected, bytes, c.count, c.type), TUTTI_OK);
        for (size_t i = 0; i < c.count; i++)
            if (once[i] != twice[i])
                fail_case(&c, "again", i, (double)twice[i], (double)once[i]);
    }
}

/* ---- infinite and missing values ---- */

static void infinite_number_poisons_only_its_block(void **state)
{
    static const double bad[] = { INFINITY, -INFINITY, NAN };

    (void)state;
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++)
        for (int t = 0; t < NTYPES; t++)
            for (int k = 0; k < 3 * 97; k++) {
                struct quant_case c = {
                    { (enum tt_quant_codec)codec, 32 }, types[t], 97, 0, (uint64_t)k
                };
                const size_t bytes = tt_quant_bytes(&c.q, 97), where = (size_t)(k % 97);
                double data[97], decoded[97];

                fill(&c, data);
                store(&c, data, where, bad[k / 97]);
                assert_int_equal(tt_quant_encode(&c.q, expected, data, 97, c.type), 1);
                assert_int_equal(tt_quant_decode(&c.q, decoded, expected, bytes, 97, c.type),
                                 TUTTI_OK);
                for (size_t i = 0; i < 97; i++)
                    if (isnan(load(&c, decoded, i)) != (i / 32 == where / 32))
                        fail_case(&c, "poison", i, load(&c, decoded, i), (double)where);
            }
}

/* Values outside the range of f32 are infinite for the codecs. */
static void f64_beyond_f32_poisons_its_block(void **state)
{
    const struct tt_quant q = { TT_QUANT_MINMAX_U8, 32 };
    const double data[2] = { 1, 1e39 };

    (void)state;
    assert_int_equal(tt_quant_encode(&q, expected, data, 2, TUTTI_F64), 1);
}

static void nothing_has_no_bytes(void **state)
{
    (void)state;
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++) {
        const struct tt_quant q = { (enum tt_quant_codec)codec, 32 };

        assert_int_equal(tt_quant_bytes(&q, 0), 0);
        assert_int_equal(tt_quant_encode(&q, NULL, NULL, 0, TUTTI_F32), 0);
        assert_int_equal(tt_quant_decode(&q, NULL, NULL, 0, 0, TUTTI_F32), TUTTI_OK);
        assert_int_equal(tt_quant_decode_add(&q, NULL, NULL, NULL, 0, 0, TUTTI_F32), TUTTI_OK);
    }
}

static void only_defined_combinations_are_supported(void **state)
{
    struct tt_quant q = { TT_QUANT_E4M3, 32 };

    (void)state;
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++)
        assert_int_equal(tt_quant_defined(&q, (tutti_dtype)type),
                         type >= TUTTI_F16 && type <= TUTTI_F64);
    for (q.block = 0; q.block < 9000; q.block++)
        assert_int_equal(tt_quant_defined(&q, TUTTI_F32),
                         q.block >= 32 && q.block <= 4096 && q.block % 2 == 0);
    q = (struct tt_quant){ TT_QUANT_CODEC_COUNT, 32 };
    assert_false(tt_quant_defined(&q, TUTTI_F32));
    assert_string_equal(tt_quant_name(TT_QUANT_CODEC_COUNT), "?");
}

/* ---- received bytes ---- */

static void check_refused(const struct tt_quant *q, const uint8_t *in, size_t bytes, size_t count,
                          const char *why)
{
    static float got[COUNT_MAX], before[COUNT_MAX];

    memset(got, 0x5a, sizeof got);
    memset(before, 0x5a, sizeof before);
    tt_log_set(TT_LOG_NONE);
    assert_int_equal(tt_quant_decode(q, got, in, bytes, count, TUTTI_F32), TUTTI_ERR_PROTOCOL);
    assert_non_null(strstr(tutti_last_error(), why));
    assert_int_equal(tt_quant_decode_add(q, got, got, in, bytes, count, TUTTI_F32),
                     TUTTI_ERR_PROTOCOL);
    tt_log_set(TT_LOG_WARN);
    assert_memory_equal(got, before, sizeof got);
}

static void bytes_of_another_length_are_refused(void **state)
{
    (void)state;
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++)
        for (size_t count = 0; count < 100; count++) {
            const struct tt_quant q = { (enum tt_quant_codec)codec, 32 };
            const size_t bytes = tt_quant_bytes(&q, count);

            memset(expected, 0, sizeof expected);
            check_refused(&q, expected, bytes + 1, count, "wrong length");
            if (bytes)
                check_refused(&q, expected, bytes - 1, count, "wrong length");
        }
}

/* In the last of three blocks: the earlier ones are valid, but nothing is written. */
static void invalid_parameters_are_refused(void **state)
{
    static const struct {
        enum tt_quant_codec codec;
        uint32_t word[2];
    } wrong[] = {
        { TT_QUANT_MINMAX_U8, { 0x3f800000, 0 } },              /* 1 to 0 */
        { TT_QUANT_MINMAX_U8, { 0, 0x7f800000 } },              /* to infinity */
        { TT_QUANT_MINMAX_U4, { 0xff800000, 0 } },
        { TT_QUANT_MINMAX_U4, { 0, 0x7fc00000 } },              /* half of a poison marker */
        { TT_QUANT_MINMAX_U8, { 0x7fc00000, 0x3f800000 } },
        { TT_QUANT_MINMAX_U8, { 0x7fc00001, 0x7fc00001 } },     /* another NaN */
        { TT_QUANT_ZERO_U8, { 0x3f800000, 256 } },
        { TT_QUANT_ZERO_U4, { 0x3f800000, 16 } },
        { TT_QUANT_ZERO_U4, { 0, 1 } },
        { TT_QUANT_ZERO_U8, { 0xbf800000, 0 } },
        { TT_QUANT_ZERO_U8, { 0x80000000, 0 } },
        { TT_QUANT_ZERO_U8, { 0x7f800000, 0 } },
        { TT_QUANT_ZERO_U8, { 0x7fc00000, 1 } },
        { TT_QUANT_E4M3, { 0, 0 } },
        { TT_QUANT_E4M3, { 0x00400000, 0 } },                   /* a denormal power of two */
        { TT_QUANT_E4M3, { 0x3fc00000, 0 } },                   /* 1.5 */
        { TT_QUANT_E4M3, { 0xbf800000, 0 } },
        { TT_QUANT_E4M3, { 0x7f800000, 0 } },
        { TT_QUANT_E4M3, { 248u << 23, 0 } },
        { TT_QUANT_E5M2, { 241u << 23, 0 } },
    };

    (void)state;
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        const struct tt_quant q = { wrong[k].codec, 32 };
        const float data[96] = { 1, 2, -3 };
        const size_t last = tt_quant_bytes(&q, 64);

        tt_quant_encode(&q, expected, data, 96, TUTTI_F32);
        memcpy(expected + last, wrong[k].word, is_real(q.codec) ? 4 : 8);
        check_refused(&q, expected, tt_quant_bytes(&q, 96), 96, "elements 64 to 95");
    }
}

static void unused_half_byte_must_be_zero(void **state)
{
    const struct tt_quant q = { TT_QUANT_ZERO_U4, 32 };
    const float data[33] = { 1, 2, -3 };
    const size_t bytes = tt_quant_bytes(&q, 33);

    (void)state;
    tt_quant_encode(&q, expected, data, 33, TUTTI_F32);
    expected[bytes - 1] |= 0x10;
    check_refused(&q, expected, bytes, 33, "the padding after the last element, 32, is not zero");
}

/* ---- the rest ---- */

/* Over many steps the sum of the sent values follows the sum of the inputs, within one step's
 * error. */
static void error_feedback_compensates_rounding(void **state)
{
    enum { N = 300, STEPS = 200 };

    (void)state;
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++) {
        struct quant_case c = { { (enum tt_quant_codec)codec, 64 }, TUTTI_F32, N, 0, 9 };
        float data[N], residual[N] = { 0 }, value[N];
        double meant[N] = { 0 }, sent[N] = { 0 }, plain[N] = { 0 }, worst = 0, worst_plain = 0;

        for (int step = 0; step < STEPS; step++) {
            fill(&c, data);     /* the same gradient: without feedback the same error each time */
            tt_quant_encode(&c.q, expected, data, N, TUTTI_F32);
            tt_quant_decode(&c.q, value, expected, tt_quant_bytes(&c.q, N), N, TUTTI_F32);
            for (int i = 0; i < N; i++)
                plain[i] += (double)value[i];
            tt_quant_encode_feedback(&c.q, expected, data, residual, N, TUTTI_F32);
            tt_quant_decode(&c.q, value, expected, tt_quant_bytes(&c.q, N), N, TUTTI_F32);
            for (int i = 0; i < N; i++) {
                meant[i] += (double)data[i];
                sent[i] += (double)value[i];
            }
        }
        for (int i = 0; i < N; i++) {
            if (fabs(meant[i] - sent[i] - (double)residual[i]) > 1e-4)
                fail_case(&c, "meant and sent differ by more than the residual", (size_t)i, sent[i],
                          meant[i]);
            worst = fmax(worst, fabs(meant[i] - sent[i]));
            worst_plain = fmax(worst_plain, fabs(meant[i] - plain[i]));
        }
        if (worst > worst_plain / 20)
            fail_msg("%s: %g off with feedback, %g without", tt_quant_name(c.q.codec), worst,
                     worst_plain);
    }
}

static void poisoned_block_has_zero_residual(void **state)
{
    const struct tt_quant q = { TT_QUANT_MINMAX_U8, 32 };
    float data[64] = { 0.1f, 0.25f, 7 }, residual[64];

    (void)state;
    data[40] = INFINITY;
    data[41] = 0.3f;
    for (int i = 0; i < 64; i++)
        residual[i] = 0.5f;
    assert_int_equal(tt_quant_encode_feedback(&q, expected, data, residual, 64, TUTTI_F32), 1);
    for (int i = 32; i < 64; i++)
        assert_true(residual[i] == 0);
    assert_true(isfinite(residual[1]) && residual[1] != 0.5f && residual[1] != 0);
}

#if defined(__x86_64__)
/* With denormals flushed, upward rounding and traps enabled: the bytes are unaffected, and the
 * settings are unchanged afterwards. */
static void thread_environment_changes_nothing(void **state)
{
    static const unsigned settings[] = { 0x1f80 | 0x8040, 0x1f80 | 0x4000, 0x1f80 | 0x6000,
                                         0x1f80 & ~0x0e80u };
    static float data[COUNT_MAX], value[COUNT_MAX], other[COUNT_MAX];
    static uint8_t bytes[BYTES_MAX];

    (void)state;
    for (uint64_t seed = 1; seed < 400; seed++)
        for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
            struct tt_prng p;
            struct quant_case c;
            size_t n;
            unsigned after;

            tt_prng_init(&p, seed);
            c = draw_case(&p, seed);
            c.type = TUTTI_F32;
            n = tt_quant_bytes(&c.q, c.count);
            fill(&c, data);
            tt_quant_encode(&c.q, expected, data, c.count, c.type);
            assert_int_equal(tt_quant_decode(&c.q, value, expected, n, c.count, c.type), TUTTI_OK);
            _mm_setcsr(settings[s]);
            tt_quant_encode(&c.q, bytes, data, c.count, c.type);
            tt_quant_decode(&c.q, other, bytes, n, c.count, c.type);
            after = _mm_getcsr() & 0xffc0;
            _mm_setcsr(0x1f80);
            assert_int_equal(after, settings[s] & 0xffc0);
            if (memcmp(bytes, expected, n) != 0 ||
                memcmp(value, other, c.count * sizeof value[0]) != 0)
                fail_case(&c, "changed by a setting", s, settings[s], 0x1f80);
        }
}
#endif

static int rooms_init(void **state)
{
    (void)state;
    guarded_init(&src, 8 * COUNT_MAX);
    guarded_init(&out, BYTES_MAX);
    guarded_init(&dst, 8 * COUNT_MAX);
    guarded_init(&sums, 8 * COUNT_MAX);
    return 0;
}

static int rooms_fini(void **state)
{
    (void)state;
    guarded_fini(&src);
    guarded_fini(&out);
    guarded_fini(&dst);
    guarded_fini(&sums);
    return 0;
}

static int tests(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(codes_and_values_match_the_definition),
        cmocka_unit_test(definition_holds_for_any_bits),
        cmocka_unit_test(block_aligned_range_encodes_alike),
        cmocka_unit_test(errors_stay_within_the_bound),
        cmocka_unit_test(range_ends_and_constants_are_exact),
        cmocka_unit_test(second_round_is_lossless_where_promised),
        cmocka_unit_test(infinite_number_poisons_only_its_block),
        cmocka_unit_test(f64_beyond_f32_poisons_its_block),
        cmocka_unit_test(nothing_has_no_bytes),
        cmocka_unit_test(only_defined_combinations_are_supported),
        cmocka_unit_test(bytes_of_another_length_are_refused),
        cmocka_unit_test(invalid_parameters_are_refused),
        cmocka_unit_test(unused_half_byte_must_be_zero),
        cmocka_unit_test(error_feedback_compensates_rounding),
        cmocka_unit_test(poisoned_block_has_zero_residual),
#if defined(__x86_64__)
        cmocka_unit_test(thread_environment_changes_nothing),
#endif
    };

    return cmocka_run_group_tests(all, rooms_init, rooms_fini);
}

int main(void)
{
    return both_isas(tests);
}
