/* Flat gather. Shapes: src[block], dst[nranks][block] at root; gatherv: blocks of any size,
 * anywhere in dst.
 * Each rank puts its block to its place at the root. One latency, every byte is sent once. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 15     /* arrivals of a round; its first also copies */

static uint64_t gather_flat_nrounds(const struct tt_coll *c)
{
    return tt_phase_rounds(c->nranks - 1, EACH);
}

static void gather_flat_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t v = tt_from_root(c);
    const struct tt_block own = tt_block_of(c, c->rank);

    if (v > 0) {
        if ((v - 1) / EACH == k)
            tt_sched_put(s, c->root, tt_src(0), tt_dst(own.offset), own.bytes, 0);
        return;
    }
    for (uint32_t i = (uint32_t)k * EACH + 1; i < c->nranks && i <= (k + 1) * EACH; i++) {
        const struct tt_block coming = tt_block_of(c, tt_rank_at(c, i));

        tt_sched_wait(s, tt_rank_at(c, i), tt_dst(coming.offset), coming.bytes, 0);
    }
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost gather_flat_cost(const struct tt_coll *c)
{
    const double own = (double)tt_block_of(c, c->root).bytes;

    return (struct tt_cost){
        .messages = tt_cost_burst(c->nranks - 1),
        .bytes = (double)tt_blocks_total(c) - own,
        .copied = own,
    };
}

const struct tt_algo tt_algo_gather_flat = {
    .name = "gather_flat",
    .summary = "all blocks, except short ones on many ranks",
    .kind = TT_GATHER,
    .fits = tt_fits_always,
    .nrounds = gather_flat_nrounds,
    .round = gather_flat_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_flat,
    .cost = gather_flat_cost,
};

const struct tt_algo tt_algo_gatherv_flat = {
    .name = "gatherv_flat",
    .summary = "blocks of any size",
    .kind = TT_GATHERV,
    .fits = tt_fits_always,
    .nrounds = gather_flat_nrounds,
    .round = gather_flat_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_flat,
    .cost = gather_flat_cost,
};
