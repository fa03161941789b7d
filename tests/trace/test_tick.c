/* Times of the processor's counter, also if it jumps: the error is bounded by the points around. */
#include "base/prng.h"
#include "support/unit.h"
#include "trace/tick.h"

#define MS TT_MS
#define TICKS_PER_NS 3u
#define DAY_TICKS (86400 * TT_SECOND * TICKS_PER_NS)

/* Adds a point. Returns by how many ticks the counter has jumped back. */
static uint64_t add(struct tt_tick_table *t, uint64_t tick, uint64_t ns, bool extra)
{
    uint64_t back;

    tt_tick_table_add(t, &(struct tt_tick_point){ .tick = tick, .ns = ns }, extra, &back);
    return back;
}

/* A table with a point every second, or every spacing_ns, of a counter that is `offset` ticks ahead
 * of the clock. */
static void fill(struct tt_tick_table *t, uint64_t offset, uint32_t from_s, uint32_t until_s)
{
    for (uint64_t s = from_s; s < until_s; s++)
        if (t->n == 0 || s * TT_SECOND >= t->point[t->n - 1].ns + t->spacing_ns)
            add(t, offset + s * TT_SECOND * TICKS_PER_NS, s * TT_SECOND, false);
}

static void ticks_are_converted_between_and_after_points(void **state)
{
    struct tt_tick_table t = { .spacing_ns = TT_SECOND };
    struct tt_prng prng;

    (void)state;
    assert_int_equal(tt_tick_table_ns(&t, 7, 1), 0);
    fill(&t, DAY_TICKS, 10, 2000);      /* thinned out three times */
    assert_true(t.n <= TT_TICK_POINTS && t.spacing_ns == 8 * TT_SECOND);
    tt_prng_init(&prng, 1);
    for (int i = 0; i < 10000; i++) {
        const uint64_t ns = tt_prng_below(&prng, 2001 * TT_SECOND);
        const uint64_t got = tt_tick_table_ns(&t, DAY_TICKS + ns * TICKS_PER_NS, 3000 * TT_SECOND);

        assert_true(got + 2000 > ns && got < ns + 2000);
    }
}

static void extra_points_are_replaced(void **state)
{
    struct tt_tick_table t = { .spacing_ns = TT_SECOND };

    (void)state;
    fill(&t, 0, 1, 4);
    for (uint64_t i = 1; i <= 10; i++)
        add(&t, (3 * TT_SECOND + i * MS) * TICKS_PER_NS, 3 * TT_SECOND + i * MS, true);
    assert_int_equal(t.n, 4);
    assert_int_equal(t.point[3].ns, 3 * TT_SECOND + 10 * MS);
    assert_int_equal(add(&t, 1, 3 * TT_SECOND, true), 0);       /* not later: ignored */
    assert_int_equal(t.n, 4);
}

/* New ticks have the right times at once, and old ones are not later than the present. */
static void a_counter_that_is_set_back_starts_again(void **state)
{
    const uint64_t now_ns = 10 * TT_SECOND;
    struct tt_tick_table t = { .spacing_ns = TT_SECOND };

    (void)state;
    fill(&t, DAY_TICKS, 1, 10);
    assert_int_equal(add(&t, 500, now_ns, true), DAY_TICKS + 9 * TT_SECOND * TICKS_PER_NS - 500);
    assert_int_equal(t.n, 1);
    assert_int_equal(tt_tick_table_ns(&t, 700, now_ns), now_ns);
    assert_int_equal(add(&t, 500 + MS * TICKS_PER_NS, now_ns + MS, true), 0);
    for (uint64_t ns = 0; ns < 5 * MS; ns += MS / 10) {
        const uint64_t got = tt_tick_table_ns(&t, 500 + ns * TICKS_PER_NS, now_ns + 5 * MS);

        assert_true(got + 10 > now_ns + ns && got < now_ns + ns + 10);
    }
    for (uint64_t s = 0; s < 20; s++)
        assert_int_equal(
            tt_tick_table_ns(&t, DAY_TICKS + s * TT_SECOND * TICKS_PER_NS, now_ns + 5 * MS),
            now_ns + 5 * MS);
    assert_int_equal(tt_tick_table_ns(&t, UINT64_MAX, now_ns + 5 * MS), now_ns + 5 * MS);
    assert_true(tt_tick_table_ns(&t, 0, now_ns + 5 * MS) <= now_ns);
}

/* Ticks around the jump lie between the points before and after it, in the order of the ticks. */
static void a_counter_that_jumps_ahead_is_bounded_by_points(void **state)
{
    struct tt_tick_table t = { .spacing_ns = TT_SECOND };
    uint64_t before = 0;

    (void)state;
    fill(&t, 0, 1, 10);
    fill(&t, DAY_TICKS, 10, 20);
    for (uint64_t i = 0; i <= 1000; i++) {
        const uint64_t got = tt_tick_table_ns(
            &t, 9 * TT_SECOND * TICKS_PER_NS + i * ((DAY_TICKS + TT_SECOND * TICKS_PER_NS) / 1000),
            20 * TT_SECOND);

        assert_true(got >= 9 * TT_SECOND - 10 && got <= 10 * TT_SECOND + 10 && got >= before);
        before = got;
    }
    for (uint64_t s = 10; s < 20; s++) {
        const uint64_t got =
            tt_tick_table_ns(&t, DAY_TICKS + s * TT_SECOND * TICKS_PER_NS, 20 * TT_SECOND);

        assert_true(got + 10 > s * TT_SECOND && got < s * TT_SECOND + 10);
    }
}

/* Arbitrary points and ticks: times are bounded, and points are in order. */
static void any_counter_is_bounded(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct tt_tick_table t = { .spacing_ns = TT_SECOND };
        struct tt_prng prng;
        uint64_t ns = 1;

        tt_prng_init(&prng, seed);
        for (uint32_t i = 0; i < 1000; i++) {
            add(&t, tt_prng_below(&prng, UINT64_MAX), ns, tt_prng_below(&prng, 2));
            ns += tt_prng_below(&prng, 3) * TT_SECOND;
            if (tt_tick_table_ns(&t, tt_prng_below(&prng, UINT64_MAX), ns) > ns)
                fail_msg("seed %llu", (unsigned long long)seed);
        }
        for (uint32_t i = 1; i < t.n; i++)
            assert_true(t.point[i - 1].ns < t.point[i].ns && t.point[i - 1].tick < t.point[i].tick);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_converted_between_and_after_points),
        cmocka_unit_test(extra_points_are_replaced),
        cmocka_unit_test(a_counter_that_is_set_back_starts_again),
        cmocka_unit_test(a_counter_that_jumps_ahead_is_bounded_by_points),
        cmocka_unit_test(any_counter_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
