/* Unresponsive ranks: chains and cycles of waiting ranks. */
#include <string.h>
#include "base/clock.h"
#include "base/prng.h"
#include "comm/blame_search.h"
#include "support/unit.h"

#define N 8u
#define START (1000 * TT_SECOND)

static struct tt_blame_search_rank ranks[N];
static struct tt_blame_search probe;

static void begin(void)
{
    memset(ranks, 0, sizeof ranks);
    tt_blame_search_init(&probe, ranks, N);
}

/* Returns a wait for `rank` in the collective of these tests. */
static struct tt_waiting waiting(uint32_t rank)
{
    return (struct tt_waiting){ .context = 1, .op = 5, .rank = rank };
}

/* A rank replies that it waits for another one in that collective. Returns whether the other one
 * must be queried now. */
static bool answer(uint32_t rank, uint32_t waits_for, uint64_t now)
{
    const struct tt_waiting w = waiting(waits_for), of = waiting(rank);
    struct tt_waiting ask[TT_WAITINGS];
    const uint32_t n = tt_blame_search_answer(&probe, rank, &of, &w, 1,
                                              rank < N ? ranks[rank].asked_ns : 0, now, ask);

    assert_true(n == 0 || (n == 1 && ask[0].rank == waits_for));
    return n > 0;
}

/* A rank replies that it is in no operation. Returns how many ranks must be queried now. */
static uint32_t answer_none(uint32_t rank, const struct tt_waiting *of, uint64_t now)
{
    struct tt_waiting waits[TT_WAITINGS] = { 0 }, ask[TT_WAITINGS];

    return tt_blame_search_answer(&probe, rank, of, waits, 0, ranks[rank].asked_ns, now, ask);
}

/* Calls tt_blame_search_blame; *guilty: the unresponsive rank, or the idle one. */
static enum tt_blame blame_of(struct tt_blame_search *p, const struct tt_waiting *w,
                              uint64_t since_ns, uint64_t now_ns, uint32_t *guilty,
                              struct tt_waiting *ask)
{
    struct tt_blamed b;
    const enum tt_blame blame = tt_blame_search_blame(p, w, since_ns, now_ns, &b, ask);

    *guilty = blame == TT_BLAME_RANK ? b.silent : b.idle;
    return blame;
}

/* Returns the blamed rank, without new queries. */
static uint32_t blamed(uint32_t rank, uint64_t now)
{
    const struct tt_waiting w = waiting(rank);
    struct tt_waiting ask;
    uint32_t guilty = UINT32_MAX;
    const enum tt_blame blame = blame_of(&probe, &w, 0, now, &guilty, &ask);

    assert_int_equal(ask.rank, UINT32_MAX);
    assert_true(blame != TT_BLAME_RANK || guilty != UINT32_MAX);
    return blame == TT_BLAME_RANK ? guilty : UINT32_MAX;
}

/* waits_for[r]: the rank that r waits for; N: none. Rank r does not reply if its bit in `silent` is
 * set. This rank waits for rank 0, and queries as often as permitted for this time. Returns the
 * blamed rank. */
static uint32_t blamed_after(const uint32_t waits_for[N], uint32_t silent, uint64_t ns)
{
    uint64_t now = START;

    begin();
    for (; now < START + ns; now += 10 * TT_MS) {
        uint32_t ask = 0;
        bool now_ask = tt_blame_search_should_query(&probe, ask, now);

        for (uint32_t i = 0; now_ask && i < 2 * N; i++) {
            if (silent >> ask & 1)
                break;
            now_ask = answer(ask, waits_for[ask], now);
            ask = waits_for[ask];
        }
    }
    return blamed(0, now);
}

static void chain_ends_at_the_silent_rank(void **state)
{
    static const uint32_t chain[N] = { 1, 2, 3, 4, 5, 6, 7, N };

    (void)state;
    for (uint32_t r = 0; r < N; r++) {
        assert_int_equal(blamed_after(chain, 1u << r, TT_SECOND), r);
        /* ranks behind it are unknown */
        assert_int_equal(blamed_after(chain, ~0u << r, TT_SECOND), r);
    }
    assert_int_equal(blamed_after(chain, 0, TT_SECOND), UINT32_MAX);
}

