/* Ring all-reduce. Shapes: src[bytes], dst[bytes], split into nranks blocks.
 * First a ring reduce-scatter: in round k, rank r passes its running value of block r - k - 1 to
 * the right and adds its own part to the value from the left, so block r is finished at rank r.
 * Then a ring allgather. 2 (n - 1) * (latency + bytes / n / bandwidth): bandwidth-optimal, for long
 * vectors. Round k + 1 sends what round k reduces into DST: segments stream through.
 * P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * 2009. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

static uint64_t allreduce_ring_nrounds(const struct tt_coll *c)
{
    return c->nranks > 1 ? 2 * (uint64_t)(c->nranks - 1) : 1;
}

static void reduce_round(struct tt_sched *s, const struct tt_coll *c, uint32_t k)
{
    const uint32_t n = c->nranks, r = c->rank;
    const uint32_t right = (r + 1) % n, left = (r + n - 1) % n;
    const struct tt_block leaving = tt_block_of(c, (r + 2 * n - k - 1) % n);
    const struct tt_block coming = tt_block_of(c, (r + 2 * n - k - 2) % n);
    const struct tt_ref theirs = tt_pipe(k);

    tt_sched_put(s, right, k == 0 ? tt_src(leaving.offset) : tt_dst(leaving.offset), theirs,
                 leaving.bytes, k);
    tt_sched_wait(s, left, theirs, coming.bytes, k);
    tt_sched_reduce_ordered(s, tt_dst(coming.offset), theirs, tt_lowest(r + n - k - 1, k + 1, n),
                            tt_src(coming.offset), r, coming.bytes, k == n - 2);
}

static void allreduce_ring_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks;

    if (n == 1)
        tt_sched_own(s, c);
    else if (k < n - 1)
        reduce_round(s, c, (uint32_t)k);
    else
        tt_phase_ring_gather(s, c, (uint32_t)k - (n - 1), (uint32_t)k,
                             tt_dst(tt_block_of(c, c->rank).offset));
}

static struct tt_cost allreduce_ring_cost(const struct tt_coll *c)
{
    const double steps = c->nranks - 1, block = (double)c->bytes / c->nranks;

    return (struct tt_cost){ .messages = 2 * steps,
                             .bytes = 2 * steps * block,
                             .reduced = steps * block };
}

const struct tt_algo tt_algo_allreduce_ring = {
    .name = "allreduce_ring", .summary = "long vectors, any number of ranks",
    .quantizes = TT_QUANTIZED_FEEDBACK,
    .kind = TT_ALLREDUCE,
    .fits = tt_fits_always,
    .nrounds = allreduce_ring_nrounds,
    .round = allreduce_ring_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_two,
    .cost = allreduce_ring_cost,
};
