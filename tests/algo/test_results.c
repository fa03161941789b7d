/* Every algorithm, run on real memory and compared with the definition of its collective. */
#include "support/cases.h"
#include "interpreter.h"
#include "support/unit.h"

static struct manner how;

static void run(const struct case_spec *spec, const struct case_calls *calls)
{
    char why[256] = "";

    how.seed = spec->seed;
    if (unit_draw() && !interpret(spec, calls, NULL, &how, why, sizeof why))
        case_fail(spec, "%s (bytes move %d, window of %u rounds)", why, how.moves, how.window);
}

static void run_all(enum moves moves, uint32_t window, uint64_t seed)
{
    static const uint64_t counts[] = { 0, 1, 7, 40 };

    how = (struct manner){ .moves = moves, .window = window };
    assert_in_range(case_for_each(9, counts, 4, seed, run), 1000, 1000000);
}

static void results_hold_in_any_step_order(void **state)
{
    (void)state;
    run_all(AT_ONCE, UINT32_MAX / 2, 1);
}

static void results_hold_with_late_puts(void **state)
{
    (void)state;
    run_all(AT_WAIT, UINT32_MAX / 2, 2);
}

static void results_hold_with_early_puts(void **state)
{
    (void)state;
    run_all(LANDING, UINT32_MAX / 2, 3);
}

static void one_round_at_a_time_suffices(void **state)
{
    (void)state;
    run_all(AT_WAIT, 1, 4);
    run_all(LANDING, 1, 5);
}

static void large_cases(const struct case_spec *spec, const struct case_calls *calls)
{
    if (spec->nranks >= 10 || spec->nranks == 3)
        run(spec, calls);
}

static void many_ranks_and_long_vectors_work(void **state)
{
    static const uint64_t counts[] = { 501 };

    (void)state;
    how = (struct manner){ .moves = LANDING, .window = 2 };
    assert_in_range(case_for_each(17, counts, 1, 6, large_cases), 1000, 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_hold_in_any_step_order),
        cmocka_unit_test(results_hold_with_late_puts),
        cmocka_unit_test(results_hold_with_early_puts),
        cmocka_unit_test(one_round_at_a_time_suffices),
        cmocka_unit_test(many_ranks_and_long_vectors_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
