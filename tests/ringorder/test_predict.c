#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "algo/twotree.h"
#include "base/prng.h"
#include "ringorder/ring_cases.h"
#include "ringorder/ring_order.h"
#include "ringorder/ring_predict.h"

#define SEGMENT 1000u       /* bytes; rates are such that it takes a whole number of ns */
#define N 6u

struct net {
    uint64_t rate[N * N], latency[N * N], segment_ns[N * N];
    uint64_t wide[N];
    struct tt_ring_matrix m;
};

static void draw(struct net *w, uint64_t seed)
{
    static const uint64_t ns[] = { 1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 500 };
    struct tt_prng p;

    tt_prng_init(&p, seed);
    for (uint32_t k = 0; k < N * N; k++) {
        w->segment_ns[k] = ns[tt_prng_below(&p, sizeof ns / sizeof *ns)] * 1000;
        w->rate[k] = SEGMENT * 1000000000ull / w->segment_ns[k];
        w->latency[k] = tt_prng_below(&p, seed % 3 ? 300000 : 5000000);
    }
    for (uint32_t k = 0; k < N; k++)
        w->wide[k] = 1000000000000ull;
    w->m = (struct tt_ring_matrix){ N, w->rate, w->latency, w->wide, w->wide };
}

static void shuffle(uint32_t *order, uint64_t seed)
{
    struct tt_prng p;

    tt_prng_init(&p, seed);
    for (uint32_t k = 0; k < N; k++) {
        const uint32_t other = (uint32_t)tt_prng_below(&p, k + 1);

        order[k] = order[other];
        order[other] = k;
    }
}

/* Simulates every segment of every block over every link: it leaves when the previous one has, and
 * when the same segment of the previous block has arrived from the left. */
static uint64_t simulate_ring(const struct net *w, const uint32_t *order, uint32_t segments)
{
    const uint32_t all = 2 * (N - 1) * segments;
    uint64_t *start = calloc((size_t)N * all, sizeof *start), end = 0;

    assert_non_null(start);
    for (uint32_t q = 0; q < all; q++)
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t link = order[i] * N + order[(i + 1) % N], left = (i + N - 1) % N,
                           before = order[left] * N + order[i];
            uint64_t at = q ? start[(q - 1) * N + i] + w->segment_ns[link] : 0;

            if (q >= segments) {
                const uint64_t came =
                    start[(q - segments) * N + left] + w->segment_ns[before] + w->latency[before];

                at = came > at ? came : at;
            }
            start[q * N + i] = at;
            if (at + w->segment_ns[link] + w->latency[link] > end)
                end = at + w->segment_ns[link] + w->latency[link];
        }
    free(start);
    return end;
}

static void ring_prediction_matches_segment_simulation(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        const uint32_t segments = 1 + (uint32_t)(seed % 9);
        const struct tt_ring_load load = { (uint64_t)N * segments * SEGMENT, SEGMENT };
        uint64_t predicted, simulated;
        uint32_t order[N];
        struct net w;

        draw(&w, seed);
        shuffle(order, seed);
        predicted = tt_ring_predict(&w.m, &load, order);
        simulated = simulate_ring(&w, order, segments);
        if (predicted != simulated)
            fail_msg("seed %llu, %u segments: %llu ns; one by one %llu ns",
                     (unsigned long long)seed, segments, (unsigned long long)predicted,
                     (unsigned long long)simulated);
    }
}

/* Without limits: each ring as if alone, with half of the bytes. A limit equal to one link: both
 * links of a peer get half of it. */
static void two_rings_share_the_uplink(void **state)
{
    const uint32_t there[N] = { 0, 1, 2, 3, 4, 5 }, back[N] = { 5, 4, 3, 2, 1, 0 };
    const struct tt_ring_load load = { 2 * N * SEGMENT, 0 }, half = { N * SEGMENT, 0 };
    uint64_t alone, other;
    struct net w;

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        draw(&w, seed);
        alone = tt_ring_predict(&w.m, &half, there);
        other = tt_ring_predict(&w.m, &half, back);
        assert_int_equal(tt_ring_predict_two(&w.m, &load, there), alone > other ? alone : other);
    }
    for (uint32_t k = 0; k < N * N; k++) {
        w.rate[k] = 1000000;
        w.latency[k] = 0;
    }
    w.m.up = w.m.down = NULL;       /* then a peer is as fast as its fastest link: 1 MB/s for
                                       both of its links */
    assert_int_equal(tt_ring_predict_two(&w.m, &load, there), tt_ring_predict(&w.m, &load, there));
    w.m.up = w.m.down = w.wide;
    assert_int_equal(tt_ring_predict_two(&w.m, &load, there), tt_ring_predict(&w.m, &half, there));
}

