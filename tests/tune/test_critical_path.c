/* The walk: it orders candidates like the simulator where closed forms cannot, it is bounded, and
 * equal on all ranks. */
#include <math.h>
#include <string.h>

#include "algo/algos.h"
#include "support/unit.h"
#include "tune/tune.h"
#include "tune/critical_path.h"

static const enum tt_coll_kind kinds[] = {
    TT_ALLREDUCE, TT_REDUCE, TT_REDUCE_SCATTER, TT_ALLGATHER,
    TT_BROADCAST, TT_GATHER, TT_SCATTER,        TT_ALLTOALL
};
#define NKINDS (sizeof kinds / sizeof *kinds)

static const struct tt_topo_link links[TT_DISTANCES] = {
    [TT_NEAR_SOCKET] = { 500, 450e9, 1 },
    [TT_NEAR_HOST] = { 500, 450e9, 1 },
    [TT_NEAR_RACK] = { 1000, 50e9, 1 },
    [TT_NEAR_ZONE] = { 7000, 0, 1 },
    [TT_NEAR_BUILDING] = { 15000, 0, 1 },
    [TT_NEAR_FABRIC] = { 30000, 0, 2.8 },
};

/* Four buildings with this total of ranks, as in the built-in description except for its numbers of
 * racks and zones: hosts of 8 ranks and 8 rails, two per rack. */
static void make_layout(struct tt_layout *l, uint32_t nranks)
{
    tt_layout_regular(l, nranks, 8, 1, 8, TT_NODE_MESH);
    l->group_ranks[TT_NEAR_RACK] = 16;
    l->group_ranks[TT_NEAR_BUILDING] = nranks / 4;
    l->group_ranks[TT_NEAR_ZONE] = nranks >= 512 ? nranks / 16 : nranks / 8;
    l->group_ranks[TT_NEAR_FABRIC] = nranks;
}

/* A NIC driven from user space; bytes are copied and summed at `gbs` GB/s. */
static void make_conf(struct tt_tune_conf *conf, const struct tt_layout *layout, double gbs)
{
    const struct tt_des_way near = {
        .send_ns = 470, .receive_ns = 42, .send_byte_ns = 1 / gbs, .mapped = true
    };
    const struct tt_des_way far = { .send_ns = 300, .receive_ns = 200, .direct = true };

    *conf = (struct tt_tune_conf){
        .layout = layout, .links = links,
        .costs = {
            .far = far, .near = near, .near_latency_ns = 100, .far_latency_ns = 30000, .reduce_byte_ns = 1 / gbs,
            .copy_byte_ns = 1 / gbs, .plan_ns = 300, .step_ns = 50,
        },
        .model = {
            .message_ns = 30500, .byte_ns = 0.02, .reduce_byte_ns = 1 / gbs, .copy_byte_ns = 1 / gbs,
            .near_message_ns = 1000, .near_byte_ns = 1 / gbs,
        },
        .limits = { .segment_bytes = 128 << 10, .eager_bytes = 8192 },
    };
    tt_tune_set_limits(conf);
}

static double walked(const struct tt_tune_conf *conf, const struct tt_coll *c, const char *name)
{
    const struct tt_algo *algo = tt_algo_find(c, name);
    struct tt_critical_path *w = tt_critical_path_open(conf);
    struct tt_prediction p;
    struct tt_segments s;

    assert_non_null(w);
    s = tt_segments_choose(algo, c, &conf->limits);
    assert_int_equal(tt_critical_path_run(w, c, algo, &s, TT_TUNE_STEPS_MAX, 0, &p), TUTTI_OK);
    tt_critical_path_close(w);
    return p.time_ns;
}

static double simulated(const struct tt_tune_conf *conf, const struct tt_coll *c,
                        const struct tt_algo *algo)
{
    const struct tt_segments s = tt_segments_choose(algo, c, &conf->limits);
    struct tt_prediction p;

    assert_int_equal(tt_predict(conf, c, algo, &s, 0, 0, &p), TUTTI_OK);
    return p.time_ns;
}

/* All orders of doubling send the same messages and bytes, so their closed forms differ at most by
 * copies. If copies cost next to nothing farthest-first is the fastest, because it sends little
 * between buildings; if they are slow nearest-first is, because it needs no copies. */
