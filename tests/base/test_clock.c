#include "base/clock.h"
#include "support/unit.h"

static void time_never_goes_back(void **state)
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

static void a_negative_timeout_never_comes(void **state)
{
    (void)state;
    assert_true(tt_deadline_ns(0, -1) == TT_NEVER);
    assert_true(tt_deadline_ns(5 * TT_SECOND, INT64_MIN) == TT_NEVER);
}

static void a_deadline_beyond_the_end_of_time_saturates(void **state)
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
        cmocka_unit_test(time_never_goes_back),
        cmocka_unit_test(a_deadline_lies_the_timeout_ahead),
        cmocka_unit_test(a_negative_timeout_never_comes),
        cmocka_unit_test(a_deadline_beyond_the_end_of_time_saturates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
