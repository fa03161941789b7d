/* Recursive doubling allgather, farthest first and hybrid. Shapes: src[block], dst[nranks][block].
 * Like allgather_doubling, but the first exchanges, of one block, are with the farthest ranks, and
 * the last, of half of all blocks, with neighbours: long paths carry few bytes. Hybrid uses this
 * order only across buildings, and inside a building goes from near to far. The blocks of a rank
 * are then not contiguous: they are a power of two apart, and are sent as one strided message.
 * log2(n) latencies; every byte is received once, and is copied into and out of the strided
 * message. If n is not a power of two, ranks fold as in allgather_doubling.
 *
 * Streamed, like allgather_doubling: round i + 1 sends what round i receives. Steps wait for bytes,
 * not for steps, so a segment is forwarded on arrival. This needs no extra steps
 * (tests/engine/test_streaming.c).
 * "Collective Communication for 100k+ GPUs" (NCCLX), 2025: farthest first, for networks whose upper
 * layers are over-subscribed. */
#include "algo/algos.h"
#include "algo/orders.h"
#include "algo/phases.h"

static uint64_t allgather_orders_nrounds(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);

    return f.groups == 1 ? 1 : f.rounds + (f.extras ? 2 : 0);
}

static void allgather_orders_double_up(struct tt_sched *s, const struct tt_coll *c,
                                       const struct tt_fold *f, uint32_t far, uint32_t i)
{
    const uint32_t other = f->group ^ (1u << tt_order_dimension(f, far, i)),
                   peer = tt_fold_rank(f, other);
    const bool fresh = i == 0 && !f->folded;
    struct tt_part mine[TT_ORDER_PARTS], theirs[TT_ORDER_PARTS];

    tt_order_held(c, f, far, f->group, i, tt_dst(0), mine);
    tt_order_held(c, f, far, other, i, tt_dst(0), theirs);
    for (uint32_t p = 0; p < TT_ORDER_PARTS; p++)
        if (mine[p].bytes > 0)
            tt_sched_put(s, peer, fresh ? tt_src(0) : mine[p].ref, mine[p].ref, mine[p].bytes, p);
    for (uint32_t p = 0; p < TT_ORDER_PARTS; p++)
        if (theirs[p].bytes > 0)
            tt_sched_wait(s, peer, theirs[p].ref, theirs[p].bytes, p);
}

static void allgather_orders_round_of(struct tt_sched *s, const struct tt_coll *c, uint64_t k,
                                      enum tt_order_kind kind)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const uint64_t before = f.extras ? 1 : 0;

    if (k < before && f.folded)
        tt_phase_gather_fold_in(s, c, &f);
    else if (k >= before && k < before + f.rounds && f.active)
        allgather_orders_double_up(s, c, &f, tt_order_far(c, &f, kind), (uint32_t)(k - before));
    else if (k > before && k == before + f.rounds && f.folded)
        tt_phase_gather_fold_out(s, c, &f);
    if (k == 0)
        tt_sched_own(s, c);
}

static void round_far(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    allgather_orders_round_of(s, c, k, TT_FARTHEST_FIRST);
}

static void allgather_orders_round_hybrid(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    allgather_orders_round_of(s, c, k, TT_HYBRID);
}

/* Messages of folded groups have two or three parts. */
static struct tt_cost allgather_orders_cost_of(const struct tt_coll *c, enum tt_order_kind kind)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const double n = c->nranks, total = (double)tt_blocks_total(c), passes = f.extras ? 2 : 1;
    const double strided = tt_order_far(c, &f, kind) > 0 ? 2 * total : 0;

    return (struct tt_cost){
        .messages =
            f.rounds * (f.extras && strided > 0 ? tt_cost_burst(2) : 1) + (f.extras ? 2 : 0),
        .bytes = passes * total * (n - 1) / n,
        .copied = total / n + strided,
    };
}

static struct tt_cost cost_far(const struct tt_coll *c)
{
    return allgather_orders_cost_of(c, TT_FARTHEST_FIRST);
}
static struct tt_cost allgather_orders_cost_hybrid(const struct tt_coll *c)
{
    return allgather_orders_cost_of(c, TT_HYBRID);
}

const struct tt_algo tt_algo_allgather_far = {
    .name = "allgather_far",
    .summary = "short blocks, if distant ranks are slow to reach; best with a power of two ranks",
    .kind = TT_ALLGATHER,
    .fits = tt_fits_always,
    .nrounds = allgather_orders_nrounds,
    .round = round_far,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_tree,
    .cost = cost_far,
};

const struct tt_algo tt_algo_allgather_hybrid = {
    .name = "allgather_hybrid",
    .summary = "short blocks, several buildings; best with a power of two ranks",
    .kind = TT_ALLGATHER,
    .fits = tt_fits_always,
    .nrounds = allgather_orders_nrounds,
    .round = allgather_orders_round_hybrid,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_tree,
    .cost = allgather_orders_cost_hybrid,
};
