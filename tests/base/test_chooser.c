/* Which of some ways is in use: the one that takes least, also after that has changed, and whatever is interrupted. */
#include "base/chooser.h"
#include "base/prng.h"
#include "support/unit.h"

static const uint8_t even[TT_CHOOSER_WAYS] = { 1, 1, 1 }, biased[2] = { 0, 3 };

/* n uses that take so much either way; one in `odd_one_in` takes ten times as long. Returns how many went the second way. */
static uint32_t use(struct tt_chooser *c, const uint8_t margins[2], uint32_t n, uint32_t first, uint32_t second,
                    uint32_t odd_one_in, struct tt_prng *p)
{
    uint32_t nsecond = 0;

    for (uint32_t i = 0; i < n; i++) {
        const uint8_t way = tt_chooser_next(c, 2);
        const uint64_t slow = odd_one_in && tt_prng_below(p, odd_one_in) == 0 ? 10 : 1;

        nsecond += way;
        tt_chooser_learn(c, way, (way ? second : first) * slow, margins);
    }
    return nsecond;
}

static void the_better_way_is_found_within_ten_uses(void **state)
{
    struct tt_chooser one = { 0 }, other = { 0 };

    (void)state;
    use(&one, even, 10, 10000, 20000, 0, NULL);
    use(&other, even, 10, 20000, 10000, 0, NULL);
    assert_int_equal(one.best, 0);
    assert_int_equal(other.best, 1);
    assert_in_range(use(&one, even, 1280, 10000, 20000, 0, NULL), 1, 70);
    assert_in_range(use(&other, even, 1280, 20000, 10000, 0, NULL), 1210, 1279);
}

static void it_changes_when_the_other_one_has_become_better(void **state)
{
    struct tt_chooser c = { 0 }, b = { 0 };

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

static void what_is_hardly_better_does_not_take_the_place_of_the_other(void **state)
{
    struct tt_chooser c = { 0 };

    (void)state;
    use(&c, biased, 2000, 90000, 80000, 0, NULL);
    assert_int_equal(c.best, 0);
    use(&c, biased, 2000, 100000, 80000, 0, NULL);
    assert_int_equal(c.best, 1);
    use(&c, biased, 2000, 79000, 80000, 0, NULL);   /* the other way round nothing is asked for */
    assert_int_equal(c.best, 0);
}

static void the_first_use_says_nothing(void **state)
{
    struct tt_chooser c = { 0 };

    (void)state;
    assert_int_equal(tt_chooser_next(&c, 2), 0);
    tt_chooser_learn(&c, 0, 1, even);
    use(&c, even, 20, 20000, 10000, 0, NULL);
    assert_int_equal(c.best, 1);
}

/* The second way takes half in the end, and more than the first for some uses after that was gone. */
static uint32_t settling(struct tt_chooser_runs *r, uint32_t run, uint32_t n)
{
    uint32_t since = 0, nsecond = 0;

    for (uint32_t i = 0; i < n; i++) {
        bool timed;
        const uint8_t way = tt_chooser_runs_next(r, 2, run, r->chooser.best, &timed);

        since = way ? since + 1 : 0;
        nsecond += way;
        if (timed)
            tt_chooser_learn(&r->chooser, way, !way ? 20000 : since < 16 ? 35000 - 1000 * since : 10000, even);
    }
    return nsecond;
}

static void what_takes_a_while_to_settle_is_found_in_longer_runs(void **state)
{
    struct tt_chooser_runs hasty = { 0 }, patient = { 0 };

    (void)state;
    assert_in_range(settling(&hasty, 1, 2000), 1, 100);
    settling(&patient, 4, 200);
    assert_int_equal(patient.chooser.best, 1);
    assert_in_range(settling(&patient, 4, 2000), 1700, 1999);
}

static void a_cost_without_bound_is_one_of_many(void **state)
{
    struct tt_chooser c = { 0 };

    (void)state;
    use(&c, even, 20, 20000, 10000, 0, NULL);
    tt_chooser_next(&c, 2);
    tt_chooser_learn(&c, 1, UINT64_MAX, even);
    assert_int_equal(c.best, 1);
}

static void interrupted_uses_change_nothing_but_for_a_moment(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const uint32_t odd = seed % 2 ? 3 : 20;
        struct tt_chooser c = { 0 };
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
            fail_msg("seed %u: %u of 6400 went the way that takes three times as much", (unsigned)seed, nsecond);
    }
}

