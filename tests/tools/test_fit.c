/* The fit of `tutti perf putsignal`: it finds the planted line and its errors, and refuses invalid
 * points. */
#include <math.h>

#include "../tools/fit.h"
#include "base/prng.h"
#include "support/unit.h"

/* -1 to 1 */
static double noise(struct tt_prng *p) { return (double)tt_prng_below(p, 2000001) * 1e-6 - 1; }

static void exact_points_give_their_line(void **state)
{
    const double x[] = { 4096, 16384, 65536, 262144, 1048576, 4194304 };
    double y[6];
    struct fit f;

    (void)state;
    for (int i = 0; i < 6; i++)
        y[i] = 123.5 + 0.0025 * x[i];
    for (size_t n = 2; n <= 6; n++) {
        assert_true(fit_line(x, y, n, &f));
        assert_true(fabs(f.alpha - 123.5) < 1e-6 && fabs(f.beta - 0.0025) < 1e-9);
        if (n == 2)
            assert_true(isnan(f.alpha_error) && isnan(f.beta_error));
        else
            assert_true(f.alpha_error < 1e-6 && f.beta_error < 1e-9);
    }
}

/* A tenth of noise on every point: an unweighted fit would find alpha only by chance, because the
 * largest points do not determine it. */
static void noisy_fit_is_within_its_errors(void **state)
{
    double x[60], y[60];
    struct tt_prng prng;
    int near = 0;
    struct fit f;

    (void)state;
    tt_prng_init(&prng, 5);
    for (int turn = 0; turn < 100; turn++) {
        for (int i = 0; i < 60; i++) {
            x[i] = 4096 * pow(4, i % 6);
            y[i] = (50 + 0.001 * x[i]) * (1 + 0.1 * noise(&prng));
        }
        assert_true(fit_line(x, y, 60, &f));
        if (fabs(f.alpha - 50) > 10 || fabs(f.beta - 0.001) > 1e-4)
            fail_msg("turn %d: alpha %g, beta %g", turn, f.alpha, f.beta);
        near += fabs(f.alpha - 50) < 2 * f.alpha_error + 0.5 &&
                fabs(f.beta - 0.001) < 2 * f.beta_error + 5e-6;
    }
    assert_true(near > 70);
}

static void invalid_points_are_refused(void **state)
{
    const double x[] = { 1, 2, 3 }, same[] = { 7, 7, 7 }, y[] = { 1, 2, 3 }, zero[] = { 1, 0, 3 },
                 none[] = { 1, NAN, 3 };
    struct fit f = { .alpha = -1 };

    (void)state;
    assert_false(fit_line(x, y, 0, &f));
    assert_false(fit_line(x, y, 1, &f));
    assert_false(fit_line(same, y, 3, &f));
    assert_false(fit_line(x, zero, 3, &f));
    assert_false(fit_line(x, none, 3, &f));
    assert_false(fit_line(none, y, 3, &f));
    assert_true(f.alpha == -1);         /* set on success only */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_points_give_their_line),
        cmocka_unit_test(noisy_fit_is_within_its_errors),
        cmocka_unit_test(invalid_points_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
