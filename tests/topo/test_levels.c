/* Levels from latencies: any tree of hosts is reconstructed, also with noise, and with a bounded
 * number of measurements. */
#include "support/unit.h"

#include <string.h>

#include "base/prng.h"
#include "topo/levels.h"
#include "topo/rank_location.h"

#define HOSTS_MAX 200u
#define US 1000u

/* A tree: at each level, starting outside, hosts are assigned to groups at random; the distance of
 * a pair is the level that separates it. */
struct tree {
    uint32_t nhosts, nlevels;
    uint32_t latency_ns[TT_LEVELS_MAX];     /* of pairs whose nearest common group has level i,
                                               with 0 the nearest */
    uint32_t group[TT_LEVELS_MAX][HOSTS_MAX];
    uint32_t noise_percent;
    struct tt_prng prng;
};

static void tree_draw(struct tree *t, uint64_t seed, uint32_t hosts_max)
{
    uint64_t latency_ns = 5 * US;

    tt_prng_init(&t->prng, seed);
    t->nhosts = 2 + (uint32_t)tt_prng_below(&t->prng, hosts_max - 1);
    t->nlevels = 1 + (uint32_t)tt_prng_below(&t->prng, TT_LEVELS_MAX);
    t->noise_percent = (uint32_t)tt_prng_below(&t->prng, 40);
    for (uint32_t i = 0; i < t->nlevels; i++) {
        t->latency_ns[i] = (uint32_t)latency_ns;
        latency_ns = latency_ns * (3 + tt_prng_below(&t->prng, 9)) + 50 * US;
    }
    memset(t->group, 0, sizeof t->group);
    for (uint32_t i = t->nlevels - 1; i-- > 0;)     /* the outermost contains all; each group
                                                       contains up to four */
        for (uint32_t h = 0; h < t->nhosts; h++)
            t->group[i][h] = 4 * t->group[i + 1][h] + (uint32_t)tt_prng_below(&t->prng, 4);
}

static uint32_t tree_level(const struct tree *t, uint32_t a, uint32_t b)
{
    uint32_t i = 0;

    while (t->group[i][a] != t->group[i][b])
        i++;
    return i;
}

static uint32_t tree_measure(struct tree *t, uint32_t a, uint32_t b)
{
    const uint32_t latency_ns = t->latency_ns[tree_level(t, a, b)];

    return latency_ns +
           (uint32_t)(latency_ns / 100ull * tt_prng_below(&t->prng, t->noise_percent + 1));
}

static struct tt_rank_location place_of(const struct tt_levels *l, const struct tt_level_groups *g,
                                        uint32_t host)
{
    struct tt_labels labels;
    struct tt_rank_location told;

    tt_levels_label(l, g, host, &labels);
    tt_rank_location_init(&told, host, TT_UNKNOWN, 0, (struct tt_rails_near){ 0 }, &labels,
                          TT_NODE_MESH);
    return told;
}

/* In a layout derived from the labels, pairs of one level of the tree have one distance, and pairs
 * of a farther level a larger one. */
static void check_layout(const struct tree *t, const struct tt_levels *l,
                         const struct tt_level_groups *groups, uint64_t seed)
{
    struct tt_rank_location places[HOSTS_MAX];
    enum tt_distance of_level[TT_LEVELS_MAX] = { TT_NEAR_SELF };
    struct tt_layout layout;

    for (uint32_t h = 0; h < t->nhosts; h++)
        places[h] = place_of(l, &groups[h], h);
    assert_true(tt_layout_derive(&layout, places, t->nhosts));
    for (uint32_t a = 0; a < t->nhosts; a++)
        for (uint32_t b = a + 1; b < t->nhosts; b++) {
            const uint32_t level = tree_level(t, a, b);
            const enum tt_distance d = tt_layout_distance(&layout, a, b);

            if (of_level[level] == TT_NEAR_SELF)
                of_level[level] = d;
            if (of_level[level] != d)
                fail_msg("seed %llu: hosts %u and %u of level %u are at \"%s\", others at \"%s\"",
                         (unsigned long long)seed, a, b, level, tt_distance_name(d),
                         tt_distance_name(of_level[level]));
        }
    for (uint32_t i = 0, last = TT_NEAR_HOST; i < t->nlevels; i++) {
        if (of_level[i] == TT_NEAR_SELF)
            continue;       /* no pair is that far apart by chance */
        if (of_level[i] <= last)
            fail_msg("seed %llu: level %u is at \"%s\", one inside it at \"%s\"",
                     (unsigned long long)seed, i, tt_distance_name(of_level[i]),
                     tt_distance_name((enum tt_distance)last));
        last = of_level[i];
    }
    tt_layout_fini(&layout);
}

