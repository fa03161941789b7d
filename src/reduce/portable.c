/* The kernels in portable C, for any CPU. Each is one loop over one expression, which the compiler
 * can vectorize. There are no streaming stores: `stream` is ignored. */
#include "reduce/kernels.h"

#include <string.h>

#include "reduce/convert.h"
#include "reduce/float_env.h"
#include "reduce/hash_kernels.h"
#include "reduce/quant_kernels.h"

/* Elements in memory, at any alignment. */
typedef uint8_t mem_u8;
typedef int8_t mem_i8;
typedef uint16_t mem_u16 __attribute__((aligned(1), may_alias));
typedef int16_t mem_i16 __attribute__((aligned(1), may_alias));
typedef uint32_t mem_u32 __attribute__((aligned(1), may_alias));
typedef int32_t mem_i32 __attribute__((aligned(1), may_alias));
typedef uint64_t mem_u64 __attribute__((aligned(1), may_alias));
typedef int64_t mem_i64 __attribute__((aligned(1), may_alias));
typedef float mem_f32 __attribute__((aligned(1), may_alias));
typedef double mem_f64 __attribute__((aligned(1), may_alias));

/* Iterations are independent, also in place: dst equals an operand exactly or does not overlap
 * it. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define UNUSED __attribute__((unused))

/* Defines the kernel `name`: dst[i] = EXPR, an expression in x[i], y[i] (elements of type `mem`)
 * and n. ENTER and LEAVE set and restore the floating-point environment, or are empty for
 * integers. */
#define KERNEL_BETWEEN(name, mem, EXPR, ENTER, LEAVE) \
    static void name(void *dst, void *dst2, const void *a, const void *b, size_t count, \
                     uint32_t stream UNUSED, uint32_t n UNUSED)                         \
    { \
        const mem *x = a, *y = b; \
        mem *first = dst, *second = dst2; \
        ENTER \
        if (second) { \
            INDEPENDENT \
            for (size_t i = 0; i < count; i++) \
                first[i] = second[i] = (EXPR); \
        } else { \
            INDEPENDENT \
            for (size_t i = 0; i < count; i++) \
                first[i] = (EXPR); \
        } \
        LEAVE \
    }

#define ENTER \
    const tt_float_env kept = tt_float_env_enter(); \
    TT_FLOAT_PIN(n);
#define LEAVE tt_float_env_leave(kept);
#define INT_KERNEL(name, mem, EXPR) KERNEL_BETWEEN(name, mem, EXPR, , )
#define KERNEL(name, mem, EXPR) KERNEL_BETWEEN(name, mem, EXPR, ENTER, LEAVE)

/* Integers. Unsigned arithmetic wraps for both signs, in a type (`wide`) that is not promoted to a
 * signed one. */
