/* k-nomial scatter. Shapes: src[nranks][block] at root, dst[block].
 * Ranks are counted from the root. Each receives the blocks of its subtree, keeps its own and sends
 * each child its part, k - 1 on a level, the farthest level first. ceil(log_k n) levels of k - 1
 * messages, every byte leaves the root once: for short blocks and many ranks. Inner ranks hold
 * blocks in WORK, in the order counted from the root. If that order passes the last rank, the root
 * sends two ranges.
 * To add a k: one line at the end of this file, and one in algos.c. */
#include "algo/algos.h"
#include "algo/knomial.h"

static bool scatter_knomial_fits(const struct tt_coll *c)
{
    return c->bytes <= TT_WORK_MAX / c->nranks;
}

static uint64_t work_of(const struct tt_coll *c, uint32_t k)
{
    const uint32_t v = tt_from_root(c), count = tt_knomial_subtree(v, c->nranks, k);

    return v > 0 && count > 1 ? count * c->bytes : 0;
}

static void scatter_knomial_send_down(struct tt_sched *s, const struct tt_coll *c, uint32_t v,
                                      uint32_t child, uint32_t k)
{
    const uint32_t count = tt_knomial_subtree(child, c->nranks, k), to = tt_rank_at(c, child);
    const uint32_t first = v == 0 ? tt_knomial_before_end(c, child, count) : count;
    const struct tt_ref from = v == 0 ? tt_src(to * c->bytes) : tt_work((child - v) * c->bytes);

    tt_sched_put(s, to, from, count > 1 ? tt_work(0) : tt_dst(0), first * c->bytes, 0);
    if (first < count)
        tt_sched_put(s, to, tt_src(0), tt_work(first * c->bytes), (count - first) * c->bytes, 1);
}

static void scatter_knomial_take(struct tt_sched *s, const struct tt_coll *c, uint32_t v,
                                 uint32_t parent, uint32_t k)
{
    const uint32_t count = tt_knomial_subtree(v, c->nranks, k), from = tt_rank_at(c, parent);
    const uint32_t first = parent == 0 ? tt_knomial_before_end(c, v, count) : count;

    tt_sched_wait(s, from, count > 1 ? tt_work(0) : tt_dst(0), first * c->bytes, 0);
    if (first < count)
        tt_sched_wait(s, from, tt_work(first * c->bytes), (count - first) * c->bytes, 1);
    if (count > 1)
        tt_sched_copy(s, tt_dst(0), tt_work(0), c->bytes);
}

static void round_of(struct tt_sched *s, const struct tt_coll *c, uint64_t round, uint32_t k)
{
    const uint32_t v = tt_from_root(c), n = c->nranks, levels = tt_knomial_levels(n, k);

    if (round < levels) {
        const uint64_t step = tt_knomial_power(k, levels - 1 - (uint32_t)round);
        const uint32_t children = tt_knomial_children(v, n, k, step);
        uint32_t parent;

        if (tt_knomial_parent(v, k, step, &parent))
            scatter_knomial_take(s, c, v, parent, k);
        for (uint32_t i = children; i > 0; i--)
            scatter_knomial_send_down(s, c, v, v + i * (uint32_t)step, k);
    }
    if (round == 0)
        tt_sched_own(s, c);
}

static struct tt_cost cost_of(const struct tt_coll *c, uint32_t k)
{
    const double bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = 1.1 * tt_knomial_messages(c->nranks, k),
        .bytes = bytes * (c->nranks - 1),
        .copied = bytes,
    };
}

#define KNOMIAL(k) \
    TT_KNOMIAL(scatter, k, .kind = TT_SCATTER, .fits = scatter_knomial_fits,                \
               .fits_named = tt_fits_always, .needs = "all blocks together within 256 KiB", \
               .summary = "short blocks, many ranks; " #k " times as many in each round")

KNOMIAL(4);
KNOMIAL(8);
