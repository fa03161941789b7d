/* Flat scatter. Shapes: src[nranks][block] at root, dst[block]; scatterv: blocks of any size,
 * anywhere in src.
 * The root puts its block to each rank. One latency, every byte is sent once. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 15     /* puts of a round; its first also copies */

static uint64_t scatter_flat_nrounds(const struct tt_coll *c)
{
    return tt_phase_rounds(c->nranks - 1, EACH);
}

static void scatter_flat_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t v = tt_from_root(c);

    if (v > 0) {
        if ((v - 1) / EACH == k)
            tt_sched_wait(s, c->root, tt_dst(0), tt_block_of(c, c->rank).bytes, 0);
        return;
    }
    for (uint32_t i = (uint32_t)k * EACH + 1; i < c->nranks && i <= (k + 1) * EACH; i++) {
        const struct tt_block leaving = tt_block_of(c, tt_rank_at(c, i));

        tt_sched_put(s, tt_rank_at(c, i), tt_src(leaving.offset), tt_dst(0), leaving.bytes, 0);
    }
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost scatter_flat_cost(const struct tt_coll *c)
{
    const double own = (double)tt_block_of(c, c->root).bytes;

    return (struct tt_cost){
        .messages = tt_cost_burst(c->nranks - 1),
        .bytes = (double)tt_blocks_total(c) - own,
        .copied = own,
    };
}

const struct tt_algo tt_algo_scatter_flat = {
    .name = "scatter_flat",
    .summary = "all blocks, except short ones on many ranks",
    .kind = TT_SCATTER,
    .fits = tt_fits_always,
    .nrounds = scatter_flat_nrounds,
    .round = scatter_flat_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_flat,
    .cost = scatter_flat_cost,
};

const struct tt_algo tt_algo_scatterv_flat = {
    .name = "scatterv_flat",
    .summary = "blocks of any size",
    .kind = TT_SCATTERV,
    .fits = tt_fits_always,
    .nrounds = scatter_flat_nrounds,
    .round = scatter_flat_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_flat,
    .cost = scatter_flat_cost,
};
