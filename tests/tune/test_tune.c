/* The selection: equal for all calls of a class, on all ranks, in any order; always executable; and
 * bounded. */
#include <string.h>

#include "algo/algos.h"
#include "base/prng.h"
#include "support/unit.h"
#include "tune/memory.h"

static const enum tt_coll_kind kinds[] = {
    TT_ALLREDUCE, TT_REDUCE, TT_REDUCE_SCATTER, TT_ALLGATHER,
    TT_BROADCAST, TT_GATHER, TT_SCATTER,        TT_ALLTOALL
};
#define NKINDS (sizeof kinds / sizeof *kinds)

/* Approximate values of a current host. */
static void make_conf(struct tt_tune_conf *conf, const struct tt_layout *layout, bool shm,
                      uint32_t cores)
{
    const struct tt_des_way near = { .send_ns = 200,
                                     .receive_ns = 40,
                                     .send_byte_ns = 0.05,
                                     .mapped = true },
                            far = { .send_ns = 7000,
                                    .receive_ns = 6000,
                                    .send_byte_ns = 0.2,
                                    .receive_byte_ns = 0.15,
                                    .direct = true };

    *conf = (struct tt_tune_conf){
        .layout = layout,
        .costs = {
            .far = far, .near = shm ? near : far, .near_latency_ns = shm ? 100 : 1000, .far_latency_ns = 20000,
            .far_byte_ns = 0.8, .reduce_byte_ns = 0.08, .copy_byte_ns = 0.07, .wake_ns = 4000, .idle_ns = 400, .cores = cores,
        },
        .model = {
            .message_ns = shm ? 250 : 8000, .byte_ns = shm ? 0.1 : 0.4, .reduce_byte_ns = 0.1, .copy_byte_ns = 0.08,
            .near_message_ns = 250, .near_byte_ns = 0.1,
        },
        .limits = { .segment_bytes = shm ? 64 << 10 : 512 << 10, .eager_bytes = shm ? 4096 : 32 << 10, .all_local = shm },
    };
}

static bool same(const struct tt_tune_choice *a, const struct tt_tune_choice *b)
{
    return a->algo == b->algo && a->segments.segment_bytes == b->segments.segment_bytes &&
           a->segments.streams == b->segments.streams && a->segments.depth == b->segments.depth &&
           a->by == b->by;
}

static void class_holds_slightly_shorter_calls(void **state)
{
    static const uint32_t elems[] = { 1, 2, 4, 8 };

    (void)state;
    for (uint64_t bytes = 8; bytes < 1u << 22; bytes += 1 + bytes / 37)
        for (int e = 0; e < 4; e++) {
            const uint64_t whole = bytes / elems[e] * elems[e],
                           top = tt_tune_class(whole, elems[e]);

            assert_true(top >= whole && top % elems[e] == 0);
            assert_true(whole <= 64 || top <= whole + whole / 4 + 8);
            assert_true(tt_tune_class(top, elems[e]) == top);
            assert_true(tt_tune_class(whole + elems[e], elems[e]) >= top);
        }
    for (int shift = 6; shift < 40; shift++)      /* limits of messages are powers of two: no
                                                     class contains both sides of one */
        assert_true(tt_tune_class(1ull << shift, 4) == 1ull << shift);
    assert_true(tt_tune_class(0, 4) == 0);
}

static void random_call(struct tt_prng *p, struct tt_coll *c, const struct tt_layout *layout)
{
    const uint32_t elem = 1u << tt_prng_below(p, 4);

    *c = (struct tt_coll){
        .kind = kinds[tt_prng_below(p, NKINDS)],
        .nranks = layout->nranks,
        .elem_bytes = elem,
        .layout = layout,
        .bytes = tt_prng_below(p, 1ull << tt_prng_below(p, 21)) / elem * elem + elem,
    };
    c->root = (uint32_t)tt_prng_below(p, layout->nranks);
}