#define INT_KERNELS_ANY_SIGN(bits, wide) \
    INT_KERNEL(sum_##bits, mem_u##bits, (uint##bits##_t)((wide)x[i] + (wide)y[i])) \
    INT_KERNEL(prod_##bits, mem_u##bits, (uint##bits##_t)((wide)x[i] * (wide)y[i])) \
    INT_KERNEL(band_##bits, mem_u##bits, x[i] & y[i]) \
    INT_KERNEL(bor_##bits, mem_u##bits, x[i] | y[i]) \
    INT_KERNEL(bxor_##bits, mem_u##bits, x[i] ^ y[i])

/* Quotients through a float whose mantissa holds the type are exact: the rounding error is less
 * than 1/n, and a quotient that is not an integer is at least 1/n below the next one. They can be
 * vectorized; integer division cannot. */
#define INT_KERNELS_SIGNED(type, quotient) \
    INT_KERNEL(min_##type, mem_##type, y[i] < x[i] ? y[i] : x[i]) \
    INT_KERNEL(max_##type, mem_##type, y[i] > x[i] ? y[i] : x[i]) \
    KERNEL(sum_div_##type, mem_##type, quotient)

INT_KERNELS_ANY_SIGN(8, uint32_t)
INT_KERNELS_ANY_SIGN(16, uint32_t)
INT_KERNELS_ANY_SIGN(32, uint32_t)
INT_KERNELS_ANY_SIGN(64, uint64_t)
INT_KERNELS_SIGNED(i8, (int8_t)(int32_t)((float)(int8_t)(x[i] + y[i]) / (float)n))
INT_KERNELS_SIGNED(u8, (uint8_t)(int32_t)((float)(uint8_t)(x[i] + y[i]) / (float)n))
INT_KERNELS_SIGNED(i16, (int16_t)(int32_t)((float)(int16_t)(x[i] + y[i]) / (float)n))
INT_KERNELS_SIGNED(u16, (uint16_t)(int32_t)((float)(uint16_t)(x[i] + y[i]) / (float)n))
INT_KERNELS_SIGNED(i32, (int32_t)((double)(int32_t)((uint32_t)x[i] + (uint32_t)y[i]) / n))
INT_KERNELS_SIGNED(u32, (uint32_t)((double)(x[i] + y[i]) / n))
INT_KERNELS_SIGNED(i64, (int64_t)((uint64_t)x[i] + (uint64_t)y[i]) / (int64_t)n)
INT_KERNELS_SIGNED(u64, (x[i] + y[i]) / n)

/* Returns r, or the canonical NaN if r is NaN. */
static inline float settle_f32(float r)
{
    return r == r ? r : tt_float_of_bits(0x7fc00000);
}

static inline double settle_f64(double r)
{
    return r == r ? r : (double)tt_float_of_bits(0x7fc00000);
}

static inline float min_of_f32(float a, float b)
{
    const float least = b < a ? b : a;

    return b == b ? settle_f32(least) : tt_float_of_bits(0x7fc00000);
}

static inline float max_of_f32(float a, float b)
{
    const float most = b > a ? b : a;

    return b == b ? settle_f32(most) : tt_float_of_bits(0x7fc00000);
}

static inline double min_of_f64(double a, double b)
{
    const double least = b < a ? b : a;

    return b == b ? settle_f64(least) : (double)tt_float_of_bits(0x7fc00000);
}

static inline double max_of_f64(double a, double b)
{
    const double most = b > a ? b : a;

    return b == b ? settle_f64(most) : (double)tt_float_of_bits(0x7fc00000);
}

KERNEL(sum_f64, mem_f64, settle_f64(x[i] + y[i]))
KERNEL(prod_f64, mem_f64, settle_f64(x[i] * y[i]))
KERNEL(min_f64, mem_f64, min_of_f64(x[i], y[i]))
KERNEL(max_f64, mem_f64, max_of_f64(x[i], y[i]))
KERNEL(sum_div_f64, mem_f64, settle_f64((x[i] + y[i]) / n))

/* Every other float is converted by `widen` to f32 and by `narrow` back. */
#define FLOAT_KERNELS(type, mem, widen, narrow) \
    KERNEL(sum_##type, mem, narrow(settle_f32(widen(x[i]) + widen(y[i])))) \
    KERNEL(prod_##type, mem, narrow(settle_f32(widen(x[i]) * widen(y[i])))) \
    KERNEL(min_##type, mem, narrow(min_of_f32(widen(x[i]), widen(y[i])))) \
    KERNEL(max_##type, mem, narrow(max_of_f32(widen(x[i]), widen(y[i])))) \
    KERNEL(sum_div_##type, mem, narrow(settle_f32((widen(x[i]) + widen(y[i])) / (float)n)))

FLOAT_KERNELS(f32, mem_f32, , )
FLOAT_KERNELS(f16, mem_u16, tt_f16_widen, tt_f16_narrow)
FLOAT_KERNELS(bf16, mem_u16, tt_bf16_widen, tt_bf16_narrow)
FLOAT_KERNELS(e4m3, mem_u8, tt_e4m3_widen, tt_e4m3_narrow)
FLOAT_KERNELS(e5m2, mem_u8, tt_e5m2_widen, tt_e5m2_narrow)

/* Defines `name`: dst[i] = EXPR, an expression in x[i] and scale (f64) or scale32 (f32). The caller
 * sets the floating-point environment. */
#define SCALE(name, mem, EXPR) \
    static void name(void *dst, const void *src, size_t count, double scale) \
    { \
        const float scale32 UNUSED = (float)scale; \
        const mem *x = src; \
        mem *out = dst; \
        INDEPENDENT \
        for (size_t i = 0; i < count; i++) \
            out[i] = (EXPR); \
    }

/* An integer product truncated towards zero, NaN as 0, clamped to [low, high). `high` is the power
 * of two above the type, which f64 holds exactly. */
#define TRUNCATED(type, product, low, high, last) \
    ((product) >= (high)  ? (last)                \
     : (product) >= (low) ? (type)(product)       \
     : (product) < (low)  ? (type)(low)           \
                          : 0)

SCALE(scale_i8, mem_i8, TRUNCATED(int8_t, x[i] * scale, -0x1p7, 0x1p7, INT8_MAX))
SCALE(scale_u8, mem_u8, TRUNCATED(uint8_t, x[i] * scale, 0.0, 0x1p8, UINT8_MAX))
SCALE(scale_i16, mem_i16, TRUNCATED(int16_t, x[i] * scale, -0x1p15, 0x1p15, INT16_MAX))
SCALE(scale_u16, mem_u16, TRUNCATED(uint16_t, x[i] * scale, 0.0, 0x1p16, UINT16_MAX))
SCALE(scale_i32, mem_i32, TRUNCATED(int32_t, x[i] * scale, -0x1p31, 0x1p31, INT32_MAX))
SCALE(scale_u32, mem_u32, TRUNCATED(uint32_t, x[i] * scale, 0.0, 0x1p32, UINT32_MAX))
SCALE(scale_i64, mem_i64, TRUNCATED(int64_t, (double)x[i] * scale, -0x1p63, 0x1p63, INT64_MAX))
SCALE(scale_u64, mem_u64, TRUNCATED(uint64_t, (double)x[i] * scale, 0.0, 0x1p64, UINT64_MAX))
SCALE(scale_f16, mem_u16, tt_f16_narrow(settle_f32(tt_f16_widen(x[i]) * scale32)))
SCALE(scale_bf16, mem_u16, tt_bf16_narrow(settle_f32(tt_bf16_widen(x[i]) * scale32)))
SCALE(scale_f32, mem_f32, settle_f32(x[i] * scale32))
SCALE(scale_f64, mem_f64, settle_f64(x[i] * scale))
SCALE(scale_e4m3, mem_u8, tt_e4m3_narrow(settle_f32(tt_e4m3_widen(x[i]) * scale32)))
SCALE(scale_e5m2, mem_u8, tt_e5m2_narrow(settle_f32(tt_e5m2_widen(x[i]) * scale32)))

/* Copies page by page, so that the second read hits the L1 cache. */
static void copy_portable(void *dst, void *dst2, const void *src, size_t bytes,
                          uint32_t stream UNUSED)
{
    for (size_t at = 0, piece; at < bytes; at += piece) {
        piece = bytes - at < 4096 ? bytes - at : 4096;
        memcpy((char *)dst + at, (const char *)src + at, piece);
        if (dst2)
            memcpy((char *)dst2 + at, (const char *)src + at, piece);
    }
}

/* clang-format off */
#define INT_ROW(type, bits)                                                   \
    {                                                                         \
        [TT_KERNEL_SUM] = sum_##bits,   [TT_KERNEL_PROD] = prod_##bits, [TT_KERNEL_MIN] = min_##type, \
        [TT_KERNEL_MAX] = max_##type,   [TT_KERNEL_SUM_DIV] = sum_div_##type, \
        [TT_KERNEL_BAND] = band_##bits, [TT_KERNEL_BOR] = bor_##bits,   [TT_KERNEL_BXOR] = bxor_##bits, \
    }
#define FLOAT_ROW(type)                                                     \
    {                                                                       \
        [TT_KERNEL_SUM] = sum_##type, [TT_KERNEL_PROD] = prod_##type, [TT_KERNEL_MIN] = min_##type, \
        [TT_KERNEL_MAX] = max_##type, [TT_KERNEL_SUM_DIV] = sum_div_##type, \
    }
/* clang-format on */

const struct tt_kernels tt_kernels_portable = {
    .name = "portable",
    .reduce = {
        [TUTTI_I8] = INT_ROW(i8, 8),     [TUTTI_U8] = INT_ROW(u8, 8),
        [TUTTI_I16] = INT_ROW(i16, 16),  [TUTTI_U16] = INT_ROW(u16, 16),
        [TUTTI_I32] = INT_ROW(i32, 32),  [TUTTI_U32] = INT_ROW(u32, 32),
        [TUTTI_I64] = INT_ROW(i64, 64),  [TUTTI_U64] = INT_ROW(u64, 64),
        [TUTTI_F16] = FLOAT_ROW(f16),    [TUTTI_BF16] = FLOAT_ROW(bf16),
        [TUTTI_F32] = FLOAT_ROW(f32),    [TUTTI_F64] = FLOAT_ROW(f64),
        [TUTTI_F8E4M3] = FLOAT_ROW(e4m3), [TUTTI_F8E5M2] = FLOAT_ROW(e5m2),
    },
    .scale_float = {
        [TUTTI_F16] = scale_f16,     [TUTTI_BF16] = scale_bf16,   [TUTTI_F32] = scale_f32, [TUTTI_F64] = scale_f64,
        [TUTTI_F8E4M3] = scale_e4m3, [TUTTI_F8E5M2] = scale_e5m2,
    },
    .copy = copy_portable,
    .hash = &tt_hash_portable,
    .quant = &tt_quant_portable,
};

tt_scale_fn *const tt_scale_int[TUTTI_DTYPE_COUNT] = {
    [TUTTI_I8] = scale_i8,   [TUTTI_U8] = scale_u8,   [TUTTI_I16] = scale_i16,
    [TUTTI_U16] = scale_u16, [TUTTI_I32] = scale_i32, [TUTTI_U32] = scale_u32,
    [TUTTI_I64] = scale_i64, [TUTTI_U64] = scale_u64,
};
