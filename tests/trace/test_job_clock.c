/* The clock of the job, in a simulated world: clocks with drift that jump, messages with random and
 * asymmetric delays. The true offset is always within the stated bound, except between a jump and
 * the exchange that reveals it. A failure prints its seed. */
#include <stdlib.h>

#include "base/prng.h"
#include "support/unit.h"
#include "trace/job_clock.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define SEEDS 200

/* A clock: its time is (true time) * (1 + ppm / 10^6) + offset. */
struct clock {
    int64_t offset_ns, ppm;
};

static uint64_t read_clock(const struct clock *c, uint64_t true_ns)
{
    const int64_t slewed = (int64_t)true_ns + (int64_t)true_ns / 1000000 * c->ppm;

    return (uint64_t)(slewed + c->offset_ns);
}

static struct clock draw_clock(struct tt_prng *p)
{
    return (struct clock){ .offset_ns = (int64_t)tt_prng_below(p, 3600 * SECOND),
                           .ppm = (int64_t)tt_prng_below(p, 801) - 400 };
}

/* Returns how far the offset is from the truth, beyond its bound; 0: within. */
static uint64_t beyond(const struct tt_clock_offset *o, const struct clock *here,
                       const struct clock *there, uint64_t true_ns)
{
    const int64_t truth = (int64_t)read_clock(there, true_ns) - (int64_t)read_clock(here, true_ns);
    const uint64_t error =
        o->offset_ns > truth ? (uint64_t)(o->offset_ns - truth) : (uint64_t)(truth - o->offset_ns);

    return error > o->error_ns ? error - o->error_ns : 0;
}

/* Exchanges at true_ns; returns the time of its end. */
static uint64_t exchange(struct tt_clock_pair *pair, const struct clock *here,
                         const struct clock *there, const struct tt_clock_offset *told,
                         uint64_t true_ns, struct tt_prng *p)
{
    const uint64_t out = tt_prng_below(p, 4) ? tt_prng_below(p, MS) : tt_prng_below(p, 300 * MS);
    const uint64_t back = tt_prng_below(p, 4) ? tt_prng_below(p, MS) : tt_prng_below(p, 300 * MS);
    const uint64_t work = tt_prng_below(p, MS / 10), end = true_ns + out + work + back;
    const struct tt_clock_exchange x = {
        .sent_ns = read_clock(here, true_ns),
        .arrived_ns = read_clock(there, true_ns + out),
        .replied_ns = read_clock(there, true_ns + out + work),
        .received_ns = read_clock(here, end),
    };

    tt_clock_add(pair, &x, told);
    return end;
}

static const struct tt_clock_offset none = { .known = false };

/* Two clocks, and what `here` has measured of `there`. */
struct pair {
    struct tt_prng p;
    struct clock here, there;
    struct tt_clock_pair pair;
};

static struct pair draw_pair(uint64_t seed)
{
    struct pair w = { .pair = { .next = 0 } };

    tt_prng_init(&w.p, seed);
    w.here = draw_clock(&w.p);
    w.there = draw_clock(&w.p);
    return w;
}

static void the_truth_is_within_the_bound(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair w = draw_pair(seed);
        uint64_t now = 100 * SECOND;

        assert_false(tt_clock_of_pair(&w.pair, read_clock(&w.here, now)).known);
        for (uint32_t i = 0; i < 50; i++) {
            struct tt_clock_offset o;

            now = exchange(&w.pair, &w.here, &w.there, &none, now, &w.p) +
                  tt_prng_below(&w.p, 10 * SECOND);
            o = tt_clock_of_pair(&w.pair, read_clock(&w.here, now));
            if (!o.known || beyond(&o, &w.here, &w.there, now))
                fail_msg("seed %llu, exchange %u: %lld ns within %llu ns is not the truth",
                         (unsigned long long)seed, i, (long long)o.offset_ns,
                         (unsigned long long)o.error_ns);
        }
        assert_int_equal(w.pair.njumps, 0);
    }
}

/* The sample with the shortest round trip counts. */
static void slow_exchanges_do_not_widen_the_bound(void **state)
{
    const struct clock here = { .offset_ns = 5 }, there = { .offset_ns = 777 };
    struct tt_clock_pair pair = { .next = 0 };
    struct tt_clock_exchange x = {
        .sent_ns = 1000, .received_ns = 2000, .arrived_ns = 2272, .replied_ns = 2272
    };

    (void)state;
    tt_clock_add(&pair, &x, &none);
    x = (struct tt_clock_exchange){
        .sent_ns = 3000, .received_ns = 9003000, .arrived_ns = 9003700, .replied_ns = 9003700
    };
    tt_clock_add(&pair, &x, &none);
    assert_true(tt_clock_of_pair(&pair, 9003000).error_ns < 10000);
    assert_false(beyond(&(struct tt_clock_offset){ true, 772, 0 }, &here, &there, 0));
}

