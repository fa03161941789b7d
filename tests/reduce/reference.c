#include "reference.h"

#include <math.h>
#include <string.h>
#include "support/unit.h"

const struct ref_format ref_f16 = { 5, 10, false }, ref_bf16 = { 8, 7, false };
const struct ref_format ref_e4m3 = { 4, 3, true }, ref_e5m2 = { 5, 2, false };

static const struct {
    const char *name;
    size_t bytes;
    bool is_float, is_signed;
    const struct ref_format *format;
} types[TUTTI_DTYPE_COUNT] = {
    [TUTTI_I8] = { "i8", 1, false, true, NULL },
    [TUTTI_U8] = { "u8", 1, false, false, NULL },
    [TUTTI_I16] = { "i16", 2, false, true, NULL },
    [TUTTI_U16] = { "u16", 2, false, false, NULL },
    [TUTTI_I32] = { "i32", 4, false, true, NULL },
    [TUTTI_U32] = { "u32", 4, false, false, NULL },
    [TUTTI_I64] = { "i64", 8, false, true, NULL },
    [TUTTI_U64] = { "u64", 8, false, false, NULL },
    [TUTTI_F16] = { "f16", 2, true, true, &ref_f16 },
    [TUTTI_BF16] = { "bf16", 2, true, true, &ref_bf16 },
    [TUTTI_F32] = { "f32", 4, true, true, NULL },
    [TUTTI_F64] = { "f64", 8, true, true, NULL },
    [TUTTI_F8E4M3] = { "e4m3", 1, true, true, &ref_e4m3 },
    [TUTTI_F8E5M2] = { "e5m2", 1, true, true, &ref_e5m2 },
};

bool ref_is_float(tutti_dtype type)
{
    return types[type].is_float;
}

size_t ref_bytes(tutti_dtype type)
{
    return types[type].bytes;
}

const char *ref_name(tutti_dtype type)
{
    return types[type].name;
}

const char *ref_redop_name(tutti_redop op)
{
    static const char *const names[TUTTI_REDOP_COUNT] = {
        "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "premul_sum",
    };

    return names[op];
}

const struct ref_format *ref_format_of(tutti_dtype type)
{
    return types[type].format;
}

static int bias_of(const struct ref_format *f)
{
    return (1 << (f->exponent_bits - 1)) - 1;
}

static uint32_t infinity_of(const struct ref_format *f)
{
    return ((1u << f->exponent_bits) - 1) << f->mantissa_bits;
}

static uint32_t nan_of(const struct ref_format *f)
{
    if (f->saturates)
        return infinity_of(f) | ((1u << f->mantissa_bits) - 1);
    return infinity_of(f) | 1u << (f->mantissa_bits - 1);
}

double ref_decode(const struct ref_format *f, uint32_t code)
{
    const uint32_t sign = code >> (f->exponent_bits + f->mantissa_bits) & 1;
    const int exponent = (int)(code >> f->mantissa_bits & ((1u << f->exponent_bits) - 1));
    const int mantissa = (int)(code & ((1u << f->mantissa_bits) - 1));
    const bool top = exponent == (1 << f->exponent_bits) - 1;
    double value;

    if (top && f->saturates && mantissa == (1 << f->mantissa_bits) - 1)
        return NAN;
    if (top && !f->saturates)
        value = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, 1 - bias_of(f) - f->mantissa_bits);
    else
        value = ldexp(mantissa + (1 << f->mantissa_bits), exponent - bias_of(f) - f->mantissa_bits);
    return sign ? -value : value;
}

uint32_t ref_encode(const struct ref_format *f, double value)
{
    const int exponent_min = 1 - bias_of(f);
    const uint32_t sign = signbit(value) ? 1u << (f->exponent_bits + f->mantissa_bits) : 0;
    const uint32_t largest = f->saturates ? nan_of(f) - 1 : infinity_of(f) - 1;
    const double magnitude = fabs(value);
    double quantum, rounded;
    int exponent;

    if (isnan(value))
        return nan_of(f);
    if (magnitude == 0)
        return sign;

    frexp(magnitude, &exponent);        /* in [2^(exponent - 1), 2^exponent) */
    exponent = exponent - 1 < exponent_min || isinf(magnitude) ? exponent_min : exponent - 1;
    quantum = ldexp(1, exponent - f->mantissa_bits);
    rounded = isinf(magnitude) ? magnitude : rint(magnitude / quantum) * quantum;
    if (rounded > ref_decode(f, largest))
        return sign | (f->saturates ? largest : infinity_of(f));

    frexp(rounded, &exponent);          /* rounding may have increased it */
    exponent -= 1;
    if (rounded == 0 || exponent < exponent_min)
        return sign | (uint32_t)ldexp(rounded, f->mantissa_bits - exponent_min);
    return sign | (uint32_t)(exponent + bias_of(f)) << f->mantissa_bits |
           ((uint32_t)ldexp(rounded, f->mantissa_bits - exponent) & ((1u << f->mantissa_bits) - 1));
}

/* clang-format off */
static double f64_op(tutti_redop op, bool finish, uint32_t n, double a, double b)
{
    switch (op) {
    case TUTTI_PROD: return a * b;
    case TUTTI_MIN: return isnan(a) || isnan(b) ? NAN : b < a ? b : a;
    case TUTTI_MAX: return isnan(a) || isnan(b) ? NAN : b > a ? b : a;
    case TUTTI_AVG: return finish ? (a + b) / n : a + b;
    default: return a + b;
    }
}