/* Each rank selects for the same calls in a different order, with a cache that is too small for
 * all, some of them in place. */
static void ranks_agree_after_any_calls(void **state)
{
    enum { CALLS = 300 };
    static struct tt_tune_memory memory[2];
    static struct tt_coll call[CALLS];
    static struct tt_tune_choice first[CALLS];
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_prng p;

    (void)state;
    for (int shm = 0; shm < 2; shm++) {
        tt_tune_forget(&memory[0]);
        tt_tune_forget(&memory[1]);
        tt_prng_init(&p, 11 + (uint64_t)shm);
        tt_layout_regular(&layout, 5, shm ? 5 : 2, 1, 1, TT_NODE_MESH);
        make_conf(&conf, &layout, shm, 2);
        for (int i = 0; i < CALLS; i++) {
            random_call(&p, &call[i], &layout);
            first[i] = tt_tune_recall(&memory[0], &conf, &call[i], NULL, true);
        }
        for (int n = 0; n < CALLS; n++) {
            const int i = (n * 7 + 3) % CALLS;
            struct tt_coll mine = call[i];
            struct tt_tune_choice c;

            mine.rank = (uint32_t)tt_prng_below(&p, 5);
            mine.in_place = mine.kind == TT_BROADCAST && mine.rank == mine.root;
            c = tt_tune_recall(&memory[1], &conf, &mine, NULL, true);
            if (!same(&c, &first[i]))
                fail_msg("%s of %llu bytes: %s for one rank, %s for another",
                         tt_coll_name(mine.kind), (unsigned long long)mine.bytes,
                         first[i].algo->name, c.algo->name);
        }
    }
}

/* A communicator with calls of one class has one slot; with many, TT_TUNE_SLOTS_MAX. Choices stay
 * when it grows. */
static void cache_grows_with_its_classes(void **state)
{
    enum { CALLS = 300 };
    struct tt_tune_memory memory = { .cap = 0 };
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_coll call;
    struct tt_prng p;

    (void)state;
    tt_layout_regular(&layout, 5, 5, 1, 1, TT_NODE_MESH);
    make_conf(&conf, &layout, true, 2);
    tt_prng_init(&p, 12);
    assert_int_equal(tt_tune_memory_bytes(&memory), 0);
    for (int i = 0; i < CALLS; i++) {
        uint32_t kept = 0, before = memory.cap, used = 0;

        for (uint32_t k = 0; k < memory.cap; k++)
            used += memory.slot[k].key != 0;
        random_call(&p, &call, &layout);
        tt_tune_recall(&memory, &conf, &call, NULL, true);
        for (uint32_t k = 0; k < memory.cap; k++)
            kept += memory.slot[k].key != 0;
        assert_true(kept >= used && kept <= used + 1);
        assert_true(memory.cap >= before && memory.cap <= TT_TUNE_SLOTS_MAX);
        assert_int_equal(tt_tune_memory_bytes(&memory), memory.cap * sizeof *memory.slot);
        if (i == 0)
            assert_int_equal(memory.cap, 1);
    }
    assert_int_equal(memory.cap, TT_TUNE_SLOTS_MAX);
    tt_tune_forget(&memory);
    assert_int_equal(tt_tune_memory_bytes(&memory), 0);
}

static void check_can_run(const struct tt_tune_conf *conf, const struct tt_coll *c,
                          const struct tt_tune_choice *choice)
{
    const struct tt_segments *s = &choice->segments;

    assert_true(choice->algo->kind == c->kind && choice->algo->fits(c));
    assert_true(s->segment_bytes >= conf->limits.eager_bytes && s->segment_bytes >= 8 &&
                !(s->segment_bytes & (s->segment_bytes - 1)));
    assert_true(s->streams >= 1 && s->streams <= TT_EXEC_STREAMS_MAX);
    assert_true(s->depth >= 1 && s->depth <= TT_EXEC_DEPTH_MAX && !(s->depth & (s->depth - 1)));
}

