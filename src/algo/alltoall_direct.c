/* Direct alltoall. Shapes: src[nranks][block], dst[nranks][block].
 * In step k every rank exchanges blocks with k - rank (mod nranks). Each pair exchanges exactly
 * once, for any number of ranks, in both directions at once, so it can run in place. One latency,
 * every byte is sent once. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 5      /* exchanges of a round: at most three schedule steps each */

static uint64_t alltoall_direct_nrounds(const struct tt_coll *c)
{
    return tt_phase_rounds(c->nranks, EACH);
}

static void alltoall_direct_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank;

    for (uint32_t i = (uint32_t)k * EACH; i < n && i < (k + 1) * EACH; i++) {
        const uint32_t peer = (i + n - r) % n;

        if (peer != r)
            tt_phase_exchange(s, c, peer);
    }
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost alltoall_direct_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = tt_cost_burst(c->nranks - 1), .bytes = bytes * (c->nranks - 1), .copied = bytes,
    };
}

const struct tt_algo tt_algo_alltoall_direct = {
    .name = "alltoall_direct",
    .summary = "long blocks, any number of ranks",
    .kind = TT_ALLTOALL,
    .fits = tt_fits_always,
    .nrounds = alltoall_direct_nrounds,
    .round = alltoall_direct_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = alltoall_direct_cost,
};