static void half_a_second_of_silence_counts(void **state)
{
    static const uint32_t chain[N] = { 1, 2, N, N, N, N, N, N };

    (void)state;
    assert_int_equal(blamed_after(chain, 1u << 2, TT_RESPONSE_SILENCE_NS - 20 * TT_MS), UINT32_MAX);
    assert_int_equal(blamed_after(chain, 1u << 2, TT_RESPONSE_SILENCE_NS + 20 * TT_MS), 2);
}

static void responsive_cycle_blames_no_rank(void **state)
{
    static const uint32_t circle[N] = { 1, 2, 0, N, N, N, N, N },
                          self[N] = { 0, N, N, N, N, N, N, N };

    (void)state;
    assert_int_equal(blamed_after(circle, 0, TT_SECOND), UINT32_MAX);
    assert_int_equal(blamed_after(self, 0, TT_SECOND), UINT32_MAX);
    assert_int_equal(blamed_after(circle, 1u << 2, TT_SECOND), 2);
    assert_int_equal(blamed_after(circle, 1u << 0, TT_SECOND), 0);
}

static void unneeded_silent_ranks_are_not_blamed(void **state)
{
    static const uint32_t chain[N] = { 1, N, 3, 4, 5, N, N, N };

    (void)state;
    assert_int_equal(blamed_after(chain, 0xfc, TT_SECOND), UINT32_MAX);
}

static void an_answer_ends_the_silence(void **state)
{
    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 3, START));
    assert_int_equal(blamed(3, START + TT_SECOND), 3);
    assert_false(answer(3, UINT32_MAX, START + TT_SECOND));
    assert_int_equal(blamed(3, START + 10 * TT_SECOND), UINT32_MAX);
    assert_true(tt_blame_search_should_query(&probe, 3, START + 10 * TT_SECOND));
    /* it is queried again only now */
    assert_int_equal(blamed(3, START + 10 * TT_SECOND), UINT32_MAX);
    assert_int_equal(blamed(3, START + 10 * TT_SECOND + TT_PROBE_SILENCE_NS_MAX), 3);
}

/* On a busy machine, responses take long: a rank that has not responded yet is not silent yet. */
static void slow_responses_extend_the_silence(void **state)
{
    const uint64_t took = 200 * TT_MS, asked = START + TT_SECOND;

    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 1, START));
    assert_false(answer(1, UINT32_MAX, START + took));
    assert_true(tt_blame_search_should_query(&probe, 3, asked));
    assert_int_equal(blamed(3, asked + TT_RESPONSE_SILENCE_NS), UINT32_MAX);
    assert_int_equal(blamed(3, asked + TT_RESPONSE_SLOWER * took - 1), UINT32_MAX);
    assert_int_equal(blamed(3, asked + TT_RESPONSE_SLOWER * took), 3);
    for (uint32_t i = 0; i < 30; i++) {         /* the machine is idle again */
        assert_true(tt_blame_search_should_query(&probe, 1, asked + (2 + i) * TT_SECOND));
        answer(1, UINT32_MAX, asked + (2 + i) * TT_SECOND + TT_MS);
    }
    assert_true(tt_blame_search_should_query(&probe, 2, START + 40 * TT_SECOND));
    assert_int_equal(blamed(2, START + 40 * TT_SECOND + TT_RESPONSE_SILENCE_NS), 2);
}

static void repeated_queries_keep_the_silence(void **state)
{
    uint64_t now = START;
    uint32_t asked = 0;

    (void)state;
    begin();
    for (; now < START + TT_SECOND; now += TT_MS)
        asked += tt_blame_search_should_query(&probe, 5, now);
    assert_int_equal(asked, TT_SECOND / TT_PROBE_EVERY_NS);        /* and not more often */
    assert_int_equal(blamed(5, now), 5);
}

static void changed_replies_are_followed(void **state)
{
    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 1, START));
    assert_true(answer(1, 2, START));           /* this queries 2 */
    assert_true(tt_blame_search_should_query(&probe, 1, START + 600 * TT_MS));
    assert_true(answer(1, 3, START + 600 * TT_MS));
    assert_int_equal(blamed(1, START + 700 * TT_MS), UINT32_MAX);
    assert_int_equal(blamed(1, START + 1200 * TT_MS), 3);
    assert_int_equal(blamed(2, START + 700 * TT_MS), 2);
}

