/* The policy of copies: its table; that ranks with different local optima agree on the copy method
 * of long messages (their measurements are random, and therefore their local choices, too); and the
 * share of the cache beyond which outputs bypass it. */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "support/unit.h"
#include "wire/copy_policy.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)

/* ---- the table ------------------------------------------------------------------------------- */

enum { CROWDED = 1, SINGLE_ONLY = 2, FETCHABLE = 4, MAPPED = 8, BEYOND = 16 };

static enum tt_copy_way way_of(enum tt_copy_what what, enum tt_coll_kind kind, uint64_t bytes,
                               unsigned facts, struct tt_copy_trial *trial)
{
    const struct tt_coll coll = { .kind = kind, .nranks = 2 };
    struct tt_copy_tuners *tuners = NULL;
    const struct tt_copy_case c = {
        .what = what,
        .crowded = facts & CROWDED,
        .single_only = facts & SINGLE_ONLY,
        .fetchable = facts & FETCHABLE,
        .mapped = facts & MAPPED,
        .beyond_cache = facts & BEYOND,
        .bytes = bytes,
        .coll = &coll,
        .trial = trial,
        .tuners = &tuners,
    };
    const enum tt_copy_way way = tt_copy_choose(&c);

    free(tuners);
    return way;
}

static void table_of_cases(void **state)
{
    static const struct row {
        enum tt_copy_what what;
        enum tt_coll_kind kind;
        uint64_t bytes;
        unsigned facts;
        enum tt_copy_way way;
    } rows[] = {
        /* messages: forced, oversubscribed, too short, or not fetchable */
        { TT_COPY_MESSAGE, TT_ALLTOALL, 256 * KIB, SINGLE_ONLY | FETCHABLE, TT_COPY_SINGLE },
        { TT_COPY_MESSAGE, TT_ALLTOALL, 256 * KIB - 1, SINGLE_ONLY | FETCHABLE, TT_COPY_UNDECIDED },
        { TT_COPY_MESSAGE, TT_ALLTOALL, 256 * KIB, SINGLE_ONLY, TT_COPY_UNDECIDED },
        { TT_COPY_MESSAGE, TT_ALLREDUCE, 256 * KIB, SINGLE_ONLY | FETCHABLE, TT_COPY_PUSH },
        { TT_COPY_MESSAGE, TT_REDUCE, 256 * KIB, SINGLE_ONLY | FETCHABLE, TT_COPY_SINGLE },
        { TT_COPY_MESSAGE, TT_ALLTOALL, 256 * KIB, SINGLE_ONLY | CROWDED | FETCHABLE,
          TT_COPY_SINGLE },
        { TT_COPY_MESSAGE, TT_SEND, 2 * MIB, CROWDED | FETCHABLE, TT_COPY_SINGLE },
        { TT_COPY_MESSAGE, TT_SEND, 2 * MIB - 1, CROWDED | FETCHABLE, TT_COPY_UNDECIDED },
        { TT_COPY_MESSAGE, TT_ALLREDUCE, 2 * MIB, CROWDED | FETCHABLE, TT_COPY_UNDECIDED },
        { TT_COPY_MESSAGE, TT_ALLTOALL, 16 * KIB - 1, FETCHABLE, TT_COPY_UNDECIDED },
        { TT_COPY_MESSAGE, TT_ALLTOALL, 16 * KIB, 0, TT_COPY_UNDECIDED },
        /* the first use of a tuner: slots; with the operation's own stores if all ranks wait */
        { TT_COPY_MESSAGE, TT_ALLTOALL, 16 * KIB, FETCHABLE, TT_COPY_ORDINARY },
        { TT_COPY_MESSAGE, TT_ALLTOALL, 4 * MIB - 1, FETCHABLE, TT_COPY_ORDINARY },
        { TT_COPY_MESSAGE, TT_ALLTOALL, 4 * MIB, FETCHABLE, TT_COPY_UNDECIDED },
        { TT_COPY_MESSAGE, TT_BROADCAST, 16 * KIB, FETCHABLE, TT_COPY_UNDECIDED },
        /* segments, and sums that are written into a peer's slot */
        { TT_COPY_SEGMENT, TT_ALLTOALL, MIB, MAPPED | BEYOND, TT_COPY_UNDECIDED },
        { TT_COPY_FUSED, TT_ALLREDUCE, MIB, BEYOND, TT_COPY_ORDINARY },
        /* puts to their destination */
        { TT_COPY_PUT, TT_ALLREDUCE, 8, 0, TT_COPY_PUSH },
        { TT_COPY_PUT, TT_ALLREDUCE, MIB, MAPPED, TT_COPY_UNDECIDED },
        { TT_COPY_PUT, TT_ALLREDUCE, MIB, MAPPED | BEYOND, TT_COPY_NONTEMPORAL },
        { TT_COPY_PUT, TT_ALLTOALL, 64 * KIB, BEYOND, TT_COPY_NONTEMPORAL },
        { TT_COPY_PUT, TT_ALLTOALL, 64 * KIB - 1, BEYOND, TT_COPY_UNDECIDED },
        { TT_COPY_PUT, TT_ALLTOALL, 64 * KIB, 0, TT_COPY_UNDECIDED },
        /* outputs; a sum that single copies forward stays in the cache */
        { TT_COPY_OUTPUT, TT_BROADCAST, 8, BEYOND, TT_COPY_NONTEMPORAL },
        { TT_COPY_OUTPUT, TT_BROADCAST, 8, BEYOND | SINGLE_ONLY, TT_COPY_NONTEMPORAL },
        { TT_COPY_OUTPUT, TT_ALLREDUCE, MIB, BEYOND, TT_COPY_NONTEMPORAL },
        { TT_COPY_OUTPUT, TT_ALLREDUCE, MIB, BEYOND | SINGLE_ONLY, TT_COPY_ORDINARY },
        { TT_COPY_OUTPUT, TT_ALLREDUCE, MIB, 0, TT_COPY_ORDINARY },
        { TT_COPY_EAGER, TT_ALLREDUCE, MIB, MAPPED, TT_COPY_UNDECIDED },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct tt_copy_trial trial = { .tuner = NULL };
        const enum tt_copy_way way = way_of(r->what, r->kind, r->bytes, r->facts, &trial);

        if (way != r->way)
            fail_msg("row %zu: way %d instead of %d", i, (int)way, (int)r->way);
    }
}

