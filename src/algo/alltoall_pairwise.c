/* Pairwise alltoall. Shapes: src[nranks][block], dst[nranks][block].
 * Near ranks first. With a power of two ranks, those that differ by k (exclusive or) exchange
 * blocks in round k. Hosts with a power of two ranks then exchange as a whole. With any other
 * number, a rank exchanges with the two ranks at distance k. Both directions are in one round, so
 * it can run in place.
 * The traffic of the direct algorithm in another order. The executor's window limits the number of
 * concurrent rounds. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

static void alltoall_pairwise_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    uint32_t partner[2];
    const uint32_t n = tt_phase_partners(c, k, partner);

    for (uint32_t i = 0; i < n; i++)
        tt_phase_give(s, c, partner[i]);
    for (uint32_t i = 0; i < n; i++)
        tt_phase_take(s, c, partner[i]);
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost alltoall_pairwise_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = tt_cost_burst(c->nranks - 1), .bytes = bytes * (c->nranks - 1), .copied = bytes,
    };
}

const struct tt_algo tt_algo_alltoall_pairwise = {
    .name = "alltoall_pairwise",
    .summary = "long blocks, several ranks per host",
    .kind = TT_ALLTOALL,
    .fits = tt_fits_always,
    .nrounds = tt_phase_partner_rounds,
    .round = alltoall_pairwise_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = alltoall_pairwise_cost,
};
