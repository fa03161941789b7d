/* Chain broadcast. Shapes: src[bytes] at root, dst[bytes].
 * Each rank, counted from the root, forwards what it receives. Segments stream through, so all
 * links work at once: (n - 1) latencies, but bytes / bandwidth only once. For long vectors and few
 * ranks. */
#include "algo/algos.h"
#include "algo/blocks.h"

static void broadcast_chain_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t v = tt_from_root(c);

    (void)k;
    if (v > 0)
        tt_sched_wait(s, tt_rank_at(c, v - 1), tt_dst(0), c->bytes, 0);
    if (v + 1 < c->nranks)
        tt_sched_put(s, tt_rank_at(c, v + 1), v == 0 ? tt_src(0) : tt_dst(0), tt_dst(0), c->bytes,
                     0);
    tt_sched_own(s, c);
}

/* Streamed: a hop costs the latency and the time of one segment, approximated by a small part of
 * the vector. */
static struct tt_cost broadcast_chain_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes, hops = c->nranks - 1;
    const double segment = bytes < TT_SLAB_BYTES ? bytes : TT_SLAB_BYTES;

    return (struct tt_cost){
        .messages = hops, .bytes = hops > 0 ? bytes + (hops - 1) * segment : 0, .copied = bytes,
    };
}

const struct tt_algo tt_algo_broadcast_chain = {
    .name = "broadcast_chain",
    .summary = "long vectors, few ranks",
    .kind = TT_BROADCAST,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_one,
    .round = broadcast_chain_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_two,
    .cost = broadcast_chain_cost,
};
