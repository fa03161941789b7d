/* Ring allgather. Shapes: src[block], dst[nranks][block]; allgatherv: blocks of any size, anywhere
 * in dst.
 * Round k passes block (rank - k) mod nranks to the right, so after nranks - 1 rounds every block
 * has visited every rank.
 * (n - 1) * (latency + block / bandwidth): bandwidth-optimal, and only neighbours communicate.
 * Round k + 1 sends what round k receives: the ranges overlap, so segments stream through. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

static void allgather_ring_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    if (c->nranks > 1)
        tt_phase_ring_gather(s, c, (uint32_t)k, (uint32_t)k, tt_src(0));
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost allgather_ring_cost(const struct tt_coll *c)
{
    const double steps = c->nranks - 1, longest = (double)tt_blocks_longest(c);

    return (struct tt_cost){ .messages = steps, .bytes = steps * longest, .copied = longest };
}

const struct tt_algo tt_algo_allgather_ring = {
    .name = "allgather_ring",
    .summary = "long blocks, any number of ranks",
    .kind = TT_ALLGATHER,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_linear,
    .round = allgather_ring_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_two,
    .cost = allgather_ring_cost,
};

const struct tt_algo tt_algo_allgatherv_ring = {
    .name = "allgatherv_ring",
    .summary = "long blocks of similar sizes, any number of ranks",
    .kind = TT_ALLGATHERV,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_linear,
    .round = allgather_ring_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_two,
    .cost = allgather_ring_cost,
};
