/* Ranks that come to different answers to what takes least still go the same way, and each says in time which. What they learn from is chance, so what each would choose by itself is, too. */
#include <stdlib.h>

#include "base/prng.h"
#include "engine/perform.h"
#include "support/unit.h"

enum { RANKS_MAX = 4 };

/* A rank: what the choice looks at, and no more. */
struct one {
    struct tt_engine engine;
    struct tt_context context;
    struct tt_op op;
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
        one->engine.spins = 1;
        one->context.engine = &one->engine;
        one->op.context = &one->context;
        one->op.conf.coll.kind = kind;
        one->op.conf.coll.rank = r;
        one->op.conf.coll.nranks = nranks;
    }
    return s;
}

static void scene_close(struct scene *s)
{
    for (uint32_t r = 0; r < s->nranks; r++) {
        free(s->rank[r]->context.copies);
        free(s->rank[r]);
    }
}

static void decide(struct one *one, uint64_t bytes)
{
    const struct tt_exec_step wait = { .s.bytes = bytes, .to_dst = true };

    tt_op_pays_single_copy(&one->op, &wait);
    assert_non_null(one->op.copies);
}

/* An operation in which each hears what it would of those that it exchanges with: `hears` tells. READYs come before or after one's own choice. */
static void together(struct scene *s, uint64_t bytes, bool (*hears)(uint32_t, uint32_t, uint32_t), uint32_t call)
{
    uint8_t says[RANKS_MAX];

    for (uint32_t i = 0; i < s->nranks; i++) {
        const uint32_t r = (call + i) % s->nranks;

        for (uint32_t before = 0; before < i; before++)
            if (hears(r, (call + before) % s->nranks, s->nranks))
                tt_op_copies_hear(&s->rank[r]->op, (call + before) % s->nranks, says[(call + before) % s->nranks]);
        decide(s->rank[r], bytes);
        says[r] = s->rank[r]->op.copies_says;
    }
    for (uint32_t i = 0; i < s->nranks; i++)
        for (uint32_t after = i + 1; after < s->nranks; after++)
            if (hears((call + i) % s->nranks, (call + after) % s->nranks, s->nranks))
                tt_op_copies_hear(&s->rank[(call + i) % s->nranks]->op, (call + after) % s->nranks,
                                  says[(call + after) % s->nranks]);
}

static void end(struct scene *s)
{
    for (uint32_t r = 0; r < s->nranks; r++) {
        s->rank[r]->op.copies_begin_ns -= tt_prng_below(&s->prng, 1000000);
        tt_op_copies_end(&s->rank[r]->op, true);
    }
}

static bool everybody(uint32_t me, uint32_t other, uint32_t n)
{
    (void)n;
    return me != other;
}

/* Distances 1, 2, ...: powers of two. */
static bool doubling(uint32_t me, uint32_t other, uint32_t n)
{
    const uint32_t d = me ^ other;

    (void)n;
    return d != 0 && (d & (d - 1)) == 0;
}

/* `lag`: operations, after a change of rank 0's mind, until all have heard. */
static void all_go_the_same_way(uint32_t nranks, bool (*hears)(uint32_t, uint32_t, uint32_t), uint64_t bytes,
                                uint32_t lag)
{
    struct scene s = scene_open(nranks, TT_ALLTOALL);
    uint32_t ways[TT_COPIES_WAYS] = { 0 }, apart = 0, changes = 0, at_odds = 0;
    uint8_t last = 0;

    for (uint32_t call = 0; call < 20000; call++) {
        bool same = true;

        together(&s, bytes, hears, call);
        for (uint32_t r = 1; r < nranks; r++)
            same &= s.rank[r]->op.copies_way == s.rank[0]->op.copies_way;
        apart += !same;
        changes += s.rank[0]->op.copies->runs.chooser.best != last;
        last = s.rank[0]->op.copies->runs.chooser.best;
        at_odds += s.rank[1]->op.copies->runs.chooser.best != last;
        ways[s.rank[0]->op.copies_way]++;
        end(&s);
    }
    assert_true(apart <= lag * changes);
    assert_true(changes > 20 && at_odds > 1000);
    for (uint32_t way = 0; way < TT_COPIES_WAYS; way++)
        assert_true(ways[way] > 0);
    scene_close(&s);
}