/* ---- several operations ---- */

#define NO_NUMBER UINT64_MAX

/* Rank 1 is in operations 4, 5 and a receive, and waits for another rank in each. Rank 2 is only in
 * the receive's communicator. */
static void search_follows_the_operation_if_possible(void **state)
{
    static const struct tt_waiting waits[] = { { 1, 3, 4, false, false },
                                               { 1, 4, 5, false, false },
                                               { 2, 6, NO_NUMBER, false, false } };
    static const struct {
        struct tt_waiting of;
        uint32_t silent, blamed;
    } cases[] = {
        { { 1, 1, 4, false, false }, 3, 3 }, { { 1, 1, 4, false, false }, 4, UINT32_MAX },
        { { 1, 1, 5, false, false }, 4, 4 }, { { 1, 1, 5, false, false }, 6, UINT32_MAX },
        { { 1, 1, 7, false, false }, 6, 6 }, { { 1, 1, 7, false, false }, 4, 4 },
        { { 2, 1, 5, false, false }, 3, 3 },         { { 2, 1, NO_NUMBER, false, false }, 4, 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_waiting ask[TT_WAITINGS];
        uint32_t guilty = UINT32_MAX;

        begin();
        assert_true(tt_blame_search_should_query(&probe, 1, START));
        assert_true(tt_blame_search_should_query(&probe, cases[i].silent, START));
        for (uint32_t k =
                 tt_blame_search_answer(&probe, 1, &cases[i].of, waits, 3, START, START, ask);
             k > 0; k--)
            answer(ask[k - 1].rank, UINT32_MAX, START);
        assert_int_equal(blame_of(&probe, &cases[i].of, 0, START + TT_RESPONSE_SILENCE_NS, &guilty,
                                  ask) == TT_BLAME_RANK,
                         cases[i].blamed != UINT32_MAX);
        assert_int_equal(guilty, cases[i].blamed);
    }
}

static void only_blocking_ranks_are_queried(void **state)
{
    static const struct tt_waiting waits[] = { { 1, 3, 4, false, false },
                                               { 1, 4, 5, false, false },
                                               { 2, 6, NO_NUMBER, false, false },
                                               { 2, UINT32_MAX, 9, false, false } };
    const struct tt_waiting in = { 1, 1, 5, false, false }, not_in = { 1, 1, 8, false, false };
    struct tt_waiting ask[TT_WAITINGS];

    (void)state;
    begin();
    assert_int_equal(tt_blame_search_answer(&probe, 1, &in, waits, 4, START, START, ask), 1);
    assert_int_equal(ask[0].rank, 4);
    assert_int_equal(ask[0].op, 5);
    /* rank 4 was just queried */
    assert_int_equal(tt_blame_search_answer(&probe, 1, &not_in, waits, 4, START, START, ask), 2);
    assert_int_equal(ask[0].rank, 3);
    assert_int_equal(ask[1].rank, 6);
}

/* A cycle through two operations: rank 1's first one waits for rank 2, which has not reached the
 * second. */
static void all_operations_of_a_rank_count(void **state)
{
    static const struct tt_waiting of_1[] = { { 1, 3, 4, false, false },
                                              { 1, 2, 5, false, false } },
                                   of_2[] = { { 1, 1, 4, false, false } };
    const struct tt_waiting first = { 1, 1, 5, false, false };
    struct tt_waiting ask[TT_WAITINGS];
    uint32_t guilty = UINT32_MAX;

    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 1, START));
    assert_int_equal(tt_blame_search_answer(&probe, 1, &first, of_1, 2, START, START, ask), 1);
    assert_int_equal(tt_blame_search_answer(&probe, 2, &first, of_2, 1, START, START, ask), 0);
    assert_true(tt_blame_search_should_query(&probe, 3, START));
    assert_int_equal(blame_of(&probe, &first, 0, START + TT_SECOND, &guilty, ask), TT_BLAME_RANK);
    assert_int_equal(guilty, 3);
}

/* ---- at the deadline ---- */

