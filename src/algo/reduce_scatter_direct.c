/* Direct reduce_scatter. Shapes: src[nranks][block], dst[block]; reduce_scatterv: rows of any size.
 * Each rank puts row i of its input to rank i, which adds the nranks - 1 incoming streams to its
 * own row. One latency, every byte is sent once, nothing is stored: best if all pairs are equally
 * near, and for few ranks. In step i rank r sends to r + i and receives from r - i. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 5      /* exchanges of a round */

static uint64_t reduce_scatter_direct_nrounds(const struct tt_coll *c)
{
    return tt_phase_rounds(c->nranks - 1, EACH);
}

static void reduce_scatter_direct_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank;
    const struct tt_block own = tt_block_of(c, r);

    if (n == 1)
        tt_sched_own(s, c);
    for (uint32_t i = (uint32_t)k * EACH + 1; i < n && i <= (k + 1) * EACH; i++) {
        const uint32_t to = (r + i) % n, from = (r + n - i) % n;
        const struct tt_block leaving = tt_block_of(c, to);

        tt_sched_put(s, to, tt_src(leaving.offset), tt_pipe(r), leaving.bytes, 0);
        tt_sched_wait(s, from, tt_pipe(from), own.bytes, 0);
        tt_sched_reduce_ordered(s, tt_dst(0), tt_pipe(from), from,
                                i == 1 ? tt_src(own.offset) : tt_dst(0), tt_lowest(from + 1, i, n),
                                own.bytes, i == n - 1);
    }
}

static struct tt_cost reduce_scatter_direct_cost(const struct tt_coll *c)
{
    const double bytes = (double)tt_blocks_longest(c) * (c->nranks - 1);
    const double total = (double)tt_blocks_total(c) * (c->nranks - 1) / c->nranks;

    return (struct tt_cost){
        .messages = tt_cost_burst(c->nranks - 1),
        .bytes = bytes > total ? bytes : total,
        .reduced = bytes,
    };
}

const struct tt_algo tt_algo_reduce_scatter_direct = {
    .name = "reduce_scatter_direct", .summary = "few ranks, or all on one host",
    .quantizes = TT_QUANTIZED_FEEDBACK,
    .kind = TT_REDUCE_SCATTER,
    .fits = tt_fits_always,
    .nrounds = reduce_scatter_direct_nrounds,
    .round = reduce_scatter_direct_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = reduce_scatter_direct_cost,
};

const struct tt_algo tt_algo_reduce_scatterv_direct = {
    .name = "reduce_scatterv_direct",
    .summary = "few ranks, or all on one host; rows of any size",
    .kind = TT_REDUCE_SCATTERV,
    .fits = tt_fits_always,
    .nrounds = reduce_scatter_direct_nrounds,
    .round = reduce_scatter_direct_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = reduce_scatter_direct_cost,
};
