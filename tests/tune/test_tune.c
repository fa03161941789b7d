/* The choice: the same for all that belongs to a class, whoever asks, in whatever order; always something that can run; and bounded. */
#include <string.h>

#include "algo/algos.h"
#include "base/prng.h"
#include "support/unit.h"
#include "tune/memory.h"

static const enum tt_coll_kind kinds[] = { TT_ALLREDUCE, TT_REDUCE,  TT_REDUCE_SCATTER, TT_ALLGATHER,
                                           TT_BROADCAST, TT_GATHER, TT_SCATTER,        TT_ALLTOALL };
#define NKINDS (sizeof kinds / sizeof *kinds)

/* About those of a host of today. */
static void make_conf(struct tt_tune_conf *conf, const struct tt_layout *layout, bool shm, uint32_t cores)
{
    const struct tt_des_way near = { .send_ns = 200, .receive_ns = 40, .send_byte_ns = 0.05, .mapped = true }, far = {
        .send_ns = 7000, .receive_ns = 6000, .send_byte_ns = 0.2, .receive_byte_ns = 0.15, .direct = true
    };

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
           a->segments.streams == b->segments.streams && a->segments.depth == b->segments.depth && a->by == b->by;
}

static void a_class_holds_what_is_not_longer_than_it_and_little_shorter(void **state)
{
    static const uint32_t elems[] = { 1, 2, 4, 8 };

    (void)state;
    for (uint64_t bytes = 8; bytes < 1u << 22; bytes += 1 + bytes / 37)
        for (int e = 0; e < 4; e++) {
            const uint64_t whole = bytes / elems[e] * elems[e], top = tt_tune_class(whole, elems[e]);

            assert_true(top >= whole && top % elems[e] == 0);
            assert_true(whole <= 64 || top <= whole + whole / 4 + 8);
            assert_true(tt_tune_class(top, elems[e]) == top);
            assert_true(tt_tune_class(whole + elems[e], elems[e]) >= top);
        }
    for (int shift = 6; shift < 40; shift++)      /* limits of messages are powers of two: no class has some on either side */
        assert_true(tt_tune_class(1ull << shift, 4) == 1ull << shift);
    assert_true(tt_tune_class(0, 4) == 0);
}

static void random_call(struct tt_prng *p, struct tt_coll *c, const struct tt_layout *layout)
{
    const uint32_t elem = 1u << tt_prng_below(p, 4);

    *c = (struct tt_coll){
        .kind = kinds[tt_prng_below(p, NKINDS)], .nranks = layout->nranks, .elem_bytes = elem, .layout = layout,
        .bytes = tt_prng_below(p, 1ull << tt_prng_below(p, 21)) / elem * elem + elem,
    };
    c->root = (uint32_t)tt_prng_below(p, layout->nranks);
}

/* Each rank asks for the same calls in an order of its own, out of a memory that is too small for all, some of them in place. */
static void ranks_choose_alike_whatever_they_asked_for_before(void **state)
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
        memset(memory, 0, sizeof memory);
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
                fail_msg("%s of %llu bytes: %s for one rank, %s for another", tt_coll_name(mine.kind),
                         (unsigned long long)mine.bytes, first[i].algo->name, c.algo->name);
        }
    }
}

static void check_can_run(const struct tt_tune_conf *conf, const struct tt_coll *c, const struct tt_tune_choice *choice)
{
    const struct tt_segments *s = &choice->segments;

    assert_true(choice->algo->kind == c->kind && choice->algo->fits(c));
    assert_true(s->segment_bytes >= conf->limits.eager_bytes && s->segment_bytes >= 8 &&
                !(s->segment_bytes & (s->segment_bytes - 1)));
    assert_true(s->streams >= 1 && s->streams <= TT_EXEC_STREAMS_MAX);
    assert_true(s->depth >= 1 && s->depth <= TT_EXEC_DEPTH_MAX && !(s->depth & (s->depth - 1)));
}

static void what_is_chosen_can_run_the_call(void **state)
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
        memset(&memory, 0, sizeof memory);
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
        const struct tt_coll c = {
            .kind = tt_algos[i]->kind, .nranks = 6, .elem_bytes = 4, .bytes = 100000, .layout = &layout
        };

        if (!tt_predict_knows(c.kind) || !tt_algos[i]->fits(&c))
            continue;
        choice = tt_tune_recall(&memory, &conf, &c, tt_algos[i], true);
        assert_ptr_equal(choice.algo, tt_algos[i]);
        assert_int_equal(choice.by, TT_BY_NAME);
        check_can_run(&conf, &c, &choice);
    }
}

static void closed_forms_choose_where_nothing_is_simulated(void **state)
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
                const struct tt_coll c = {
                    .kind = kinds[k], .nranks = n, .elem_bytes = 4, .bytes = bytes, .layout = &layout
                };

                choice = tt_tune_choose(&conf, &c, NULL, many, &report);
                assert_ptr_equal(choice.algo, tt_algo_choose(&c, &conf.model));
                assert_int_equal(choice.by, TT_BY_MODEL);
                assert_non_null(report.why_model);
            }
    }
}

