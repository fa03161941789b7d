/* Reductions in programs that change the floating-point environment of a PE: results are those of
 * the default environment, no trap ends a PE, and the environment is unchanged at return. */
#include <complex.h>
#include <fenv.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include "expect.h"

#define N 6

static int npes;
static long pSync[SHMEM_REDUCE_SYNC_SIZE];
static float f32[N];
static double f64[N];
static long double ld[N];
static float _Complex cf[N];
static double _Complex cd[N];

/* The outputs of all reductions. */
static struct results {
    float f32_sum[N], f32_max[N];
    double f64_sum[N], f64_min[N];
    long double ld_sum[N], ld_prod[N], ld_max[N];
    float _Complex cf_sum[N];
    double _Complex cd_sum[N], cd_prod[N];
    float set_sum[N];
    double set_prod[N];
} now, expected;

/* Sums are inexact. One element is denormal, one is a signalling NaN, one overflows. */
static void fill(int me)
{
    const uint32_t nan32 = 0x7fa00001;
    const uint64_t nan64 = 0x7ff4000000000001;

    for (int i = 0; i < N; i++) {
        f64[i] = 1.0 / (3 + i + me);
        f32[i] = (float)f64[i];
        ld[i] = 1.0L / (3 + i + me);
        cd[i] = f64[i] + I * (0.1 + me);
        cf[i] = (float _Complex)cd[i];
    }
    f32[1] = 1e-40f;
    f64[1] = 1e-310;
    cf[1] = 1e-40f;
    cd[1] = 1e-310;
    ld[1] = 1e-4940L;
    memcpy(&f32[2], &nan32, sizeof nan32);
    memcpy(&f64[2], &nan64, sizeof nan64);
    ld[2] = __builtin_nansl("");
    cd[3] = 1.7e308;
    ld[3] = 1.1e4932L;
}

static void reduce(void)
{
    const shmem_team_t team = SHMEM_TEAM_WORLD;

    EXPECT(shmem_float_sum_reduce(team, now.f32_sum, f32, N) == 0);
    EXPECT(shmem_float_max_reduce(team, now.f32_max, f32, N) == 0);
    EXPECT(shmem_double_sum_reduce(team, now.f64_sum, f64, N) == 0);
    EXPECT(shmem_double_min_reduce(team, now.f64_min, f64, N) == 0);
    EXPECT(shmem_longdouble_sum_reduce(team, now.ld_sum, ld, N) == 0);
    EXPECT(shmem_longdouble_prod_reduce(team, now.ld_prod, ld, N) == 0);
    EXPECT(shmem_longdouble_max_reduce(team, now.ld_max, ld, N) == 0);
    EXPECT(shmem_complexf_sum_reduce(team, now.cf_sum, cf, N) == 0);
    EXPECT(shmem_complexd_sum_reduce(team, now.cd_sum, cd, N) == 0);
    EXPECT(shmem_complexd_prod_reduce(team, now.cd_prod, cd, N) == 0);
    if (shmem_my_pe() < npes - 1) {         /* an active set without the last PE */
        shmem_float_sum_to_all(now.set_sum, f32, N, 0, 0, npes - 1, NULL, pSync);
        shmem_double_prod_to_all(now.set_prod, f64, N, 0, 0, npes - 1, NULL, pSync);
    }
}

static bool same_bits(const long double *a, const long double *b)
{
    const size_t bytes = __LDBL_MANT_DIG__ == 64 ? 10 : sizeof *a;

    for (size_t i = 0; i < N; i++)
        if (memcmp(a + i, b + i, bytes) != 0)
            return false;
    return true;
}

static void compare(void)
{
    EXPECT(memcmp(now.f32_sum, expected.f32_sum, sizeof now.f32_sum) == 0);
    EXPECT(memcmp(now.f32_max, expected.f32_max, sizeof now.f32_max) == 0);
    EXPECT(memcmp(now.f64_sum, expected.f64_sum, sizeof now.f64_sum) == 0);
    EXPECT(memcmp(now.f64_min, expected.f64_min, sizeof now.f64_min) == 0);
    EXPECT(same_bits(now.ld_sum, expected.ld_sum));
    EXPECT(same_bits(now.ld_prod, expected.ld_prod));
    EXPECT(same_bits(now.ld_max, expected.ld_max));
    EXPECT(memcmp(now.cf_sum, expected.cf_sum, sizeof now.cf_sum) == 0);
    EXPECT(memcmp(now.cd_sum, expected.cd_sum, sizeof now.cd_sum) == 0);
    EXPECT(memcmp(now.cd_prod, expected.cd_prod, sizeof now.cd_prod) == 0);
    EXPECT(memcmp(now.set_sum, expected.set_sum, sizeof now.set_sum) == 0);
    EXPECT(memcmp(now.set_prod, expected.set_prod, sizeof now.set_prod) == 0);
}

static void check_setting(int rounding, int traps, bool flushes)
{
    feclearexcept(FE_ALL_EXCEPT);
    fesetround(rounding);
    feenableexcept(traps);
#if defined(__x86_64__)
    if (flushes)
        _mm_setcsr(_mm_getcsr() | 0x8040);
    const unsigned control = _mm_getcsr();
#else
    (void)flushes;
#endif
    memset(&now, 0, sizeof now);
    reduce();
    EXPECT(fegetround() == rounding && fegetexcept() == traps);
    EXPECT(fetestexcept(FE_ALL_EXCEPT) == 0);
#if defined(__x86_64__)
    EXPECT(_mm_getcsr() == control);
#endif
    fesetenv(FE_DFL_ENV);
    compare();
}

int main(void)
{
    shmem_init();
    npes = shmem_n_pes();
    fill(shmem_my_pe());
    reduce();
    expected = now;
    check_setting(FE_TONEAREST, 0, true);
    check_setting(FE_UPWARD, 0, false);
    check_setting(FE_DOWNWARD, 0, false);
    check_setting(FE_TOWARDZERO, 0, true);
    check_setting(FE_TONEAREST, FE_ALL_EXCEPT, false);
    shmem_finalize();
    return 0;
}