static void selection_supports_the_call(void **state)
{
    static struct tt_tune_memory memory;
    struct tt_tune_choice choice;
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_coll c;
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 3);
    for (int i = 0; i < 600; i++) {
        const uint32_t n = 1 + (uint32_t)tt_prng_below(&p, 12);

        if (!unit_draw())
            continue;
        tt_tune_forget(&memory);
        tt_layout_regular(&layout, n, 1 + (uint32_t)tt_prng_below(&p, n), 1, 1, TT_NODE_MESH);
        make_conf(&conf, &layout, layout.nhosts == 1 && i % 2, i % 5);
        random_call(&p, &c, &layout);
        choice = tt_tune_recall(&memory, &conf, &c, NULL, true);
        check_can_run(&conf, &c, &choice);
        assert_false(choice.algo->by_name);
        assert_true(n == 1 ? choice.by == TT_BY_MODEL : true);
    }
}

static void a_forced_algorithm_is_taken(void **state)
{
    static struct tt_tune_memory memory;
    struct tt_tune_choice choice;
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    tt_layout_regular(&layout, 6, 6, 1, 1, TT_NODE_MESH);
    make_conf(&conf, &layout, true, 2);
    for (size_t i = 0; i < tt_nalgos; i++) {
        const struct tt_coll c = { .kind = tt_algos[i]->kind,
                                   .nranks = 6,
                                   .elem_bytes = 4,
                                   .bytes = 100000,
                                   .layout = &layout };

        if (!tt_predict_supports(c.kind) || !tt_algos[i]->fits(&c))
            continue;
        choice = tt_tune_recall(&memory, &conf, &c, tt_algos[i], true);
        assert_ptr_equal(choice.algo, tt_algos[i]);
        assert_int_equal(choice.by, TT_BY_NAME);
        check_can_run(&conf, &c, &choice);
    }
}

static void closed_forms_apply_without_simulation(void **state)
{
    static struct tt_tune_report report;
    struct tt_tune_choice choice;
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    for (int many = 0; many < 2; many++) {
        const uint32_t n = many ? TT_TUNE_RANKS_MAX + 1 : 8;

        tt_layout_regular(&layout, n, n, 1, 1, TT_NODE_MESH);
        make_conf(&conf, &layout, true, 2);
        for (size_t k = 0; k < NKINDS; k++)
            for (uint64_t bytes = 4; bytes < 1 << 20; bytes *= 8) {
                const struct tt_coll c = { .kind = kinds[k],
                                           .nranks = n,
                                           .elem_bytes = 4,
                                           .bytes = bytes,
                                           .layout = &layout };

                choice = tt_tune_choose(&conf, &c, NULL, many, &report);
                assert_ptr_equal(choice.algo, tt_algo_choose(&c, &conf.model));
                assert_int_equal(choice.by, TT_BY_MODEL);
                assert_non_null(report.why_model);
            }
    }
}

/* Simulation before a call is bounded, for any size; a report shows the selection that is made
 * without it. */
static void simulation_before_a_call_is_bounded(void **state)
{
    static struct tt_tune_report report;
    struct tt_tune_choice choice, again;
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    for (uint32_t n = 2; n <= TT_TUNE_RANKS_MAX; n *= 2) {
        tt_layout_regular(&layout, n, n > 8 ? 8 : n, 1, 1, TT_NODE_MESH);
        make_conf(&conf, &layout, n <= 8, 2);
        for (size_t k = 0; k < NKINDS; k++) {
            const struct tt_coll c = { .kind = kinds[k],
                                       .nranks = n,
                                       .elem_bytes = 4,
                                       .bytes = 64u << 20,
                                       .layout = &layout };
            const uint64_t most = TT_TUNE_EVENTS_MAX * (n > 16 ? n * n / 144 : 1);

            if (!unit_draw())
                continue;
            choice = tt_tune_choose(&conf, &c, NULL, true, NULL);
            again = tt_tune_choose(&conf, &c, NULL, true, &report);
            assert_true(report.bytes <= report.class_bytes);
            assert_true(report.events > 0 && report.events <= report.events_max &&
                        report.events_max <= most);
            if (!same(&choice, &again))
                fail_msg("%s on %u ranks: %s, but reported is %s", tt_coll_name(c.kind), n,
                         choice.algo->name, again.algo->name);
        }
    }
}

