/* The floating-point environment for computing results: the default one of IEEE 754. It rounds to
 * nearest even, keeps denormals, and masks all exceptions. Results are then bitwise identical in
 * every thread and on every rank, regardless of the application's settings (flush-to-zero, a
 * rounding mode, traps).
 *
 *   const tt_float_env kept = tt_float_env_enter();
 *   TT_FLOAT_PIN(scale);        each scalar operand; operands in memory need nothing
 *   ... arithmetic whose results are written to memory ...
 *   tt_float_env_leave(kept);
 *
 * Leaving restores the caller's whole environment, including its exception flags: the flags never
 * show the library's computations, since it is undefined which thread performs them. The compiler
 * moves no load and no store across enter and leave. Arithmetic stays between them because it
 * depends on these loads, and these stores depend on it. */
#ifndef TT_REDUCE_FLOAT_ENV_H
#define TT_REDUCE_FLOAT_ENV_H

/* Makes the compiler assume that the variable x changes here, so that arithmetic on x is not moved
 * before this point. */
#define TT_FLOAT_PIN(x) __asm__ volatile("" : "+m"(x) : : "memory")

#if defined(__x86_64__)
#include <stdint.h>

typedef uint32_t tt_float_env;      /* MXCSR; the x87 unit is not used */

/* exception masks, rounding mode, denormals-are-zero, flush-to-zero */
#define TT_FLOAT_ENV_CONTROL 0xffc0u
#define TT_FLOAT_ENV_DEFAULT 0x1f80u

static inline tt_float_env tt_float_env_read(void)
{
    tt_float_env now;

    __asm__ volatile("stmxcsr %0" : "=m"(now) : : "memory");
    return now;
}

static inline void tt_float_env_write(tt_float_env env)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(env) : "memory");
}

/* Writing costs more than reading, so an unchanged value is not written. */
static inline tt_float_env tt_float_env_enter(void)
{
    const tt_float_env kept = tt_float_env_read();

    if ((kept & TT_FLOAT_ENV_CONTROL) != TT_FLOAT_ENV_DEFAULT)
        tt_float_env_write((kept & ~TT_FLOAT_ENV_CONTROL) | TT_FLOAT_ENV_DEFAULT);
    return kept;
}

static inline void tt_float_env_leave(tt_float_env kept)
{
    if (tt_float_env_read() != kept)
        tt_float_env_write(kept);
}
#elif defined(__aarch64__)
#include <stdint.h>

typedef struct {
    uint64_t fpcr, fpsr;
} tt_float_env;     /* the control register, whose default is 0, and the flags */

static inline tt_float_env tt_float_env_read(void)
{
    tt_float_env now;

    __asm__ volatile("mrs %0, fpcr" : "=r"(now.fpcr) : : "memory");
    __asm__ volatile("mrs %0, fpsr" : "=r"(now.fpsr) : : "memory");
    return now;
}

static inline tt_float_env tt_float_env_enter(void)
{
    const tt_float_env kept = tt_float_env_read();

    if (kept.fpcr != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return kept;
}

static inline void tt_float_env_leave(tt_float_env kept)
{
    const tt_float_env now = tt_float_env_read();

    if (now.fpcr != kept.fpcr)
        __asm__ volatile("msr fpcr, %0" : : "r"(kept.fpcr) : "memory");
    if (now.fpsr != kept.fpsr)
        __asm__ volatile("msr fpsr, %0" : : "r"(kept.fpsr) : "memory");
}
#else
#include <fenv.h>

typedef fenv_t tt_float_env;

static inline tt_float_env tt_float_env_enter(void)
{
    tt_float_env kept;

    fegetenv(&kept);
    fesetenv(FE_DFL_ENV);
    __asm__ volatile("" : : : "memory");
    return kept;
}

static inline void tt_float_env_leave(tt_float_env kept)
{
    __asm__ volatile("" : : : "memory");
    fesetenv(&kept);
}
#endif

#endif
