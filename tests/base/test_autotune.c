/* The selected alternative is the fastest one, also after a change, and after interruptions. */
#include "base/autotune.h"
#include "base/prng.h"
#include "support/unit.h"

static const uint8_t even[TT_CHOOSER_WAYS] = { 1, 1, 1 }, biased[2] = { 0, 3 };

/* Runs n uses with these durations; one in `odd_one_in` takes ten times as long. Returns how many
 * used the second alternative. */
static uint32_t use(struct tt_autotune *c, const uint8_t margins[2], uint32_t n, uint32_t first,
                    uint32_t second, uint32_t odd_one_in, struct tt_prng *p)
{
    uint32_t nsecond = 0;

    for (uint32_t i = 0; i < n; i++) {
        const uint8_t way = tt_autotune_next(c, 2);
        const uint64_t slow = odd_one_in && tt_prng_below(p, odd_one_in) == 0 ? 10 : 1;

        nsecond += way;
        tt_autotune_learn(c, way, (way ? second : first) * slow, margins);
    }
    return nsecond;
}

static void faster_way_is_found_soon(void **state)
{
    struct tt_autotune one = { 0 }, other = { 0 };

    (void)state;
    use(&one, even, 10, 10000, 20000, 0, NULL);
    use(&other, even, 10, 20000, 10000, 0, NULL);
    assert_int_equal(one.best, 0);
    assert_int_equal(other.best, 1);
    assert_in_range(use(&one, even, 1280, 10000, 20000, 0, NULL), 1, 70);
    assert_in_range(use(&other, even, 1280, 20000, 10000, 0, NULL), 1210, 1279);
}

static void choice_follows_a_change(void **state)
{
    struct tt_autotune c = { 0 }, b = { 0 };

    (void)state;
    for (uint32_t turn = 0; turn < 10; turn++) {
        use(&c, even, 1100, 10000, 20000, 0, NULL);
        assert_int_equal(c.best, 0);
        use(&c, even, 1100, 20000, 10000, 0, NULL);
        assert_int_equal(c.best, 1);
        use(&b, biased, 1100, 70000, 80000, 0, NULL);
        assert_int_equal(b.best, 0);
        use(&b, biased, 200, 250000, 80000, 0, NULL);
        assert_int_equal(b.best, 1);
    }
}

static void marginal_gains_cause_no_change(void **state)
{
    struct tt_autotune c = { 0 };

    (void)state;
    use(&c, biased, 2000, 90000, 80000, 0, NULL);
    assert_int_equal(c.best, 0);
    use(&c, biased, 2000, 100000, 80000, 0, NULL);
    assert_int_equal(c.best, 1);
    use(&c, biased, 2000, 79000, 80000, 0, NULL);   /* in the opposite direction there is no
                                                       margin */
    assert_int_equal(c.best, 0);
}

static void first_use_is_ignored(void **state)
{
    struct tt_autotune c = { 0 };

    (void)state;
    assert_int_equal(tt_autotune_next(&c, 2), 0);
    tt_autotune_learn(&c, 0, 1, even);
    use(&c, even, 20, 20000, 10000, 0, NULL);
    assert_int_equal(c.best, 1);
}

/* The second alternative takes half the time of the first in the end, but for some uses after each
 * change to it, it takes longer than the first. */
static uint32_t settling(struct tt_autotune_runs *r, uint32_t run, uint32_t n)
{
    uint32_t since = 0, nsecond = 0;

    for (uint32_t i = 0; i < n; i++) {
        bool timed;
        const uint8_t way = tt_autotune_runs_next(r, 2, run, r->chooser.best, &timed);

        since = way ? since + 1 : 0;
        nsecond += way;
        if (timed)
            tt_autotune_learn(&r->chooser, way,
                              !way         ? 20000
                              : since < 16 ? 35000 - 1000 * since
                                           : 10000,
                              even);
    }
    return nsecond;
}

static void slowly_settling_way_is_found(void **state)
{
    struct tt_autotune_runs short_runs = { 0 }, long_runs = { 0 };

    (void)state;
    assert_in_range(settling(&short_runs, 1, 2000), 1, 100);
    settling(&long_runs, 4, 200);
    assert_int_equal(long_runs.chooser.best, 1);
    assert_in_range(settling(&long_runs, 4, 2000), 1700, 1999);
}

static void unbounded_cost_counts_once(void **state)
{
    struct tt_autotune c = { 0 };

    (void)state;
    use(&c, even, 20, 20000, 10000, 0, NULL);
    tt_autotune_next(&c, 2);
    tt_autotune_learn(&c, 1, UINT64_MAX, even);
    assert_int_equal(c.best, 1);
}

static void interrupted_uses_have_no_lasting_effect(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const uint32_t odd = seed % 2 ? 3 : 20;
        struct tt_autotune c = { 0 };
        struct tt_prng p;
        uint32_t nsecond;

        tt_prng_init(&p, seed);
        use(&c, even, 2000, 20000, 10000, odd, &p);
        nsecond = use(&c, even, 6400, 20000, 10000, odd, &p);
        if (nsecond < 5500)
            fail_msg("seed %u: %u of 6400 went the way that takes half", (unsigned)seed, nsecond);
        use(&c, biased, 2000, 70000, 250000, odd, &p);
        nsecond = use(&c, biased, 6400, 70000, 250000, odd, &p);
        if (nsecond > 900)
            fail_msg("seed %u: %u of 6400 went the way that takes three times as much",
                     (unsigned)seed, nsecond);
    }
}

