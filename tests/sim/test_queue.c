/* The event queue compared with sorting. */
#include <stdlib.h>

#include "base/prng.h"
#include "sim/queue.h"
#include "support/unit.h"

struct pushed {
    uint64_t time_ps;
    uint32_t what;
};

static int by_time_then_turn(const void *a, const void *b)
{
    const struct pushed *x = a, *y = b;

    if (x->time_ps != y->time_ps)
        return x->time_ps < y->time_ps ? -1 : 1;
    return x->what < y->what ? -1 : 1;
}

/* Pushes and pops at random, with times within `spread` of now; each pop is the earliest event, in
 * push order. */
static void compare(uint64_t seed, uint64_t spread)
{
    enum { MOST = 400 };
    struct pushed there[MOST];
    struct tt_queue_item item;
    struct tt_prng prng;
    struct tt_queue q;
    uint64_t now = 0;
    uint32_t n = 0, turn = 0;

    tt_prng_init(&prng, seed);
    tt_queue_init(&q);
    for (int i = 0; i < 20000; i++) {
        if (n < MOST && tt_prng_below(&prng, 2)) {
            there[n] = (struct pushed){ now + tt_prng_below(&prng, spread), turn++ };
            tt_queue_push(&q, (struct tt_queue_item){ there[n].time_ps, there[n].what });
            n++;
        } else if (n) {
            qsort(there, n, sizeof *there, by_time_then_turn);
            assert_true(tt_queue_pop(&q, &item));
            if (item.time_ps != there[0].time_ps || item.what != there[0].what)
                fail_msg("seed %llu, spread %llu, step %d: %u at %llu, not %u at %llu",
                         (unsigned long long)seed, (unsigned long long)spread, i, item.what,
                         (unsigned long long)item.time_ps, there[0].what,
                         (unsigned long long)there[0].time_ps);
            now = item.time_ps;
            there[0] = there[--n];
        }
    }
    while (n--)
        assert_true(tt_queue_pop(&q, &item));
    assert_false(tt_queue_pop(&q, &item));
    tt_queue_fini(&q);
}

static void equal_times_keep_their_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        compare(seed, 1);
        compare(seed, 5);
        compare(seed, 1000);
        compare(seed, 1ull << 45);
    }
}

/* As many events as in a simulation, with times within `spread` of now: time never decreases, and
 * events of equal times keep their order. Because nothing is pushed before now, this defines the
 * complete order. */
static void pour(uint64_t seed, uint32_t most, uint64_t spread)
{
    struct tt_queue_item item, last = { .time_ps = 0 };
    uint32_t pushed = 0, popped = 0;
    struct tt_prng prng;
    struct tt_queue q;

    tt_prng_init(&prng, seed);
    tt_queue_init(&q);
    while (popped < pushed || pushed < 4 * most) {
        const bool push = pushed < 4 * most && pushed - popped < most &&
                          (popped == pushed || tt_prng_below(&prng, 5) > 1);

        if (push) {
            tt_queue_push(&q, (struct tt_queue_item){ last.time_ps + tt_prng_below(&prng, spread),
                                                      pushed++ });
            continue;
        }
        assert_true(tt_queue_pop(&q, &item));
        if (popped++ && (item.time_ps < last.time_ps ||
                         (item.time_ps == last.time_ps && item.what < last.what)))
            fail_msg("seed %llu, %u events, spread %llu: %u at %llu came after %u at %llu",
                     (unsigned long long)seed, most, (unsigned long long)spread, item.what,
                     (unsigned long long)item.time_ps, last.what, (unsigned long long)last.time_ps);
        last = item;
    }
    assert_false(tt_queue_pop(&q, &item));
    tt_queue_fini(&q);
}

static void order_holds_for_many_events(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (uint32_t most = 100; most <= 10000; most *= 10)
            for (uint64_t spread = 1; spread <= 1ull << 40; spread <<= 8)
                pour(seed, most, spread);
}

/* Times are far apart or close together, so that the front of the queue ends far beyond the times
 * that are pushed next, and is cut. */
static void order_holds_for_near_and_far_times(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tt_queue_item item;
        struct tt_prng prng;
        struct tt_queue q;
        uint64_t now = 0;
        uint32_t n = 0;

        tt_prng_init(&prng, seed);
        tt_queue_init(&q);
        for (int i = 0; i < 200000; i++) {
            const bool fills = i / 5000 % 2 == 0;

            if (n == 0 || tt_prng_below(&prng, 4) < (fills ? 3 : 1)) {
                const uint64_t spread = 1ull << tt_prng_below(&prng, 2) * 20 << seed % 20;

                tt_queue_push(&q, (struct tt_queue_item){ now + tt_prng_below(&prng, spread), 0 });
                n++;
            } else {
                assert_true(tt_queue_pop(&q, &item));
                assert_true(item.time_ps >= now);
                now = item.time_ps;
                n--;
            }
        }
        tt_queue_fini(&q);
    }
}

/* A few near items do not extend the front to many far ones: it would have to sort the pushes
 * between them one by one. */
static void far_items_stay_out_of_a_short_front(void **state)
{
    struct tt_queue_item item;
    struct tt_queue q;

    (void)state;
    tt_queue_init(&q);
    tt_queue_push(&q, (struct tt_queue_item){ 1, 0 });
    for (uint32_t i = 0; i < 1000; i++)
        tt_queue_push(&q, (struct tt_queue_item){ (1u << 30) + i, i });
    assert_true(tt_queue_pop(&q, &item));
    assert_true(q.front_end_ps < 1u << 30);
    for (uint32_t i = 0; i < 1000; i++)
        tt_queue_push(&q, (struct tt_queue_item){ 5000 - i, i });
    assert_int_equal(q.front_n, q.front_first);
    for (uint32_t i = 0; i < 2000; i++) {
        assert_true(tt_queue_pop(&q, &item));
        assert_int_equal(item.time_ps, i < 1000 ? 4001 + i : (1u << 30) + i - 1000);
    }
    tt_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_times_keep_their_order),
        cmocka_unit_test(order_holds_for_many_events),
        cmocka_unit_test(order_holds_for_near_and_far_times),
        cmocka_unit_test(far_items_stay_out_of_a_short_front),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