static float f32_op(tutti_redop op, bool finish, uint32_t n, float a, float b)
{
    switch (op) {
    case TUTTI_PROD: return a * b;
    case TUTTI_MIN: return isnan(a) || isnan(b) ? NAN : b < a ? b : a;
    case TUTTI_MAX: return isnan(a) || isnan(b) ? NAN : b > a ? b : a;
    case TUTTI_AVG: return finish ? (a + b) / (float)n : a + b;
    default: return a + b;
    }
}

static float f32_value(tutti_dtype type, uint64_t bits)
{
    float value;

    if (types[type].format)
        return (float)ref_decode(types[type].format, (uint32_t)bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t f32_bits(tutti_dtype type, float value)
{
    uint32_t bits = 0x7fc00000;

    if (types[type].format)
        return ref_encode(types[type].format, value);
    if (!isnan(value))
        memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double f64_value(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t f64_bits(double value)
{
    uint64_t bits = 0x7ff8000000000000;

    if (!isnan(value))
        memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the integer in the low bits. */
static __int128 int_value(tutti_dtype type, uint64_t bits)
{
    const int width = 8 * (int)types[type].bytes;
    const __int128 modulus = (__int128)1 << width;
    const __int128 value = (__int128)bits & (modulus - 1);

    return types[type].is_signed && value >= modulus / 2 ? value - modulus : value;
}

static uint64_t int_op(tutti_dtype type, tutti_redop op, bool finish, uint32_t n, uint64_t a_bits, uint64_t b_bits)
{
    const __int128 a = int_value(type, a_bits), b = int_value(type, b_bits);

    switch (op) {
    case TUTTI_PROD: return (uint64_t)((unsigned __int128)a * (unsigned __int128)b);
    case TUTTI_MIN: return (uint64_t)(b < a ? b : a);
    case TUTTI_MAX: return (uint64_t)(b > a ? b : a);
    case TUTTI_AVG: return (uint64_t)(int_value(type, (uint64_t)(a + b)) / (finish ? n : 1));
    case TUTTI_BAND: return (uint64_t)(a & b);
    case TUTTI_BOR: return (uint64_t)(a | b);
    case TUTTI_BXOR: return (uint64_t)(a ^ b);
    default: return (uint64_t)(a + b);
    }
}

/* clang-format on */

static uint64_t low_bits(tutti_dtype type, uint64_t bits)
{
    return types[type].bytes == 8 ? bits : bits & ((1ull << 8 * types[type].bytes) - 1);
}

uint64_t ref_reduce(tutti_dtype type, tutti_redop op, bool finish, uint32_t n, uint64_t a,
                    uint64_t b)
{
    if (type == TUTTI_F64)
        return f64_bits(f64_op(op, finish, n, f64_value(a), f64_value(b)));
    if (types[type].is_float)
        return f32_bits(type, f32_op(op, finish, n, f32_value(type, a), f32_value(type, b)));
    return low_bits(type, int_op(type, op, finish, n, a, b));
}

uint64_t ref_scale(tutti_dtype type, uint64_t x, double scale)
{
    const int value_bits = 8 * (int)types[type].bytes - types[type].is_signed;
    const __int128 last = ((__int128)1 << value_bits) - 1,
                   first = types[type].is_signed ? -last - 1 : 0;
    double product;

    if (type == TUTTI_F64)
        return f64_bits(f64_value(x) * scale);
    if (types[type].is_float)
        return f32_bits(type, f32_value(type, x) * (float)scale);

    product = (double)int_value(type, x) * scale;
    if (isnan(product))
        return 0;
    if (product >= ldexp(1, value_bits))
        return low_bits(type, (uint64_t)last);
    if (product <= (double)first)
        return low_bits(type, (uint64_t)first);
    return low_bits(type, (uint64_t)(__int128)product);
}

/* Returns the exponent and mantissa bits of f32, f64 and the narrow formats. */
static struct ref_format layout_of(tutti_dtype type)
{
    if (type == TUTTI_F32)
        return (struct ref_format){ 8, 23, false };
    if (type == TUTTI_F64)
        return (struct ref_format){ 11, 52, false };
    return *types[type].format;
}

uint64_t ref_random(struct tt_prng *p, tutti_dtype type)
{
    const uint64_t random = tt_prng_u64(p), kind = tt_prng_below(p, 8);
    const uint64_t sign = random & 1ull << (8 * types[type].bytes - 1);
    struct ref_format f;
    uint64_t top;

    if (kind < 3)
        return low_bits(type, random);
    if (!types[type].is_float)      /* small, and near both limits */
        return low_bits(type,
                        kind < 6 ? random % 7 - 3 : (sign ? sign : ~sign >> 1) - random % 3 + 1);

    f = layout_of(type);
    top = ((1ull << f.exponent_bits) - 1) << f.mantissa_bits;
    switch (kind) {
    case 3: return sign;                                                            /* zeros */
    /* infinity, NaN with few bits */
    case 4: return sign | top | (random & ((1ull << f.mantissa_bits) - 1) & 3);
    case 5: return sign | (random & ((1ull << f.mantissa_bits) - 1));               /* subnormal */
    case 6: return sign | (top - 1 - random % 4);                                   /* largest */
    /* about 1 and 2 */
    default: return sign | ((top >> 1) + random % 40);
    }
}

uint64_t ref_load(const void *at, size_t bytes)
{
    uint64_t bits = 0;

    memcpy(&bits, at, bytes);
    return bits;
}

void ref_store(void *at, size_t bytes, uint64_t bits)
{
    memcpy(at, &bits, bytes);
}