static void a_trial_decides_for_all_messages(void **state)
{
    struct tt_copy_tuner tuner = { .in_use = 0 };
    struct tt_copy_trial single = { .tuner = &tuner, .way = TT_COPY_SINGLE }, past = {
        .tuner = &tuner, .way = TT_COPY_NONTEMPORAL, .stores = TT_COPY_NONTEMPORAL
    };

    (void)state;
    assert_int_equal(way_of(TT_COPY_MESSAGE, TT_ALLTOALL, MIB, FETCHABLE, &single), TT_COPY_SINGLE);
    assert_int_equal(way_of(TT_COPY_MESSAGE, TT_ALLREDUCE, MIB, FETCHABLE, &single), TT_COPY_PUSH);
    assert_int_equal(way_of(TT_COPY_OUTPUT, TT_ALLREDUCE, MIB, BEYOND, &single), TT_COPY_ORDINARY);
    assert_int_equal(way_of(TT_COPY_OUTPUT, TT_ALLTOALL, MIB, BEYOND, &single),
                     TT_COPY_NONTEMPORAL);
    assert_int_equal(way_of(TT_COPY_SEGMENT, TT_ALLTOALL, MIB, 0, &single), TT_COPY_UNDECIDED);
    assert_int_equal(way_of(TT_COPY_MESSAGE, TT_ALLTOALL, MIB, FETCHABLE, &past),
                     TT_COPY_NONTEMPORAL);
    assert_int_equal(way_of(TT_COPY_SEGMENT, TT_ALLTOALL, 8, 0, &past), TT_COPY_NONTEMPORAL);
    assert_int_equal(way_of(TT_COPY_FUSED, TT_ALLTOALL, 8, 0, &past), TT_COPY_NONTEMPORAL);
}

static void fused_stores_follow_measured_puts(void **state)
{
    static const uint8_t bests[] = { 0, 1 };
    struct tt_copy_trial trial = { .tuner = NULL };
    struct tt_copy_case c = { .what = TT_COPY_FUSED, .bytes = MIB, .trial = &trial };

    (void)state;
    c.past_cache = &bests[0];
    assert_int_equal(tt_copy_choose(&c), TT_COPY_ORDINARY);
    c.past_cache = &bests[1];
    assert_int_equal(tt_copy_choose(&c), TT_COPY_NONTEMPORAL);
    trial.stores = TT_COPY_ORDINARY;
    assert_int_equal(tt_copy_choose(&c), TT_COPY_ORDINARY);
}

