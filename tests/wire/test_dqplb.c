/* DQPLB: random orders of lane events, and all orders for small windows; distribution over lanes;
 * limits; invalid words and reports. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include "base/prng.h"
#include "dqplb_walk.h"

#define SEEDS 6000

static void random_orders_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *wrong = unit_draw() ? walk_drawn(seed) : NULL;

        if (wrong)
            fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    }
}

static void all_orders_of_small_windows_work(void **state)
{
    static const struct walk_case cases[] = {
        { .limits = { 2, 1, 2, 10, 0 }, .nmessages = 3, .segments = { 2, 1, 2 }, .failures = 1 },
        { .limits = { 2, 2, 4, 10, 0 },
          .first = TT_DQPLB_SEQ_MASK - 1,
          .nmessages = 2,
          .segments = { 3, 2 },
          .failures = 1 },
        { .limits = { 2, 1, 4, 10, 0 },
          .nmessages = 4,
          .segments = { 1, 2, 1, 1 },
          .fast = { true, false, true, true },
          .failures = 2 },
        { .limits = { 3, 1, 4, 10, 0 },
          .first = TT_DQPLB_SEQ_MASK,
          .nmessages = 3,
          .segments = { 2, 1, 1 },
          .failures = 1 },
        { .limits = { 1, 3, 4, 10, 0 }, .nmessages = 3, .segments = { 2, 3, 1 }, .failures = 2 },
        { .limits = { 2, 1, 4, 10, 0 },
          .nmessages = 3,
          .segments = { 2, 1, 2 },
          .fast = { false, true, false },
          .keeps_to = { 2, 2, 1 },
          .failures = 1 },
        { .limits = { 2, 3, 4, 10, 0 },
          .choice = TT_DQPLB_EMPTIEST,
          .lane_bytes = 19,
          .nmessages = 2,
          .segments = { 3, 2 },
          .failures = 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t states;
        const char *wrong;

        if (!unit_has_turn(i, 4))
            continue;
        wrong = walk_all(&cases[i], &states);
        if (wrong)
            fail_msg("case %zu: %s", i, wrong);
        assert_true(states > 1000);
        print_message("case %zu: %llu states\n", i, (unsigned long long)states);
    }
}

/* Equal lanes get equal shares, in turn; a blocked lane is filled, and the other lanes get the
 * rest. */
static void segments_alternate_and_skip_full_lanes(void **state)
{
    const struct tt_dqplb_limits limits = {
        .lanes = 4, .outstanding = 2, .window = 256, .segment_bytes = 100
    };
    struct tt_dqplb_segment segment[256], g;
    struct tt_dqplb_sender s;
    uint32_t sent[4] = { 0 };

    (void)state;
    tt_dqplb_sender_init(&s, &limits, 0, segment);
    assert_true(tt_dqplb_begin(&s, 7, 20000, false));
    assert_false(tt_dqplb_begin(&s, 8, 1, false));
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(tt_dqplb_next(&s, &g));
        assert_int_equal(g.lane, i % 4);
        assert_int_equal(g.offset, 100 * i);
        assert_int_equal(g.word, i);
    }
    assert_false(tt_dqplb_next(&s, &g));
    for (uint32_t i = 0; i < 100; i++) {
        const uint32_t lane = i % 3;        /* the fourth lane is blocked */

        assert_true(tt_dqplb_completed(&s, lane, 1));
        assert_true(tt_dqplb_next(&s, &g));
        assert_int_equal(g.lane, lane);
        sent[lane]++;
    }
    assert_true(sent[0] == 34 && sent[1] == 33 && sent[2] == 33);
    assert_false(tt_dqplb_completed(&s, 3, 3));
}

