#include "support/unit.h"

#include <string.h>

#include "wire/lane_limits.h"

static void one_number_is_for_all_distances_and_names_override_it(void **state)
{
    struct tt_lane_limits l;
    size_t at;

    (void)state;
    assert_true(tt_lane_limits_parse(&l, "65536", &at));
    for (int d = 0; d < TT_DISTANCES; d++)
        assert_int_equal(l.bytes[d], 65536);
    assert_true(tt_lane_limits_parse(&l, "wan=1073741824", &at));
    assert_int_equal(l.bytes[TT_NEAR_WAN], 1073741824);
    assert_int_equal(l.bytes[TT_NEAR_RACK], tt_lane_limits_default.bytes[TT_NEAR_RACK]);
    assert_true(tt_lane_limits_parse(&l, "1000000,rack=2000000,host=3000000", &at));
    assert_int_equal(l.bytes[TT_NEAR_RACK], 2000000);
    assert_int_equal(l.bytes[TT_NEAR_HOST], 3000000);
    assert_int_equal(l.bytes[TT_NEAR_WAN], 1000000);
    assert_true(tt_lane_limits_parse(&l, "", &at));
    assert_memory_equal(&l, &tt_lane_limits_default, sizeof l);
}

static void what_is_no_limit_is_refused_where_it_stands(void **state)
{
    static const struct {
        const char *text;
        size_t at;
    } cases[] = { { "x", 0 },
                  { "65535", 0 },
                  { "1073741825", 0 },
                  { "-1", 0 },
                  { "+70000", 0 },
                  { "70000,", 99 },
                  { "70000,rack", 6 },
                  { "rack=", 0 },
                  { "shelf=70000", 0 },
                  { "self=70000", 0 },
                  { "rack=70000x", 0 },
                  { "70000,,70000", 6 },
                  { ",", 0 },
                  { "rack=70000,wan= 70000", 11 },
                  { "99999999999999999999999", 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_lane_limits l = tt_lane_limits_default;
        size_t at = 99;

        if (tt_lane_limits_parse(&l, cases[i].text, &at) != (cases[i].at == 99) || at != cases[i].at)
            fail_msg("\"%s\": %zu", cases[i].text, at);
        if (cases[i].at != 99)
            assert_memory_equal(&l, &tt_lane_limits_default, sizeof l);
    }
}

static void what_is_farther_may_have_more_outstanding(void **state)
{
    (void)state;
    for (int d = 1; d < TT_DISTANCES; d++) {
        assert_true(tt_lane_limits_default.bytes[d] >= tt_lane_limits_default.bytes[d - 1]);
        assert_true(tt_lane_limits_default.bytes[d] >= TT_LANE_BYTES_MIN &&
                    tt_lane_limits_default.bytes[d] <= TT_LANE_BYTES_MAX);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_number_is_for_all_distances_and_names_override_it),
        cmocka_unit_test(what_is_no_limit_is_refused_where_it_stands),
        cmocka_unit_test(what_is_farther_may_have_more_outstanding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
