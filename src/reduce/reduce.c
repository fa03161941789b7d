/* Selects the implementation, and the kernel of a type and an operation. */
#include "reduce/reduce.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include "base/log.h"
#include "base/status.h"
#include "reduce/float_env.h"
#include "reduce/kernels.h"

static const struct tt_kernels *best_kernels(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx = 0, edx;

    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) &&
        (ecx & bit_F16C))
        return &tt_kernels_avx2;
#endif
    return &tt_kernels_portable;
}

static const struct tt_kernels *choose_kernels(void)
{
    const char *wanted = getenv("TUTTI_SIMD");

    if (!wanted || !*wanted || strcmp(wanted, best_kernels()->name) == 0)
        return best_kernels();
    if (strcmp(wanted, "portable") == 0)
        return &tt_kernels_portable;
    tt_log(TT_LOG_WARN, "TUTTI_SIMD=%s: %s; using %s", wanted,
           strcmp(wanted, "avx2") == 0 ? "this processor lacks AVX2 or F16C"
                                       : "unknown value (use \"portable\" or \"avx2\")",
           best_kernels()->name);
    return best_kernels();
}

const struct tt_kernels *tt_kernels_get(void)
{
    static _Atomic(const struct tt_kernels *) chosen;
    const struct tt_kernels *kernels = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (!kernels) {     /* two threads may both select; the result is the same */
        kernels = choose_kernels();
        atomic_store_explicit(&chosen, kernels, memory_order_relaxed);
    }
    return kernels;
}

enum tt_kernel tt_kernel_of(tutti_redop op, bool finish)
{
    static const enum tt_kernel of_redop[TUTTI_REDOP_COUNT] = {
        [TUTTI_SUM] = TT_KERNEL_SUM,        [TUTTI_PROD] = TT_KERNEL_PROD,
        [TUTTI_MIN] = TT_KERNEL_MIN,        [TUTTI_MAX] = TT_KERNEL_MAX,
        [TUTTI_AVG] = TT_KERNEL_SUM,        [TUTTI_BAND] = TT_KERNEL_BAND,
        [TUTTI_BOR] = TT_KERNEL_BOR,        [TUTTI_BXOR] = TT_KERNEL_BXOR,
        [TUTTI_PREMUL_SUM] = TT_KERNEL_SUM,
    };

    if ((unsigned)op >= TUTTI_REDOP_COUNT)
        return TT_KERNEL_COUNT;
    return op == TUTTI_AVG && finish ? TT_KERNEL_SUM_DIV : of_redop[op];
}

/* See reduce.h. Constant time; NULL also for an invalid type or operation. */
tt_reduce_fn *tt_reduce_kernel(tutti_dtype type, tutti_redop op, bool finish)
{
    const enum tt_kernel kernel = tt_kernel_of(op, finish);

    if ((unsigned)type >= TUTTI_DTYPE_COUNT || kernel == TT_KERNEL_COUNT)
        return NULL;
    return tt_kernels_get()->reduce[type][kernel];
}

bool tt_reduce_defined(tutti_dtype type, tutti_redop op)
{
    return tt_reduce_kernel(type, op, false) != NULL;
}

/* See reduce.h. */
void tt_reduce_scale(void *dst, const void *src, size_t count, tutti_dtype type, double scale)
{
    tt_float_env kept;
    tt_scale_fn *fn;

    tt_assert((unsigned)type < TUTTI_DTYPE_COUNT);
    fn = tt_scale_int[type] ? tt_scale_int[type] : tt_kernels_get()->scale_float[type];
    kept = tt_float_env_enter();
    TT_FLOAT_PIN(scale);
    fn(dst, src, count, isnan(scale) ? (double)NAN : scale);
    tt_float_env_leave(kept);
}

bool tt_reduce_scale_is_zero(double scale)
{
    uint64_t bits;

    memcpy(&bits, &scale, sizeof bits);
    return bits << 1 == 0;
}

const char *tt_reduce_isa(void)
{
    return tt_kernels_get()->name;
}
