/* Pairwise alltoallv. Shapes: src[nranks][send_bytes], dst[nranks][recv_bytes], rows of any size,
 * anywhere.
 * In round k a rank exchanges rows with the one or two ranks at distance k, as in the pairwise
 * alltoall: near ones first, in both directions at once. The traffic of the direct algorithm in
 * another order. The executor's window limits the number of concurrent rounds. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

static void alltoallv_pairwise_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
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

/* All ranks must choose equally, so the cost must not depend on the sizes, which differ by rank. */
static struct tt_cost alltoallv_pairwise_cost(const struct tt_coll *c)
{
    return (struct tt_cost){ .messages = tt_cost_burst(c->nranks - 1) };
}

const struct tt_algo tt_algo_alltoallv_pairwise = {
    .name = "alltoallv_pairwise",
    .summary = "any sizes, several ranks per host",
    .kind = TT_ALLTOALLV,
    .fits = tt_fits_always,
    .nrounds = tt_phase_partner_rounds,
    .round = alltoallv_pairwise_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = alltoallv_pairwise_cost,
};
