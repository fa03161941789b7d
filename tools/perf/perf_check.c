/* A hash of i assigns element i of a rank's input to one of 256 classes; all elements of a class
 * are equal. A table of 256 values then describes any input and any result, at the cost of a
 * multiplication and a look-up per element. Data at a wrong offset or from another rank differs in
 * all but one of 256 elements.
 *
 * Moved data consists of random bits. Reduced data consists of small integers, which floats add
 * exactly while the sum fits the mantissa; the result then does not depend on the order of
 * additions.
 *
 * Quantized data also consists of integers. Its error bound is that of tutti.h, for the value range
 * of all classes. */
#include "tools/perf/perf_check.h"

#include <math.h>
#include <string.h>
#include "base/prng.h"
#include "base/status.h"
#include "reduce/quant_packed.h"
#include "reduce/reduce.h"

#define CLASSES 256u
#define RUBBISH 0xa5

/* The expected elements, by class. */
struct table {
    bool exact;
    double slack;               /* not exact: allowed relative error, */
    double off[CLASSES];        /* or, if quantized, allowed absolute error */
    uint64_t bits[CLASSES];     /* exact */
    double value[CLASSES];      /* not exact */
};

static size_t class_of(uint64_t i)
{
    return i * 0x9e3779b97f4a7c15ull >> 56;
}

/* Inputs of sums are 0 to input_max. The type represents all integers up to exact_max. `roundoff`
 * is its unit roundoff. */
static const struct {
    int64_t input_max;
    double exact_max, roundoff;
} limits[TUTTI_DTYPE_COUNT] = {
    [TUTTI_I8] = { 3, INFINITY, 0 },     [TUTTI_U8] = { 3, INFINITY, 0 },
    [TUTTI_I16] = { 100, INFINITY, 0 },  [TUTTI_U16] = { 100, INFINITY, 0 },
    [TUTTI_I32] = { 1000, INFINITY, 0 }, [TUTTI_U32] = { 1000, INFINITY, 0 },
    [TUTTI_I64] = { 1000, INFINITY, 0 }, [TUTTI_U64] = { 1000, INFINITY, 0 },
    [TUTTI_F16] = { 7, 0x1p11, 0x1p-11 },    [TUTTI_BF16] = { 3, 0x1p8, 0x1p-8 },
    [TUTTI_F32] = { 100, 0x1p24, 0x1p-24 },  [TUTTI_F64] = { 1000, 0x1p53, 0x1p-53 },
    [TUTTI_F8E4M3] = { 1, 0x1p4, 0x1p-4 },   [TUTTI_F8E5M2] = { 1, 0x1p3, 0x1p-3 },
};

static bool is_float(tutti_dtype type) { return type >= TUTTI_F16; }

/* The bits of a value, rounded once, as in the kernels. */
static uint64_t encode(tutti_dtype type, double value)
{
    const float f = (float)value;
    uint64_t bits = 0;

    switch (type) {
    case TUTTI_F16:
        return tt_f32_to_f16(f);
    case TUTTI_BF16:
        return tt_f32_to_bf16(f);
    case TUTTI_F8E4M3:
        return tt_f32_to_e4m3(f);
    case TUTTI_F8E5M2:
        return tt_f32_to_e5m2(f);
    case TUTTI_F32:
        memcpy(&bits, &f, sizeof f);
        return bits;
    default:
        memcpy(&bits, &value, sizeof value);
        return bits;
    }
}

static float f32_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static double f64_of(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof d);
    return d;
}

/* The value of a float with these bits. */
static double decode(tutti_dtype type, uint64_t bits)
{
    switch (type) {
    case TUTTI_F16: return tt_f16_to_f32((uint16_t)bits);
    case TUTTI_BF16: return tt_bf16_to_f32((uint16_t)bits);
    case TUTTI_F8E4M3: return tt_e4m3_to_f32((uint8_t)bits);
    case TUTTI_F32: return (double)f32_of((uint32_t)bits);
    case TUTTI_F64: return f64_of(bits);
    default: return tt_e5m2_to_f32((uint8_t)bits);
    }
}

/* An integer truncated to the type's width, and extended again with its sign. */
static int64_t wrapped(tutti_dtype type, uint64_t v)
{
    switch (type) {
    case TUTTI_I8: return (int8_t)v;
    case TUTTI_U8: return (uint8_t)v;
    case TUTTI_I16: return (int16_t)v;
    case TUTTI_U16: return (uint16_t)v;
    case TUTTI_I32: return (int32_t)v;
    case TUTTI_U32: return (uint32_t)v;
    default: return (int64_t)v;
    }
}