/* Going together the second way takes least, apart most. */
static void those_who_have_come_to_different_answers_try_both_ways_together(void **state)
{
    struct tt_chooser a = { 0 }, b = { 0 };
    uint32_t apart = 0;

    (void)state;
    use(&a, even, 20, 20000, 10000, 0, NULL);
    use(&b, even, 20, 10000, 20000, 0, NULL);
    assert_true(a.best != b.best);
    for (uint32_t i = 0; i < 600; i++) {
        const uint8_t one = tt_chooser_next(&a, 2), other = tt_chooser_next(&b, 2);
        const uint64_t cost = one != other ? 9000 : one ? 5900 : 7500;

        apart += i >= 100 && one != other;
        tt_chooser_learn(&a, one, cost, even);
        tt_chooser_learn(&b, other, cost, even);
    }
    assert_true(a.best == 1 && b.best == 1);
    assert_int_equal(apart, 0);
}

static void of_three_ways_the_best_is_found_wherever_it_is(void **state)
{
    (void)state;
    for (uint8_t best = 0; best < 3; best++) {
        struct tt_chooser c = { 0 };
        uint32_t went[3] = { 0 };

        for (uint32_t i = 0; i < 4096; i++) {
            const uint8_t way = tt_chooser_next(&c, 3);

            went[way]++;
            tt_chooser_learn(&c, way, way == best ? 10000 : 12000 + 1000u * way, even);
        }
        assert_int_equal(c.best, best);
        assert_true(went[best] > 3700);
        assert_true(went[(best + 1) % 3] > 60 && went[(best + 2) % 3] > 60);   /* still looked at */
    }
}

/* The best way turns bad, and the third one is what is left. */
static void of_three_ways_another_one_takes_the_place_of_what_has_become_worse(void **state)
{
    struct tt_chooser c = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        const uint8_t way = tt_chooser_next(&c, 3);
        const uint64_t cost[3] = { i < 1500 ? 10000 : 30000, 20000, 15000 };

        tt_chooser_learn(&c, way, cost[way], even);
        if (i == 1499)
            assert_int_equal(c.best, 0);
        if (i == 1520)
            assert_int_equal(c.best, 2);
    }
    assert_int_equal(c.best, 2);
}

/* Whoever goes with others goes the way they say, and learns all the same. */
static void what_others_use_is_used_and_all_ways_are_tried(void **state)
{
    struct tt_chooser_runs r = { 0 };
    uint32_t went[3] = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 2048; i++) {
        bool timed;
        const uint8_t way = tt_chooser_runs_next(&r, 3, 1, 2, &timed);

        assert_true(timed);
        went[way]++;
        tt_chooser_learn(&r.chooser, way, way == 1 ? 10000 : 20000, even);
    }
    assert_int_equal(r.chooser.best, 1);
    assert_true(went[2] > 1800 && went[0] > 20 && went[1] > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_better_way_is_found_within_ten_uses),
        cmocka_unit_test(it_changes_when_the_other_one_has_become_better),
        cmocka_unit_test(what_is_hardly_better_does_not_take_the_place_of_the_other),
        cmocka_unit_test(the_first_use_says_nothing),
        cmocka_unit_test(what_takes_a_while_to_settle_is_found_in_longer_runs),
        cmocka_unit_test(a_cost_without_bound_is_one_of_many),
        cmocka_unit_test(those_who_have_come_to_different_answers_try_both_ways_together),
        cmocka_unit_test(of_three_ways_the_best_is_found_wherever_it_is),
        cmocka_unit_test(of_three_ways_another_one_takes_the_place_of_what_has_become_worse),
        cmocka_unit_test(what_others_use_is_used_and_all_ways_are_tried),
        cmocka_unit_test(interrupted_uses_change_nothing_but_for_a_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
