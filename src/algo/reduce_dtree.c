/* Double binary tree reduce. Shapes: src[bytes], dst[bytes] at root.
 * The reverse of broadcast_dtree: each half of the vector is reduced up its own tree, in which a
 * rank adds its children's running values to its own part and forwards the sum, without storing it
 * (src/algo/twotree.h). Each rank sends the vector once, and receives it once if it has children:
 * full bandwidth at log2(n) hops. For long vectors and many ranks.
 * P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan", 2009. */
#include "algo/algos.h"
#include "algo/twotree.h"

enum { FROM_LEFT, FROM_RIGHT, WITH_LEFT, WITH_BOTH, PIPES };

/* Reduces the value received from a child with `ours`, whose lowest rank is *lowest. */
static struct tt_ref reduce_dtree_take(struct tt_sched *s, const struct tt_coll *c, uint32_t tree,
                                       uint32_t child, struct tt_ref ours, uint32_t *lowest,
                                       bool right)
{
    const struct tt_ref theirs = tt_pipe(PIPES * tree + (right ? FROM_RIGHT : FROM_LEFT));
    const struct tt_ref sum = tt_pipe(PIPES * tree + (right ? WITH_BOTH : WITH_LEFT));
    const uint32_t below = tt_tree_lowest(c->nranks - 1, tree, child, c->root, c->nranks);
    const struct tt_block half = tt_tree_half(c, tree);

    tt_sched_wait(s, tt_rank_at(c, child), theirs, half.bytes, tree);
    tt_sched_reduce_ordered(s, sum, ours, *lowest, theirs, below, half.bytes, false);
    *lowest = below < *lowest ? below : *lowest;
    return sum;
}

static void reduce_dtree_pass_up(struct tt_sched *s, const struct tt_coll *c, uint32_t tree)
{
    const uint32_t m = c->nranks - 1;
    const struct tt_tree_place at = tt_tree_place(m, tree, tt_from_root(c));
    const struct tt_tree_place there = at.parent ? tt_tree_place(m, tree, at.parent) : at;
    const struct tt_block half = tt_tree_half(c, tree);
    const bool right = at.parent && there.right == tt_from_root(c);
    struct tt_ref ours = tt_src(half.offset);
    uint32_t lowest = c->rank;

    if (at.left)
        ours = reduce_dtree_take(s, c, tree, at.left, ours, &lowest, false);
    if (at.right)
        ours = reduce_dtree_take(s, c, tree, at.right, ours, &lowest, true);
    tt_sched_put(s, tt_rank_at(c, at.parent), ours,
                 tt_pipe(PIPES * tree + (right ? FROM_RIGHT : FROM_LEFT)), half.bytes, tree);
}

static void reduce_dtree_end(struct tt_sched *s, const struct tt_coll *c, uint32_t tree)
{
    const uint32_t m = c->nranks - 1, top = tt_tree_root(m, tree);
    const struct tt_ref theirs = tt_pipe(PIPES * tree + FROM_LEFT);
    const struct tt_block half = tt_tree_half(c, tree);

    tt_sched_wait(s, tt_rank_at(c, top), theirs, half.bytes, tree);
    tt_sched_reduce_ordered(s, tt_dst(half.offset), tt_src(half.offset), c->rank, theirs,
                            tt_tree_lowest(m, tree, top, c->root, c->nranks), half.bytes, true);
}

static void reduce_dtree_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)k;
    if (c->nranks == 1)
        tt_sched_own(s, c);
    for (uint32_t tree = 0; tree < TT_TWO && c->nranks > 1; tree++)
        if (tt_from_root(c) == 0)
            reduce_dtree_end(s, c, tree);
        else
            reduce_dtree_pass_up(s, c, tree);
}

static struct tt_cost reduce_dtree_cost(const struct tt_coll *c)
{
    struct tt_cost cost = tt_tree_cost(c, c->nranks - 1);

    cost.reduced = cost.bytes;
    return cost;
}

static uint32_t reduce_dtree_npeers(const struct tt_coll *c)
{
    return c->nranks - 1 < 4 ? c->nranks - 1 : 4;
}

const struct tt_algo tt_algo_reduce_dtree = {
    .name = "reduce_dtree", .summary = "long vectors, many ranks",
    .quantizes = TT_QUANTIZED,
    .kind = TT_REDUCE,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_one,
    .round = reduce_dtree_round,
    .work_bytes = tt_work_none,
    .npeers = reduce_dtree_npeers,
    .cost = reduce_dtree_cost,
};
