/* Who does not answer: chains and circles of ranks that wait for each other. */
#include "base/clock.h"
#include "base/prng.h"
#include "comm/probe.h"
#include "support/unit.h"

#define N 8u
#define START (1000 * TT_SECOND)

static struct tt_probe_rank ranks[N];
static struct tt_probe probe;

/* waits_for[r]: whom r waits for, N: nobody. Rank r does not answer if silent says so. We wait for rank 0, and ask as often as we may,
 * for so long. Returns the blamed. */
static uint32_t blamed_after(const uint32_t waits_for[N], uint32_t silent, uint64_t ns)
{
    uint64_t now = START;

    tt_probe_init(&probe, ranks, N);
    for (; now < START + ns; now += 10 * TT_MS) {
        uint32_t ask = 0;
        bool now_ask = tt_probe_ask(&probe, ask, now);

        for (uint32_t i = 0; now_ask && i < 2 * N; i++) {
            if (silent >> ask & 1)
                break;
            now_ask = tt_probe_answer(&probe, ask, waits_for[ask], now);
            ask = waits_for[ask];
        }
    }
    return tt_probe_blame(&probe, 0, now);
}

static void a_chain_ends_at_the_rank_that_is_silent(void **state)
{
    static const uint32_t chain[N] = { 1, 2, 3, 4, 5, 6, 7, N };

    (void)state;
    for (uint32_t r = 0; r < N; r++) {
        assert_int_equal(blamed_after(chain, 1u << r, TT_SECOND), r);
        assert_int_equal(blamed_after(chain, ~0u << r, TT_SECOND), r);     /* nobody knows of those behind it */
    }
    assert_int_equal(blamed_after(chain, 0, TT_SECOND), UINT32_MAX);
}

static void only_silence_of_half_a_second_is_blamed(void **state)
{
    static const uint32_t chain[N] = { 1, 2, N, N, N, N, N, N };

    (void)state;
    assert_int_equal(blamed_after(chain, 1u << 2, TT_PROBE_SILENCE_NS - 20 * TT_MS), UINT32_MAX);
    assert_int_equal(blamed_after(chain, 1u << 2, TT_PROBE_SILENCE_NS + 20 * TT_MS), 2);
}

static void a_circle_in_which_all_answer_blames_nobody(void **state)
{
    static const uint32_t circle[N] = { 1, 2, 0, N, N, N, N, N }, self[N] = { 0, N, N, N, N, N, N, N };

    (void)state;
    assert_int_equal(blamed_after(circle, 0, TT_SECOND), UINT32_MAX);
    assert_int_equal(blamed_after(self, 0, TT_SECOND), UINT32_MAX);
    assert_int_equal(blamed_after(circle, 1u << 2, TT_SECOND), 2);
    assert_int_equal(blamed_after(circle, 1u << 0, TT_SECOND), 0);
}

static void silent_ranks_that_nobody_waits_for_are_not_blamed(void **state)
{
    static const uint32_t chain[N] = { 1, N, 3, 4, 5, N, N, N };

    (void)state;
    assert_int_equal(blamed_after(chain, 0xfc, TT_SECOND), UINT32_MAX);
}

static void an_answer_ends_the_silence(void **state)
{
    (void)state;
    tt_probe_init(&probe, ranks, N);
    assert_true(tt_probe_ask(&probe, 3, START));
    assert_int_equal(tt_probe_blame(&probe, 3, START + TT_SECOND), 3);
    assert_false(tt_probe_answer(&probe, 3, UINT32_MAX, START + TT_SECOND));
    assert_int_equal(tt_probe_blame(&probe, 3, START + 10 * TT_SECOND), UINT32_MAX);
    assert_true(tt_probe_ask(&probe, 3, START + 10 * TT_SECOND));
    assert_int_equal(tt_probe_blame(&probe, 3, START + 10 * TT_SECOND), UINT32_MAX);      /* it is asked anew only now */
    assert_int_equal(tt_probe_blame(&probe, 3, START + 11 * TT_SECOND), 3);
}

static void asking_again_does_not_make_the_silence_shorter(void **state)
{
    uint64_t now = START;
    uint32_t asked = 0;

    (void)state;
    tt_probe_init(&probe, ranks, N);
    for (; now < START + TT_SECOND; now += TT_MS)
        asked += tt_probe_ask(&probe, 5, now);
    assert_int_equal(asked, TT_SECOND / TT_PROBE_EVERY_NS);        /* and not more often */
    assert_int_equal(tt_probe_blame(&probe, 5, now), 5);
}

static void who_changes_its_mind_is_followed(void **state)
{
    (void)state;
    tt_probe_init(&probe, ranks, N);
    assert_true(tt_probe_ask(&probe, 1, START));
    assert_true(tt_probe_answer(&probe, 1, 2, START));          /* 2 has been asked by that */
    assert_true(tt_probe_ask(&probe, 1, START + 600 * TT_MS));
    assert_true(tt_probe_answer(&probe, 1, 3, START + 600 * TT_MS));
    assert_int_equal(tt_probe_blame(&probe, 1, START + 700 * TT_MS), UINT32_MAX);
    assert_int_equal(tt_probe_blame(&probe, 1, START + 1200 * TT_MS), 3);
    assert_int_equal(tt_probe_blame(&probe, 2, START + 700 * TT_MS), 2);
}

/* Whatever ranks are named, by whomever, nothing is touched that is not there, and blame comes to an end. */
static void ranks_that_do_not_exist_are_ignored(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 4);
    tt_probe_init(&probe, ranks, N);
    assert_false(tt_probe_ask(&probe, N, START));
    assert_false(tt_probe_answer(&probe, N, 0, START));
    assert_false(tt_probe_answer(&probe, UINT32_MAX, 0, START));
    assert_false(tt_probe_answer(&probe, 0, N, START));
    assert_int_equal(tt_probe_blame(&probe, N, START), UINT32_MAX);
    for (uint32_t i = 0; i < 100000; i++) {
        const uint64_t now = START + i * TT_MS;
        const uint32_t r = (uint32_t)tt_prng_below(&p, 2 * N), to = (uint32_t)tt_prng_below(&p, 2 * N);

        if (tt_prng_below(&p, 2))
            assert_true(!tt_probe_ask(&probe, r, now) || r < N);
        else
            assert_true(!tt_probe_answer(&probe, r, to, now) || (r < N && to < N));
        const uint32_t blamed = tt_probe_blame(&probe, (uint32_t)tt_prng_below(&p, N), now);

        assert_true(blamed < N || blamed == UINT32_MAX);
        assert_true(blamed == UINT32_MAX || now - ranks[blamed].first_ns >= TT_PROBE_SILENCE_NS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_ends_at_the_rank_that_is_silent),
        cmocka_unit_test(only_silence_of_half_a_second_is_blamed),
        cmocka_unit_test(a_circle_in_which_all_answer_blames_nobody),
        cmocka_unit_test(silent_ranks_that_nobody_waits_for_are_not_blamed),
        cmocka_unit_test(an_answer_ends_the_silence),
        cmocka_unit_test(asking_again_does_not_make_the_silence_shorter),
        cmocka_unit_test(who_changes_its_mind_is_followed),
        cmocka_unit_test(ranks_that_do_not_exist_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