/* Ranks 0 and 1 wait, and rank 2 replies that it is idle. Replies before the deadline do not
 * count. */
static void idle_responsive_rank_is_reported(void **state)
{
    const uint64_t deadline = START + TT_SECOND;
    const struct tt_waiting first = waiting(0), last = waiting(2);
    struct tt_waiting ask;
    uint32_t told = N;

    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 0, deadline - TT_MS));
    assert_true(answer(0, 1, deadline - TT_MS));
    assert_true(answer(1, 2, deadline - TT_MS));
    assert_int_equal(answer_none(2, &last, deadline - TT_MS), 0);
    for (uint32_t r = 0; r <= 2; r++) {
        assert_int_equal(blame_of(&probe, &first, deadline, deadline, &told, &ask), TT_BLAME_OPEN);
        assert_int_equal(ask.rank, r);
        assert_int_equal(told, UINT32_MAX);
    }
    assert_false(answer(0, 1, deadline));
    assert_false(answer(1, 2, deadline));
    assert_int_equal(blame_of(&probe, &first, deadline, deadline, &told, &ask), TT_BLAME_OPEN);
    assert_int_equal(told, UINT32_MAX);
    assert_int_equal(answer_none(2, &last, deadline), 0);
    assert_int_equal(blame_of(&probe, &first, deadline, deadline, &told, &ask), TT_BLAME_NOBODY);
    assert_int_equal(told, 2);

    assert_false(answer(2, 0, deadline + TT_MS));       /* now they wait in a cycle */
    assert_int_equal(blame_of(&probe, &first, deadline, deadline + TT_MS, &told, &ask),
                     TT_BLAME_NOBODY);
    assert_int_equal(told, UINT32_MAX);
}

/* Two queries are in flight when the reply to the first arrives, which was sent before the
 * deadline. */
/* This rank waits for rank 0. Its last call failed while it waited for rank 1, and that of rank 1
 * while it waited for rank 2, which is in no operation. */
static void failed_calls_lead_to_idle_rank(void **state)
{
    static const struct tt_waiting of_0 = { 2, 1, 3, true, false }, of_1 = { 3, 2, 1, true, false };
    const struct tt_waiting w = waiting(0), w1 = { 2, 1, 3, false, false },
                            w2 = { 3, 2, 1, false, false };
    struct tt_waiting ask[TT_WAITINGS];
    struct tt_blamed b;

    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 0, START));
    assert_int_equal(tt_blame_search_answer(&probe, 0, &w, &of_0, 1, START, START, ask), 1);
    assert_int_equal(tt_blame_search_answer(&probe, 1, &w1, &of_1, 1, START, START, ask), 1);
    assert_int_equal(answer_none(2, &w2, START), 0);
    assert_int_equal(tt_blame_search_blame(&probe, &w, START, START, &b, ask), TT_BLAME_NOBODY);
    assert_int_equal(b.idle, 2);
    assert_int_equal(b.next, 1);
    assert_true(b.next_ended);
}

/* Two ranks are in no operation: either one may block the others. */
static void several_idle_ranks_are_not_named(void **state)
{
    static const struct tt_waiting of_0[] = { { 2, 1, 3, false, false },
                                              { 3, 2, 4, false, false } };
    const struct tt_waiting w = waiting(0);
    struct tt_waiting ask[TT_WAITINGS];
    struct tt_blamed b;

    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 0, START));
    assert_int_equal(tt_blame_search_answer(&probe, 0, &w, of_0, 2, START, START, ask), 2);
    answer_none(1, &w, START);
    answer_none(2, &w, START);
    assert_int_equal(tt_blame_search_blame(&probe, &w, START, START, &b, ask), TT_BLAME_NOBODY);
    assert_int_equal(b.idle, UINT32_MAX);
    assert_int_equal(b.next, 1);
    assert_false(b.next_ended);
}

/* A silent rank that has reported a failure may have ended because of it. After it has replied,
 * its silence counts again. */
