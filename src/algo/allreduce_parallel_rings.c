/* Parallel-rings all-reduce. Shapes: src[bytes], dst[bytes], split into nranks blocks.
 * The parallel-rings reduce_scatter of the blocks followed by their parallel-rings allgather, over
 * the same rings (rings.h). Values are reduced in their final place in DST and sent from there:
 * segments stream through from the first step to the last.
 * With H hosts of g ranks: 2 (H - 1) messages and 2 (H - 1) / H of the vector over the rails of a
 * host; a flat ring has 2 (H g - 1) messages. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/rings.h"

static uint64_t allreduce_parallel_rings_nrounds(const struct tt_coll *c)
{
    struct tt_rings r;

    if (c->nranks == 1)
        return 1;
    tt_rings_init(&r, c, tt_rings_form(c));
    return tt_rings_reduce_rounds(&r) + tt_rings_gather_rounds(&r);
}

static bool allreduce_parallel_rings_fits(const struct tt_coll *c)
{
    return allreduce_parallel_rings_nrounds(c) <= UINT32_MAX / TT_RINGS_TAGS;
}

static void allreduce_parallel_rings_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    static const struct tt_ring_sums sums = { .in_dst = true };
    const uint32_t tag = (uint32_t)k * TT_RINGS_TAGS;
    struct tt_rings r;
    uint64_t before;

    if (c->nranks == 1) {
        tt_sched_own(s, c);
        return;
    }
    tt_rings_init(&r, c, tt_rings_form(c));
    before = tt_rings_reduce_rounds(&r);
    if (k < before)
        tt_rings_reduce(s, c, &r, &sums, k, tag);
    else
        tt_rings_gather(s, c, &r, k - before, tag, tt_dst(tt_block_of(c, c->rank).offset));
}

static uint32_t allreduce_parallel_rings_npeers(const struct tt_coll *c)
{
    struct tt_rings r;

    tt_rings_init(&r, c, tt_rings_form(c));
    return tt_rings_npeers(&r);
}

static struct tt_cost allreduce_parallel_rings_cost(const struct tt_coll *c)
{
    const double block = (double)c->bytes / c->nranks;
    struct tt_rings r;
    struct tt_cost cost;

    tt_rings_init(&r, c, tt_rings_form(c));
    cost = tt_rings_cost(&r, block);
    cost.messages *= 2;
    cost.bytes *= 2;
    cost.near_messages *= 2;
    cost.near_bytes *= 2;
    cost.reduced = (c->nranks - 1) * block;
    return cost;
}

const struct tt_algo tt_algo_allreduce_parallel_rings = {
    .name = "allreduce_parallel_rings", .summary = "long vectors, several ranks per host",
    .needs = "fewer than 2^29 rounds",
    .quantizes = TT_QUANTIZED_FEEDBACK,
    .kind = TT_ALLREDUCE,
    .fits = allreduce_parallel_rings_fits,
    .nrounds = allreduce_parallel_rings_nrounds,
    .round = allreduce_parallel_rings_round,
    .work_bytes = tt_work_none,
    .npeers = allreduce_parallel_rings_npeers,
    .cost = allreduce_parallel_rings_cost,
};
