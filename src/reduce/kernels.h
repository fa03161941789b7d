/* The two sets of kernels behind reduce.h, and rules that make their results bitwise identical:
 *  - a NaN result is the type's canonical NaN: positive, quiet, no payload;
 *  - MIN and MAX return the right operand only if it is strictly less (greater), so of +0 and -0
 *    the left one;
 *  - 8- and 16-bit floats are computed in f32 and rounded once, to nearest even; e4m3 saturates at
 *    +-448.
 * There is no multiplication followed by an addition, so no compiler setting can contract two
 * roundings into one. */
#ifndef TT_REDUCE_KERNELS_H
#define TT_REDUCE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include "reduce/reduce.h"

struct tt_hash_kernels;     /* hash_kernels.h */
struct tt_quant_kernels;    /* quant_kernels.h */

/* Operation of a kernel; redops that differ only outside of the kernel share one. */
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

/* Returns the kernel of `op`, finishing or not; TT_KERNEL_COUNT for an invalid operation. */
enum tt_kernel tt_kernel_of(tutti_redop op, bool finish);

/* dst[i] = src[i] * scale, i < count. dst may equal src. A NaN scale must be the canonical one. */
typedef void tt_scale_fn(void *dst, const void *src, size_t count, double scale);

/* One implementation. A kernel is NULL exactly if the operation is not defined for the type, and
 * scale_float if the type is not a float. */
struct tt_kernels {
    const char *name;
    tt_reduce_fn *reduce[TUTTI_DTYPE_COUNT][TT_KERNEL_COUNT];
    tt_scale_fn *scale_float[TUTTI_DTYPE_COUNT];
    void (*copy)(void *dst, void *dst2, const void *src, size_t bytes, uint32_t stream);
    const struct tt_hash_kernels *hash;
    const struct tt_quant_kernels *quant;
};

extern const struct tt_kernels tt_kernels_portable;
/* scaling of integers has one implementation; NULL for floats */
extern tt_scale_fn *const tt_scale_int[TUTTI_DTYPE_COUNT];
#if defined(__x86_64__)
extern const struct tt_kernels tt_kernels_avx2;     /* needs AVX2 and F16C */
#endif

/* Returns the implementation of this process: the best for the CPU, or that of TUTTI_SIMD. Selected
 * by the first call; any thread. */
const struct tt_kernels *tt_kernels_get(void);

#endif