/* As in comm, with random latencies instead of measured ones. */
static void find_all(struct tree *t, struct tt_levels *l, struct tt_level_groups *groups,
                     uint64_t seed)
{
    const uint32_t ncore = t->nhosts < TT_LEVELS_CORE ? t->nhosts : TT_LEVELS_CORE;
    static uint32_t latency_ns[TT_LEVELS_CORE * TT_LEVELS_CORE];
    struct tt_level_groups core[TT_LEVELS_CORE], met[TT_LEVELS_CORE];
    uint32_t meetings = 0, first[TT_LEVELS_CORE], nfirsts;
    bool is_core[HOSTS_MAX] = { false };

    memset(latency_ns, 0, sizeof latency_ns);
    for (uint32_t round = 0; round < tt_levels_rounds(ncore); round++)
        for (uint32_t i = 0; i < ncore; i++) {
            const uint32_t k = tt_levels_partner(ncore, round, i);

            if (k == UINT32_MAX)
                continue;
            assert_true(k < ncore && k != i);
            assert_int_equal(tt_levels_partner(ncore, round, k), i);
            if (i > k)
                continue;
            assert_int_equal(latency_ns[i * ncore + k], 0);     /* each pair is measured once */
            latency_ns[i * ncore + k] =
                tree_measure(t, tt_levels_core(t->nhosts, i), tt_levels_core(t->nhosts, k));
            meetings++;
        }
    assert_int_equal(meetings, ncore * (ncore - 1) / 2);
    tt_levels_find(l, core, latency_ns, ncore);
    nfirsts = tt_levels_firsts(core, ncore, first);
    for (uint32_t i = 0; i < nfirsts; i++)
        met[i] = core[first[i]];
    for (uint32_t i = 0; i < ncore; i++) {
        const uint32_t h = tt_levels_core(t->nhosts, i);

        if (h >= t->nhosts || is_core[h])
            fail_msg("seed %llu: host %u meets all twice, of %u", (unsigned long long)seed, h,
                     t->nhosts);
        is_core[h] = true;
        groups[h] = core[i];
    }
    for (uint32_t h = 0; h < t->nhosts; h++) {
        uint32_t to_met[TT_LEVELS_CORE];

        for (uint32_t i = 0; i < nfirsts && !is_core[h]; i++)
            to_met[i] = tree_measure(t, h, tt_levels_core(t->nhosts, first[i]));
        if (!is_core[h])
            tt_levels_join(l, &groups[h], met, to_met, nfirsts, TT_LEVELS_CORE + h);
    }
}

static void host_tree_is_reconstructed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct tt_level_groups groups[HOSTS_MAX];
        struct tt_levels l;
        struct tree t;

        if (!unit_draw())
            continue;
        tree_draw(&t, seed, TT_LEVELS_CORE);
        find_all(&t, &l, groups, seed);
        check_layout(&t, &l, groups, seed);
    }
}

/* With more groups than are measured, hosts without a measured neighbour stay separate; reported
 * distances are never too small. */
static void unmeasured_hosts_are_never_too_near(void **state)
{
    uint32_t right = 0, pairs = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct tt_rank_location places[HOSTS_MAX];
        struct tt_level_groups groups[HOSTS_MAX];
        enum tt_distance of_level[TT_LEVELS_MAX] = { TT_NEAR_SELF };
        struct tt_layout layout;
        struct tt_levels l;
        struct tree t;

        if (!unit_draw())
            continue;
        tree_draw(&t, seed, HOSTS_MAX);
        find_all(&t, &l, groups, seed);
        for (uint32_t h = 0; h < t.nhosts; h++)
            places[h] = place_of(&l, &groups[h], h);
        assert_true(tt_layout_derive(&layout, places, t.nhosts));
        for (uint32_t i = 0, n = t.nhosts < TT_LEVELS_CORE ? t.nhosts : TT_LEVELS_CORE; i < n; i++)
            for (uint32_t k = i + 1; k < n; k++) {
                const uint32_t a = tt_levels_core(t.nhosts, i), b = tt_levels_core(t.nhosts, k);

                of_level[tree_level(&t, a, b)] = tt_layout_distance(&layout, a, b);
            }
        for (uint32_t a = 0; a < t.nhosts; a++)
            for (uint32_t b = a + 1; b < t.nhosts; b++) {
                const enum tt_distance d = tt_layout_distance(&layout, a, b),
                                       real = of_level[tree_level(&t, a, b)];

                if (real == TT_NEAR_SELF)
                    continue;       /* no measured pair is that far apart */
                if (d < real)
                    fail_msg(
                        "seed %llu: hosts %u and %u of %u are told at \"%s\", and are at \"%s\"",
                        (unsigned long long)seed, a, b, t.nhosts, tt_distance_name(d),
                        tt_distance_name(real));
                right += d == real;
                pairs++;
            }
        tt_layout_fini(&layout);
    }
    assert_true(right > pairs * 9ull / 10);
}