/* Before a call no more is simulated than is allowed, however large it is; what a report tells of is what was chosen without one. */
static void what_is_simulated_before_a_call_is_bounded(void **state)
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
            const struct tt_coll c = {
                .kind = kinds[k], .nranks = n, .elem_bytes = 4, .bytes = 64u << 20, .layout = &layout
            };
            const uint64_t most = TT_TUNE_EVENTS_MAX * (n > 16 ? n * n / 144 : 1);

            if (!unit_draw())
                continue;
            choice = tt_tune_choose(&conf, &c, NULL, true, NULL);
            again = tt_tune_choose(&conf, &c, NULL, true, &report);
            assert_true(report.bytes <= report.class_bytes);
            assert_true(report.events > 0 && report.events <= report.events_max && report.events_max <= most);
            if (!same(&choice, &again))
                fail_msg("%s on %u ranks: %s, but reported is %s", tt_coll_name(c.kind), n, choice.algo->name, again.algo->name);
        }
    }
}

/* Where each rank has a core there is time for all candidates that may win, also where ranks are many: what is soon simulated is not kept out by what takes
 * long, and the fastest of those that were simulated to their end is chosen. */
static void no_candidate_is_left_out_for_want_of_time(void **state)
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
    tt_tune_tell_limits(&conf);
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
                fail_msg("%llu bytes: %s was not simulated", (unsigned long long)bytes, other->algo->name);
            if (other->state != TT_SIMULATED || other->variant)
                continue;
            ran++;
            if (other->prediction.cut || other->prediction.time_ns < 0.985 * chosen_ns)
                fail_msg("%llu bytes: %.0f ns by %s, and %.0f by %s, which is chosen", (unsigned long long)bytes,
                         other->prediction.time_ns, other->algo->name, chosen_ns,
                         report.candidate[report.chosen].algo->name);
        }
    }
    assert_in_range(ran, 1, UINT32_MAX);
}

/* What the closed forms cannot know: with a core for each rank a tree is the shortest way to tell all a short message; where eight ranks share
 * two cores, each hop costs a wake, and the root had better tell all of them itself. */
static void ranks_that_outnumber_cores_change_the_choice(void **state)
{
    static struct tt_tune_report report;
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_coll c = { .kind = TT_BROADCAST, .nranks = 8, .elem_bytes = 4, .bytes = 64, .layout = &layout };
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

/* Two ranks, each alone on a host of four rails, or of one at the end of a long way: all lanes are taken where they carry more, and it says what fewer
 * would take. */
static void lanes_are_chosen_with_the_algorithm(void **state)
{
    static const struct tt_topo_link links[TT_DISTANCES] = {
        [TT_NEAR_RACK] = { .latency_ns = 20000, .bytes_per_s = 5e8, .oversubscription = 1 },
        [TT_NEAR_ZONE] = { .oversubscription = 1 },
        [TT_NEAR_BUILDING] = { .oversubscription = 1 },
        [TT_NEAR_FABRIC] = { .oversubscription = 1 },
        [TT_NEAR_WAN] = { .latency_ns = 20000000, .oversubscription = 1 },
    };
    static const uint64_t lane_bytes[TT_DISTANCES] = { [TT_NEAR_RACK] = 4u << 20, [TT_NEAR_WAN] = 4u << 20 };
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

            if (k->state == TT_SIMULATED && k->algo == choice.algo && k->segments.streams == choice.segments.streams &&
                k->segments.segment_bytes == choice.segments.segment_bytes)
                of[k->segments.lanes ? k->segments.lanes : 4] = k->prediction.time_ns;
        }
        assert_int_equal(choice.segments.lanes, 0);
        assert_true(of[1] > 0 && of[2] > 0 && of[4] > 0);
        if (!(of[1] > 1.3 * of[2] && of[2] > 1.3 * of[4]))
            fail_msg("%s: %.0f us over one lane, %.0f over two, %.0f over four", far ? "far" : "four rails",
                     of[1] / 1000, of[2] / 1000, of[4] / 1000);
    }
}

/* Links inside a host that a description tells: where sockets share a slow one, what crosses it least is chosen, and it says what bounds it. */
static void links_inside_hosts_count_where_they_are_told(void **state)
{
    struct tt_topo_link links[TT_DISTANCES] = { [TT_NEAR_HOST] = { .latency_ns = 1000, .bytes_per_s = 1e8 } };
    static struct tt_tune_report report;
    struct tt_layout layout;
    struct tt_tune_conf conf;
    struct tt_coll c = { .kind = TT_ALLGATHER, .nranks = 8, .elem_bytes = 4, .bytes = 256u << 10, .layout = &layout };
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
    for (uint32_t i = 0; i < report.ncandidates; i++)       /* each rank sends all others its block itself: that crosses four times as often */
        if (strcmp(report.candidate[i].algo->name, "allgather_direct") == 0)
            assert_true(report.candidate[i].prediction.time_ns > 2 * chosen->prediction.time_ns);
}

