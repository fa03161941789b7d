/* Direct allgather. Shapes: src[block], dst[nranks][block]; allgatherv: blocks of any size,
 * anywhere in dst.
 * Each rank puts its block directly into the result of every other rank. One latency, every byte is
 * sent once: best if all pairs are equally near, as on one host, and for few ranks. In step i rank
 * r sends to r + i, so no rank receives from two at once. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 7      /* exchanges of a round; its first also copies */

static uint64_t allgather_direct_nrounds(const struct tt_coll *c)
{
    return tt_phase_rounds(c->nranks - 1, EACH);
}

static void allgather_direct_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank;
    const struct tt_block own = tt_block_of(c, r);

    for (uint32_t i = (uint32_t)k * EACH + 1; i < n && i <= (k + 1) * EACH; i++) {
        const uint32_t from = (r + n - i) % n;
        const struct tt_block coming = tt_block_of(c, from);

        tt_sched_put(s, (r + i) % n, tt_src(0), tt_dst(own.offset), own.bytes, 0);
        tt_sched_wait(s, from, tt_dst(coming.offset), coming.bytes, 0);
    }
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost allgather_direct_cost(const struct tt_coll *c)
{
    const double longest = (double)tt_blocks_longest(c);
    const double bytes = (double)tt_blocks_total(c) * (c->nranks - 1) / c->nranks;
    const double sent = longest * (c->nranks - 1);

    return (struct tt_cost){
        .messages = tt_cost_burst(c->nranks - 1),
        .bytes = sent > bytes ? sent : bytes,
        .copied = longest,
    };
}

const struct tt_algo tt_algo_allgather_direct = {
    .name = "allgather_direct",
    .summary = "few ranks, or all on one host",
    .kind = TT_ALLGATHER,
    .fits = tt_fits_always,
    .nrounds = allgather_direct_nrounds,
    .round = allgather_direct_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = allgather_direct_cost,
};

const struct tt_algo tt_algo_allgatherv_direct = {
    .name = "allgatherv_direct",
    .summary = "few ranks, or all on one host; blocks of any size",
    .kind = TT_ALLGATHERV,
    .fits = tt_fits_always,
    .nrounds = allgather_direct_nrounds,
    .round = allgather_direct_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = allgather_direct_cost,
};
