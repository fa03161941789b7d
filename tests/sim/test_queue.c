/* The queue of events against sorting. */
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

/* Pushes and pops at random, times from `spread` values from now on; each pop is the earliest that was pushed first. */
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
                fail_msg("seed %llu, spread %llu, step %d: %u at %llu, not %u at %llu", (unsigned long long)seed,
                         (unsigned long long)spread, i, item.what, (unsigned long long)item.time_ps, there[0].what,
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

static void events_come_by_time_and_those_of_one_time_in_turn(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        compare(seed, 1);
        compare(seed, 5);
        compare(seed, 1000);
        compare(seed, 1ull << 45);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(events_come_by_time_and_those_of_one_time_in_turn) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
