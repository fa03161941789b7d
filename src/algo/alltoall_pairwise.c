/* Pairwise alltoall. Shapes: src[nranks][block], dst[nranks][block]; a power of two ranks.
 * In round k ranks that differ by k (exclusive or) exchange blocks: near ones first, and hosts of a power of two ranks
 * talk as wholes.
 * The traffic of the direct one in another order. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

static bool fits(const struct tt_coll *c)
{
    return (c->nranks & (c->nranks - 1)) == 0;
}

static void round_k(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    if (c->nranks > 1)
        tt_phase_exchange(s, c, c->rank ^ (uint32_t)(k + 1));
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = tt_cost_burst(c->nranks - 1), .bytes = bytes * (c->nranks - 1), .copied = bytes,
    };
}

const struct tt_algo tt_algo_alltoall_pairwise = {
    .name = "alltoall_pairwise", .summary = "long blocks, a power of two ranks, several to a host",
    .kind = TT_ALLTOALL, .fits = fits, .nrounds = tt_rounds_linear, .round = round_k,
    .work_bytes = tt_work_none, .npeers = tt_npeers_all, .cost = cost,
};