/* The second alternative is the fastest if both ranks use it. If only one does, both are slow. */
static void disagreeing_ranks_try_ways_together(void **state)
{
    struct tt_autotune a = { 0 }, b = { 0 };
    uint32_t apart = 0;

    (void)state;
    use(&a, even, 20, 20000, 10000, 0, NULL);
    use(&b, even, 20, 10000, 20000, 0, NULL);
    assert_true(a.best != b.best);
    for (uint32_t i = 0; i < 600; i++) {
        const uint8_t one = tt_autotune_next(&a, 2), other = tt_autotune_next(&b, 2);
        const uint64_t cost = one != other ? 9000 : one ? 5900 : 7500;

        apart += i >= 100 && one != other;
        tt_autotune_learn(&a, one, cost, even);
        tt_autotune_learn(&b, other, cost, even);
    }
    assert_true(a.best == 1 && b.best == 1);
    assert_int_equal(apart, 0);
}

static void best_of_three_is_found(void **state)
{
    (void)state;
    for (uint8_t best = 0; best < 3; best++) {
        struct tt_autotune c = { 0 };
        uint32_t went[3] = { 0 };

        for (uint32_t i = 0; i < 4096; i++) {
            const uint8_t way = tt_autotune_next(&c, 3);

            went[way]++;
            tt_autotune_learn(&c, way, way == best ? 10000 : 12000 + 1000u * way, even);
        }
        assert_int_equal(c.best, best);
        assert_true(went[best] > 3700);
        assert_true(went[(best + 1) % 3] > 60 && went[(best + 2) % 3] > 60);   /* still tried */
    }
}

/* The best alternative becomes slow, and the third one remains. */
static void degraded_best_way_is_replaced(void **state)
{
    struct tt_autotune c = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        const uint8_t way = tt_autotune_next(&c, 3);
        const uint64_t cost[3] = { i < 1500 ? 10000 : 30000, 20000, 15000 };

        tt_autotune_learn(&c, way, cost[way], even);
        if (i == 1499)
            assert_int_equal(c.best, 0);
        if (i == 1520)
            assert_int_equal(c.best, 2);
    }
    assert_int_equal(c.best, 2);
}

/* A rank that follows others uses their choice, but still measures the alternatives. */
static void follower_still_tries_all_ways(void **state)
{
    struct tt_autotune_runs r = { 0 };
    uint32_t went[3] = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 2048; i++) {
        bool timed;
        const uint8_t way = tt_autotune_runs_next(&r, 3, 1, 2, &timed);

        assert_true(timed);
        went[way]++;
        tt_autotune_learn(&r.chooser, way, way == 1 ? 10000 : 20000, even);
    }
    assert_int_equal(r.chooser.best, 1);
    assert_true(went[2] > 1800 && went[0] > 20 && went[1] > 20);
}

/* One of four uses of the first method is timed. After two consecutive slow ones, the second method
 * is selected for 64 uses; after these, one slow use suffices. */
static void slow_uses_switch_to_the_other_way(void **state)
{
    struct tt_autotune_limit l = { 0 };
    bool timed;

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        assert_false(tt_autotune_limit_next(&l, &timed));
        assert_int_equal(timed, i % 4 == 3);
        if (timed)
            tt_autotune_limit_learn(&l, i == 3);
        if (i == 3) {       /* the next use is timed, too */
            assert_false(tt_autotune_limit_next(&l, &timed));
            assert_true(timed);
            tt_autotune_limit_learn(&l, false);
        }
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_false(tt_autotune_limit_next(&l, &timed));
        assert_int_equal(timed, i >= 3);
        if (timed)
            tt_autotune_limit_learn(&l, true);
    }
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < 64; i++) {
            assert_true(tt_autotune_limit_next(&l, &timed));
            assert_false(timed);
        }
        assert_false(tt_autotune_limit_next(&l, &timed));
        assert_true(timed);
        tt_autotune_limit_learn(&l, turn < 2);
    }
    assert_false(tt_autotune_limit_next(&l, &timed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faster_way_is_found_soon),
        cmocka_unit_test(choice_follows_a_change),
        cmocka_unit_test(marginal_gains_cause_no_change),
        cmocka_unit_test(first_use_is_ignored),
        cmocka_unit_test(slowly_settling_way_is_found),
        cmocka_unit_test(unbounded_cost_counts_once),
        cmocka_unit_test(disagreeing_ranks_try_ways_together),
        cmocka_unit_test(best_of_three_is_found),
        cmocka_unit_test(degraded_best_way_is_replaced),
        cmocka_unit_test(follower_still_tries_all_ways),
        cmocka_unit_test(interrupted_uses_have_no_lasting_effect),
        cmocka_unit_test(slow_uses_switch_to_the_other_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
