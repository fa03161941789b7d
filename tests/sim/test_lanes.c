/* The effect of lane limits, in simulated time: results are numbers of the model, equal on every
 * machine. */
#include "support/unit.h"

#include <math.h>
#include "sim/lanes.h"
#include "wire/lane_limits.h"
#include "wire/verbs/verbs_frame.h"

/* One sender, with 16 lanes on 16 paths, whose total rate is that of its NIC. */
static struct tt_lanes_case one_sender(enum tt_lanes_how how, uint32_t outstanding,
                                       double slow_share)
{
    return (struct tt_lanes_case){
        .how = how,
        .limits = { .lanes = 16,
                    .outstanding = outstanding,
                    .window = tt_dqplb_window_of(16, outstanding),
                    .segment_bytes = 128 << 10 },
        .senders = 1,
        .ways = 16,
        .slow_ways = 1,
        .slow_share = slow_share,
        .nic_bytes_per_s = 50e9,
        .way_bytes_per_s = 50e9 / 16,
        .latency_ns = 5000,
        .message_bytes = 16 << 20,
        .messages = 100,
        .depth = 4,
    };
}

/* 64 senders behind a switch whose 16 uplinks carry a quarter of their rate. */
static struct tt_lanes_case rack(enum tt_lanes_how how, uint32_t outstanding)
{
    struct tt_lanes_case c = one_sender(how, outstanding, 1);

    c.limits.lanes = 2;
    c.limits.window = tt_dqplb_window_of(2, outstanding);
    c.senders = 64;
    c.way_bytes_per_s = 50e9;
    c.messages = 10;
    return c;
}

static struct tt_lanes_result run(struct tt_lanes_case c)
{
    struct tt_lanes_result r;

    assert_true(tt_lanes_run(&c, &r));
    return r;
}

/* One message of one segment: the NIC's time, the path's, and the latency. */
static void single_segment_matches_the_formula(void **state)
{
    struct tt_lanes_case c = one_sender(TT_LANES_DQPLB, 1, 1);

    (void)state;
    c.messages = 1;
    c.message_bytes = 100000;
    assert_true(fabs(run(c).seconds - (100000 / 50e9 + 100000 / (50e9 / 16) + 5e-6)) < 1e-9);
}

static void slow_path_delays_no_other(void **state)
{
    (void)state;
    for (double slow = 1; slow >= 0.25; slow /= 2) {
        const double dealt = run(one_sender(TT_LANES_DQPLB, 4, slow)).share,
                     striped = run(one_sender(TT_LANES_STATIC, 0, slow)).share;

        assert_true(dealt >= 0.95 && dealt <= 1);
        assert_true(slow == 1 || dealt >= 1.5 * striped);
    }
}

static void limits_shorten_switch_queues(void **state)
{
    const struct tt_lanes_result all = run(rack(TT_LANES_UNLIMITED, 0)),
                                 some = run(rack(TT_LANES_DQPLB, 4)),
                                 more = run(rack(TT_LANES_DQPLB, 8));

    (void)state;
    assert_true(some.share >= 0.97 * all.share);
    assert_true(some.queue_mean * 10 <= all.queue_mean && some.queue_most * 10 <= all.queue_most);
    assert_true(more.queue_mean > some.queue_mean);
}

/* At the limits of the verbs transport for the distance, without and with a description of the
 * link. */
static void transport_limits_reach_their_goals(void **state)
{
    struct tt_topo_link links[TT_DISTANCES] = { [TT_NEAR_RACK] = { .latency_ns = 20000,
                                                                   .bytes_per_s = 50e9 },
                                                [TT_NEAR_FABRIC] = { .latency_ns = 30000 } };

    (void)state;
    for (int told = 0; told < 2; told++) {
        struct tt_lanes_case dealt = one_sender(TT_LANES_DQPLB, 1, 0.5),
                             few = rack(TT_LANES_DQPLB, 1);
        const struct tt_lanes_result all = run(rack(TT_LANES_UNLIMITED, 0));
        struct tt_lanes_result some;

        dealt.limits = tt_lane_limits_queues(&tt_lane_limits_default, TT_NEAR_FABRIC, 16,
                                             TT_VERBS_WINDOW, told ? links : NULL, 1);
        dealt.latency_ns = 30000;
        for (; dealt.slow_share >= 0.25; dealt.slow_share /= 2) {
            struct tt_lanes_case striped = dealt;

            striped.how = TT_LANES_STATIC;
            assert_true(run(dealt).share >= 0.95 && run(dealt).share >= 1.5 * run(striped).share);
        }
        few.limits = tt_lane_limits_queues(&tt_lane_limits_default, TT_NEAR_RACK, 2,
                                           TT_VERBS_WINDOW, told ? links : NULL, 1);
        few.latency_ns = 20000;
        some = run(few);
        assert_true(some.share >= 0.97 * all.share);
        assert_true(some.queue_mean * 10 <= all.queue_mean &&
                    some.queue_most * 10 <= all.queue_most);
    }
}

/* A limit that is too low cannot fill a long link. */
static void low_limits_cost_throughput(void **state)
{
    struct tt_lanes_case c = one_sender(TT_LANES_DQPLB, 1, 1);

    (void)state;
    c.latency_ns = 500000;
    assert_true(run(c).share < 0.1);
    c.limits.outstanding = 32;
    c.limits.window = tt_dqplb_window_of(16, 32);
    assert_true(run(c).share > 0.9);
}

/* A slow lane with far more outstanding data than it can carry is still selected round-robin, but
 * is not the emptiest. */
static void wide_limits_favour_emptiest_lane(void **state)
{
    struct tt_lanes_case c = one_sender(TT_LANES_DQPLB, 64, 0.5);

    (void)state;
    assert_true(run(c).share < 0.6);
    c.choice = TT_DQPLB_EMPTIEST;
    assert_true(run(c).share > 0.9);
}

static void cases_without_sense_are_refused(void **state)
{
    struct tt_lanes_case c = one_sender(TT_LANES_UNLIMITED, 1, 1);
    struct tt_lanes_result r;

    (void)state;
    c.limits.segment_bytes = 1024;      /* 64 Ki segments */
    assert_false(tt_lanes_run(&c, &r));
    c = one_sender(TT_LANES_DQPLB, 1, 1);
    c.slow_ways = 17;
    assert_false(tt_lanes_run(&c, &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_segment_matches_the_formula),
        cmocka_unit_test(slow_path_delays_no_other),
        cmocka_unit_test(limits_shorten_switch_queues),
        cmocka_unit_test(transport_limits_reach_their_goals),
        cmocka_unit_test(low_limits_cost_throughput),
        cmocka_unit_test(wide_limits_favour_emptiest_lane),
        cmocka_unit_test(cases_without_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