static void two_ranks_always_go_the_same_way(void **state)
{
    (void)state;
    all_go_the_same_way(2, everybody, 64 << 10, 0);
    all_go_the_same_way(2, everybody, 2 << 20, 0);
}

static void so_do_more_that_all_exchange(void **state)
{
    (void)state;
    all_go_the_same_way(4, everybody, 64 << 10, 0);
}

/* Rank 3 hears of rank 0 through rank 1: an operation later. */
static void who_hears_through_others_is_late_by_one(void **state)
{
    (void)state;
    all_go_the_same_way(4, doubling, 64 << 10, 1);
}

static void stores_are_tried_only_where_all_wait_for_one_another(void **state)
{
    struct scene all = scene_open(2, TT_ALLREDUCE), root = scene_open(2, TT_REDUCE);

    (void)state;
    for (uint32_t call = 0; call < 2000; call++) {
        together(&all, 64 << 10, everybody, call);
        assert_int_equal(all.rank[0]->op.slot_stores, all.rank[0]->op.copies_way == TT_COPIES_SINGLE ? TT_STORES_TIMED
                                                      : all.rank[0]->op.copies_way == TT_COPIES_SLOTS
                                                          ? TT_STORES_ORDINARY
                                                          : TT_STORES_PAST_CACHE);
        end(&all);
        together(&root, 64 << 10, everybody, call);
        assert_int_not_equal(root.rank[0]->op.copies_way, TT_COPIES_PAST_CACHE);
        assert_int_equal(root.rank[0]->op.slot_stores, TT_STORES_TIMED);
        end(&root);
    }
    scene_close(&all);
    scene_close(&root);
}

/* A rank whose messages are of another length has another class, of which nothing was said. */
static void what_is_said_of_other_lengths_is_not_followed(void **state)
{
    struct scene s = scene_open(2, TT_ALLTOALLV);

    (void)state;
    for (uint32_t call = 0; call < 100; call++) {
        decide(s.rank[0], 20 << 10);
        decide(s.rank[1], 1 << 20);
        tt_op_copies_hear(&s.rank[1]->op, 0, s.rank[0]->op.copies_says);
        end(&s);
        assert_false(s.rank[1]->context.copies[TT_ALLTOALLV][6].follows);
    }
    scene_close(&s);
}

/* A rank that goes on alone, as others fail or have no long messages. */
static void what_is_not_said_again_is_not_followed(void **state)
{
    struct scene s = scene_open(2, TT_ALLTOALL);

    (void)state;
    together(&s, 64 << 10, everybody, 0);
    end(&s);
    assert_true(s.rank[1]->op.context->copies[TT_ALLTOALL][2].follows);
    decide(s.rank[1], 64 << 10);
    tt_op_copies_end(&s.rank[1]->op, false);    /* it failed: nothing is learnt */
    assert_true(s.rank[1]->op.context->copies[TT_ALLTOALL][2].follows);
    decide(s.rank[1], 64 << 10);
    tt_op_copies_end(&s.rank[1]->op, true);
    assert_false(s.rank[1]->op.context->copies[TT_ALLTOALL][2].follows);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_always_go_the_same_way),
        cmocka_unit_test(so_do_more_that_all_exchange),
        cmocka_unit_test(who_hears_through_others_is_late_by_one),
        cmocka_unit_test(stores_are_tried_only_where_all_wait_for_one_another),
        cmocka_unit_test(what_is_said_of_other_lengths_is_not_followed),
        cmocka_unit_test(what_is_not_said_again_is_not_followed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