static void fast_message_uses_lane_0(void **state)
{
    const struct tt_dqplb_limits limits = {
        .lanes = 4, .outstanding = 1, .window = 64, .segment_bytes = 100
    };
    struct tt_dqplb_segment segment[64], g;
    struct tt_dqplb_sender s;

    (void)state;
    tt_dqplb_sender_init(&s, &limits, TT_DQPLB_SEQ_MASK, segment);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(tt_dqplb_begin(&s, i, i == 2 ? 101 : 8, i != 0));
        assert_true(tt_dqplb_next(&s, &g));
        assert_true(i == 2 || g.last);
        if (i == 0)
            assert_true(g.lane == 0 && g.word == (TT_DQPLB_NOTIFY | TT_DQPLB_SEQ_MASK) &&
                        tt_dqplb_completed(&s, 0, 1));
        if (i == 1)
            assert_true(g.lane == 0 && g.word == (TT_DQPLB_NOTIFY | TT_DQPLB_FAST));
        if (i == 2)         /* too long for a fast message */
            assert_true(g.lane == 1 && g.word == 1);
    }
    assert_true(tt_dqplb_next(&s, &g));
    assert_true(tt_dqplb_begin(&s, 3, 8, true));
    /* lane 0 is full */
    assert_true(tt_dqplb_next(&s, &g) && g.lane == 3 && g.word == (TT_DQPLB_NOTIFY | 3));
}

/* A message with a lane limit uses only that number of lanes, not counting those that are down; the
 * next message uses all. */
static void message_respects_its_lane_limit(void **state)
{
    const struct tt_dqplb_limits limits = {
        .lanes = 4, .outstanding = 2, .window = 64, .segment_bytes = 100
    };
    static const uint32_t expected[] = { 0, 1, 0, 1 }, without_0[] = { 1, 2, 1, 2 };
    struct tt_dqplb_segment segment[64], g;
    struct tt_dqplb_sender s;

    (void)state;
    for (int down = 0; down < 2; down++) {
        tt_dqplb_sender_init(&s, &limits, 0, segment);
        if (down)
            tt_dqplb_lane_down(&s, 0);
        assert_true(tt_dqplb_begin(&s, 0, 500, false));
        tt_dqplb_keep_within(&s, 2);
        for (int i = 0; i < 4; i++)
            assert_true(tt_dqplb_next(&s, &g) && g.lane == (down ? without_0 : expected)[i]);
        assert_false(tt_dqplb_next(&s, &g));        /* the others are empty */
        assert_true(tt_dqplb_completed(&s, 1, 1));
        assert_true(tt_dqplb_next(&s, &g) && g.lane == 1 && g.last);
        assert_true(tt_dqplb_begin(&s, 1, 100, false));
        assert_true(tt_dqplb_next(&s, &g) && g.lane == (down ? 3 : 2));
    }
}

/* For any limit and any lanes that are down or reserved: if a usable lane has space, one is
 * selected. */
static void lane_limit_leaves_a_usable_lane(void **state)
{
    struct tt_dqplb_lanes l;

    (void)state;
    for (uint32_t down = 0; down < 16; down++)
        for (uint32_t most = 0; most <= 5; most++)
            for (uint32_t turn = 0; turn < 4; turn++)
                for (int keeps = 0; keeps < 2; keeps++) {
                    const uint32_t usable = ~down & (keeps ? 14u : 15u);
                    uint32_t lane;

                    tt_dqplb_lanes_init(&l, 4, 1);
                    for (uint32_t i = 0; i < 4; i++)
                        if (down >> i & 1)
                            tt_dqplb_lanes_down(&l, i);
                    for (uint32_t i = 0; i < 4; i++)
                        l.turn[i] = (uint8_t)(turn < i ? turn : i);
                    l.keeps_first = keeps;
                    l.choice = most % 2 ? TT_DQPLB_IN_TURN : TT_DQPLB_EMPTIEST;
                    lane = tt_dqplb_lanes_choose(&l, 10, most);
                    assert_int_equal(lane == TT_DQPLB_NO_LANE, usable == 0);
                    if (usable) {
                        assert_true(usable >> lane & 1);
                        assert_true(most == 0 || (uint32_t)__builtin_popcount(
                                                     usable & ((1u << lane) - 1)) < most);
                    }
                }
}

/* Messages with and without lane limits in any order: for each limit, they are distributed evenly
 * over all permitted lanes. */
