/* Binomial scatter. Shapes: src[nranks][block] at root, dst[block].
 * Ranks are counted from the root. Each receives the blocks of its subtree, keeps its own and
 * distributes the rest among its children, the farthest first.
 * ceil(log2 n) latencies, every byte leaves the root once: for short blocks and many ranks. Inner
 * ranks hold blocks in WORK, in the order counted from the root. If that order passes the last
 * rank, the root sends two ranges. */
#include "algo/algos.h"
#include "algo/blocks.h"

static bool scatter_binomial_fits(const struct tt_coll *c)
{
    return c->bytes <= TT_WORK_MAX / c->nranks;
}

static uint64_t scatter_binomial_work_bytes(const struct tt_coll *c)
{
    const uint32_t v = tt_from_root(c), count = tt_subtree(v, c->nranks);

    return v > 0 && count > 1 ? count * c->bytes : 0;
}

/* Returns how many of the `count` ranks from v on, counted from the root, precede the wrap from the
 * last rank to rank 0. */
static uint32_t scatter_binomial_before_end(const struct tt_coll *c, uint32_t v, uint32_t count)
{
    const uint32_t left = c->nranks - tt_rank_at(c, v);

    return count < left ? count : left;
}

static void scatter_binomial_send_down(struct tt_sched *s, const struct tt_coll *c, uint32_t v,
                                       uint32_t child)
{
    const uint32_t count = tt_subtree(child, c->nranks), to = tt_rank_at(c, child);
    const uint32_t first = v == 0 ? scatter_binomial_before_end(c, child, count) : count;
    const struct tt_ref from = v == 0 ? tt_src(to * c->bytes) : tt_work((child - v) * c->bytes);

    tt_sched_put(s, to, from, count > 1 ? tt_work(0) : tt_dst(0), first * c->bytes, 0);
    if (first < count)
        tt_sched_put(s, to, tt_src(0), tt_work(first * c->bytes), (count - first) * c->bytes, 1);
}

static void scatter_binomial_take(struct tt_sched *s, const struct tt_coll *c, uint32_t v,
                                  uint32_t parent)
{
    const uint32_t count = tt_subtree(v, c->nranks), from = tt_rank_at(c, parent);
    const uint32_t first = parent == 0 ? scatter_binomial_before_end(c, v, count) : count;

    tt_sched_wait(s, from, count > 1 ? tt_work(0) : tt_dst(0), first * c->bytes, 0);
    if (first < count)
        tt_sched_wait(s, from, tt_work(first * c->bytes), (count - first) * c->bytes, 1);
    if (count > 1)
        tt_sched_copy(s, tt_dst(0), tt_work(0), c->bytes);
}

static void scatter_binomial_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t v = tt_from_root(c), rounds = tt_log2_up(c->nranks);

    if (k < rounds) {
        const uint32_t step = 1u << (rounds - 1 - k);

        if (v % (2 * step) == step)
            scatter_binomial_take(s, c, v, v - step);
        if (v % (2 * step) == 0 && v + step < c->nranks)
            scatter_binomial_send_down(s, c, v, v + step);
    }
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost scatter_binomial_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = 1.1 * tt_log2_up(c->nranks), .bytes = bytes * (c->nranks - 1), .copied = bytes,
    };
}

const struct tt_algo tt_algo_scatter_binomial = {
    .name = "scatter_binomial", .summary = "short blocks, many ranks",
    .needs = "all blocks together within 256 KiB",
    .kind = TT_SCATTER,
    .fits = scatter_binomial_fits,
    .fits_named = tt_fits_always,
    .nrounds = tt_rounds_log,
    .round = scatter_binomial_round,
    .work_bytes = scatter_binomial_work_bytes,
    .npeers = tt_npeers_tree,
    .cost = scatter_binomial_cost,
};
