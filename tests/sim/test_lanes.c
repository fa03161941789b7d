/* What bounds on lanes do, in simulated time: results are numbers of the model, the same on every machine. */
#include "support/unit.h"

#include <math.h>
#include "sim/lanes.h"
#include "wire/lane_limits.h"
#include "wire/verbs_frame.h"

/* One sender, 16 lanes on 16 ways, which carry together what its NIC does. */
static struct tt_lanes_case one_sender(enum tt_lanes_how how, uint32_t outstanding, double slow_share)
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

/* 64 senders behind a switch whose 16 uplinks carry a quarter of what they send. */
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

/* One message of one segment: the NIC's time, the way's, and the latency. */
static void one_segment_takes_what_it_must(void **state)
{
    struct tt_lanes_case c = one_sender(TT_LANES_DQPLB, 1, 1);

    (void)state;
    c.messages = 1;
    c.message_bytes = 100000;
    assert_true(fabs(run(c).seconds - (100000 / 50e9 + 100000 / (50e9 / 16) + 5e-6)) < 1e-9);
}

static void a_slow_way_among_16_carries_its_part_and_holds_up_nobody(void **state)
{
    (void)state;
    for (double slow = 1; slow >= 0.25; slow /= 2) {
        const double dealt = run(one_sender(TT_LANES_DQPLB, 4, slow)).share,
                     striped = run(one_sender(TT_LANES_STATIC, 0, slow)).share;

        assert_true(dealt >= 0.95 && dealt <= 1);
        assert_true(slow == 1 || dealt >= 1.5 * striped);
    }
}

static void bounds_keep_queues_short_at_an_oversubscribed_switch(void **state)
{
    const struct tt_lanes_result all = run(rack(TT_LANES_UNLIMITED, 0)), some = run(rack(TT_LANES_DQPLB, 4)),
                                 more = run(rack(TT_LANES_DQPLB, 8));

    (void)state;
    assert_true(some.share >= 0.97 * all.share);
    assert_true(some.queue_mean * 10 <= all.queue_mean && some.queue_most * 10 <= all.queue_most);
    assert_true(more.queue_mean > some.queue_mean);
}

/* At the limits that the wire verbs has for the distance, where nobody tells the link, and where a description does. */
static void limits_of_the_wire_hold_what_lanes_are_for(void **state)
{
    struct tt_topo_link links[TT_DISTANCES] = {
        [TT_NEAR_RACK] = { .latency_ns = 20000, .bytes_per_s = 50e9 }, [TT_NEAR_FABRIC] = { .latency_ns = 30000 }
    };

    (void)state;
    for (int told = 0; told < 2; told++) {
        struct tt_lanes_case dealt = one_sender(TT_LANES_DQPLB, 1, 0.5), few = rack(TT_LANES_DQPLB, 1);
        const struct tt_lanes_result all = run(rack(TT_LANES_UNLIMITED, 0));
        struct tt_lanes_result some;

        dealt.limits =
            tt_lane_limits_queues(&tt_lane_limits_default, TT_NEAR_FABRIC, 16, TT_VERBS_WINDOW, told ? links : NULL, 1);
        dealt.latency_ns = 30000;
        for (; dealt.slow_share >= 0.25; dealt.slow_share /= 2) {
            struct tt_lanes_case striped = dealt;

            striped.how = TT_LANES_STATIC;
            assert_true(run(dealt).share >= 0.95 && run(dealt).share >= 1.5 * run(striped).share);
        }
        few.limits =
            tt_lane_limits_queues(&tt_lane_limits_default, TT_NEAR_RACK, 2, TT_VERBS_WINDOW, told ? links : NULL, 1);
        few.latency_ns = 20000;
        some = run(few);
        assert_true(some.share >= 0.97 * all.share);
        assert_true(some.queue_mean * 10 <= all.queue_mean && some.queue_most * 10 <= all.queue_most);
    }
}

/* Too tight a bound cannot fill a long link. */
static void bounds_below_what_the_link_holds_cost_throughput(void **state)
{
    struct tt_lanes_case c = one_sender(TT_LANES_DQPLB, 1, 1);

    (void)state;
    c.latency_ns = 500000;
    assert_true(run(c).share < 0.1);
    c.limits.outstanding = 32;
    c.limits.window = tt_dqplb_window_of(16, 32);
    assert_true(run(c).share > 0.9);
}

/* A slow lane that may have far more than it carries takes its turn as all others, but is not the emptiest. */
static void where_bounds_are_wide_the_emptiest_lane_is_better_than_the_next(void **state)
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
        cmocka_unit_test(one_segment_takes_what_it_must),
        cmocka_unit_test(a_slow_way_among_16_carries_its_part_and_holds_up_nobody),
        cmocka_unit_test(bounds_keep_queues_short_at_an_oversubscribed_switch),
        cmocka_unit_test(limits_of_the_wire_hold_what_lanes_are_for),
        cmocka_unit_test(bounds_below_what_the_link_holds_cost_throughput),
        cmocka_unit_test(where_bounds_are_wide_the_emptiest_lane_is_better_than_the_next),
        cmocka_unit_test(cases_without_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