static bool tries_eager(enum tt_coll_kind kind, uint64_t bytes, bool crowded, bool mapped)
{
    const struct tt_coll coll = { .kind = kind, .nranks = 2 };
    struct tt_copy_eager e = { .tried = true, .stores = TT_COPY_ORDINARY };

    tt_copy_eager_settle(&e, &(struct tt_copy_case){ .what = TT_COPY_EAGER, .crowded = crowded,
                                                     .mapped = mapped, .bytes = bytes,
                                                     .coll = &coll });
    assert_int_equal(e.stores, TT_COPY_UNDECIDED);
    return e.tried;
}

static void eager_stores_are_tried_if_all_wait(void **state)
{
    struct tt_copy_eager e = { .tried = true };
    uint32_t ways[TT_COPY_PUSH] = { 0 };

    (void)state;
    assert_true(tries_eager(TT_ALLREDUCE, 8 * KIB, false, true));
    assert_false(tries_eager(TT_ALLREDUCE, 8 * KIB - 1, false, true));
    assert_false(tries_eager(TT_ALLREDUCE, 8 * KIB, true, true));
    assert_false(tries_eager(TT_ALLREDUCE, 8 * KIB, false, false));
    assert_false(tries_eager(TT_SEND, 8 * KIB, false, true));
    assert_false(tries_eager(TT_REDUCE, 8 * KIB, false, true));
    for (uint32_t call = 0; call < 20; call++) {
        tt_copy_eager_begin(&e);
        ways[e.stores]++;
        tt_copy_eager_record(&e);
    }
    assert_true(ways[TT_COPY_ORDINARY] >= 4 && ways[TT_COPY_NONTEMPORAL] >= 4);
    assert_int_equal(ways[TT_COPY_ORDINARY] + ways[TT_COPY_NONTEMPORAL], 20);
}

static void copies_are_complete_and_counted(void **state)
{
    static const size_t sizes[] = { 100, 16 * KIB - 1, 16 * KIB, 100000 };
    struct tt_autotune stores = { .uses = 0 };
    struct tt_autotune_limit limit = { .slow = 0 };
    uint32_t uses = 0;

    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        const size_t n = sizes[i % 4];
        const enum tt_copy_way way = i / 4 % 2 ? TT_COPY_UNDECIDED : TT_COPY_NONTEMPORAL;
        uint8_t *from = malloc(n), *to = calloc(2, n);

        assert_true(from && to);
        memset(from, (int)(i + 1), n);
        tt_copy_to_peer(&stores, way, to, from, n);
        assert_memory_equal(to, from, n);
        uses += way == TT_COPY_UNDECIDED && n >= 16 * KIB;
        assert_int_equal(stores.uses, uses);
        if (n <= 32 * KIB) {
            tt_copy_to_mailbox(&limit, way, to + n, from, (uint32_t)n);
            assert_memory_equal(to + n, from, n);
        }
        free(from);
        free(to);
    }
}

/* ---- agreement ------------------------------------------------------------------------------- */

enum { RANKS_MAX = 4 };

/* The state of a rank on which its choice depends. */
struct one {
    struct tt_coll coll;
    struct tt_copy_tuners *tuners;
    struct tt_copy_trial trial;
};

struct scene {
    struct tt_prng prng;
    uint32_t nranks;
    struct one *rank[RANKS_MAX];
};

static struct scene scene_open(uint32_t nranks, enum tt_coll_kind kind)
{
    struct scene s = { .nranks = nranks };

    tt_prng_init(&s.prng, nranks);
    for (uint32_t r = 0; r < nranks; r++) {
        struct one *one = s.rank[r] = calloc(1, sizeof *one);

        assert_non_null(one);
        one->coll = (struct tt_coll){ .kind = kind, .rank = r, .nranks = nranks };
    }
    return s;
}

static void scene_close(struct scene *s)
{
    for (uint32_t r = 0; r < s->nranks; r++) {
        free(s->rank[r]->tuners);
        free(s->rank[r]);
    }
}