static uint64_t bits_of(tutti_dtype type, int64_t value)
{
    const size_t bytes = tutti_dtype_bytes(type);

    if (is_float(type))
        return encode(type, (double)value);
    return bytes == 8 ? (uint64_t)value : (uint64_t)value & ((1ull << 8 * bytes) - 1);
}

/* The input of `rank` in class k of a reduction. For any number of ranks, results differ between
 * classes, and every rank affects some of them. */
static int64_t input_of(const struct perf_case *c, uint32_t rank, size_t k)
{
    const uint64_t h = tt_mix64((uint64_t)rank << 32 | k), common = tt_mix64(~(uint64_t)k);
    const bool has_sign = is_float(c->dtype) || c->dtype % 2 == 0;
    const int64_t low = has_sign ? -4 : 0;

    switch (c->op) {
    case TUTTI_PROD:
        return (rank + k) % c->nranks < 3 ? 1 + (int64_t)(h & 1) : 1;
    case TUTTI_MIN:
        return low + (int64_t)(common % 5 + h % 4);
    case TUTTI_MAX:
        return low + (int64_t)(4 + common % 5 - h % 4);
    case TUTTI_BAND:
        return wrapped(c->dtype, h | common);
    case TUTTI_BOR:
        return wrapped(c->dtype, h & common);
    case TUTTI_BXOR:
        return wrapped(c->dtype, h);
    default:
        return (int64_t)(h % ((uint64_t)limits[c->dtype].input_max + 1));
    }
}

static int64_t folded(tutti_redop op, int64_t a, int64_t b)
{
    switch (op) {
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    case TUTTI_BXOR:
        return a ^ b;
    default:
        return a + b;
    }
}

/* Class k of the reduction over all ranks, before the division of TUTTI_AVG. */
static int64_t reduced(const struct perf_case *c, size_t k)
{
    const bool scaled = c->op == TUTTI_PREMUL_SUM;
    int64_t all = 0;

    for (uint32_t r = 0; r < c->nranks; r++) {
        const int64_t one = input_of(c, r, k) * (scaled ? (int64_t)perf_scale_of(r) : 1);

        all = r == 0 ? one : folded(c->op, all, one);
    }
    return all;
}

/* The quotient, rounded to f32 (to f64 for f64 only); the caller rounds it to the type. */
static double divided(const struct perf_case *c, int64_t sum)
{
    return c->dtype == TUTTI_F64 ? (double)sum / c->nranks
                                 : (double)((float)sum / (float)c->nranks);
}

static bool is_sum(tutti_redop op)
{
    return op == TUTTI_SUM || op == TUTTI_AVG || op == TUTTI_PREMUL_SUM;
}

static void expect_reduction(struct table *t, const struct perf_case *c)
{
    const double scale_max = c->op == TUTTI_PREMUL_SUM ? 2 : 1;

    t->exact = !is_sum(c->op) || scale_max * (double)limits[c->dtype].input_max * c->nranks <=
                                     limits[c->dtype].exact_max;
    t->slack = c->nranks * limits[c->dtype].roundoff;
    for (size_t k = 0; k < CLASSES; k++) {
        const int64_t all = reduced(c, k);

        t->value[k] = c->op == TUTTI_AVG ? divided(c, all) : (double)all;
        if (c->op != TUTTI_AVG)
            t->bits[k] = bits_of(c->dtype, all);
        else if (is_float(c->dtype))
            t->bits[k] = encode(c->dtype, t->value[k]);
        else
            t->bits[k] = bits_of(c->dtype, wrapped(c->dtype, (uint64_t)all) / (int64_t)c->nranks);
    }
}

/* Sets the error bounds of quantized values that are sums over the ranks `first` to `last` - 1. */
static void allow_quantized(struct table *t, const struct perf_case *c, uint32_t first,
                            uint32_t last)
{
    const bool zero = c->quant == TUTTI_QUANT_ZERO_U8 || c->quant == TUTTI_QUANT_ZERO_U4;
    const uint32_t parts = last - first, times = parts > 1 ? 2 * (parts - 1) : 1;
    const double divisor = c->op == TUTTI_AVG ? parts : 1;
    double magnitude = 0, range = 0;
    struct tt_packed packed;
    const bool defined = tt_packed_init(&packed, (enum tt_quant_codec)(c->quant - 1), c->dtype);

    tt_assert(defined);
    for (uint32_t r = first; r < last; r++) {
        int64_t low = zero ? 0 : INT64_MAX, high = zero ? 0 : INT64_MIN;

        for (size_t k = 0; k < CLASSES; k++) {
            const int64_t x = input_of(c, r, k);

            low = x < low ? x : low;
            high = x > high ? x : high;
        }
        magnitude += fmax(fabs((double)low), fabs((double)high));
        range += (double)(high - low);
    }
    t->exact = false;
    for (size_t k = 0; k < CLASSES; k++)
        t->off[k] =
            tt_packed_bound(&packed, magnitude / divisor, range / divisor, times, t->value[k]);
}