/* After a jump, the next exchange restores a true bound, and the old one is not used. */
static void a_jump_is_found_by_the_next_exchange(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair w = draw_pair(seed);
        uint64_t now = 100 * SECOND;

        for (uint32_t i = 0; i < 20; i++) {
            struct tt_clock_offset o;

            if (i % 5 == 4)     /* one of them was suspended */
                (tt_prng_below(&w.p, 2) ? &w.here : &w.there)->offset_ns -=
                    (int64_t)(10 * SECOND + tt_prng_below(&w.p, 100 * SECOND));
            now = exchange(&w.pair, &w.here, &w.there, &none, now, &w.p) + SECOND;
            o = tt_clock_of_pair(&w.pair, read_clock(&w.here, now));
            if (!o.known || beyond(&o, &w.here, &w.there, now))
                fail_msg("seed %llu, exchange %u: not the truth", (unsigned long long)seed, i);
        }
        assert_int_equal(w.pair.njumps, 4);
    }
}

/* Rank i learns the clock of rank 0 from a lower rank, over up to 5 hops. */
static void offsets_add_up_over_hops(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct tt_clock_offset told = { .known = true }, pair;
        struct clock clocks[6];
        struct tt_prng p;
        uint64_t now = 100 * SECOND;

        tt_prng_init(&p, seed);
        clocks[0] = draw_clock(&p);
        for (uint32_t hop = 1; hop < 6; hop++) {
            struct tt_clock_pair to = { .next = 0 };

            clocks[hop] = draw_clock(&p);
            for (uint32_t i = 0; i < 4; i++)
                now = exchange(&to, &clocks[hop], &clocks[hop - 1], &told, now, &p);
            now += tt_prng_below(&p, SECOND);
            pair = tt_clock_of_pair(&to, read_clock(&clocks[hop], now));
            told = tt_clock_by_way_of(&to, &pair, read_clock(&clocks[hop], now));
            if (!told.known || beyond(&told, &clocks[hop], &clocks[0], now))
                fail_msg("seed %llu, hop %u: not the truth", (unsigned long long)seed, hop);
        }
    }
}

static void ranks_of_a_host_have_one_clock(void **state)
{
    struct tt_clock_pair pair = { .next = 0 };
    struct tt_clock_exchange x = {
        .sent_ns = 1000, .received_ns = 51000, .arrived_ns = 9000, .replied_ns = 9500
    };
    struct tt_clock_offset o;

    (void)state;
    assert_false(tt_clock_of_host(&pair, 1000).known);
    tt_clock_add(&pair, &x, &none);
    o = tt_clock_of_host(&pair, 51000);
    assert_true(o.known && o.offset_ns == 0 && o.error_ns == 0);
    /* a time namespace: the exchange proves that it is another clock */
    x.arrived_ns += 3600 * SECOND;
    x.replied_ns += 3600 * SECOND;
    tt_clock_add(&pair, &x, &none);
    o = tt_clock_of_host(&pair, 51000);
    assert_true(o.known && o.offset_ns > (int64_t)(3599 * SECOND) && o.error_ns > 0);
}

static void impossible_exchanges_are_ignored(void **state)
{
    static const struct tt_clock_exchange bad[] = {
        { .sent_ns = 10, .received_ns = 9, .arrived_ns = 5, .replied_ns = 5 },
        { .sent_ns = 10, .received_ns = 20, .arrived_ns = 9, .replied_ns = 5 },
        { .sent_ns = 10, .received_ns = 20, .arrived_ns = 5, .replied_ns = 16 },
        { .sent_ns = 10, .received_ns = UINT64_MAX, .arrived_ns = 5, .replied_ns = 5 },
        { .sent_ns = 10, .received_ns = 20, .arrived_ns = 5, .replied_ns = UINT64_MAX },
    };
    const struct tt_clock_exchange good = { .sent_ns = 10, .received_ns = 20 };
    const struct tt_clock_offset lies[] = { { true, INT64_MIN, 0 }, { true, INT64_MAX, 0 },
                                            { true, 0, UINT64_MAX } };
    struct tt_clock_pair pair = { .next = 0 };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        tt_clock_add(&pair, &bad[i], &none);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        tt_clock_add(&pair, &good, &lies[i]);
    assert_false(tt_clock_of_pair(&pair, 20).known);
    tt_clock_add(&pair, &good, &none);
    assert_true(tt_clock_of_pair(&pair, 20).known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_truth_is_within_the_bound),
        cmocka_unit_test(slow_exchanges_do_not_widen_the_bound),
        cmocka_unit_test(a_jump_is_found_by_the_next_exchange),
        cmocka_unit_test(offsets_add_up_over_hops),
        cmocka_unit_test(ranks_of_a_host_have_one_clock),
        cmocka_unit_test(impossible_exchanges_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