static void lane_limits_do_not_affect_others(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint32_t dealt[TT_DQPLB_LANES_MAX + 1][TT_DQPLB_LANES_MAX] = { 0 };
        struct tt_dqplb_lanes l;
        struct tt_prng p;
        uint32_t n, lane;

        if (!unit_draw())
            continue;
        tt_prng_init(&p, seed);
        n = 1 + (uint32_t)tt_prng_below(&p, TT_DQPLB_LANES_MAX);
        tt_dqplb_lanes_init(&l, n, UINT32_MAX);
        for (uint32_t i = 0; i < 200; i++) {
            const uint32_t most = tt_prng_below(&p, 2) ? 0 : 1 + (uint32_t)tt_prng_below(&p, n),
                           end = most ? most : n;
            uint32_t least = UINT32_MAX, greatest = 0;

            lane = tt_dqplb_lanes_choose(&l, 10, most);
            assert_true(lane < end);
            dealt[end][lane]++;
            for (uint32_t k = 0; k < end; k++) {
                least = dealt[end][k] < least ? dealt[end][k] : least;
                greatest = dealt[end][k] > greatest ? dealt[end][k] : greatest;
            }
            if (greatest - least > 1)
                fail_msg("seed %llu: of those that may take %u of %u lanes, one has carried %u and "
                         "another %u",
                         (unsigned long long)seed, end, n, greatest, least);
        }
    }
}

static void message_waits_for_its_reserved_lane(void **state)
{
    const struct tt_dqplb_limits limits = {
        .lanes = 4, .outstanding = 2, .window = 64, .segment_bytes = 100
    };
    struct tt_dqplb_segment segment[64], g;
    struct tt_dqplb_sender s;

    (void)state;
    tt_dqplb_sender_init(&s, &limits, 0, segment);
    assert_true(tt_dqplb_begin(&s, 0, 400, false));
    tt_dqplb_keep_to(&s, 2);
    assert_true(tt_dqplb_next(&s, &g) && g.lane == 2);
    assert_true(tt_dqplb_next(&s, &g) && g.lane == 2);
    assert_false(tt_dqplb_next(&s, &g));        /* the others are empty */
    assert_true(tt_dqplb_completed(&s, 2, 1));
    assert_true(tt_dqplb_next(&s, &g) && g.lane == 2 && g.word == 2);
    tt_dqplb_lane_down(&s, 2);
    assert_true(tt_dqplb_next(&s, &g) && g.lane == 0 && g.last);
    assert_true(tt_dqplb_begin(&s, 1, 8, true));
    tt_dqplb_keep_to(&s, 3);
    /* the fast message uses only lane 0 */
    assert_true(tt_dqplb_next(&s, &g) && g.lane == 3 && g.word == (TT_DQPLB_NOTIFY | 4));
    assert_true(tt_dqplb_begin(&s, 2, 8, false));       /* no lane reserved again */
    assert_true(tt_dqplb_next(&s, &g) && g.lane == 1);
}

/* Sizes differ, and the lane with the fewest bytes is next, not the lane with the fewest segments.
 * Byte limits hold, except for a single segment. */
static void emptiest_lane_is_next_if_requested(void **state)
{
    struct tt_dqplb_lanes l;

    (void)state;
    tt_dqplb_lanes_init(&l, 3, 4);
    l.choice = TT_DQPLB_EMPTIEST;
    l.bytes_max = 100;
    for (uint32_t i = 0; i < 3; i++) {      /* equal lanes: in turn */
        assert_int_equal(tt_dqplb_lanes_choose(&l, 50, 0), i);
        tt_dqplb_lanes_give(&l, i, 1, 50 - 10 * i);
    }
    assert_int_equal(tt_dqplb_lanes_choose(&l, 70, 0), 2);     /* the lanes have 50, 40, 30 bytes:
                                                                  it fits only there */
    assert_int_equal(tt_dqplb_lanes_choose(&l, 71, 0), TT_DQPLB_NO_LANE);
    tt_dqplb_lanes_give(&l, 2, 3, 5);
    assert_int_equal(tt_dqplb_lanes_choose(&l, 10, 0), 1);     /* lane 2 has fewer bytes, but the
                                                                  maximum number of segments */
    assert_true(tt_dqplb_lanes_done(&l, 0, 0, 30));         /* some of its bytes have completed */
    assert_int_equal(tt_dqplb_lanes_choose(&l, 10, 0), 0);
    l.keeps_first = true;
    assert_int_equal(tt_dqplb_lanes_choose(&l, 10, 0), 1);
    assert_true(tt_dqplb_lanes_has_room(&l, 0, 80) && !tt_dqplb_lanes_has_room(&l, 0, 81));
    assert_false(tt_dqplb_lanes_done(&l, 0, 2, 0) || tt_dqplb_lanes_done(&l, 0, 0, 21));
    tt_dqplb_lanes_down(&l, 1);
    assert_int_equal(tt_dqplb_lanes_choose(&l, 10, 0), TT_DQPLB_NO_LANE);
    tt_dqplb_lanes_up(&l, 1);
    assert_int_equal(tt_dqplb_lanes_choose(&l, 1000, 0), 1);   /* more than the limit, but the lane
                                                                  is empty */
}