/* If each rank has a core there is time for all promising candidates, also with many ranks: fast
 * simulations are not excluded by slow ones, and the fastest of the completed candidates is
 * selected. */
static void no_candidate_lacks_time(void **state)
{
    static struct tt_tune_report report;
    static const struct tt_topo_link links[TT_DISTANCES] = { [TT_NEAR_RACK] = { 4000, 12.5e9, 1 } };
    struct tt_layout layout;
    struct tt_tune_conf conf;
    uint32_t ran = 0;

    (void)state;
    tt_layout_regular(&layout, 32, 4, 2, 4, TT_NODE_SOCKETS);
    make_conf(&conf, &layout, false, 0);
    conf.links = links;
    tt_tune_set_limits(&conf);
    for (uint64_t bytes = 256; bytes <= 16u << 20; bytes *= 64) {
        const struct tt_coll c = {
            .kind = TT_ALLGATHER, .nranks = 32, .elem_bytes = 4, .bytes = bytes, .layout = &layout
        };
        double chosen_ns;

        if (!unit_has_turn((uint64_t)__builtin_ctzll(bytes) / 6, 3))
            continue;
        tt_tune_choose(&conf, &c, NULL, true, &report);
        chosen_ns = report.candidate[report.chosen].prediction.time_ns;
        assert_null(report.why_model);
        for (uint32_t i = 0; i < report.ncandidates; i++) {
            const struct tt_candidate *other = &report.candidate[i];

            if (other->state == TT_TOO_LONG)
                fail_msg("%llu bytes: %s was not simulated", (unsigned long long)bytes,
                         other->algo->name);
            if (other->state != TT_SIMULATED || other->variant)
                continue;
            ran++;
            if (other->prediction.cut || other->prediction.time_ns < 0.985 * chosen_ns)
                fail_msg("%llu bytes: %.0f ns by %s, and %.0f by %s, which is chosen",
                         (unsigned long long)bytes, other->prediction.time_ns, other->algo->name,
                         chosen_ns, report.candidate[report.chosen].algo->name);
        }
    }
    assert_in_range(ran, 1, UINT32_MAX);
}

/* Effects beyond the closed forms: with a core per rank a tree is the fastest for a short message;
 * with eight ranks on two cores, each hop costs a wake-up, and it is faster if the root sends to
 * all. */
static void oversubscription_changes_the_selection(void **state)
{
    static struct tt_tune_report report;
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_coll c = {
        .kind = TT_BROADCAST, .nranks = 8, .elem_bytes = 4, .bytes = 64, .layout = &layout
    };
    struct tt_tune_choice crowded, roomy;

    (void)state;
    tt_layout_regular(&layout, 8, 8, 1, 1, TT_NODE_MESH);
    make_conf(&conf, &layout, true, 2);
    crowded = tt_tune_choose(&conf, &c, NULL, true, &report);
    assert_string_equal(crowded.algo->name, "broadcast_flat");
    assert_int_equal(report.candidate[report.chosen].prediction.bound == TT_BOUND_LATENCY, false);
    conf.costs.cores = 8;
    conf.costs.near.send_ns = 2000;
    roomy = tt_tune_choose(&conf, &c, NULL, true, NULL);
    assert_string_not_equal(roomy.algo->name, "broadcast_flat");
}

/* Two ranks, each alone on a host with four rails, or with one and a long link: all lanes are used
 * if they are faster, and the predicted time of fewer is reported. */