static void decide(struct one *one, uint64_t bytes)
{
    const struct tt_copy_case c = {
        .what = TT_COPY_MESSAGE, .fetchable = true, .bytes = bytes,
        .coll = &one->coll, .trial = &one->trial, .tuners = &one->tuners,
    };

    tt_copy_choose(&c);
    assert_non_null(one->trial.tuner);
}

/* Runs an operation in which each rank receives the choices of its peers, defined by `hears`. CTS
 * messages come before or after the rank's own choice. */
static void together(struct scene *s, uint64_t bytes, bool (*hears)(uint32_t, uint32_t, uint32_t),
                     uint32_t call)
{
    uint8_t says[RANKS_MAX];

    for (uint32_t i = 0; i < s->nranks; i++) {
        const uint32_t r = (call + i) % s->nranks;

        for (uint32_t before = 0; before < i; before++)
            if (hears(r, (call + before) % s->nranks, s->nranks))
                tt_copy_trial_receive(&s->rank[r]->trial, r, (call + before) % s->nranks,
                                      says[(call + before) % s->nranks]);
        decide(s->rank[r], bytes);
        says[r] = s->rank[r]->trial.announced;
    }
    for (uint32_t i = 0; i < s->nranks; i++)
        for (uint32_t after = i + 1; after < s->nranks; after++)
            if (hears((call + i) % s->nranks, (call + after) % s->nranks, s->nranks))
                tt_copy_trial_receive(&s->rank[(call + i) % s->nranks]->trial,
                                      (call + i) % s->nranks, (call + after) % s->nranks,
                                      says[(call + after) % s->nranks]);
}

static void end(struct scene *s)
{
    for (uint32_t r = 0; r < s->nranks; r++) {
        s->rank[r]->trial.begin_ns -= tt_prng_below(&s->prng, 1000000);
        tt_copy_trial_end(&s->rank[r]->trial, true);
    }
}

static bool everybody(uint32_t me, uint32_t other, uint32_t n)
{
    (void)n;
    return me != other;
}

/* The peers at distances that are powers of two. */
static bool doubling(uint32_t me, uint32_t other, uint32_t n)
{
    const uint32_t d = me ^ other;

    (void)n;
    return d != 0 && (d & (d - 1)) == 0;
}

/* `lag`: number of operations after a change by rank 0 until all have received it. */
static void all_go_the_same_way(uint32_t nranks, bool (*hears)(uint32_t, uint32_t, uint32_t),
                                uint64_t bytes, uint32_t lag)
{
    struct scene s = scene_open(nranks, TT_ALLTOALL);
    uint32_t ways[TT_COPY_PUSH] = { 0 }, apart = 0, changes = 0, at_odds = 0;
    uint8_t last = 0;

    for (uint32_t call = 0; call < 20000; call++) {
        bool same = true;

        together(&s, bytes, hears, call);
        for (uint32_t r = 1; r < nranks; r++)
            same &= s.rank[r]->trial.way == s.rank[0]->trial.way;
        apart += !same;
        changes += s.rank[0]->trial.tuner->runs.chooser.best != last;
        last = s.rank[0]->trial.tuner->runs.chooser.best;
        at_odds += s.rank[1]->trial.tuner->runs.chooser.best != last;
        ways[s.rank[0]->trial.way]++;
        end(&s);
    }
    assert_true(apart <= lag * changes);
    assert_true(changes > 20 && at_odds > 1000);
    for (uint32_t way = TT_COPY_ORDINARY; way < TT_COPY_PUSH; way++)
        assert_true(ways[way] > 0);
    scene_close(&s);
}

static void both_ranks_use_the_same_method(void **state)
{
    (void)state;
    all_go_the_same_way(2, everybody, 64 << 10, 0);
    all_go_the_same_way(2, everybody, 2 << 20, 0);
}

static void many_exchanging_ranks_agree(void **state)
{
    (void)state;
    all_go_the_same_way(4, everybody, 64 << 10, 0);
}

/* Rank 3 receives the choice of rank 0 through rank 1: one operation later. */
static void indirect_notification_takes_one_more_operation(void **state)
{
    (void)state;
    all_go_the_same_way(4, doubling, 64 << 10, 1);
}

