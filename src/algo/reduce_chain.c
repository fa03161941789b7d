/* Chain reduce. Shapes: src[bytes], dst[bytes] at root.
 * The last rank, counted from the root, starts. Each rank adds its own vector to the incoming
 * stream and forwards the sum, without storing it.
 * (n - 1) latencies, but bytes / bandwidth only once: for long vectors and few ranks. */
#include "algo/algos.h"
#include "algo/blocks.h"

static void reduce_chain_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, v = tt_from_root(c);
    const struct tt_ref theirs = tt_pipe(0), ours = v == 0 ? tt_dst(0) : tt_pipe(1);

    (void)k;
    if (n == 1)
        tt_sched_own(s, c);
    if (v + 1 < n) {
        tt_sched_wait(s, tt_rank_at(c, v + 1), theirs, c->bytes, 0);
        tt_sched_reduce_ordered(s, ours, tt_src(0), c->rank, theirs,
                                tt_lowest(c->rank + 1, n - 1 - v, n), c->bytes, v == 0);
    }
    if (v > 0)
        tt_sched_put(s, tt_rank_at(c, v - 1), v + 1 < n ? ours : tt_src(0), theirs, c->bytes, 0);
}

static struct tt_cost reduce_chain_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes, hops = c->nranks - 1;
    const double segment = bytes < TT_SLAB_BYTES ? bytes : TT_SLAB_BYTES;
    const double streamed = hops > 0 ? bytes + (hops - 1) * segment : 0;

    return (struct tt_cost){ .messages = hops, .bytes = streamed, .reduced = streamed };
}

const struct tt_algo tt_algo_reduce_chain = {
    .name = "reduce_chain", .summary = "long vectors, few ranks",
    .quantizes = TT_QUANTIZED_FEEDBACK,
    .kind = TT_REDUCE,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_one,
    .round = reduce_chain_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_two,
    .cost = reduce_chain_cost,
};
