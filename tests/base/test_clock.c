#include "base/clock.h"
#include "support/unit.h"

static void time_never_decreases(void **state)
{
    uint64_t last = tt_now_ns();

    (void)state;
    for (int i = 0; i < 100000; i++) {
        const uint64_t now = tt_now_ns();

        assert_true(now >= last);
        last = now;
    }
}

static void a_deadline_lies_the_timeout_ahead(void **state)
{
    (void)state;
    assert_int_equal(tt_deadline_ns(7, 0), 7);
    assert_int_equal(tt_deadline_ns(7, 3), 7 + 3 * TT_MS);
    assert_int_equal(tt_deadline_ns(0, 1000), TT_SECOND);
}

static void negative_timeout_never_expires(void **state)
{
    (void)state;
    assert_true(tt_deadline_ns(0, -1) == TT_NEVER);
    assert_true(tt_deadline_ns(5 * TT_SECOND, INT64_MIN) == TT_NEVER);
}

static void deadlines_saturate_at_the_maximum(void **state)
{
    (void)state;
    assert_true(tt_deadline_ns(0, INT64_MAX) == TT_NEVER);
    assert_true(tt_deadline_ns(TT_NEVER - TT_MS + 1, 1) == TT_NEVER);
    assert_true(tt_deadline_ns(TT_NEVER, 0) == TT_NEVER);
    assert_true(tt_deadline_ns(TT_NEVER - TT_MS - 1, 1) == TT_NEVER - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_never_decreases),
        cmocka_unit_test(a_deadline_lies_the_timeout_ahead),
        cmocka_unit_test(negative_timeout_never_expires),
        cmocka_unit_test(deadlines_saturate_at_the_maximum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