static void walk_selects_the_simulated_best_order(void **state)
{
    static const char *const orders[] = { "doubling", "far", "hybrid" };
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    make_layout(&layout, 256);
    for (int slow = 0; slow < 2; slow++) {
        struct tt_coll c = { .kind = TT_ALLGATHER,
                             .nranks = 256,
                             .elem_bytes = 4,
                             .bytes = 32 << 10,
                             .layout = &layout };
        const char *by_walk = NULL, *by_simulation = NULL;
        double least_walked = 0, least_simulated = 0;

        make_conf(&conf, &layout, slow ? 12.5 : 1000);
        for (int i = 0; i < 3; i++) {
            const double w = walked(&conf, &c, orders[i]),
                         s = simulated(&conf, &c, tt_algo_find(&c, orders[i]));

            if (!by_walk || w < least_walked) {
                by_walk = orders[i];
                least_walked = w;
            }
            if (!by_simulation || s < least_simulated) {
                by_simulation = orders[i];
                least_simulated = s;
            }
        }
        assert_string_equal(by_walk, by_simulation);
        assert_string_equal(by_walk, slow ? "doubling" : "far");
    }
}

/* Each round of doubling uses other links: omitted rounds differ from the others. */
static void short_programs_are_walked_completely(void **state)
{
    static const char *const orders[] = { "doubling", "far", "hybrid" };
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    make_layout(&layout, 1024);
    make_conf(&conf, &layout, 100);
    for (int i = 0; i < 3; i++) {
        const struct tt_coll c = {
            .kind = TT_ALLGATHER, .nranks = 1024, .elem_bytes = 4, .bytes = 8, .layout = &layout
        };
        const double w = walked(&conf, &c, orders[i]),
                     s = simulated(&conf, &c, tt_algo_find(&c, orders[i]));

        if (fabs(w / s - 1) > 0.05)
            fail_msg("%s takes %.0f ns walked, and %.0f ns simulated", orders[i], w, s);
    }
}

/* Compares the selections for many ranks with the fastest simulated candidate. */
static void check_choices(const struct tt_layout *layout)
{
    struct tt_tune_conf conf;
    static struct tt_tune_report report;
    double sum = 0, sum_model = 0;
    uint32_t n = 0;

    make_conf(&conf, layout, 100);
    for (size_t k = 0; k < NKINDS; k++)
        for (uint64_t bytes = 256; bytes <= 1 << 20; bytes *= 64) {
            const struct tt_coll c = { .kind = kinds[k],
                                       .nranks = layout->nranks,
                                       .elem_bytes = 4,
                                       .bytes = bytes,
                                       .layout = layout };
            struct tt_tune_choice choice;
            double best = 0, chosen = 0, model = 0;

            if (bytes > 16384 && kinds[k] != TT_ALLREDUCE && kinds[k] != TT_BROADCAST &&
                kinds[k] != TT_REDUCE)
                continue;
            choice = tt_tune_choose(&conf, &c, NULL, true, &report);
            assert_int_equal(choice.by, TT_BY_WALK);
            assert_null(report.why_model);
            for (uint32_t i = 0; i < report.ncandidates; i++) {
                double s;

                if (report.candidate[i].state != TT_WALKED)
                    continue;
                s = simulated(&conf, &c, report.candidate[i].algo);
                best = best <= 0 || s < best ? s : best;
                if (report.candidate[i].algo == choice.algo)
                    chosen = s;
                if (report.candidate[i].algo == tt_algo_choose(&c, &conf.model))
                    model = s;
            }
            if (chosen > 2 * best)
                fail_msg("%s of %llu bytes: %s takes %.0f ns, and the best %.0f",
                         tt_coll_name(c.kind), (unsigned long long)bytes, choice.algo->name, chosen,
                         best);
            sum += log(chosen / best);
            sum_model += log((model > 0 ? model : chosen) / best);
            n++;
        }
    if (exp(sum / n) > 1.1)
        fail_msg("what is chosen takes %.2f times as long as the best in the mean; by closed forms "
                 "it is %.2f",
                 exp(sum / n), exp(sum_model / n));
    assert_true(sum <= sum_model);
}

static void selection_is_near_the_simulated_best(void **state)
{
    struct tt_layout layout;

    (void)state;
    make_layout(&layout, 128);
    check_choices(&layout);
}

/* Each rank has a core. */
static void single_host_selection_is_near_best(void **state)
{
    struct tt_layout layout;

    (void)state;
    tt_layout_regular(&layout, 96, 96, 2, 1, TT_NODE_MESH);
    check_choices(&layout);
}

