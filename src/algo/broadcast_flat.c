/* Flat broadcast. Shapes: src[bytes] at root, dst[bytes].
 * The root puts the vector to every rank. One latency and (n - 1) * bytes out of the root: for few
 * ranks. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 14     /* puts per round; round 0 also copies the root's own data */

static uint64_t broadcast_flat_nrounds(const struct tt_coll *c)
{
    return tt_phase_rounds(c->nranks - 1, EACH);
}

static void broadcast_flat_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t v = tt_from_root(c);

    if (v > 0) {
        if ((v - 1) / EACH == k)
            tt_sched_wait(s, c->root, tt_dst(0), c->bytes, 0);
        return;
    }
    for (uint32_t i = (uint32_t)k * EACH + 1; i < c->nranks && i <= (k + 1) * EACH; i++)
        tt_sched_put(s, tt_rank_at(c, i), tt_src(0), tt_dst(0), c->bytes, 0);
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost broadcast_flat_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = tt_cost_burst(c->nranks - 1), .bytes = bytes * (c->nranks - 1), .copied = bytes,
    };
}

const struct tt_algo tt_algo_broadcast_flat = {
    .name = "broadcast_flat",
    .summary = "few ranks",
    .kind = TT_BROADCAST,
    .fits = tt_fits_always,
    .nrounds = broadcast_flat_nrounds,
    .round = broadcast_flat_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_flat,
    .cost = broadcast_flat_cost,
};
