/* Neighbours in the control overlay: their responses, and the clock of the job, without sockets. */
#include <stdlib.h>

#include "comm/neighbours.h"
#include "support/unit.h"

#define MS 1000000ull

static const uint32_t ranks[] = { 4, 2, 5, 1 };     /* of rank 3 of 8 */
#define N 4u

static struct tt_neighbours *create(void)
{
    struct tt_neighbours *s = tt_neighbours_create(3, ranks, N);

    assert_non_null(s);
    for (uint32_t i = 0; i < N; i++)
        s->list[i].is_connected = true;
    return s;
}

/* A response after 1 ms from a clock that is ahead. */
static void respond(struct tt_neighbours *s, uint32_t rank, uint64_t sent_ns, uint64_t ahead_ns)
{
    const struct tt_clock_exchange x = { .sent_ns = sent_ns,
                                         .received_ns = sent_ns + MS,
                                         .arrived_ns = sent_ns + MS / 2 + ahead_ns,
                                         .replied_ns = sent_ns + MS / 2 + ahead_ns };
    const struct tt_clock_offset told = { .known = rank < 3, .offset_ns = -(int64_t)ahead_ns };

    tt_neighbours_answer(s, rank, &x, &told);
}

/* Queries all neighbours that are due; all but `silent` respond. Returns the number of queries. */
static uint32_t step(struct tt_neighbours *s, uint32_t silent, uint64_t now_ns)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < N; i++)
        if (tt_neighbours_is_due(s, i, now_ns)) {
            n++;
            if (ranks[i] != silent)
                respond(s, ranks[i], now_ns, 0);
        }
    return n;
}

static void the_rank_that_does_not_respond_is_silent(void **state)
{
    struct tt_neighbours *s = create();
    uint64_t now_ns = 1000 * MS;
    uint32_t steps = 0;

    (void)state;
    tt_neighbours_begin_roll(s, now_ns);
    assert_false(tt_neighbours_is_complete(s, now_ns));
    for (; !tt_neighbours_is_complete(s, now_ns); now_ns += 2 * MS, steps++) {
        step(s, 5, now_ns);
        assert_true(steps < 1000);
    }
    assert_true(now_ns >= 1000 * MS + TT_RESPONSE_SILENCE_NS);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(tt_neighbours_life(s, i, now_ns),
                         ranks[i] == 5 ? TT_NEIGHBOUR_SILENT : TT_NEIGHBOUR_RESPONDS);
    free(s);
}

/* The number of queries is bounded: a few per neighbour, and one to a silent one. */
static void queries_are_bounded(void **state)
{
    struct tt_neighbours *s = create();
    uint32_t n = 0;

    (void)state;
    tt_neighbours_begin_roll(s, 1000 * MS);
    for (uint64_t now_ns = 1000 * MS; now_ns < 3000 * MS; now_ns += 2 * MS)
        n += step(s, 5, now_ns);
    assert_int_equal(n, (N - 1) * TT_NEIGHBOURS_SAMPLES + 1);
    free(s);
}

/* Responses that were sent before the roll call began do not count. */
static void old_responses_do_not_count(void **state)
{
    struct tt_neighbours *s = create();

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        assert_true(tt_neighbours_is_due_every(s, i, 100 * MS, 500 * MS));
        assert_false(tt_neighbours_is_due_every(s, i, 100 * MS, 550 * MS));
        respond(s, ranks[i], 500 * MS, 0);
    }
    tt_neighbours_begin_roll(s, 1000 * MS);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(tt_neighbours_life(s, i, 2000 * MS), TT_NEIGHBOUR_UNKNOWN);
    assert_int_equal(step(s, 5, 1000 * MS), N);
    assert_int_equal(tt_neighbours_life(s, 0, 1002 * MS), TT_NEIGHBOUR_RESPONDS);
    free(s);
}

/* The roll call does not wait for a rank that has left in order, or is lost. */
static void ended_connections_are_not_awaited(void **state)
{
    struct tt_neighbours *s = create();

    (void)state;
    for (uint32_t i = 0; i < N; i++)
        s->list[i].is_connected = ranks[i] == 2;
    tt_neighbours_begin_roll(s, 1000 * MS);
    for (uint64_t now_ns = 1000 * MS; now_ns < 1100 * MS; now_ns += 2 * MS)
        step(s, 9, now_ns);
    assert_true(tt_neighbours_is_complete(s, 1100 * MS));
    assert_int_equal(tt_neighbours_life(s, 0, 2000 * MS), TT_NEIGHBOUR_UNKNOWN);
    free(s);
}

/* The clock comes from lower ranks only; if they contradict each other, it is unknown. */
static void the_clock_comes_from_lower_ranks(void **state)
{
    struct tt_neighbours *s = create();
    struct tt_clock_offset o;

    (void)state;
    tt_neighbours_begin_roll(s, 1000 * MS);
    step(s, 9, 1000 * MS);
    o = tt_neighbours_clock(s, 1001 * MS);
    assert_true(o.known && o.error_ns < MS);
    assert_true(o.offset_ns <= (int64_t)o.error_ns && o.offset_ns >= -(int64_t)o.error_ns);
    tt_neighbours_answer(s, 2, &(struct tt_clock_exchange){ .sent_ns = 1000 * MS,
                                                            .received_ns = 1001 * MS,
                                                            .arrived_ns = 1000 * MS,
                                                            .replied_ns = 1000 * MS },
                         &(struct tt_clock_offset){ true, 500 * MS, 10 });
    assert_false(tt_neighbours_clock(s, 1001 * MS).known);
    free(s);
    s = tt_neighbours_create(0, ranks, N);
    assert_non_null(s);
    assert_true(tt_neighbours_clock(s, 5).known);
    free(s);
}

/* Responses without a query, and responses of other ranks than neighbours, change nothing. */
static void invented_responses_are_ignored(void **state)
{
    struct tt_neighbours *s = create();

    (void)state;
    tt_neighbours_begin_roll(s, 1000 * MS);
    respond(s, 4, 1000 * MS, 0);
    respond(s, 7, 1000 * MS, 0);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(tt_neighbours_life(s, i, 1002 * MS), TT_NEIGHBOUR_UNKNOWN);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_that_does_not_respond_is_silent),
        cmocka_unit_test(queries_are_bounded),
        cmocka_unit_test(old_responses_do_not_count),
        cmocka_unit_test(ended_connections_are_not_awaited),
        cmocka_unit_test(the_clock_comes_from_lower_ranks),
        cmocka_unit_test(invented_responses_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
