/* Flat reduce. Shapes: src[bytes], dst[bytes] at root.
 * Each rank puts its vector to the root, which adds the incoming streams to its own, in the order
 * of ranks counted from itself.
 * One latency and (n - 1) * bytes into the root: for few ranks. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 8      /* arrivals of a round */

static uint64_t reduce_flat_nrounds(const struct tt_coll *c)
{
    return tt_phase_rounds(c->nranks - 1, EACH);
}

static void reduce_flat_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, v = tt_from_root(c);

    if (v > 0) {
        if ((v - 1) / EACH == k)
            tt_sched_put(s, c->root, tt_src(0), tt_pipe(v), c->bytes, 0);
        return;
    }
    if (n == 1)
        tt_sched_own(s, c);
    for (uint32_t i = (uint32_t)k * EACH + 1; i < n && i <= (k + 1) * EACH; i++) {
        const uint32_t from = tt_rank_at(c, i);

        tt_sched_wait(s, from, tt_pipe(i), c->bytes, 0);
        tt_sched_reduce_ordered(s, tt_dst(0), i == 1 ? tt_src(0) : tt_dst(0),
                                tt_lowest(c->root, i, n), tt_pipe(i), from, c->bytes, i == n - 1);
    }
}

static struct tt_cost reduce_flat_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes * (c->nranks - 1);

    return (struct tt_cost){ .messages = tt_cost_burst(c->nranks - 1),
                             .bytes = bytes,
                             .reduced = bytes };
}

const struct tt_algo tt_algo_reduce_flat = {
    .name = "reduce_flat", .summary = "few ranks",
    .quantizes = TT_QUANTIZED_FEEDBACK,
    .kind = TT_REDUCE,
    .fits = tt_fits_always,
    .nrounds = reduce_flat_nrounds,
    .round = reduce_flat_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_flat,
    .cost = reduce_flat_cost,
};