/* With two peers, both rings would have the same two links. */
static void two_peers_have_no_second_ring(void **state)
{
    const uint32_t order[] = { 0, 1 };
    const uint64_t rate[] = { 0, 1000, 500, 0 }, latency[] = { 0, 7, 9, 0 };
    const struct tt_ring_matrix m = { 2, rate, latency, NULL, NULL };
    const struct tt_ring_load load = { 1 << 20, 0 };

    (void)state;
    assert_int_equal(tt_ring_predict_two(&m, &load, order), tt_ring_predict(&m, &load, order));
}

static uint64_t time_up(const struct net *w, const uint32_t *order, uint32_t tree, uint32_t node,
                        bool down)
{
    uint64_t longest = 0;

    for (uint32_t child = 1; child <= N; child++)
        if (tt_ring_tree_parent(N, tree, child) == node) {
            const uint32_t a = order[(down ? node : child) - 1],
                           b = order[(down ? child : node) - 1];
            const uint64_t way = time_up(w, order, tree, child, down) + w->segment_ns[a * N + b] +
                                 w->latency[a * N + b];

            longest = way > longest ? way : longest;
        }
    return longest;
}

static void trees_take_their_longest_path(void **state)
{
    (void)state;
    for (uint32_t m = 1; m <= 40; m++)
        for (uint32_t tree = 0; tree < 2; tree++)
            for (uint32_t node = 1; node <= m; node++)
                assert_int_equal(tt_ring_tree_parent(m, tree, node),
                                 tt_tree_place(m, tree, node).parent);
    for (uint64_t seed = 0; seed < 100; seed++) {
        const struct tt_ring_load load = { 2 * SEGMENT, 0 };
        uint64_t longest = 0;
        uint32_t order[N];
        struct net w;

        draw(&w, seed);
        shuffle(order, seed);
        for (uint32_t tree = 0; tree < 2; tree++) {
            const uint32_t root = tt_tree_root(N, tree);
            const uint64_t way =
                time_up(&w, order, tree, root, false) + time_up(&w, order, tree, root, true);

            longest = way > longest ? way : longest;
        }
        assert_int_equal(tt_ring_predict_trees(&w.m, &load, order), longest);
    }
}

static void missing_link_excludes_a_shape(void **state)
{
    const uint32_t order[N] = { 0, 1, 2, 3, 4, 5 }, back[N] = { 5, 4, 3, 2, 1, 0 };
    const struct tt_ring_load load = { 1 << 20, 0 };
    uint64_t ns[TT_RING_SHAPES];
    struct net w;

    (void)state;
    draw(&w, 1);
    w.rate[0 * N + 1] = 0;
    ns[TT_RING_ONE] = tt_ring_predict(&w.m, &load, order);
    ns[TT_RING_TWO] = tt_ring_predict_two(&w.m, &load, order);
    ns[TT_RING_TREES] = tt_ring_predict_trees(&w.m, &load, order);
    assert_true(ns[TT_RING_ONE] == TT_RING_NONE && ns[TT_RING_TWO] == TT_RING_NONE &&
                ns[TT_RING_TREES] == TT_RING_NONE);
    assert_int_equal(tt_ring_fastest(ns), TT_RING_ONE);
    ns[TT_RING_TREES] = 5;
    assert_int_equal(tt_ring_fastest(ns), TT_RING_TREES);
    ns[TT_RING_ONE] = 5;
    assert_int_equal(tt_ring_fastest(ns), TT_RING_ONE);
    assert_true(tt_ring_predict(&w.m, &load, back) != TT_RING_NONE);
}

static void change_must_exceed_its_cost(void **state)
{
    const struct tt_ring_change c = {
        .now_ns = 1000, .then_ns = 900, .reconnect_ns = 5000, .steps = 51, .gain_percent = 10
    };
    struct tt_ring_change d;

    (void)state;
    assert_true(tt_ring_is_worth(&c));
    d = c, d.steps = 50;
    assert_false(tt_ring_is_worth(&d));
    d = c, d.gain_percent = 11, d.steps = 1000000;
    assert_false(tt_ring_is_worth(&d));
    d = c, d.then_ns = 1000, d.reconnect_ns = 0, d.gain_percent = 0;
    assert_false(tt_ring_is_worth(&d));
    d = c, d.now_ns = TT_RING_NONE, d.steps = 0;
    assert_true(tt_ring_is_worth(&d));
    d.then_ns = TT_RING_NONE;
    assert_false(tt_ring_is_worth(&d));
}