static void lanes_fill_in_order_if_requested(void **state)
{
    struct tt_dqplb_lanes l;

    (void)state;
    tt_dqplb_lanes_init(&l, 4, 4);
    l.choice = TT_DQPLB_FILL;
    l.fill_bytes = 100;
    for (uint32_t i = 0; i < 8; i++) {      /* a lane takes more until it has 100 bytes */
        assert_int_equal(tt_dqplb_lanes_choose(&l, 60, 0), i / 2);
        tt_dqplb_lanes_give(&l, i / 2, 1, 60);
    }
    assert_true(tt_dqplb_lanes_done(&l, 2, 0, 10));
    assert_int_equal(tt_dqplb_lanes_choose(&l, 60, 0), 2);      /* all are full: the emptiest */
    assert_true(tt_dqplb_lanes_done(&l, 1, 1, 60));
    assert_true(tt_dqplb_lanes_done(&l, 0, 1, 60));
    assert_int_equal(tt_dqplb_lanes_choose(&l, 60, 0), 0);      /* the first of two equal lanes */
    l.keeps_first = true;
    assert_int_equal(tt_dqplb_lanes_choose(&l, 60, 0), 1);
    tt_dqplb_lanes_down(&l, 1);
    assert_int_equal(tt_dqplb_lanes_choose(&l, 60, 0), 2);
    assert_int_equal(tt_dqplb_lanes_choose(&l, 60, 1), 2);      /* the first that is up */
    tt_dqplb_lanes_give(&l, 2, 2, 0);       /* the maximum number of segments */
    assert_int_equal(tt_dqplb_lanes_choose(&l, 60, 0), 3);
    assert_int_equal(tt_dqplb_lanes_choose(&l, 60, 1), TT_DQPLB_NO_LANE);
}

static void limits_grow_with_distance_and_link(void **state)
{
    struct tt_dqplb_limits before = { 0 };

    (void)state;
    for (int d = TT_NEAR_SELF; d < TT_DISTANCES; d++) {
        const uint32_t lanes = tt_dqplb_lane_count(d);
        const struct tt_dqplb_limits l = tt_dqplb_limits_of(d, lanes, 256, 0, 0),
                                     told = tt_dqplb_limits_of(d, lanes, 256, 50e9,
                                                               20000 * (1 + (uint64_t)d));

        assert_true(lanes >= before.lanes && l.segment_bytes >= before.segment_bytes &&
                    l.lane_bytes >= before.lane_bytes);
        assert_int_equal(l.lane_bytes, 4 * l.segment_bytes);
        assert_true((double)lanes * (double)told.lane_bytes >= 2 * 50e9 * 20e-6 * (1 + d));
        assert_true(told.lane_bytes >= l.lane_bytes && told.outstanding == l.outstanding);
        before = l;
    }
}

/* For any request: segments of full length stay within a quarter of the window, and all segments
 * within half of it. Only longer segments exceed this. */
static void limits_leave_space_for_slow_lane(void **state)
{
    (void)state;
    for (int d = TT_NEAR_SELF; d < TT_DISTANCES; d++)
        for (uint32_t lanes = 1; lanes <= TT_DQPLB_LANES_MAX; lanes++)
            for (double held = 1e3; held < 1e12; held *= 10) {
                const struct tt_dqplb_limits l =
                    tt_dqplb_limits_of(d, lanes, 256, held, 1000000000);

                assert_int_equal(l.lane_bytes % l.segment_bytes, 0);
                assert_true(lanes * (l.lane_bytes / l.segment_bytes) <= 256 / 4 &&
                            lanes * l.outstanding <= 256 / 2);
                assert_true(l.lane_bytes >= l.segment_bytes && l.segment_bytes <= 4u << 20);
                assert_true((double)(lanes * l.lane_bytes) >= 2 * held ||
                            l.segment_bytes == 4u << 20);
            }
}

