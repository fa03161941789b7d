#include "support/unit.h"

#include <stdlib.h>

#include "base/prng.h"
#include "ringorder/ring_arbor.h"
#include "ringorder/ring_assign.h"
#include "ringorder/ring_bound.h"
#include "ringorder/ring_cases.h"
#include "ringorder/ring_dfs.h"
#include "ringorder/ring_exact.h"
#include "ringorder/ring_reach.h"

#define N_MAX 7

static void bounds_never_exceed_the_best(void **state)
{
    void *exact = malloc(tt_ring_exact_bytes(14)), *memory = malloc(tt_ring_sum_bound_bytes(14));
    uint32_t tight = 0, looked_at = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 140; seed++) {
        const uint32_t n = 2 + (uint32_t)(seed / RING_KINDS % 13);
        struct tt_ring_value best;
        uint32_t order[14];
        struct ring_case r;
        uint64_t bound;

        if (!unit_draw())
            continue;
        ring_case_draw(&r, (enum ring_kind)(seed % RING_KINDS), n, seed);
        assert_true(tt_ring_exact(&r.c, exact, order));
        best = tt_ring_value_of(&r.c, order);
        assert_true(tt_ring_slow_bound(&r.c, memory) <= best.slow);
        assert_true(tt_ring_may_exist(&r.c, best.slow, memory));
        for (uint32_t rounds = 0; rounds <= 200; rounds += 100) {
            bound = tt_ring_sum_bound(&r.c, best.slow, best.sum, rounds, memory);
            if (bound > best.sum)
                fail_msg("seed %llu, %u peers (%s), %u rounds: the bound %llu is above %llu",
                         (unsigned long long)seed, n, ring_kind_name(r.kind), rounds,
                         (unsigned long long)bound, (unsigned long long)best.sum);
        }
        tight += bound * 20 >= best.sum * 19;
        looked_at++;
        ring_case_free(&r);
    }
    free(exact);
    free(memory);
    /* a share of the cases may be too small for this ratio */
    assert_true(looked_at > 0 && (unit_share() > 1 || tight * 10 >= looked_at * 9));
}

struct brute {
    uint32_t n;
    const int64_t *weight;
    uint32_t from[N_MAX];
    int64_t assignment, arborescence;
};

static bool reaches_root(const struct brute *b, uint32_t k)
{
    for (uint32_t steps = 0; steps < b->n && k != 0; steps++)
        k = b->from[k];
    return k == 0;
}

/* Tries every choice of predecessors. */
static void choose(struct brute *b, uint32_t k, int64_t sum, uint32_t used)
{
    bool tree = true;

    for (uint32_t i = 0; k < b->n && i < b->n; i++)
        if (i != k) {
            b->from[k] = i;
            choose(b, k + 1, sum + b->weight[i * b->n + k], used | 1u << i);
        }
    if (k < b->n)
        return;
    if (used == (1u << b->n) - 1 && sum < b->assignment)
        b->assignment = sum;
    for (uint32_t p = 1; p < b->n; p++)
        tree = tree && reaches_root(b, p);
    sum -= b->weight[b->from[0] * b->n];
    if (tree && sum < b->arborescence)
        b->arborescence = sum;
}

/* Up to 5 peers with small weights, so that there are many ties; negative ones for
 * arborescences. */
static void assignments_and_arborescences_are_the_cheapest(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        const uint32_t n = 2 + (uint32_t)(seed % 4);
        struct brute b = { .n = n, .assignment = INT64_MAX, .arborescence = INT64_MAX };
        uint64_t memory[512];
        int64_t weight[N_MAX * N_MAX];
        struct tt_ring_assign a;
        uint32_t from[N_MAX];
        struct tt_prng p;

        if (!unit_draw())
            continue;
        tt_prng_init(&p, seed);
        for (uint32_t k = 0; k < n * n; k++)
            weight[k] = (int64_t)tt_prng_below(&p, seed % 2 ? 6 : 1000);
        b.weight = weight;
        choose(&b, 0, 0, 0);
        assert_true(tt_ring_assign_bytes(n) <= sizeof memory &&
                    tt_ring_arbor_bytes(n) <= sizeof memory);
        tt_ring_assign_init(&a, n, weight, memory);
        while (!tt_ring_assign_step(&a))
            ;
        if (tt_ring_assign_sum(&a) != b.assignment)
            fail_msg("seed %llu, %u peers: assignment %lld, the best is %lld",
                     (unsigned long long)seed, n, (long long)tt_ring_assign_sum(&a),
                     (long long)b.assignment);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < n; k++)
                assert_true(i == k || weight[i * n + k] >= a.row_price[i] + a.column_price[k]);
        if (tt_ring_arbor(n, weight, from, memory) != b.arborescence)
            fail_msg("seed %llu, %u peers: an arborescence that is not the best",
                     (unsigned long long)seed, n);
    }
}

/* Few links of 10 peers: depth-first search finds a ring exactly if one exists, and so never if a
 * bound excludes it. */
static void depth_first_finds_existing_rings(void **state)
{
    void *exact = malloc(tt_ring_exact_bytes(10));
    uint32_t found = 0, none = 0, missed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        uint64_t memory[256];
        uint32_t order[10];
        enum tt_ring_dug dug;
        struct tt_ring_dfs d;
        struct ring_case r;
        struct tt_prng p;
        bool any;

        if (!unit_draw())
            continue;
        ring_case_draw(&r, RING_RANDOM, 10, seed);
        tt_prng_init(&p, seed);
        for (uint32_t k = 0; k < 100; k++)
            r.slow[k] = tt_prng_below(&p, 10) < 3 ? 1 : TT_RING_NONE;
        any = tt_ring_exact(&r.c, exact, order);
        assert_true(tt_ring_dfs_bytes(10) <= sizeof memory &&
                    tt_ring_reach_bytes(10) <= sizeof memory);
        tt_ring_dfs_init(&d, &r.c, 1, &p, memory);
        do
            dug = tt_ring_dfs_step(&d);
        while (dug == TT_RING_DIGGING);
        if (any != (dug == TT_RING_DUG))
            fail_msg("seed %llu: a ring %s", (unsigned long long)seed,
                     any ? "was not found" : "was found where there is none");
        if (any)
            assert_int_equal(tt_ring_value_of(&r.c, d.way).slow, 1);
        if (any)
            assert_true(tt_ring_may_exist(&r.c, 1, memory));
        else
            missed += tt_ring_may_exist(&r.c, 1, memory);
        found += any;
        none += !any;
        ring_case_free(&r);
    }
    free(exact);
    print_message("%u rings, %u without, of which %u are not seen by the bound\n", found, none,
                  missed);
    assert_true(found > 20 / unit_share() && none > 20 / unit_share() && missed < none);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_never_exceed_the_best),
        cmocka_unit_test(assignments_and_arborescences_are_the_cheapest),
        cmocka_unit_test(depth_first_finds_existing_rings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