static void reconnecting_costs_new_links_alone(void **state)
{
    const uint32_t now[N] = { 0, 1, 2, 3, 4, 5 }, turned[N] = { 3, 4, 5, 0, 1, 2 },
                   other[N] = { 0, 1, 2, 4, 3, 5 };
    struct net w;

    (void)state;
    for (uint32_t k = 0; k < N * N; k++) {
        w.rate[k] = 1000;       /* bytes/s: the first window is sufficient */
        w.latency[k] = 1000;
    }
    w.m = (struct tt_ring_matrix){ N, w.rate, w.latency, NULL, NULL };
    assert_int_equal(tt_ring_reconnect_ns(&w.m, now, turned, 3), 0);
    assert_int_equal(tt_ring_reconnect_ns(&w.m, now, other, 3), 3 * 2000);
    w.latency[2 * N + 4] = 100000000;       /* 100.001 ms round trip, and 100 MB/s: 10.0001 MB in
                                               flight, 10 doublings of 14,600 */
    w.rate[2 * N + 4] = 100000000;
    assert_int_equal(tt_ring_reconnect_ns(&w.m, now, other, 3), (3 + 10) * 100001000ull);
    assert_int_equal(tt_ring_reconnect_ns(&w.m, NULL, now, 1), 2000);
}

/* ---- the selected order ---- */

static void try_all(const struct ring_case *r, uint32_t *order, uint32_t placed, uint64_t *best)
{
    const uint32_t n = r->m.n;

    if (placed == n) {
        const uint64_t ns = tt_ring_predict(&r->m, &r->load, order);

        *best = ns < *best ? ns : *best;
        return;
    }
    for (uint32_t k = placed; k < n; k++) {
        const uint32_t peer = order[k];

        order[k] = order[placed];
        order[placed] = peer;
        try_all(r, order, placed + 1, best);
        order[placed] = order[k];
        order[k] = peer;
    }
}

/* All orders of up to 8 peers: none is predicted to be more than 10 % faster than the order
 * selected by the slowest link and the sum. */
static void order_is_nearly_the_fastest(void **state)
{
    double worst = 1;
    uint32_t same = 0, looked_at = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 210; seed++) {
        const uint32_t n = 2 + (uint32_t)(seed / RING_KINDS % 7);
        uint32_t order[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
        uint64_t best = TT_RING_NONE;
        struct tt_ring_ordered found;
        struct tt_ring_order *o;
        struct ring_case r;
        void *memory;

        if (!unit_draw())
            continue;
        ring_case_draw(&r, (enum ring_kind)(seed % RING_KINDS), n, seed);
        try_all(&r, order, 1, &best);
        memory = malloc(tt_ring_order_bytes(n));
        o = tt_ring_order_init(memory, &r.m, &r.load, NULL, seed);
        assert_false(tt_ring_order_step(o, tt_ring_order_enough(n)));
        found = tt_ring_order_found(o, order);
        assert_true(found.any && found.predicted_ns == tt_ring_predict(&r.m, &r.load, order));
        assert_true(found.bound_ns <= best);
        if (found.predicted_ns * 10 > best * 11)
            fail_msg("seed %llu, %u peers (%s): %llu ns; the fastest takes %llu",
                     (unsigned long long)seed, n, ring_kind_name(r.kind),
                     (unsigned long long)found.predicted_ns, (unsigned long long)best);
        same += found.predicted_ns == best;
        looked_at++;
        worst = (double)found.predicted_ns / (double)best > worst
                    ? (double)found.predicted_ns / (double)best
                    : worst;
        free(memory);
        ring_case_free(&r);
    }
    print_message("%u matrices, %u with the fastest order; worst %.4f of it\n", looked_at, same,
                  worst);
    assert_true(looked_at > 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_prediction_matches_segment_simulation),
        cmocka_unit_test(two_rings_share_the_uplink),
        cmocka_unit_test(two_peers_have_no_second_ring),
        cmocka_unit_test(trees_take_their_longest_path),
        cmocka_unit_test(missing_link_excludes_a_shape),
        cmocka_unit_test(change_must_exceed_its_cost),
        cmocka_unit_test(reconnecting_costs_new_links_alone),
        cmocka_unit_test(order_is_nearly_the_fastest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