static void expect_input(struct table *t, const struct perf_case *c, uint32_t rank)
{
    const size_t bytes = tutti_dtype_bytes(c->dtype);
    const uint64_t mask = bytes == 8 ? UINT64_MAX : (1ull << 8 * bytes) - 1;

    t->exact = true;
    for (size_t k = 0; k < CLASSES; k++) {
        const bool is_number = c->coll->reduces || c->quant;
        const int64_t number = is_number ? input_of(c, rank, k) : 0;

        t->value[k] = (double)number;
        t->bits[k] =
            is_number ? bits_of(c->dtype, number) : tt_mix64((uint64_t)rank << 32 | k) & mask;
    }
}

/* ---- memory ---- */

static void write_elements(void *dst, size_t bytes, size_t count, const struct table *t)
{
    uint8_t *d8 = dst;
    uint16_t *d16 = dst;
    uint32_t *d32 = dst;
    uint64_t *d64 = dst;

    for (size_t i = 0; i < count; i++)
        switch (bytes) {
        case 1:
            d8[i] = (uint8_t)t->bits[class_of(i)];
            break;
        case 2:
            d16[i] = (uint16_t)t->bits[class_of(i)];
            break;
        case 4:
            d32[i] = (uint32_t)t->bits[class_of(i)];
            break;
        default:
            d64[i] = t->bits[class_of(i)];
            break;
        }
}

static uint64_t element(const void *src, size_t bytes, size_t i)
{
    switch (bytes) {
    case 1: return ((const uint8_t *)src)[i];
    case 2: return ((const uint16_t *)src)[i];
    case 4: return ((const uint32_t *)src)[i];
    default: return ((const uint64_t *)src)[i];
    }
}

static uint64_t count_unequal(const void *src, size_t bytes, const struct perf_piece *p,
                              const struct table *t)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < p->count; i++)
        wrong += element(src, bytes, p->at + i) != t->bits[class_of(p->first + i)];
    return wrong;
}

static uint64_t count_far(const void *src, tutti_dtype type, const struct perf_piece *p,
                          const struct table *t, bool quantized)
{
    const size_t bytes = tutti_dtype_bytes(type);
    uint64_t wrong = 0;

    for (size_t i = 0; i < p->count; i++) {
        const size_t k = class_of(p->first + i);
        const double want = t->value[k], off = quantized ? t->off[k] : t->slack * fabs(want);
        const double got = decode(type, element(src, bytes, p->at + i));

        wrong += !(fabs(got - want) <= off);
    }
    return wrong;
}

void perf_check_fill(const struct perf_case *c)
{
    const size_t bytes = tutti_dtype_bytes(c->dtype), dst_bytes = perf_dst_count(c) * bytes;
    struct table t;

    if (dst_bytes)
        memset(c->dst, RUBBISH, dst_bytes);
    expect_input(&t, c, c->rank);
    write_elements(c->src, bytes, perf_src_count(c), &t);
}

uint64_t perf_check_wrong(const struct perf_case *c)
{
    struct perf_piece p;
    struct table t;
    uint64_t wrong = 0;

    for (uint32_t i = 0; perf_case_piece(c, i, &p); i++) {
        if (p.from == PERF_FROM_ALL)
            expect_reduction(&t, c);
        else
            expect_input(&t, c, p.from);
        if (c->quant && p.from == PERF_FROM_ALL)
            allow_quantized(&t, c, 0, c->nranks);
        else if (c->quant)
            allow_quantized(&t, c, p.from, p.from + 1);
        wrong += t.exact ? count_unequal(c->dst, tutti_dtype_bytes(c->dtype), &p, &t)
                         : count_far(c->dst, c->dtype, &p, &t, c->quant);
    }
    return wrong;
}

void perf_check_spoil(const struct perf_case *c, size_t n)
{
    const size_t bytes = tutti_dtype_bytes(c->dtype), count = perf_dst_count(c);
    uint8_t *dst = c->dst;

    for (size_t i = 0; i < (n < count ? n : count) * bytes; i++)
        dst[i] = (uint8_t)~dst[i];
}
