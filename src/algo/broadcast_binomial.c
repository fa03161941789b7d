/* Binomial broadcast. Shapes: src[bytes] at root, dst[bytes].
 * Ranks are counted from the root. In round k each rank with the vector sends it to the rank
 * 2^(rounds - 1 - k) higher, so the number of these ranks doubles. ceil(log2 n) *
 * (latency + bytes / bandwidth): for short vectors and many ranks. */
#include "algo/algos.h"
#include "algo/blocks.h"

static void broadcast_binomial_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t v = tt_from_root(c), rounds = tt_log2_up(c->nranks);

    if (k < rounds) {
        const uint32_t step = 1u << (rounds - 1 - k);

        if (v % (2 * step) == step)
            tt_sched_wait(s, tt_rank_at(c, v - step), tt_dst(0), c->bytes, 0);
        if (v % (2 * step) == 0 && v + step < c->nranks)
            tt_sched_put(s, tt_rank_at(c, v + step), v == 0 ? tt_src(0) : tt_dst(0), tt_dst(0),
                         c->bytes, 0);
    }
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost broadcast_binomial_cost(const struct tt_coll *c)
{
    const double rounds = tt_log2_up(c->nranks), bytes = (double)c->bytes;

    return (struct tt_cost){ .messages = rounds, .bytes = rounds * bytes, .copied = bytes };
}

const struct tt_algo tt_algo_broadcast_binomial = {
    .name = "broadcast_binomial",
    .summary = "short vectors, many ranks",
    .kind = TT_BROADCAST,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_log,
    .round = broadcast_binomial_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_tree,
    .cost = broadcast_binomial_cost,
};