static void lanes_are_chosen_with_the_algorithm(void **state)
{
    static const struct tt_topo_link links[TT_DISTANCES] = {
        [TT_NEAR_RACK] = { .latency_ns = 20000, .bytes_per_s = 5e8, .oversubscription = 1 },
        [TT_NEAR_ZONE] = { .oversubscription = 1 },
        [TT_NEAR_BUILDING] = { .oversubscription = 1 },
        [TT_NEAR_FABRIC] = { .oversubscription = 1 },
        [TT_NEAR_WAN] = { .latency_ns = 20000000, .oversubscription = 1 },
    };
    static const uint64_t lane_bytes[TT_DISTANCES] = {
        [TT_NEAR_RACK] = 4u << 20, [TT_NEAR_WAN] = 4u << 20
    };
    static struct tt_tune_report report;
    struct tt_coll c = { .kind = TT_BROADCAST, .nranks = 2, .elem_bytes = 4, .bytes = 32u << 20 };
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    for (int far = 0; far < 2; far++) {
        double of[5] = { 0 };
        struct tt_tune_choice choice;

        tt_layout_regular(&layout, 2, 1, 1, far ? 1 : 4, TT_NODE_MESH);
        if (far)
            for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
                layout.group_ranks[d] = 1;
        c.layout = &layout;
        make_conf(&conf, &layout, false, 0);
        conf.links = links;
        conf.lanes = 4;
        conf.lane_bytes = lane_bytes;
        choice = tt_tune_choose(&conf, &c, NULL, true, &report);
        for (uint32_t i = 0; i < report.ncandidates; i++) {
            const struct tt_candidate *k = &report.candidate[i];

            if (k->state == TT_SIMULATED && k->algo == choice.algo &&
                k->segments.streams == choice.segments.streams &&
                k->segments.segment_bytes == choice.segments.segment_bytes)
                of[k->segments.lanes ? k->segments.lanes : 4] = k->prediction.time_ns;
        }
        assert_int_equal(choice.segments.lanes, 0);
        assert_true(of[1] > 0 && of[2] > 0 && of[4] > 0);
        if (!(of[1] > 1.3 * of[2] && of[2] > 1.3 * of[4]))
            fail_msg("%s: %.0f us over one lane, %.0f over two, %.0f over four",
                     far ? "far" : "four rails", of[1] / 1000, of[2] / 1000, of[4] / 1000);
    }
}

/* Links inside a host from a description: if sockets share a slow one, the algorithm with the least
 * traffic on it is selected, and the limit is reported. */
static void given_host_links_count(void **state)
{
    struct tt_topo_link links[TT_DISTANCES] = { [TT_NEAR_HOST] = { .latency_ns = 1000,
                                                                   .bytes_per_s = 1e8 } };
    static struct tt_tune_report report;
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_coll c = {
        .kind = TT_ALLGATHER, .nranks = 8, .elem_bytes = 4, .bytes = 256u << 10, .layout = &layout
    };
    const struct tt_candidate *chosen;
    double flat_ns;

    (void)state;
    for (int d = 0; d < TT_DISTANCES; d++)
        links[d].oversubscription = 1;
    tt_layout_regular(&layout, 8, 8, 2, 1, TT_NODE_SOCKETS);
    make_conf(&conf, &layout, true, 0);
    tt_tune_choose(&conf, &c, NULL, true, &report);
    flat_ns = report.candidate[report.chosen].prediction.time_ns;
    conf.links = links;
    tt_tune_choose(&conf, &c, NULL, true, &report);
    chosen = &report.candidate[report.chosen];
    assert_true(chosen->prediction.time_ns > 1.5 * flat_ns);
    assert_int_equal(chosen->prediction.bound, TT_BOUND_LINK);
    assert_int_equal(chosen->prediction.link, TT_NEAR_HOST);
    /* direct: each rank sends to all others, so each block crosses between sockets four times */
    for (uint32_t i = 0; i < report.ncandidates; i++)
        if (strcmp(report.candidate[i].algo->name, "allgather_direct") == 0)
            assert_true(report.candidate[i].prediction.time_ns > 2 * chosen->prediction.time_ns);
}

