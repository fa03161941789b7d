/* Double binary tree broadcast. Shapes: src[bytes] at root, dst[bytes].
 * The root sends one half of the vector to the root of each of two trees over the other ranks. Each
 * rank forwards to two children, in the one tree in which it has any (src/algo/twotree.h). A rank
 * receives and sends the vector once: full bandwidth, as in a chain, at log2(n) hops. Segments
 * stream through. For long vectors and many ranks.
 * P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan", 2009. */
#include "algo/algos.h"
#include "algo/twotree.h"

static void broadcast_dtree_serve(struct tt_sched *s, const struct tt_coll *c, uint32_t tree,
                                  uint32_t node)
{
    const struct tt_block half = tt_tree_half(c, tree);

    if (node > 0)
        tt_sched_put(s, tt_rank_at(c, node),
                     tt_from_root(c) ? tt_dst(half.offset) : tt_src(half.offset),
                     tt_dst(half.offset), half.bytes, tree);
}

static void broadcast_dtree_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t v = tt_from_root(c), m = c->nranks - 1;

    (void)k;
    for (uint32_t tree = 0; tree < TT_TWO && m > 0; tree++) {
        if (v == 0) {
            broadcast_dtree_serve(s, c, tree, tt_tree_root(m, tree));
            continue;
        }
        const struct tt_tree_place at = tt_tree_place(m, tree, v);
        const struct tt_block half = tt_tree_half(c, tree);

        tt_sched_wait(s, tt_rank_at(c, at.parent), tt_dst(half.offset), half.bytes, tree);
        broadcast_dtree_serve(s, c, tree, at.left);
        broadcast_dtree_serve(s, c, tree, at.right);
    }
    tt_sched_own(s, c);
}

static struct tt_cost broadcast_dtree_cost(const struct tt_coll *c)
{
    struct tt_cost cost = tt_tree_cost(c, c->nranks - 1);

    cost.copied = (double)c->bytes;
    return cost;
}

/* A parent and two children in one tree, a parent in the other; the root has two children. */
static uint32_t broadcast_dtree_npeers(const struct tt_coll *c)
{
    return c->nranks - 1 < 4 ? c->nranks - 1 : 4;
}

const struct tt_algo tt_algo_broadcast_dtree = {
    .name = "broadcast_dtree",
    .summary = "long vectors, many ranks",
    .kind = TT_BROADCAST,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_one,
    .round = broadcast_dtree_round,
    .work_bytes = tt_work_none,
    .npeers = broadcast_dtree_npeers,
    .cost = broadcast_dtree_cost,
};