/* Very long broadcasts whose messages are fetched whole are slow where fetching is; then those that go in parts, which are not fetched,
 * are chosen, also where what is simulated is shorter than the call. With a core for each rank nothing is fetched. */
static void single_copies_count_where_ranks_outnumber_cores(void **state)
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
        if (strcmp(with.algo->name, "broadcast_dtree") != 0 && strcmp(with.algo->name, "broadcast_scatter_allgather") != 0)
            fail_msg("%llu bytes: %s", (unsigned long long)bytes, with.algo->name);
        conf.costs.cores = 4;
        with = tt_tune_choose(&conf, &c, NULL, true, NULL);
        conf.costs.near.single_bytes = 0;
        without = tt_tune_choose(&conf, &c, NULL, true, NULL);
        assert_true(same(&with, &without));
    }
}

/* What is predicted with single copies that cost `byte_ns` a byte; 0: the engine tries none. */
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

/* The engine keeps the faster way, so fetching never makes a call slower, makes some faster, and nothing else changes. */
static void with_a_core_for_each_rank_the_faster_of_slots_and_single_copies_counts(void **state)
{
    struct tt_layout layout;
    struct tt_tune_conf conf;
    uint32_t faster = 0, sums = 0, slower = 0;

    (void)state;
    tt_layout_regular(&layout, 4, 4, 1, 1, TT_NODE_MESH);
    for (size_t i = 0; i < tt_nalgos; i++) {
        struct tt_coll c = {
            .kind = tt_algos[i]->kind, .nranks = 4, .elem_bytes = 4, .bytes = 256 << 10, .layout = &layout
        };
        struct tt_prediction without, cheap, dear;

        if (!tt_predict_knows(c.kind) || !tt_algos[i]->fits(&c))
            continue;
        make_conf(&conf, &layout, true, 4);
        without = predicted(&conf, &c, tt_algos[i], 0);
        cheap = predicted(&conf, &c, tt_algos[i], 0.001);
        dear = predicted(&conf, &c, tt_algos[i], 10);
        if (dear.fetched || dear.time_ns != without.time_ns || cheap.time_ns > without.time_ns ||
            cheap.fetched != (cheap.time_ns < without.time_ns))
            fail_msg("%s: %.0f ns without single copies, %.0f with cheap and %.0f with dear ones", tt_algos[i]->name,
                     without.time_ns, cheap.time_ns, dear.time_ns);
        faster += cheap.fetched;
        sums += cheap.fetched && tt_coll_reduces(c.kind);
        slower += dear.events > without.events;
        make_conf(&conf, &layout, true, 2);
        assert_true(predicted(&conf, &c, tt_algos[i], 0.001).time_ns == predicted(&conf, &c, tt_algos[i], 0).time_ns);
    }
    assert_true(faster > sums + 5 && sums > 5 && slower > 5);
}

/* What is simulated is shorter, and so are its segments: as many take as long as those of the call would, in proportion. */
static void very_long_messages_are_cut_into_as_many_segments_when_they_are_simulated(void **state)
{
    const struct tt_coll mid = { .kind = TT_ALLREDUCE, .nranks = 2, .elem_bytes = 4, .bytes = 4 << 20 };
    const struct tt_coll longest = { .kind = TT_ALLREDUCE, .nranks = 2, .elem_bytes = 4, .bytes = 128 << 20 };
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
    assert_true(of_mid.candidate[0].prediction.time_ns == of_longest.candidate[0].prediction.time_ns);
}

/* Cores are all that seems to bound the call, and one long segment is less work for them; but links may be slower than is known. */
static void between_hosts_a_put_stays_cut_in_two(void **state)
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
        const struct tt_tune_choice choice = tt_tune_choose(&conf, &c, tt_algo_find(&c, "parallel_rings"), true, NULL);

        if (choice.segments.segment_bytes > bytes / 2)
            fail_msg("a block of %llu bytes travels in segments of %llu", (unsigned long long)bytes,
                     (unsigned long long)choice.segments.segment_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_holds_what_is_not_longer_than_it_and_little_shorter),
        cmocka_unit_test(ranks_choose_alike_whatever_they_asked_for_before),
        cmocka_unit_test(what_is_chosen_can_run_the_call),
        cmocka_unit_test(a_forced_algorithm_is_taken),
        cmocka_unit_test(closed_forms_choose_where_nothing_is_simulated),
        cmocka_unit_test(no_candidate_is_left_out_for_want_of_time),
        cmocka_unit_test(what_is_simulated_before_a_call_is_bounded),
        cmocka_unit_test(ranks_that_outnumber_cores_change_the_choice),
        cmocka_unit_test(lanes_are_chosen_with_the_algorithm),
        cmocka_unit_test(links_inside_hosts_count_where_they_are_told),
        cmocka_unit_test(single_copies_count_where_ranks_outnumber_cores),
        cmocka_unit_test(with_a_core_for_each_rank_the_faster_of_slots_and_single_copies_counts),
        cmocka_unit_test(very_long_messages_are_cut_into_as_many_segments_when_they_are_simulated),
        cmocka_unit_test(between_hosts_a_put_stays_cut_in_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