static void the_lowest_rank_below_decides(void **state)
{
    struct tt_copy_trial t = { .tuner = NULL };

    (void)state;
    tt_copy_trial_receive(&t, 2, 3, 5);
    assert_int_equal(t.received, 0);
    tt_copy_trial_receive(&t, 2, 1, 4);
    tt_copy_trial_receive(&t, 2, 0, 0);     /* rank 0 has announced nothing */
    assert_int_equal(t.received, 4);
    tt_copy_trial_receive(&t, 2, 0, 6);
    tt_copy_trial_receive(&t, 2, 1, 7);
    assert_int_equal(t.received, 6);
}

static void stores_are_tried_if_all_wait(void **state)
{
    struct scene all = scene_open(2, TT_ALLREDUCE), root = scene_open(2, TT_REDUCE);

    (void)state;
    for (uint32_t call = 0; call < 2000; call++) {
        together(&all, 64 << 10, everybody, call);
        assert_int_equal(all.rank[0]->trial.stores, all.rank[0]->trial.way == TT_COPY_SINGLE
                                                        ? TT_COPY_UNDECIDED
                                                        : all.rank[0]->trial.way);
        end(&all);
        together(&root, 64 << 10, everybody, call);
        assert_int_not_equal(root.rank[0]->trial.way, TT_COPY_NONTEMPORAL);
        assert_int_equal(root.rank[0]->trial.stores, TT_COPY_UNDECIDED);
        end(&root);
    }
    scene_close(&all);
    scene_close(&root);
}

/* A rank whose messages have another length is in another class, and receives no choices for it. */
static void choices_for_other_lengths_are_ignored(void **state)
{
    struct scene s = scene_open(2, TT_ALLTOALLV);

    (void)state;
    for (uint32_t call = 0; call < 100; call++) {
        decide(s.rank[0], 20 << 10);
        decide(s.rank[1], 1 << 20);
        tt_copy_trial_receive(&s.rank[1]->trial, 1, 0, s.rank[0]->trial.announced);
        end(&s);
        assert_false(s.rank[1]->tuners->of[TT_ALLTOALLV][6].follows);
    }
    scene_close(&s);
}

/* A rank whose peers send no choices any more, because they failed or have no long messages. */
static void unrepeated_choices_are_ignored(void **state)
{
    struct scene s = scene_open(2, TT_ALLTOALL);

    (void)state;
    together(&s, 64 << 10, everybody, 0);
    end(&s);
    assert_true(s.rank[1]->tuners->of[TT_ALLTOALL][2].follows);
    decide(s.rank[1], 64 << 10);
    tt_copy_trial_end(&s.rank[1]->trial, false);    /* the operation failed, and does not affect the
                                                       choice */
    assert_true(s.rank[1]->tuners->of[TT_ALLTOALL][2].follows);
    decide(s.rank[1], 64 << 10);
    tt_copy_trial_end(&s.rank[1]->trial, true);
    assert_false(s.rank[1]->tuners->of[TT_ALLTOALL][2].follows);
    scene_close(&s);
}

/* ---- caches ---------------------------------------------------------------------------------- */

static void ranks_divide_a_shared_cache(void **state)
{
    (void)state;
    assert_int_equal(tt_copy_cache_share(8 * MIB, 2, 2, 1), 6 * MIB);
    assert_int_equal(tt_copy_cache_share(8 * MIB, 2, 2, 2), 3 * MIB);
    /* more ranks than cores */
    assert_int_equal(tt_copy_cache_share(8 * MIB, 2, 2, 8), 6 * MIB / 8);
    /* a cache for each core */
    assert_int_equal(tt_copy_cache_share(8 * MIB, 1, 8, 8), 6 * MIB);
    assert_int_equal(tt_copy_cache_share(8 * MIB, 4, 8, 8), 6 * MIB / 4);
    /* at least two of the ranks share a cache */
    assert_int_equal(tt_copy_cache_share(8 * MIB, 4, 8, 3), 6 * MIB / 2);
    assert_int_equal(tt_copy_cache_share(8 * MIB, 64, 2, 2), 3 * MIB);
    assert_int_equal(tt_copy_cache_share(UINT64_MAX, 1, 1, 1), 12 * MIB);
}

static void unknown_cache_counts_as_large(void **state)
{
    (void)state;
    assert_int_equal(tt_copy_cache_share(0, 0, 2, 2), 12 * MIB);
    assert_int_equal(tt_copy_cache_share(8 * MIB, 0, 2, 2), 12 * MIB);
    assert_int_equal(tt_copy_cache_share(8 * MIB, 2, 0, 2), 12 * MIB);
    assert_int_equal(tt_copy_cache_share(8 * MIB, 2, 2, 0), 12 * MIB);
}