static void silent_failed_rank_is_not_blamed(void **state)
{
    const struct tt_waiting w = waiting(0);
    struct tt_waiting ask[TT_WAITINGS];
    struct tt_blamed b;

    (void)state;
    begin();
    tt_blame_search_failed(&probe, 0);
    assert_true(tt_blame_search_should_query(&probe, 0, START));
    assert_int_equal(
        tt_blame_search_blame(&probe, &w, 0, START + TT_RESPONSE_SILENCE_NS - 1, &b, ask),
        TT_BLAME_OPEN);
    assert_int_equal(tt_blame_search_blame(&probe, &w, 0, START + TT_RESPONSE_SILENCE_NS, &b, ask),
                     TT_BLAME_NOBODY);
    assert_int_equal(b.gone, 0);
    assert_int_equal(b.silent, UINT32_MAX);
    answer_none(0, &w, START + TT_SECOND);
    assert_true(tt_blame_search_should_query(&probe, 0, START + 2 * TT_SECOND));
    assert_int_equal(tt_blame_search_blame(&probe, &w, 0, START + 6 * TT_SECOND, &b, ask),
                     TT_BLAME_RANK);
    assert_int_equal(b.silent, 0);
    tt_blame_search_failed(&probe, N);
}

static void old_reply_is_not_new(void **state)
{
    const uint64_t old = START, deadline = START + 300 * TT_MS, asked = deadline + TT_MS;
    const struct tt_waiting w = waiting(1), next = waiting(3);
    struct tt_waiting ask[TT_WAITINGS];
    uint32_t guilty = UINT32_MAX;

    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 1, old));
    assert_true(tt_blame_search_should_query(&probe, 1, asked));
    assert_int_equal(tt_blame_search_answer(&probe, 1, &w, ask, 0, old, asked + TT_MS, ask), 0);
    assert_int_equal(blame_of(&probe, &w, deadline, asked + TT_MS, &guilty, ask), TT_BLAME_OPEN);
    assert_int_equal(
        blame_of(&probe, &w, deadline, asked + TT_RESPONSE_SILENCE_NS - 1, &guilty, ask),
        TT_BLAME_OPEN);
    assert_int_equal(blame_of(&probe, &w, deadline, asked + TT_RESPONSE_SILENCE_NS, &guilty, ask),
                     TT_BLAME_RANK);
    assert_int_equal(guilty, 1);

    /* In the opposite order: the reply to the later query arrives first. */
    begin();
    assert_true(tt_blame_search_should_query(&probe, 1, old));
    assert_true(tt_blame_search_should_query(&probe, 1, asked));
    assert_int_equal(tt_blame_search_answer(&probe, 1, &w, &next, 1, asked, asked + TT_MS, ask), 1);
    assert_int_equal(tt_blame_search_answer(&probe, 1, &w, ask, 0, old, asked + TT_MS, ask), 0);
    assert_int_equal(
        blame_of(&probe, &w, deadline, asked + TT_MS + TT_RESPONSE_SILENCE_NS, &guilty, ask),
        TT_BLAME_RANK);
    assert_int_equal(guilty, 3);
}

/* A rank that replied before the deadline is queried once more; only that reply counts. */
static void reply_before_deadline_does_not_acquit(void **state)
{
    const uint64_t deadline = START + TT_SECOND;
    const struct tt_waiting w = waiting(1);
    struct tt_waiting ask;
    uint32_t guilty = UINT32_MAX;

    (void)state;
    begin();
    assert_true(tt_blame_search_should_query(&probe, 1, deadline - TT_MS));
    assert_true(answer(1, 2, deadline - TT_MS));
    assert_false(answer(2, UINT32_MAX, deadline - TT_MS));
    assert_int_equal(blame_of(&probe, &w, deadline, deadline, &guilty, &ask), TT_BLAME_OPEN);
    assert_int_equal(ask.rank, 1);
    assert_int_equal(blame_of(&probe, &w, deadline, deadline, &guilty, &ask), TT_BLAME_OPEN);
    assert_int_equal(ask.rank, 2);
    assert_int_equal(blame_of(&probe, &w, deadline, deadline, &guilty, &ask), TT_BLAME_OPEN);
    assert_int_equal(ask.rank, UINT32_MAX);
    assert_false(answer(1, 2, deadline + TT_MS));       /* it was queried a moment ago */
    assert_int_equal(blame_of(&probe, &w, deadline, deadline + TT_MS, &guilty, &ask),
                     TT_BLAME_OPEN);
    assert_int_equal(
        blame_of(&probe, &w, deadline, deadline + TT_RESPONSE_SILENCE_NS, &guilty, &ask),
        TT_BLAME_RANK);
    assert_int_equal(guilty, 2);
    assert_false(answer(2, UINT32_MAX, deadline + TT_RESPONSE_SILENCE_NS));
    assert_int_equal(
        blame_of(&probe, &w, deadline, deadline + TT_RESPONSE_SILENCE_NS, &guilty, &ask),
        TT_BLAME_NOBODY);
    assert_int_equal(ask.rank, UINT32_MAX);
}

