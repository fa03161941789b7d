#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "ringorder/ring_cases.h"
#include "ringorder/ring_exact.h"

struct search {
    const struct tt_ring_costs *c;
    uint32_t order[16];
    struct tt_ring_value best;
};

/* Appends each remaining peer to the placed ones, whose links have the value `so_far`, if that is
 * better than the best ring. */
static void try_all(struct search *s, uint32_t placed, struct tt_ring_value so_far)
{
    if (!tt_ring_value_less(so_far, s->best))
        return;
    if (placed == s->c->n) {
        const struct tt_ring_value v = tt_ring_value_of(s->c, s->order);

        if (tt_ring_value_less(v, s->best))
            s->best = v;
        return;
    }
    for (uint32_t k = placed; k < s->c->n; k++) {
        const uint32_t peer = s->order[k];
        struct tt_ring_value then = so_far;

        s->order[k] = s->order[placed];
        s->order[placed] = peer;
        if (placed > 0) {
            const uint64_t link = (uint64_t)s->order[placed - 1] * s->c->n + peer;

            then.slow = s->c->slow[link] > then.slow ? s->c->slow[link] : then.slow;
            then.sum += s->c->cost[link];
        }
        try_all(s, placed + 1, then);
        s->order[placed] = s->order[k];
        s->order[k] = peer;
    }
}

static void is_an_order(const uint32_t *order, uint32_t n)
{
    bool seen[TT_RING_PEERS_MAX] = { false };

    for (uint32_t i = 0; i < n; i++) {
        assert_true(order[i] < n && !seen[order[i]]);
        seen[order[i]] = true;
    }
}

/* Returns whether there is a ring, with some tenths of the links missing; checks that it is the
 * best of all orders. */
static bool check_exact(uint32_t n, enum ring_kind kind, uint64_t seed, uint64_t missing,
                        void *memory)
{
    struct search s = { .best = { TT_RING_NONE, UINT64_MAX } };
    uint32_t order[16] = { 0 };
    struct ring_case r;
    struct tt_prng p;
    bool found;

    ring_case_draw(&r, kind, n, seed);
    tt_prng_init(&p, seed);
    for (uint64_t at = 0; at < (uint64_t)n * n; at++)
        if (tt_prng_below(&p, 10) < missing)
            r.slow[at] = TT_RING_NONE;
    s.c = &r.c;
    for (uint32_t k = 0; k < n; k++)
        s.order[k] = k;
    try_all(&s, n > 1 ? 1 : 0, (struct tt_ring_value){ 0, 0 });
    found = tt_ring_exact(&r.c, memory, order);
    if (found != (s.best.slow != TT_RING_NONE))
        fail_msg("seed %llu, %u peers: %s", (unsigned long long)seed, n,
                 found ? "a ring that is none" : "there is a ring");
    if (found) {
        const struct tt_ring_value v = tt_ring_value_of(&r.c, order);

        is_an_order(order, n);
        if (v.slow != s.best.slow || v.sum != s.best.sum)
            fail_msg("seed %llu, %u peers (%s): %llu, %llu; the best is %llu, %llu",
                     (unsigned long long)seed, n, ring_kind_name(r.kind),
                     (unsigned long long)v.slow, (unsigned long long)v.sum,
                     (unsigned long long)s.best.slow, (unsigned long long)s.best.sum);
    }
    ring_case_free(&r);
    return found;
}

/* All orders of up to 8 peers; links are removed until there often is no ring. */
static void exact_order_is_best_to_8(void **state)
{
    void *memory = malloc(tt_ring_exact_bytes(8));
    uint32_t rings = 0, none = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        if (!unit_draw())
            continue;
        if (check_exact(1 + (uint32_t)(seed % 8), (enum ring_kind)(seed / 8 % RING_KINDS), seed,
                        seed % 7, memory))
            rings++;
        else
            none++;
    }
    free(memory);
    assert_true(rings > 100 / unit_share() && none > 20 / unit_share());
}

/* The sizes that are always solved exactly. */
static void exact_order_is_best_to_12(void **state)
{
    void *memory = malloc(tt_ring_exact_bytes(12));

    (void)state;
    for (uint64_t seed = 0; seed < 4 * RING_KINDS; seed++)
        if (unit_draw())
            check_exact(12 - (uint32_t)(seed / RING_KINDS), (enum ring_kind)(seed % RING_KINDS),
                        seed, seed % 3, memory);
    free(memory);
}

/* One pass over pairs (slowest, sum) would be wrong here: the path with the faster slowest link has
 * the higher sum, and finally a link follows that is slower than both. */
static void slow_start_with_low_sum_wins(void **state)
{
    enum { N = 5 };
    uint64_t slow[N * N], cost[N * N];
    const struct tt_ring_costs c = { N, slow, cost };
    uint64_t memory[(1 << 4) * 4 + 1];
    uint32_t order[N];
    struct tt_ring_value v;

    (void)state;
    for (int i = 0; i < N * N; i++) {
        slow[i] = TT_RING_NONE;
        cost[i] = 1;
    }
#define LINK(from, to, s, c) (slow[(from)*N + (to)] = (s), cost[(from)*N + (to)] = (c))
    LINK(0, 1, 1, 50);      /* 0 1 2 3: slowest 1, sum 150 */
    LINK(1, 2, 1, 50);
    LINK(2, 3, 1, 50);
    LINK(0, 2, 5, 10);      /* 0 2 1 3: slowest 5, sum 30 */
    LINK(2, 1, 5, 10);
    LINK(1, 3, 5, 10);
    LINK(3, 4, 9, 10);      /* a path that enters through 3 continues over a link of 9 */
    LINK(4, 0, 1, 10);
#undef LINK
    assert_true(sizeof memory >= tt_ring_exact_bytes(N));
    assert_true(tt_ring_exact(&c, memory, order));
    v = tt_ring_value_of(&c, order);
    assert_int_equal(v.slow, 9);
    assert_int_equal(v.sum, 50);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_order_is_best_to_8),
        cmocka_unit_test(exact_order_is_best_to_12),
        cmocka_unit_test(slow_start_with_low_sum_wins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