/* Returns the highest threshold that such a call of 1000 bytes on 4 ranks reaches. */
static uint64_t reaches(enum tt_coll_kind kind, uint32_t rank, bool in_place)
{
    const struct tt_coll c = { .kind = kind,
                               .rank = rank,
                               .nranks = 4,
                               .elem_bytes = 1,
                               .bytes = 1000,
                               .in_place = in_place };
    uint64_t least = 0;

    while (tt_copy_exceeds_cache(&c, least + 1))
        least++;
    return least;
}

static void shared_memory_counts_once(void **state)
{
    (void)state;
    assert_int_equal(reaches(TT_ALLREDUCE, 1, false), 2000);
    assert_int_equal(reaches(TT_ALLREDUCE, 1, true), 1000);
    assert_int_equal(reaches(TT_ALLTOALL, 1, false), 8000);
    assert_int_equal(reaches(TT_ALLTOALL, 1, true), 4000);
    assert_int_equal(reaches(TT_ALLGATHER, 1, false), 5000);
    assert_int_equal(reaches(TT_REDUCE_SCATTER, 1, true), 4000);
}

static void a_root_and_the_others_agree(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(reaches(TT_BROADCAST, rank, rank == 0), 1250);
        assert_int_equal(reaches(TT_REDUCE, rank, false), 1000);
        assert_int_equal(reaches(TT_SCATTER, rank, false), 2000);
        assert_int_equal(reaches(TT_GATHER, rank, false), 2000);
    }
    assert_int_equal(reaches(TT_SEND, 0, false), 1000);
    assert_int_equal(reaches(TT_RECV, 0, false), 1000);
    assert_int_equal(reaches(TT_BARRIER, 0, false), 0);
}

static void uncached_data_is_not_kept(void **state)
{
    struct tt_coll c = { .kind = TT_GATHER, .nranks = 1024, .elem_bytes = 1, .bytes = 16 << 10 };

    (void)state;
    assert_true(tt_copy_exceeds_cache(&c, 6 * MIB));
    c.rank = 1;
    assert_false(tt_copy_exceeds_cache(&c, 6 * MIB));
}

static void v_kinds_count_received_bytes(void **state)
{
    const uint64_t bytes[] = { 10, 500, 30, 40 }, displs[] = { 0, 10, 510, 540 };
    struct tt_coll c = {
        .kind = TT_GATHERV, .nranks = 4, .elem_bytes = 1, .recv_bytes = bytes, .recv_displs = displs
    };

    (void)state;
    assert_true(tt_copy_exceeds_cache(&c, 290) && !tt_copy_exceeds_cache(&c, 291));
    c.rank = 1;
    assert_false(tt_copy_exceeds_cache(&c, 1));
    c = (struct tt_coll){ .kind = TT_SCATTERV,
                          .rank = 1,
                          .nranks = 4,
                          .elem_bytes = 1,
                          .send_bytes = bytes,
                          .send_displs = displs };
    assert_true(tt_copy_exceeds_cache(&c, 500) && !tt_copy_exceeds_cache(&c, 501));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_of_cases),
        cmocka_unit_test(a_trial_decides_for_all_messages),
        cmocka_unit_test(fused_stores_follow_measured_puts),
        cmocka_unit_test(eager_stores_are_tried_if_all_wait),
        cmocka_unit_test(copies_are_complete_and_counted),
        cmocka_unit_test(both_ranks_use_the_same_method),
        cmocka_unit_test(many_exchanging_ranks_agree),
        cmocka_unit_test(indirect_notification_takes_one_more_operation),
        cmocka_unit_test(the_lowest_rank_below_decides),
        cmocka_unit_test(stores_are_tried_if_all_wait),
        cmocka_unit_test(choices_for_other_lengths_are_ignored),
        cmocka_unit_test(unrepeated_choices_are_ignored),
        cmocka_unit_test(ranks_divide_a_shared_cache),
        cmocka_unit_test(unknown_cache_counts_as_large),
        cmocka_unit_test(shared_memory_counts_once),
        cmocka_unit_test(a_root_and_the_others_agree),
        cmocka_unit_test(uncached_data_is_not_kept),
        cmocka_unit_test(v_kinds_count_received_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