/* Invalid rank numbers in any reply cause no invalid access, and the search ends. */
static void nonexistent_ranks_are_ignored(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 4);
    begin();
    assert_false(tt_blame_search_should_query(&probe, N, START));
    assert_false(answer(N, 0, START));
    assert_false(answer(UINT32_MAX, 0, START));
    assert_false(answer(0, N, START));
    assert_int_equal(blamed(N, START), UINT32_MAX);
    for (uint32_t i = 0; i < 100000; i++) {
        const uint64_t now = START + i * TT_MS;
        const uint64_t since = now - tt_prng_below(&p, TT_SECOND);
        const uint32_t r = (uint32_t)tt_prng_below(&p, 2 * N),
                       n = (uint32_t)tt_prng_below(&p, TT_WAITINGS + 1);
        struct tt_waiting waits[TT_WAITINGS], ask[TT_WAITINGS],
            of = { 1, r, tt_prng_below(&p, 3), false, false };
        uint32_t guilty = UINT32_MAX;
        enum tt_blame blame;

        for (uint32_t k = 0; k < n; k++)
            waits[k] = (struct tt_waiting){ 1, (uint32_t)tt_prng_below(&p, 2 * N),
                                            tt_prng_below(&p, 3), tt_prng_below(&p, 2), false };
        if (tt_prng_below(&p, 2))
            assert_true(!tt_blame_search_should_query(&probe, r, now) || r < N);
        else
            for (uint32_t k = tt_blame_search_answer(&probe, r, &of, waits, n,
                                                     now - tt_prng_below(&p, TT_SECOND), now, ask);
                 k > 0; k--)
                assert_true(r < N && ask[k - 1].rank < N);
        blame = blame_of(&probe, &of, since, now, &guilty, ask);
        assert_true(ask->rank < N || ask->rank == UINT32_MAX);
        assert_true(guilty < N || (guilty == UINT32_MAX && blame != TT_BLAME_RANK));
        assert_true(blame != TT_BLAME_RANK ||
                    now - ranks[guilty].first_ns >= TT_RESPONSE_SILENCE_NS);
        if (blame != TT_BLAME_RANK && guilty != UINT32_MAX)
            assert_true(ranks[guilty].nwaits == 0 && !ranks[guilty].first_ns &&
                        ranks[guilty].asked_ns >= since);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_ends_at_the_silent_rank),
        cmocka_unit_test(half_a_second_of_silence_counts),
        cmocka_unit_test(responsive_cycle_blames_no_rank),
        cmocka_unit_test(unneeded_silent_ranks_are_not_blamed),
        cmocka_unit_test(an_answer_ends_the_silence),
        cmocka_unit_test(slow_responses_extend_the_silence),
        cmocka_unit_test(repeated_queries_keep_the_silence),
        cmocka_unit_test(changed_replies_are_followed),
        cmocka_unit_test(search_follows_the_operation_if_possible),
        cmocka_unit_test(only_blocking_ranks_are_queried),
        cmocka_unit_test(all_operations_of_a_rank_count),
        cmocka_unit_test(idle_responsive_rank_is_reported),
        cmocka_unit_test(failed_calls_lead_to_idle_rank),
        cmocka_unit_test(several_idle_ranks_are_not_named),
        cmocka_unit_test(silent_failed_rank_is_not_blamed),
        cmocka_unit_test(old_reply_is_not_new),
        cmocka_unit_test(reply_before_deadline_does_not_acquit),
        cmocka_unit_test(nonexistent_ranks_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
