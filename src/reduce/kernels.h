/* The two sets of kernels behind reduce.h, and what both must agree on so that they give the same bits:
 *  - a floating-point result that is NaN is the type's canonical one: positive, quiet, no payload;
 *  - MIN and MAX take the right operand only where it is strictly less (greater), so of +0 and -0 the left one;
 *  - 8- and 16-bit floats are computed in f32 and rounded once, to nearest even; e4m3 saturates at +-448.
 * Nothing multiplies and then adds, so no compiler setting can contract two roundings into one. */
#ifndef TT_REDUCE_KERNELS_H
#define TT_REDUCE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include "reduce/reduce.h"

struct tt_hash_kernels;     /* hash_kernels.h */
struct tt_quant_kernels;    /* quant_kernels.h */

/* What a kernel computes; redops that differ only in what happens elsewhere share one. */
enum tt_kernel {
    TT_KERNEL_SUM,
    TT_KERNEL_PROD,
    TT_KERNEL_MIN,
    TT_KERNEL_MAX,
    TT_KERNEL_SUM_DIV,      /* the sum divided by finish_n: a finishing AVG */
    TT_KERNEL_BAND,
    TT_KERNEL_BOR,
    TT_KERNEL_BXOR,
    TT_KERNEL_COUNT
};

/* The kernel that computes `op`, finishing or not; TT_KERNEL_COUNT for a value that is no operation. */
enum tt_kernel tt_kernel_of(tutti_redop op, bool finish);

/* dst[i] = src[i] * scale, i < count. dst may equal src. A scale that is NaN must be the canonical one. */
typedef void tt_scale_fn(void *dst, const void *src, size_t count, double scale);

/* One implementation. A kernel is NULL exactly where the operation is not defined for the type, and scale_float where
 * the type is no float. */
struct tt_kernels {
    const char *name;
    tt_reduce_fn *reduce[TUTTI_DTYPE_COUNT][TT_KERNEL_COUNT];
    tt_scale_fn *scale_float[TUTTI_DTYPE_COUNT];
    void (*copy)(void *dst, void *dst2, const void *src, size_t bytes, uint32_t stream);
    const struct tt_hash_kernels *hash;
    const struct tt_quant_kernels *quant;
};

extern const struct tt_kernels tt_kernels_portable;
extern tt_scale_fn *const tt_scale_int[TUTTI_DTYPE_COUNT];     /* one implementation serves; NULL for floats */
#if defined(__x86_64__)
extern const struct tt_kernels tt_kernels_avx2;     /* needs AVX2 and F16C */
#endif

/* The implementation this process uses: the best the CPU has, or what TUTTI_SIMD names. Chosen on the first
 * call; any thread. */
const struct tt_kernels *tt_kernels_get(void);

#endif
