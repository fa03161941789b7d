/* Floating-point arithmetic as IEEE 754 begins: to nearest even, denormals kept, no traps; whatever the thread has set. Between enter and leave
 * stands a call that the compiler does not see into, or it may move arithmetic across. */
#ifndef TT_REDUCE_FLOAT_ENV_H
#define TT_REDUCE_FLOAT_ENV_H

#if defined(__x86_64__)
#include <stdint.h>
#include <xmmintrin.h>

typedef uint32_t tt_float_env;

#define TT_FLOAT_ENV_CONTROL 0xffc0u    /* masks of exceptions, rounding, and both ways of flushing denormals */
#define TT_FLOAT_ENV_DEFAULT 0x1f80u

static inline tt_float_env tt_float_env_enter(void)
{
    const tt_float_env kept = _mm_getcsr();

    if ((kept & TT_FLOAT_ENV_CONTROL) != TT_FLOAT_ENV_DEFAULT)
        _mm_setcsr(TT_FLOAT_ENV_DEFAULT);
    return kept;
}

static inline void tt_float_env_leave(tt_float_env kept)
{
    if ((kept & TT_FLOAT_ENV_CONTROL) != TT_FLOAT_ENV_DEFAULT)
        _mm_setcsr(kept);
}
#else
#include <fenv.h>

typedef fenv_t tt_float_env;

static inline tt_float_env tt_float_env_enter(void)
{
    tt_float_env kept;

    fegetenv(&kept);
    fesetenv(FE_DFL_ENV);
    return kept;
}

static inline void tt_float_env_leave(tt_float_env kept)
{
    fesetenv(&kept);
}
#endif

#endif