/* Very long broadcasts with completely fetched messages are slow if fetching is; then algorithms
 * with segments, which are not fetched, are selected, also if the simulated call is shorter. With a
 * core per rank nothing is fetched. */
static void single_copies_count_when_oversubscribed(void **state)
{
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_coll c = { .kind = TT_BROADCAST, .nranks = 4, .elem_bytes = 4, .layout = &layout };

    (void)state;
    tt_layout_regular(&layout, 4, 4, 1, 1, TT_NODE_MESH);
    for (uint64_t bytes = 2u << 20; bytes <= 64u << 20; bytes *= 2) {
        struct tt_tune_choice with, without;

        c.bytes = bytes;
        make_conf(&conf, &layout, true, 2);
        conf.costs.near.single_bytes = bytes;
        conf.costs.near.single_byte_ns = 10;
        with = tt_tune_choose(&conf, &c, NULL, true, NULL);
        if (strcmp(with.algo->name, "broadcast_dtree") != 0 &&
            strcmp(with.algo->name, "broadcast_scatter_allgather") != 0)
            fail_msg("%llu bytes: %s", (unsigned long long)bytes, with.algo->name);
        conf.costs.cores = 4;
        with = tt_tune_choose(&conf, &c, NULL, true, NULL);
        conf.costs.near.single_bytes = 0;
        without = tt_tune_choose(&conf, &c, NULL, true, NULL);
        assert_true(same(&with, &without));
    }
}

/* Returns the prediction with single copies that cost `byte_ns` per byte; 0: the engine does not
 * try them. */
static struct tt_prediction predicted(const struct tt_tune_conf *base, const struct tt_coll *c,
                                      const struct tt_algo *algo, double byte_ns)
{
    struct tt_tune_conf conf = *base;
    struct tt_prediction p;
    struct tt_segments s;

    conf.costs.fetched = conf.costs.near;
    conf.costs.fetched.single_bytes = byte_ns > 0 ? 16 << 10 : 0;
    conf.costs.fetched.single_byte_ns = byte_ns;
    s = tt_segments_choose(algo, c, &conf.limits);
    assert_int_equal(tt_predict(&conf, c, algo, &s, 0, 0, &p), TUTTI_OK);
    return p;
}

/* The engine keeps the faster method, so fetching never makes a call slower, makes some faster, and
 * changes nothing else. */
static void faster_of_slots_and_copies_counts(void **state)
{
    struct tt_layout layout;
    struct tt_tune_conf conf;
    uint32_t faster = 0, sums = 0, slower = 0;

    (void)state;
    tt_layout_regular(&layout, 4, 4, 1, 1, TT_NODE_MESH);
    for (size_t i = 0; i < tt_nalgos; i++) {
        struct tt_coll c = { .kind = tt_algos[i]->kind,
                             .nranks = 4,
                             .elem_bytes = 4,
                             .bytes = 256 << 10,
                             .layout = &layout };
        struct tt_prediction without, cheap, dear;

        if (!tt_predict_supports(c.kind) || !tt_algos[i]->fits(&c))
            continue;
        make_conf(&conf, &layout, true, 4);
        without = predicted(&conf, &c, tt_algos[i], 0);
        cheap = predicted(&conf, &c, tt_algos[i], 0.001);
        dear = predicted(&conf, &c, tt_algos[i], 10);
        if (dear.fetched || dear.time_ns != without.time_ns || cheap.time_ns > without.time_ns ||
            cheap.fetched != (cheap.time_ns < without.time_ns))
            fail_msg("%s: %.0f ns without single copies, %.0f with cheap and %.0f with dear ones",
                     tt_algos[i]->name, without.time_ns, cheap.time_ns, dear.time_ns);
        faster += cheap.fetched;
        sums += cheap.fetched && tt_coll_reduces(c.kind);
        slower += dear.events > without.events;
        make_conf(&conf, &layout, true, 2);
        assert_true(predicted(&conf, &c, tt_algos[i], 0.001).time_ns ==
                    predicted(&conf, &c, tt_algos[i], 0).time_ns);
    }
    assert_true(faster > sums + 5 && sums > 5 && slower > 5);
}

