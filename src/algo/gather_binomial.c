/* Binomial gather. Shapes: src[block], dst[nranks][block] at root.
 * Ranks are counted from the root. In round k, every second remaining rank sends the blocks of its
 * subtree to the rank 2^k lower.
 * ceil(log2 n) latencies, every byte enters the root once: for short blocks and many ranks. Inner
 * ranks collect blocks in WORK, in the order counted from the root. If that order passes the last
 * rank, the root receives two ranges. */
#include "algo/algos.h"
#include "algo/blocks.h"

static bool gather_binomial_fits(const struct tt_coll *c)
{
    return c->bytes <= TT_WORK_MAX / c->nranks;
}

static bool gather_binomial_is_inner(const struct tt_coll *c)
{
    const uint32_t v = tt_from_root(c);

    return v > 0 && tt_subtree(v, c->nranks) > 1;
}

static uint64_t gather_binomial_work_bytes(const struct tt_coll *c)
{
    return gather_binomial_is_inner(c) ? tt_subtree(tt_from_root(c), c->nranks) * c->bytes : 0;
}

/* Returns how many of the `count` ranks from v on, counted from the root, precede the wrap from the
 * last rank to rank 0. */
static uint32_t gather_binomial_before_end(const struct tt_coll *c, uint32_t v, uint32_t count)
{
    const uint32_t left = c->nranks - tt_rank_at(c, v);

    return count < left ? count : left;
}

static void gather_binomial_send_up(struct tt_sched *s, const struct tt_coll *c, uint32_t v,
                                    uint32_t parent)
{
    const uint32_t count = tt_subtree(v, c->nranks), to = tt_rank_at(c, parent);
    const uint32_t first = parent == 0 ? gather_binomial_before_end(c, v, count) : count;
    const struct tt_ref at =
        parent == 0 ? tt_dst(c->rank * c->bytes) : tt_work((v - parent) * c->bytes);

    tt_sched_put(s, to, count > 1 ? tt_work(0) : tt_src(0), at, first * c->bytes, 0);
    if (first < count)
        tt_sched_put(s, to, tt_work(first * c->bytes), tt_dst(0), (count - first) * c->bytes, 1);
}

static void gather_binomial_take(struct tt_sched *s, const struct tt_coll *c, uint32_t v,
                                 uint32_t child)
{
    const uint32_t count = tt_subtree(child, c->nranks), from = tt_rank_at(c, child);
    const uint32_t first = v == 0 ? gather_binomial_before_end(c, child, count) : count;

    tt_sched_wait(s, from, v == 0 ? tt_dst(from * c->bytes) : tt_work((child - v) * c->bytes),
                  first * c->bytes, 0);
    if (first < count)
        tt_sched_wait(s, from, tt_dst(0), (count - first) * c->bytes, 1);
}

static void gather_binomial_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t v = tt_from_root(c), step = 1u << k;

    if (k == 0) {
        tt_sched_own(s, c);
        if (gather_binomial_is_inner(c))
            tt_sched_copy(s, tt_work(0), tt_src(0), c->bytes);
    }
    if (v % (2 * step) == step)
        gather_binomial_send_up(s, c, v, v - step);
    if (v % (2 * step) == 0 && v + step < c->nranks)
        gather_binomial_take(s, c, v, v + step);
}

static struct tt_cost gather_binomial_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = 1.1 * tt_log2_up(c->nranks), .bytes = bytes * (c->nranks - 1), .copied = bytes,
    };
}

const struct tt_algo tt_algo_gather_binomial = {
    .name = "gather_binomial", .summary = "short blocks, many ranks",
    .needs = "all blocks together within 256 KiB",
    .kind = TT_GATHER,
    .fits = gather_binomial_fits,
    .fits_named = tt_fits_always,
    .nrounds = tt_rounds_log,
    .round = gather_binomial_round,
    .work_bytes = gather_binomial_work_bytes,
    .npeers = tt_npeers_tree,
    .cost = gather_binomial_cost,
};
