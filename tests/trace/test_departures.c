/* Departures from elastic runs: their causes are kept, and their number is bounded. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "trace/departures.h"

static struct tt_departure list[TT_DEPARTURES_MAX];

static void the_first_cause_is_kept(void **state)
{
    const uint64_t before_ns = tt_now_ns();
    uint64_t replaced_ns;

    (void)state;
    tt_departure_add(7, 1, 5, TT_DEPARTURE_DIED);
    tt_departure_add(7, 1, 5, TT_DEPARTURE_VIEW);
    tt_departure_add(8, 1, 2, TT_DEPARTURE_LEFT);        /* of another run */
    assert_int_equal(tt_departures_read(list), 2);
    assert_true(list[0].run == 7 && list[0].member == 1 && list[0].epoch == 5);
    assert_int_equal(list[0].why, TT_DEPARTURE_DIED);
    assert_int_equal(list[1].why, TT_DEPARTURE_LEFT);
    assert_true(list[0].at_ns >= before_ns && list[1].at_ns >= list[0].at_ns);
    assert_true(list[0].replaced_ns == 0 && list[1].replaced_ns == 0);
    tt_departures_replace(7, 6, NULL, 0);
    assert_int_equal(tt_departures_read(list), 2);
    replaced_ns = list[0].replaced_ns;
    assert_true(replaced_ns >= list[0].at_ns && list[1].replaced_ns == 0);
    tt_departures_replace(7, 7, NULL, 0);       /* a later view */
    assert_int_equal(tt_departures_read(list), 2);
    assert_true(list[0].replaced_ns == replaced_ns);
}

/* A member of an incomplete replica group leaves the view, returns with the same id, and dies. */
static void a_member_that_returned_can_die(void **state)
{
    static const uint64_t ids[] = { 20, 21 };
    uint32_t n;

    (void)state;
    tt_departure_add(9, 20, 5, TT_DEPARTURE_VIEW);
    tt_departures_replace(9, 6, ids + 1, 1);
    n = tt_departures_read(list);
    assert_true(list[n - 1].run == 9 && list[n - 1].replaced_ns > 0);
    tt_departures_replace(9, 8, ids, 2);
    assert_int_equal(tt_departures_read(list), n - 1);
    tt_departure_add(9, 20, 8, TT_DEPARTURE_DIED);
    tt_departure_add(9, 21, 9, TT_DEPARTURE_SILENT);
    tt_departures_replace(9, 9, ids, 2);        /* 21 is lost from this view */
    assert_int_equal(tt_departures_read(list), n);
    assert_int_equal(list[n - 1].why, TT_DEPARTURE_SILENT);
    /* without a view in between that this process has used */
    tt_departure_add(9, 22, 5, TT_DEPARTURE_VIEW);
    tt_departure_add(9, 22, 8, TT_DEPARTURE_DIED);
    tt_departure_add(9, 22, 8, TT_DEPARTURE_VIEW);
    assert_int_equal(tt_departures_read(list), n + 1);
    assert_true(list[n].member == 22 && list[n].epoch == 8 && list[n].replaced_ns == 0);
    assert_int_equal(list[n].why, TT_DEPARTURE_DIED);
}

static void the_oldest_are_dropped(void **state)
{
    (void)state;
    for (uint64_t id = 100; id < 100 + 2 * TT_DEPARTURES_MAX; id++)
        tt_departure_add(7, id, 6, TT_DEPARTURE_SILENT);
    assert_int_equal(tt_departures_read(list), TT_DEPARTURES_MAX);
    for (uint64_t i = 0; i < TT_DEPARTURES_MAX; i++)
        assert_true(list[i].member == 100 + TT_DEPARTURES_MAX + i);
    tt_departure_add(7, 100 + 2 * TT_DEPARTURES_MAX - 1, 6, TT_DEPARTURE_DIED);
    assert_int_equal(tt_departures_read(list), TT_DEPARTURES_MAX);
    assert_int_equal(list[TT_DEPARTURES_MAX - 1].why, TT_DEPARTURE_SILENT);
}

static void each_cause_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < TT_DEPARTURE_WHYS; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(tt_departure_why_name((enum tt_departure_why)i),
                                    tt_departure_why_name((enum tt_departure_why)k));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_cause_is_kept),
        cmocka_unit_test(a_member_that_returned_can_die),
        cmocka_unit_test(the_oldest_are_dropped),
        cmocka_unit_test(each_cause_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
