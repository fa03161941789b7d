#include "support/unit.h"

#include <string.h>

#include "wire/lane_limits.h"

static void named_limits_override_the_common(void **state)
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
    assert_true(l.user_set[TT_NEAR_WAN] && !l.user_set[TT_NEAR_RACK]);
    assert_true(tt_lane_limits_parse(&l, "1000000,rack=2000000,host=3000000", &at));
    assert_int_equal(l.bytes[TT_NEAR_RACK], 2000000);
    assert_int_equal(l.bytes[TT_NEAR_HOST], 3000000);
    assert_int_equal(l.bytes[TT_NEAR_WAN], 1000000);
    assert_true(tt_lane_limits_parse(&l, "", &at));
    assert_memory_equal(&l, &tt_lane_limits_default, sizeof l);
}

static void invalid_limits_are_refused_with_position(void **state)
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

        if (tt_lane_limits_parse(&l, cases[i].text, &at) != (cases[i].at == 99) ||
            at != cases[i].at)
            fail_msg("\"%s\": %zu", cases[i].text, at);
        if (cases[i].at != 99)
            assert_memory_equal(&l, &tt_lane_limits_default, sizeof l);
    }
}

static void distant_peers_may_have_more_outstanding(void **state)
{
    (void)state;
    for (int d = 1; d < TT_DISTANCES; d++) {
        assert_true(tt_lane_limits_default.bytes[d] >= tt_lane_limits_default.bytes[d - 1]);
        assert_true(tt_lane_limits_default.bytes[d] >= TT_LANE_BYTES_MIN &&
                    tt_lane_limits_default.bytes[d] <= TT_LANE_BYTES_MAX);
    }
}

/* Limits of queue pairs depend on the distance, and on the link as far as known; settings of the
 * user take precedence. */
static void queue_pairs_hold_twice_the_link(void **state)
{
    struct tt_topo_link links[TT_DISTANCES] = { 0 };
    struct tt_lane_limits user_set;
    size_t at;

    (void)state;
    links[TT_NEAR_RACK] = (struct tt_topo_link){ .latency_ns = 2000, .bytes_per_s = 50e9 };
    links[TT_NEAR_FABRIC] = (struct tt_topo_link){ .latency_ns = 100000 };
    links[TT_NEAR_WAN] = (struct tt_topo_link){ .latency_ns = 10000000, .bytes_per_s = 1e9 };
    assert_true(tt_lane_limits_parse(&user_set, "rack=1000000,wan=65536", &at));
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        const uint32_t lanes = tt_dqplb_lane_count(d);
        const struct tt_dqplb_limits suit = tt_dqplb_limits_of(d, lanes, 256, 0, 0),
                                     bare = tt_lane_limits_queues(&tt_lane_limits_default, d, lanes,
                                                                  256, NULL, 1),
                                     known = tt_lane_limits_queues(&tt_lane_limits_default, d,
                                                                   lanes, 256, links, 2),
                                     said =
                                         tt_lane_limits_queues(&user_set, d, lanes, 256, links, 2);

        assert_true(bare.lane_bytes == suit.lane_bytes && bare.segment_bytes == suit.segment_bytes);
        assert_int_equal(said.lane_bytes, d == TT_NEAR_RACK  ? 1000000
                                          : d == TT_NEAR_WAN ? 65536
                                                             : known.lane_bytes);
        assert_true(said.segment_bytes <= said.lane_bytes);     /* an empty lane always accepts a
                                                                   segment */
        if (d == TT_NEAR_FABRIC) /* the rate of two rails */
            assert_in_range(lanes * known.lane_bytes, 40000000,
                            40000000 + lanes * known.segment_bytes);
        else if (d == TT_NEAR_WAN) /* the path is slower */
            assert_int_equal(known.lane_bytes, suit.lane_bytes);
        else if (d == TT_NEAR_SOCKET) /* through the NIC: 800,000 bytes on one lane */
            assert_in_range(known.lane_bytes, 800000, 800000 + 65536);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_limits_override_the_common),
        cmocka_unit_test(invalid_limits_are_refused_with_position),
        cmocka_unit_test(distant_peers_may_have_more_outstanding),
        cmocka_unit_test(queue_pairs_hold_twice_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