/* Only segments with bytes count for the byte limit; empty messages count as segments. */
static void bytes_or_segments_fill_a_lane(void **state)
{
    const struct tt_dqplb_limits limits = {
        .lanes = 1, .outstanding = 6, .window = 64, .segment_bytes = 100, .lane_bytes = 250
    };
    struct tt_dqplb_segment segment[64], g;
    struct tt_dqplb_sender s;
    uint64_t message;
    uint32_t n = 0;

    (void)state;
    tt_dqplb_sender_init(&s, &limits, 0, segment);
    assert_true(tt_dqplb_begin(&s, 0, 300, false));
    while (tt_dqplb_next(&s, &g))
        n++;
    assert_int_equal(n, 2);
    assert_true(tt_dqplb_completed(&s, 0, 2) && tt_dqplb_next(&s, &g) && g.last);
    tt_dqplb_rebound(&s, 50, 0); /* shorter segments, without a byte limit */
    assert_true(tt_dqplb_begin(&s, 1, 1000, false));
    for (n = 0; tt_dqplb_next(&s, &g); n++)
        assert_int_equal(g.bytes, 50);
    assert_int_equal(n, 5);
    assert_true(tt_dqplb_completed(&s, 0, 6) && tt_dqplb_over(&s, &message) && message == 0);
    for (n = 0; n < 15; n++)
        assert_true(tt_dqplb_next(&s, &g) && tt_dqplb_completed(&s, 0, 1));
    assert_true(g.last && tt_dqplb_over(&s, &message) && message == 1);
    for (n = 0; tt_dqplb_begin(&s, 2 + n, 0, true) && tt_dqplb_next(&s, &g); n++)
        ;
    assert_int_equal(n, 6);
}

/* The depth is the largest distance of an arrived segment from the oldest missing one in the
 * interval. Only a reading that starts the next interval ends the interval. */
static void depth_is_the_distance_out_of_order(void **state)
{
    struct tt_dqplb_receiver r;
    uint64_t words[2];

    (void)state;
    tt_dqplb_receiver_init(&r, 8, 10, words);
    assert_int_equal(tt_dqplb_received(&r, 0, 10), 0);
    assert_int_equal(tt_dqplb_depth(&r, true), 0);
    assert_int_equal(tt_dqplb_received(&r, 1, 12), 0);
    assert_int_equal(tt_dqplb_received(&r, 1, 15), 0);
    assert_int_equal(tt_dqplb_received(&r, 0, 13), 0);
    assert_int_equal(tt_dqplb_depth(&r, false), 4);
    assert_int_equal(tt_dqplb_depth(&r, true), 4);
    assert_int_equal(tt_dqplb_received(&r, 0, 14), 0);
    assert_int_equal(tt_dqplb_received(&r, 0, 11), 0);
    assert_int_equal(tt_dqplb_depth(&r, true), 3);
    assert_int_equal(tt_dqplb_depth(&r, false), 0);
}

