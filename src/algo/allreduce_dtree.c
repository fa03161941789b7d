/* Double binary tree all-reduce. Shapes: src[bytes], dst[bytes].
 * Each half of the vector is reduced up a binary tree over all ranks, and the result is sent down
 * the same tree. A rank has children in only one of the two trees (src/algo/twotree.h). Each rank
 * sends and receives the vector about twice, as in a ring, but a byte passes 2 log2(n) ranks
 * instead of 2 (n - 1): for long vectors and many ranks. The results stream down behind the sums.
 * P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan", 2009; as used by NCCL. */
#include "algo/algos.h"
#include "algo/twotree.h"

enum { FROM_LEFT, FROM_RIGHT, WITH_LEFT, WITH_BOTH, PIPES };
enum { UP, DOWN, WAYS };    /* tags */

/* Node v is rank v - 1. */
static uint32_t lowest_of(const struct tt_coll *c, uint32_t tree, uint32_t node)
{
    return tt_tree_lowest(c->nranks, tree, node, c->nranks - 1, c->nranks);
}

/* Reduces the value received from a child with `ours`, whose lowest rank is *lowest. */
static struct tt_ref allreduce_dtree_take(struct tt_sched *s, const struct tt_coll *c,
                                          uint32_t tree, uint32_t child, struct tt_ref sum,
                                          struct tt_ref ours, uint32_t *lowest, bool right,
                                          bool finish)
{
    const struct tt_ref theirs = tt_pipe(PIPES * tree + (right ? FROM_RIGHT : FROM_LEFT));
    const uint32_t below = lowest_of(c, tree, child);
    const struct tt_block half = tt_tree_half(c, tree);

    tt_sched_wait(s, child - 1, theirs, half.bytes, WAYS * tree + UP);
    tt_sched_reduce_ordered(s, sum, ours, *lowest, theirs, below, half.bytes, finish);
    *lowest = below < *lowest ? below : *lowest;
    return sum;
}

static void allreduce_dtree_pass_up(struct tt_sched *s, const struct tt_coll *c, uint32_t tree)
{
    const uint32_t node = c->rank + 1;
    const struct tt_tree_place at = tt_tree_place(c->nranks, tree, node);
    const struct tt_block half = tt_tree_half(c, tree);
    const bool top = at.parent == 0;
    struct tt_ref ours = tt_src(half.offset);
    uint32_t lowest = c->rank;

    if (at.left)
        ours = allreduce_dtree_take(s, c, tree, at.left,
                                    top && !at.right ? tt_dst(half.offset)
                                                     : tt_pipe(PIPES * tree + WITH_LEFT),
                                    ours, &lowest, false, top && !at.right);
    if (at.right)
        ours = allreduce_dtree_take(s, c, tree, at.right,
                                    top ? tt_dst(half.offset) : tt_pipe(PIPES * tree + WITH_BOTH),
                                    ours, &lowest, true, top);
    if (!top) {
        const bool right = tt_tree_place(c->nranks, tree, at.parent).right == node;

        tt_sched_put(s, at.parent - 1, ours,
                     tt_pipe(PIPES * tree + (right ? FROM_RIGHT : FROM_LEFT)), half.bytes,
                     WAYS * tree + UP);
    }
}

static void allreduce_dtree_serve(struct tt_sched *s, const struct tt_coll *c, uint32_t tree,
                                  uint32_t child)
{
    const struct tt_block half = tt_tree_half(c, tree);

    if (child > 0)
        tt_sched_put(s, child - 1, tt_dst(half.offset), tt_dst(half.offset), half.bytes,
                     WAYS * tree + DOWN);
}

static void pass_down(struct tt_sched *s, const struct tt_coll *c, uint32_t tree)
{
    const struct tt_tree_place at = tt_tree_place(c->nranks, tree, c->rank + 1);
    const struct tt_block half = tt_tree_half(c, tree);

    if (at.parent)
        tt_sched_wait(s, at.parent - 1, tt_dst(half.offset), half.bytes, WAYS * tree + DOWN);
    allreduce_dtree_serve(s, c, tree, at.left);
    allreduce_dtree_serve(s, c, tree, at.right);
}

static uint64_t allreduce_dtree_nrounds(const struct tt_coll *c)
{
    return c->nranks > 1 ? 2 : 1;
}

static void allreduce_dtree_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    if (c->nranks == 1)
        tt_sched_own(s, c);
    for (uint32_t tree = 0; tree < TT_TWO && c->nranks > 1; tree++)
        if (k == 0)
            allreduce_dtree_pass_up(s, c, tree);
        else
            pass_down(s, c, tree);
}

static struct tt_cost allreduce_dtree_cost(const struct tt_coll *c)
{
    const struct tt_cost way = tt_tree_cost(c, c->nranks > 1 ? c->nranks : 0);

    return (struct tt_cost){ .messages = 2 * way.messages,
                             .bytes = 2 * way.bytes,
                             .reduced = way.bytes };
}

/* A parent and two children in one tree, a parent in the other; a root without children in the
 * other tree has fewer. */
static uint32_t allreduce_dtree_npeers(const struct tt_coll *c)
{
    return c->nranks - 1 < 4 ? c->nranks - 1 : 4;
}

const struct tt_algo tt_algo_allreduce_dtree = {
    .name = "allreduce_dtree", .summary = "long vectors, many ranks",
    .quantizes = TT_QUANTIZED,
    .kind = TT_ALLREDUCE,
    .fits = tt_fits_always,
    .nrounds = allreduce_dtree_nrounds,
    .round = allreduce_dtree_round,
    .work_bytes = tt_work_none,
    .npeers = allreduce_dtree_npeers,
    .cost = allreduce_dtree_cost,
};
