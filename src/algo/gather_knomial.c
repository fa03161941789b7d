/* k-nomial gather. Shapes: src[block], dst[nranks][block] at root.
 * Ranks are counted from the root. In each round every k-th remaining rank receives the blocks of
 * the k - 1 after it, which follow its own. ceil(log_k n) levels of k - 1 messages, every byte
 * enters the root once: for short blocks and many ranks. Inner ranks hold blocks in WORK, in the
 * order counted from the root. If that order passes the last rank, the root receives two ranges.
 * To add a k: one line at the end of this file, and one in algos.c. */
#include "algo/algos.h"
#include "algo/knomial.h"

static bool gather_knomial_fits(const struct tt_coll *c)
{
    return c->bytes <= TT_WORK_MAX / c->nranks;
}

static bool gather_knomial_is_inner(const struct tt_coll *c, uint32_t k)
{
    const uint32_t v = tt_from_root(c);

    return v > 0 && tt_knomial_subtree(v, c->nranks, k) > 1;
}

static uint64_t work_of(const struct tt_coll *c, uint32_t k)
{
    return gather_knomial_is_inner(c, k)
               ? tt_knomial_subtree(tt_from_root(c), c->nranks, k) * c->bytes
               : 0;
}

static void gather_knomial_send_up(struct tt_sched *s, const struct tt_coll *c, uint32_t v,
                                   uint32_t parent, uint32_t k)
{
    const uint32_t count = tt_knomial_subtree(v, c->nranks, k), to = tt_rank_at(c, parent);
    const uint32_t first = parent == 0 ? tt_knomial_before_end(c, v, count) : count;
    const struct tt_ref at =
        parent == 0 ? tt_dst(c->rank * c->bytes) : tt_work((v - parent) * c->bytes);

    tt_sched_put(s, to, count > 1 ? tt_work(0) : tt_src(0), at, first * c->bytes, 0);
    if (first < count)
        tt_sched_put(s, to, tt_work(first * c->bytes), tt_dst(0), (count - first) * c->bytes, 1);
}

static void gather_knomial_take(struct tt_sched *s, const struct tt_coll *c, uint32_t v,
                                uint32_t child, uint32_t k)
{
    const uint32_t count = tt_knomial_subtree(child, c->nranks, k), from = tt_rank_at(c, child);
    const uint32_t first = v == 0 ? tt_knomial_before_end(c, child, count) : count;

    tt_sched_wait(s, from, v == 0 ? tt_dst(from * c->bytes) : tt_work((child - v) * c->bytes),
                  first * c->bytes, 0);
    if (first < count)
        tt_sched_wait(s, from, tt_dst(0), (count - first) * c->bytes, 1);
}

static void round_of(struct tt_sched *s, const struct tt_coll *c, uint64_t round, uint32_t k)
{
    const uint32_t v = tt_from_root(c);
    const uint64_t step = tt_knomial_power(k, (uint32_t)round);
    const uint32_t children = tt_knomial_children(v, c->nranks, k, step);
    uint32_t parent;

    if (round == 0) {
        tt_sched_own(s, c);
        if (gather_knomial_is_inner(c, k))
            tt_sched_copy(s, tt_work(0), tt_src(0), c->bytes);
    }
    if (tt_knomial_parent(v, k, step, &parent))
        gather_knomial_send_up(s, c, v, parent, k);
    for (uint32_t i = 1; i <= children; i++)
        gather_knomial_take(s, c, v, v + i * (uint32_t)step, k);
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
    TT_KNOMIAL(gather, k, .kind = TT_GATHER, .fits = gather_knomial_fits,                   \
               .fits_named = tt_fits_always, .needs = "all blocks together within 256 KiB", \
               .summary = "short blocks, many ranks; " #k " become one in each round")

KNOMIAL(4);
KNOMIAL(8);
