/* Direct alltoallv. Shapes: src[nranks][send_bytes], dst[nranks][recv_bytes], rows of any size,
 * anywhere.
 * As in the direct alltoall, in step k every rank exchanges rows with k - rank (mod nranks), in
 * both directions at once, so it can run in place. A rank has only its own row and column of the
 * sizes, so the receiver determines the destination. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 5      /* exchanges of a round: at most three schedule steps each */

static uint64_t alltoallv_direct_nrounds(const struct tt_coll *c)
{
    return tt_phase_rounds(c->nranks, EACH);
}

static void alltoallv_direct_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
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

/* All ranks must choose equally, so the cost must not depend on the sizes, which differ by rank. */
static struct tt_cost alltoallv_direct_cost(const struct tt_coll *c)
{
    return (struct tt_cost){ .messages = tt_cost_burst(c->nranks - 1) };
}

const struct tt_algo tt_algo_alltoallv_direct = {
    .name = "alltoallv_direct",
    .summary = "any sizes",
    .kind = TT_ALLTOALLV,
    .fits = tt_fits_always,
    .nrounds = alltoallv_direct_nrounds,
    .round = alltoallv_direct_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = alltoallv_direct_cost,
};
