/* Ranks with different local optima still use the same copy method, and agree on changes in time.
 * Their measurements are random, so their local choices are, too. */
#include <stdlib.h>

#include "base/prng.h"
#include "engine/exec_actions.h"
#include "support/unit.h"

enum { RANKS_MAX = 4 };

/* A rank: only what the choice depends on. */
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

    tt_op_single_copy_is_faster(&one->op, &wait);
    assert_non_null(one->op.copies);
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
                tt_op_copy_method_receive(&s->rank[r]->op, (call + before) % s->nranks,
                                          says[(call + before) % s->nranks]);
        decide(s->rank[r], bytes);
        says[r] = s->rank[r]->op.copies_announced;
    }
    for (uint32_t i = 0; i < s->nranks; i++)
        for (uint32_t after = i + 1; after < s->nranks; after++)
            if (hears((call + i) % s->nranks, (call + after) % s->nranks, s->nranks))
                tt_op_copy_method_receive(&s->rank[(call + i) % s->nranks]->op,
                                          (call + after) % s->nranks,
                                          says[(call + after) % s->nranks]);
}

static void end(struct scene *s)
{
    for (uint32_t r = 0; r < s->nranks; r++) {
        s->rank[r]->op.copies_begin_ns -= tt_prng_below(&s->prng, 1000000);
        tt_op_copy_method_end(&s->rank[r]->op, true);
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

/* `lag`: number of operations after a change by rank 0 until all have received it. */
static void all_go_the_same_way(uint32_t nranks, bool (*hears)(uint32_t, uint32_t, uint32_t),
                                uint64_t bytes, uint32_t lag)
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

static void stores_are_tried_if_all_wait(void **state)
{
    struct scene all = scene_open(2, TT_ALLREDUCE), root = scene_open(2, TT_REDUCE);

    (void)state;
    for (uint32_t call = 0; call < 2000; call++) {
        together(&all, 64 << 10, everybody, call);
        assert_int_equal(all.rank[0]->op.slot_stores,
                         all.rank[0]->op.copies_way == TT_COPIES_SINGLE  ? TT_STORES_TIMED
                         : all.rank[0]->op.copies_way == TT_COPIES_SLOTS ? TT_STORES_ORDINARY
                                                                         : TT_STORES_NONTEMPORAL);
        end(&all);
        together(&root, 64 << 10, everybody, call);
        assert_int_not_equal(root.rank[0]->op.copies_way, TT_COPIES_NONTEMPORAL);
        assert_int_equal(root.rank[0]->op.slot_stores, TT_STORES_TIMED);
        end(&root);
    }
    scene_close(&all);
    scene_close(&root);
}

/* A rank whose messages have another length is in another class, without choices of others. */
static void choices_for_other_lengths_are_ignored(void **state)
{
    struct scene s = scene_open(2, TT_ALLTOALLV);

    (void)state;
    for (uint32_t call = 0; call < 100; call++) {
        decide(s.rank[0], 20 << 10);
        decide(s.rank[1], 1 << 20);
        tt_op_copy_method_receive(&s.rank[1]->op, 0, s.rank[0]->op.copies_announced);
        end(&s);
        assert_false(s.rank[1]->context.copies[TT_ALLTOALLV][6].follows);
    }
    scene_close(&s);
}

/* A rank that continues alone, because others fail or have no long messages. */
static void unrepeated_choices_are_ignored(void **state)
{
    struct scene s = scene_open(2, TT_ALLTOALL);

    (void)state;
    together(&s, 64 << 10, everybody, 0);
    end(&s);
    assert_true(s.rank[1]->op.context->copies[TT_ALLTOALL][2].follows);
    decide(s.rank[1], 64 << 10);
    tt_op_copy_method_end(&s.rank[1]->op, false);    /* it failed: nothing is learnt */
    assert_true(s.rank[1]->op.context->copies[TT_ALLTOALL][2].follows);
    decide(s.rank[1], 64 << 10);
    tt_op_copy_method_end(&s.rank[1]->op, true);
    assert_false(s.rank[1]->op.context->copies[TT_ALLTOALL][2].follows);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ranks_use_the_same_method),
        cmocka_unit_test(many_exchanging_ranks_agree),
        cmocka_unit_test(indirect_notification_takes_one_more_operation),
        cmocka_unit_test(stores_are_tried_if_all_wait),
        cmocka_unit_test(choices_for_other_lengths_are_ignored),
        cmocka_unit_test(unrepeated_choices_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
