/* The gradients of the training examples' model are correct: each equals the finite difference of
 * the loss, in double precision. */
#define CHARMODEL_REAL double
#include "../../examples/train/charmodel.c"     /* as in the examples, except for its number type */

#include "support/unit.h"

#define DELTA 1e-5

/* Creates a pseudo-random text of forty symbols. */
static struct text some_text(uint8_t room[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        room[i] = (uint8_t)(mix(i) % 40);
    return (struct text){ .symbol = room, .n = n, .nsymbols = 40 };
}

static double loss_with(real *param, size_t i, double change, const struct text *t,
                        const struct batch *b, real *scratch)
{
    const double before = param[i];
    double loss;

    param[i] = before + change;
    loss = model_gradient(param, t, b, scratch);
    param[i] = before;
    return loss;
}

static void gradients_match_finite_differences(void **state)
{
    uint8_t room[500];
    const struct text t = some_text(room, sizeof room);
    const struct batch b = { .seed = 3, .step = 5, .first = 7, .count = 4 };
    const size_t n = model_size(t.nsymbols);
    real *param = malloc(n * sizeof *param), *gradient = calloc(n, sizeof *gradient),
         *scratch = calloc(n, sizeof *scratch);
    size_t nonzero = 0;

    (void)state;
    assert_true(param && gradient && scratch);
    model_draw(param, t.nsymbols, 9);
    model_gradient(param, &t, &b, gradient);
    for (size_t i = 0; i < n; i++) {
        const double rises = loss_with(param, i, DELTA, &t, &b, scratch),
                     falls = loss_with(param, i, -DELTA, &t, &b, scratch);
        const double slope = (rises - falls) / (2 * DELTA);

        if (fabs(slope - gradient[i]) > 1e-6 * (1 + fabs(slope)))
            fail_msg("parameter %zu of %zu: the loss changes by %.9g, its gradient is %.9g", i, n,
                     slope, gradient[i]);
        nonzero += fabs(gradient[i]) > 1e-9;
    }
    assert_true(nonzero > n / 3);
    free(param);
    free(gradient);
    free(scratch);
}

/* The gradients of the parts of a batch add up to its gradient, so any number of workers can
 * divide it. */
static void partial_gradients_sum_up(void **state)
{
    uint8_t room[500];
    const struct text t = some_text(room, sizeof room);
    const size_t n = model_size(t.nsymbols);
    real *param = malloc(n * sizeof *param), *whole = calloc(n, sizeof *whole),
         *parts = calloc(n, sizeof *parts);
    struct batch b = { .seed = 1, .step = 2, .first = 0, .count = 10 };
    double loss, sum = 0;

    (void)state;
    assert_true(param && whole && parts);
    model_draw(param, t.nsymbols, 1);
    loss = model_gradient(param, &t, &b, whole);
    for (b.first = 0; b.first < 10; b.first += b.count) {
        b.count = b.first == 0 ? 3 : 7;
        sum += model_gradient(param, &t, &b, parts);
    }
    assert_true(fabs(loss - sum) < 1e-9 * loss);
    for (size_t i = 0; i < n; i++)
        assert_true(fabs(whole[i] - parts[i]) < 1e-9 * (1 + fabs(whole[i])));
    free(param);
    free(whole);
    free(parts);
}

static void initial_loss_matches_guessing(void **state)
{
    uint8_t room[500];
    const struct text t = some_text(room, sizeof room);
    const size_t n = model_size(t.nsymbols);
    real *param = malloc(n * sizeof *param), *gradient = calloc(n, sizeof *gradient);
    const struct batch b = { .count = 100 };

    (void)state;
    assert_true(param && gradient);
    model_draw(param, t.nsymbols, 1);
    assert_true(fabs(model_gradient(param, &t, &b, gradient) / 100 - log(40)) < 0.3);
    free(param);
    free(gradient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(partial_gradients_sum_up),
        cmocka_unit_test(initial_loss_matches_guessing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
