/* Binomial reduce. Shapes: src[bytes], dst[bytes] at root.
 * Ranks are counted from the root. In round k, every second remaining rank sends its running value
 * to the rank 2^k lower.
 * ceil(log2 n) * (latency + bytes / bandwidth): for short vectors and many ranks. The running value
 * is in WORK. */
#include "algo/algos.h"
#include "algo/blocks.h"

static bool reduce_binomial_fits(const struct tt_coll *c)
{
    return c->bytes <= TT_WORK_MAX;
}

static uint64_t reduce_binomial_work_bytes(const struct tt_coll *c)
{
    const uint32_t v = tt_from_root(c);

    return v > 0 && tt_subtree(v, c->nranks) > 1 ? c->bytes : 0;
}

static void reduce_binomial_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, v = tt_from_root(c), step = 1u << k;
    const struct tt_ref running = v == 0 ? tt_dst(0) : tt_work(0), theirs = tt_pipe(k);
    const struct tt_ref ours = k > 0 && v + 1 < n ? running : tt_src(0);

    if (n == 1) {
        tt_sched_own(s, c);
        return;
    }
    if (v % (2 * step) == step)
        tt_sched_put(s, tt_rank_at(c, v - step), ours, theirs, c->bytes, 0);
    if (v % (2 * step) == 0 && v + step < n) {
        const uint32_t from = tt_rank_at(c, v + step), count = tt_subtree(v + step, n);

        tt_sched_wait(s, from, theirs, c->bytes, 0);
        tt_sched_reduce_ordered(s, running, ours, tt_lowest(c->rank, step, n), theirs,
                                tt_lowest(from, count, n), c->bytes, v == 0 && 2 * step >= n);
    }
}

static struct tt_cost reduce_binomial_cost(const struct tt_coll *c)
{
    const double rounds = tt_log2_up(c->nranks), bytes = rounds * (double)c->bytes;

    return (struct tt_cost){ .messages = rounds, .bytes = bytes, .reduced = bytes };
}

const struct tt_algo tt_algo_reduce_binomial = {
    .name = "reduce_binomial", .summary = "short vectors, many ranks",
    .needs = "vectors of at most 256 KiB",
    .quantizes = TT_QUANTIZED,
    .kind = TT_REDUCE,
    .fits = reduce_binomial_fits,
    .fits_named = tt_fits_always,
    .nrounds = tt_rounds_log,
    .round = reduce_binomial_round,
    .work_bytes = reduce_binomial_work_bytes,
    .npeers = tt_npeers_tree,
    .cost = reduce_binomial_cost,
};