/* A double tree over partly walked ranks cannot be in step, and long broadcasts use it
 * nevertheless. */
static void unwalkable_programs_use_closed_forms(void **state)
{
    struct tt_layout layout;
    struct tt_tune_conf conf;
    const struct tt_coll c = { .kind = TT_BROADCAST,
                               .nranks = 131072,
                               .elem_bytes = 4,
                               .bytes = 16 << 20,
                               .layout = &layout };
    static struct tt_tune_report report;
    struct tt_tune_choice choice;

    (void)state;
    make_layout(&layout, c.nranks);
    make_conf(&conf, &layout, 12.5);
    choice = tt_tune_choose(&conf, &c, NULL, true, &report);
    assert_string_equal(choice.algo->name, "broadcast_dtree");
    assert_int_equal(report.candidate[report.chosen].state, TT_NOT_WALKED);
}

/* With eight ranks per core, few candidates are walked. The ring is, but the parallel rings are
 * not, and the two are not confused. */
static void skipped_programs_use_closed_forms(void **state)
{
    struct tt_layout layout;
    struct tt_tune_conf conf;
    const struct tt_coll c = {
        .kind = TT_ALLGATHER, .nranks = 1024, .elem_bytes = 4, .bytes = 1 << 20, .layout = &layout
    };
    static struct tt_tune_report report;

    (void)state;
    make_layout(&layout, c.nranks);
    make_conf(&conf, &layout, 12.5);
    conf.costs.cores = 1;
    tt_tune_choose(&conf, &c, NULL, true, &report);
    assert_int_equal(report.candidate[report.chosen].state, TT_TOO_LONG);
    for (uint32_t i = 0; i < report.ncandidates; i++)
        if (report.candidate[i].state == TT_WALKED)
            assert_true(report.candidate[i].model_ns >= report.candidate[report.chosen].model_ns);
}

/* The first call takes a bounded number of steps for any number of ranks, and selects an executable
 * algorithm. */
static void walk_is_bounded_for_any_ranks(void **state)
{
    static const uint32_t ranks[] = { 128, 1024, 4096, 131072 };
    static struct tt_tune_report report;
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    for (int i = 0; i < 4; i++)
        for (size_t k = 0; k < NKINDS; k++)
            for (uint64_t bytes = 64; bytes <= 1 << 20; bytes *= 128) {
                const uint32_t n = ranks[i];
                const struct tt_coll c = { .kind = kinds[k],
                                           .nranks = n,
                                           .elem_bytes = 4,
                                           .bytes = bytes,
                                           .layout = &layout };
                struct tt_tune_choice choice;

                if (!unit_draw())
                    continue;
                make_layout(&layout, n);
                make_conf(&conf, &layout, 100);
                choice = tt_tune_choose(&conf, &c, NULL, true, &report);
                assert_true(tt_algo_fits(choice.algo, &c));
                if (report.events > 17 * TT_TUNE_STEPS_MAX)
                    fail_msg("%s of %llu bytes on %u ranks: %llu steps", tt_coll_name(c.kind),
                             (unsigned long long)bytes, n, (unsigned long long)report.events);
            }
}

/* The calling rank, in-place calls, and earlier walks have no influence. */
static void ranks_walk_alike(void **state)
{
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    make_layout(&layout, 2048);
    make_conf(&conf, &layout, 100);
    for (size_t k = 0; k < NKINDS; k++) {
        struct tt_coll c = {
            .kind = kinds[k], .nranks = 2048, .elem_bytes = 4, .bytes = 4096, .layout = &layout
        };
        const struct tt_tune_choice first = tt_tune_choose(&conf, &c, NULL, true, NULL);
        struct tt_tune_choice other;

        c.rank = 77 * (uint32_t)k;
        c.in_place = true;
        other = tt_tune_choose(&conf, &c, NULL, true, NULL);
        assert_ptr_equal(other.algo, first.algo);
        assert_int_equal(other.segments.segment_bytes, first.segments.segment_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walk_selects_the_simulated_best_order),
        cmocka_unit_test(short_programs_are_walked_completely),
        cmocka_unit_test(selection_is_near_the_simulated_best),
        cmocka_unit_test(single_host_selection_is_near_best),
        cmocka_unit_test(unwalkable_programs_use_closed_forms),
        cmocka_unit_test(skipped_programs_use_closed_forms),
        cmocka_unit_test(walk_is_bounded_for_any_ranks),
        cmocka_unit_test(ranks_walk_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