/* Simulated calls are shorter, and so are their segments: the number of segments, and their
 * relative times, are those of the call. */
static void simulated_long_messages_keep_segment_counts(void **state)
{
    const struct tt_coll mid = {
        .kind = TT_ALLREDUCE, .nranks = 2, .elem_bytes = 4, .bytes = 4 << 20
    };
    const struct tt_coll longest = {
        .kind = TT_ALLREDUCE, .nranks = 2, .elem_bytes = 4, .bytes = 128 << 20
    };
    struct tt_tune_report of_mid, of_longest;
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_coll c;

    (void)state;
    tt_layout_regular(&layout, 2, 2, 1, 1, TT_NODE_MESH);
    make_conf(&conf, &layout, true, 2);
    c = mid;
    c.layout = &layout;
    tt_tune_choose(&conf, &c, tt_algo_find(&c, "ring"), true, &of_mid);
    c = longest;
    c.layout = &layout;
    tt_tune_choose(&conf, &c, tt_algo_find(&c, "ring"), true, &of_longest);
    assert_int_equal(of_longest.bytes, of_mid.bytes);
    assert_int_equal(of_mid.candidate[0].segments.segment_bytes, 64 << 10);
    assert_int_equal(of_longest.candidate[0].segments.segment_bytes, 512 << 10);
    assert_true(of_mid.candidate[0].prediction.time_ns ==
                of_longest.candidate[0].prediction.time_ns);
}

/* Cores seem to limit the call, and one long segment costs less; but links may be slower than is
 * known. */
static void inter_host_puts_stay_split(void **state)
{
    struct tt_layout layout;
    struct tt_tune_conf conf;

    (void)state;
    tt_layout_regular(&layout, 16, 4, 1, 1, TT_NODE_MESH);
    make_conf(&conf, &layout, false, 2);
    conf.costs.far_byte_ns = 0;
    for (uint64_t bytes = 128 << 10; bytes <= 1 << 20; bytes *= 2) {
        const struct tt_coll c = {
            .kind = TT_ALLGATHER, .nranks = 16, .elem_bytes = 4, .bytes = bytes, .layout = &layout
        };
        const struct tt_tune_choice choice =
            tt_tune_choose(&conf, &c, tt_algo_find(&c, "parallel_rings"), true, NULL);

        if (choice.segments.segment_bytes > bytes / 2)
            fail_msg("a block of %llu bytes travels in segments of %llu", (unsigned long long)bytes,
                     (unsigned long long)choice.segments.segment_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_holds_slightly_shorter_calls),
        cmocka_unit_test(ranks_agree_after_any_calls),
        cmocka_unit_test(cache_grows_with_its_classes),
        cmocka_unit_test(selection_supports_the_call),
        cmocka_unit_test(a_forced_algorithm_is_taken),
        cmocka_unit_test(closed_forms_apply_without_simulation),
        cmocka_unit_test(no_candidate_lacks_time),
        cmocka_unit_test(simulation_before_a_call_is_bounded),
        cmocka_unit_test(oversubscription_changes_the_selection),
        cmocka_unit_test(lanes_are_chosen_with_the_algorithm),
        cmocka_unit_test(given_host_links_count),
        cmocka_unit_test(single_copies_count_when_oversubscribed),
        cmocka_unit_test(faster_of_slots_and_copies_counts),
        cmocka_unit_test(simulated_long_messages_keep_segment_counts),
        cmocka_unit_test(inter_host_puts_stay_split),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
