/* Recursive halving reduce_scatter, nearest first and hybrid. Shapes: src[nranks][block],
 * dst[block].
 * The reverse of allgather_far and allgather_hybrid: the first exchange, of half of all rows, is
 * with a neighbour, the last, of one row, with a far rank. Hybrid goes from far to near inside a
 * building, and then, with few rows left, across buildings, the nearest first.
 * (reduce_scatter_halving is the reverse of allgather_doubling: farthest first.) The remaining rows
 * are strided.
 * log2(n) latencies, (n - 1) / n of the input out and in. Ranks fold, and running values are in
 * WORK, as in reduce_scatter_halving. Segments stream from round to round, as in the allgather. */
#include "algo/algos.h"
#include "algo/orders.h"

static bool reduce_scatter_orders_fits(const struct tt_coll *c)
{
    return c->bytes <= tt_work_max(c) / c->nranks;
}

static uint64_t reduce_scatter_orders_nrounds(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);

    return f.groups == 1 ? 1 : f.rounds + (f.extras ? 2 : 0);
}

static uint64_t reduce_scatter_orders_work_bytes(const struct tt_coll *c)
{
    return c->nranks > 2 && tt_fold_of(c->rank, c->nranks).active ? tt_coll_src_bytes(c) : 0;
}

static void reduce_scatter_orders_fold_in(struct tt_sched *s, const struct tt_coll *c,
                                          const struct tt_fold *f)
{
    const uint64_t all = c->nranks * c->bytes;

    if (!f->active) {
        tt_sched_put(s, c->rank - 1, tt_src(0), tt_pipe(0), all, 0);
        return;
    }
    tt_sched_wait(s, c->rank + 1, tt_pipe(0), all, 0);
    tt_sched_reduce(s, tt_work(0), tt_src(0), tt_pipe(0), all, false);
}

static void reduce_scatter_orders_halve(struct tt_sched *s, const struct tt_coll *c,
                                        const struct tt_fold *f, uint32_t far, uint32_t i)
{
    const uint32_t mirrored = f->rounds - 1 - i, bit = 1u << tt_order_dimension(f, far, mirrored);
    const uint32_t other = f->group ^ bit, peer = tt_fold_rank(f, other);
    const bool fresh = i == 0 && !f->folded, last = mirrored == 0;
    const struct tt_ref from = fresh ? tt_src(0) : tt_work(0);
    struct tt_part leaving[TT_ORDER_PARTS], ours[TT_ORDER_PARTS], sum[TT_ORDER_PARTS];

    tt_order_held(c, f, far, other, mirrored, from, leaving);
    tt_order_held(c, f, far, f->group, mirrored, from, ours);
    tt_order_held(c, f, far, f->group, mirrored, tt_work(0), sum);
    for (uint32_t p = 0; p < TT_ORDER_PARTS; p++)
        if (leaving[p].bytes > 0)
            tt_sched_put(s, peer, leaving[p].ref, tt_pipe(TT_ORDER_PARTS * i + p + 1),
                         leaving[p].bytes, p);
    for (uint32_t p = 0; p < TT_ORDER_PARTS; p++) {
        const struct tt_ref theirs = tt_pipe(TT_ORDER_PARTS * i + p + 1);

        if (ours[p].bytes == 0)
            continue;
        tt_sched_wait(s, peer, theirs, ours[p].bytes, p);
        tt_sched_reduce_ordered(s, last && !f->folded ? tt_dst(0) : sum[p].ref, ours[p].ref,
                                f->group & bit, theirs, other & bit, ours[p].bytes, last);
    }
}

static void reduce_scatter_orders_fold_out(struct tt_sched *s, const struct tt_coll *c,
                                           const struct tt_fold *f)
{
    if (!f->active) {
        tt_sched_wait(s, c->rank - 1, tt_dst(0), c->bytes, 0);
        return;
    }
    tt_sched_put(s, c->rank + 1, tt_work((c->rank + 1) * c->bytes), tt_dst(0), c->bytes, 0);
    tt_sched_copy(s, tt_dst(0), tt_work(c->rank * c->bytes), c->bytes);
}

static void reduce_scatter_orders_round_of(struct tt_sched *s, const struct tt_coll *c, uint64_t k,
                                           enum tt_order_kind kind)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const uint64_t before = f.extras ? 1 : 0;

    if (c->nranks == 1)
        tt_sched_own(s, c);
    else if (k < before && f.folded)
        reduce_scatter_orders_fold_in(s, c, &f);
    else if (k >= before && k < before + f.rounds && f.active)
        reduce_scatter_orders_halve(s, c, &f, tt_order_far(c, &f, kind), (uint32_t)(k - before));
    else if (k == before + f.rounds && f.folded)
        reduce_scatter_orders_fold_out(s, c, &f);
}

static void round_near(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    reduce_scatter_orders_round_of(s, c, k, TT_FARTHEST_FIRST);
}

static void reduce_scatter_orders_round_hybrid(struct tt_sched *s, const struct tt_coll *c,
                                               uint64_t k)
{
    reduce_scatter_orders_round_of(s, c, k, TT_HYBRID);
}

static struct tt_cost reduce_scatter_orders_cost_of(const struct tt_coll *c,
                                                    enum tt_order_kind kind)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const double total = (double)tt_blocks_total(c), half = total * (f.groups - 1) / f.groups;
    const double folding = f.extras ? 1 : 0, strided = tt_order_far(c, &f, kind) > 0 ? total : 0;

    return (struct tt_cost){
        .messages = f.rounds * (f.extras && strided > 0 ? tt_cost_burst(2) : 1) + 2 * folding,
        .bytes = half + folding * total,
        .reduced = half + folding * total,
        .copied = strided,
    };
}

static struct tt_cost cost_near(const struct tt_coll *c)
{
    return reduce_scatter_orders_cost_of(c, TT_FARTHEST_FIRST);
}
static struct tt_cost reduce_scatter_orders_cost_hybrid(const struct tt_coll *c)
{
    return reduce_scatter_orders_cost_of(c, TT_HYBRID);
}

const struct tt_algo tt_algo_reduce_scatter_near = {
    .name = "reduce_scatter_near",
    .summary = "short rows, if distant ranks are slow to reach; best with a power of two ranks",
    .needs = "all rows together within " TT_WORK_MAX_TEXT,
    .quantizes = TT_QUANTIZED,
    .kind = TT_REDUCE_SCATTER,
    .fits = reduce_scatter_orders_fits,
    .fits_named = tt_fits_always,
    .nrounds = reduce_scatter_orders_nrounds,
    .round = round_near,
    .work_bytes = reduce_scatter_orders_work_bytes,
    .npeers = tt_npeers_tree,
    .cost = cost_near,
};

const struct tt_algo tt_algo_reduce_scatter_hybrid = {
    .name = "reduce_scatter_hybrid",
    .summary = "short rows, several buildings; best with a power of two ranks",
    .needs = "all rows together within " TT_WORK_MAX_TEXT,
    .quantizes = TT_QUANTIZED,
    .kind = TT_REDUCE_SCATTER,
    .fits = reduce_scatter_orders_fits,
    .fits_named = tt_fits_always,
    .nrounds = reduce_scatter_orders_nrounds,
    .round = reduce_scatter_orders_round_hybrid,
    .work_bytes = reduce_scatter_orders_work_bytes,
    .npeers = tt_npeers_tree,
    .cost = reduce_scatter_orders_cost_hybrid,
};