static void interference_with_one_pair_is_ignored(void **state)
{
    static const uint32_t ns[4][4] = { { 0, 2000 * US, 20000 * US, 20500 * US },
                                       /* interference in the last measurement */
                                       { 0, 0, 20100 * US, 90000 * US },
                                       { 0, 0, 0, 2100 * US } };
    struct tt_level_groups groups[4];
    struct tt_levels l;

    (void)state;
    tt_levels_find(&l, groups, &ns[0][0], 4);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.level[0].npairs, 2);
    assert_int_equal(l.level[1].npairs, 4);
    assert_int_equal(l.level[1].least_ns, 20000 * US);
    assert_int_equal(l.level[1].typical_ns, 20500 * US);
    assert_int_equal(l.level[1].most_ns, 90000 * US);
    assert_int_equal(groups[0].group[0], groups[1].group[0]);
    assert_int_equal(groups[2].group[0], groups[3].group[0]);
    assert_int_not_equal(groups[0].group[0], groups[2].group[0]);
}

/* Latencies of levels, and their distance classes. */
static void latencies_map_to_distance_classes(void **state)
{
    static const struct {
        uint32_t n, us[TT_LEVELS_MAX];
        enum tt_distance distance[TT_LEVELS_MAX];
    } cases[] = {
        { 1, { 30 }, { TT_NEAR_RACK } },
        { 1, { 300 }, { TT_NEAR_BUILDING } },
        { 1, { 80000 }, { TT_NEAR_WAN } },
        { 2, { 30, 60 }, { TT_NEAR_RACK, TT_NEAR_ZONE } },
        { 2, { 30, 40000 }, { TT_NEAR_RACK, TT_NEAR_WAN } },
        { 2, { 4000, 40000 }, { TT_NEAR_FABRIC, TT_NEAR_WAN } },
        { 3, { 20, 45, 95 }, { TT_NEAR_RACK, TT_NEAR_ZONE, TT_NEAR_BUILDING } },
        { 3, { 3000, 9000, 90000 }, { TT_NEAR_BUILDING, TT_NEAR_FABRIC, TT_NEAR_WAN } },
        { 5,
          { 5, 40, 300, 3000, 50000 },
          { TT_NEAR_RACK, TT_NEAR_ZONE, TT_NEAR_BUILDING, TT_NEAR_FABRIC, TT_NEAR_WAN } },
        { 5,
          { 2000, 5000, 11000, 30000, 90000 },
          { TT_NEAR_RACK, TT_NEAR_ZONE, TT_NEAR_BUILDING, TT_NEAR_FABRIC, TT_NEAR_WAN } },
    };

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const uint32_t n = cases[c].n + 1;      /* host i is farther from the earlier ones than
                                                   host i - 1 is */
        uint32_t ns[36] = { 0 };
        struct tt_level_groups groups[6];
        struct tt_levels l;

        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = a + 1; b < n; b++)
                ns[a * n + b] = cases[c].us[b - 1] * US;
        tt_levels_find(&l, groups, ns, n);
        assert_int_equal(l.n, cases[c].n);
        for (uint32_t i = 0; i < l.n; i++)
            if (l.level[i].distance != cases[c].distance[i])
                fail_msg("case %zu: level %u is \"%s\"", c, i,
                         tt_distance_name(l.level[i].distance));
    }
}

/* More gaps than names: the widest are kept. */
static void widest_gaps_are_kept(void **state)
{
    /* 33000 is hardly more than 15000 */
    static const uint32_t us[] = { 50, 150, 1500, 15000, 33000, 330000, 3300000 };
    uint32_t ns[64] = { 0 };
    struct tt_level_groups groups[8];
    struct tt_levels l;

    (void)state;
    for (uint32_t a = 0; a < 8; a++)
        for (uint32_t b = a + 1; b < 8; b++)
            ns[a * 8 + b] = us[b - 1] * US;
    tt_levels_find(&l, groups, ns, 8);
    assert_int_equal(l.n, TT_LEVELS_MAX);
    assert_int_equal(l.level[0].high_ns, 150 * US);
    assert_int_equal(l.level[2].low_ns, 15000 * US);
    assert_int_equal(l.level[2].high_ns, 33000 * US);
}

static void uniform_hosts_need_no_labels(void **state)
{
    static const uint32_t ns[9] = { 0, 30 * US, 35 * US, 0, 0, 45 * US };
    struct tt_level_groups groups[3];
    struct tt_labels labels;
    struct tt_levels l;

    (void)state;
    tt_levels_find(&l, groups, ns, 3);
    assert_int_equal(l.n, 1);
    for (uint32_t h = 0; h < 3; h++) {
        tt_levels_label(&l, &groups[h], h, &labels);
        for (int d = 0; d < TT_NEAR_WAN; d++)
            assert_string_equal(labels.label[d], "");
    }
    tt_levels_find(&l, groups, ns, 1);
    assert_int_equal(l.n, 0);
    assert_int_equal(tt_levels_rounds(1), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_tree_is_reconstructed),
        cmocka_unit_test(unmeasured_hosts_are_never_too_near),
        cmocka_unit_test(interference_with_one_pair_is_ignored),
        cmocka_unit_test(latencies_map_to_distance_classes),
        cmocka_unit_test(widest_gaps_are_kept),
        cmocka_unit_test(uniform_hosts_need_no_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