/* Invalid words and reports have no effect on the state machines. */
static void strange_words_and_reports_are_refused(void **state)
{
    const struct tt_dqplb_limits limits = {
        .lanes = 2, .outstanding = 2, .window = 4, .segment_bytes = 1
    };
    struct tt_dqplb_segment segment[4], g;
    struct tt_dqplb_sender s;
    struct tt_dqplb_receiver r, before;
    uint64_t words[2];
    uint8_t report[TT_DQPLB_REPORT_BYTES(4)] = { 0 };

    (void)state;
    tt_dqplb_receiver_init(&r, 4, 10, words);
    assert_int_equal(tt_dqplb_received(&r, 1, 12), 0);
    before = r;
    assert_int_equal(tt_dqplb_received(&r, 1, 12), -1);         /* duplicate */
    assert_int_equal(tt_dqplb_received(&r, 1, 9), -1);          /* behind the window */
    assert_int_equal(tt_dqplb_received(&r, 1, 14), -1);         /* beyond the window */
    assert_int_equal(tt_dqplb_received(&r, 1, 1 << 24 | 10), -1);
    /* not on lane 0 */
    assert_int_equal(tt_dqplb_received(&r, 1, TT_DQPLB_FAST | TT_DQPLB_NOTIFY | 10), -1);
    /* not alone */
    assert_int_equal(tt_dqplb_received(&r, 0, TT_DQPLB_FAST | 10), -1);
    assert_memory_equal(&r, &before, sizeof r);
    assert_int_equal(words[0], 1);      /* 12 modulo 4 */
    assert_int_equal(tt_dqplb_received(&r, 0, TT_DQPLB_FAST | TT_DQPLB_NOTIFY | 10), 1);
    assert_int_equal(tt_dqplb_received(&r, 1, TT_DQPLB_NOTIFY | 11), 1);

    tt_dqplb_sender_init(&s, &limits, 10, segment);
    assert_true(tt_dqplb_begin(&s, 0, 3, false));
    while (tt_dqplb_next(&s, &g))
        ;
    assert_false(tt_dqplb_resolve(&s, 0, report, sizeof report));       /* lane 0 is up */
    tt_dqplb_lane_down(&s, 0);
    assert_false(tt_dqplb_resolve(&s, 0, report, sizeof report - 1));
    report[0] = 14;
    assert_false(tt_dqplb_resolve(&s, 0, report, sizeof report));       /* never sent */
    report[0] = 4;
    /* before the queried range */
    assert_false(tt_dqplb_resolve(&s, 0, report, sizeof report));
    report[0] = 11;
    /* 10 has arrived, 12 has not */
    assert_true(tt_dqplb_resolve(&s, 0, report, sizeof report));
    assert_true(tt_dqplb_next(&s, &g) && g.lane == 1 && g.word == (TT_DQPLB_NOTIFY | 12));
}

/* A counter sent by its low 24 bits is reconstructed near its value, also across wraps. */
static void number_is_reconstructed_across_wrap(void **state)
{
    static const uint64_t wraps[] = { 0, 1u << 24, 5ull << 24, 1ull << 32, UINT64_MAX - 200 };

    (void)state;
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++)
        for (uint64_t near = wraps[i] ? wraps[i] - 100 : 0; near < wraps[i] + 100; near++)
            for (int32_t ahead = near < 128 ? 0 : -128; ahead <= 128; ahead++) {
                const uint64_t number = near + (uint64_t)(int64_t)ahead;

                assert_int_equal(tt_dqplb_ahead(near, tt_dqplb_word(number, true, true)), ahead);
            }
    assert_int_equal(tt_dqplb_ahead(10, 10 + TT_DQPLB_SEQ_MASK / 2), TT_DQPLB_SEQ_MASK / 2);
    assert_int_equal(tt_dqplb_ahead(10, 11 + TT_DQPLB_SEQ_MASK / 2),
                     -(int32_t)(TT_DQPLB_SEQ_MASK / 2) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_orders_lose_nothing),
        cmocka_unit_test(all_orders_of_small_windows_work),
        cmocka_unit_test(segments_alternate_and_skip_full_lanes),
        cmocka_unit_test(fast_message_uses_lane_0),
        cmocka_unit_test(message_respects_its_lane_limit),
        cmocka_unit_test(lane_limit_leaves_a_usable_lane),
        cmocka_unit_test(lane_limits_do_not_affect_others),
        cmocka_unit_test(message_waits_for_its_reserved_lane),
        cmocka_unit_test(emptiest_lane_is_next_if_requested),
        cmocka_unit_test(lanes_fill_in_order_if_requested),
        cmocka_unit_test(limits_grow_with_distance_and_link),
        cmocka_unit_test(limits_leave_space_for_slow_lane),
        cmocka_unit_test(bytes_or_segments_fill_a_lane),
        cmocka_unit_test(depth_is_the_distance_out_of_order),
        cmocka_unit_test(strange_words_and_reports_are_refused),
        cmocka_unit_test(number_is_reconstructed_across_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
