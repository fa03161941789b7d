/* Recursive halving reduce_scatter. Shapes: src[nranks][block], dst[block]; reduce_scatterv: rows
 * of any size.
 * In round i, groups that differ in bit rounds - 1 - i split their common rows; each sends the
 * other's half and reduces its own, until only its own rows remain. log2(n) latencies, (n - 1) / n
 * of the input out and in: for short rows. If n is not a power of two, the odd ranks of the first
 * pairs fold into the even ones, which also reduce for them and send them their row at the end.
 * Running values are in WORK, in the layout of src.
 * Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH",
 * 2005. */
#include "algo/algos.h"
#include "algo/blocks.h"

static bool reduce_scatter_halving_fits(const struct tt_coll *c)
{
    return tt_blocks_packed(c) && tt_blocks_total(c) <= tt_work_max(c);
}

static uint64_t reduce_scatter_halving_nrounds(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);

    return f.groups == 1 ? 1 : f.rounds + (f.extras ? 2 : 0);
}

static uint64_t reduce_scatter_halving_work_bytes(const struct tt_coll *c)
{
    return c->nranks > 2 && tt_fold_of(c->rank, c->nranks).active ? tt_coll_src_bytes(c) : 0;
}

/* The rows of the `count` groups in the aligned range around `group`. */
static struct tt_block reduce_scatter_halving_rows(const struct tt_coll *c, const struct tt_fold *f,
                                                   uint32_t group, uint32_t count)
{
    const uint32_t first = group & ~(count - 1);

    return tt_blocks_of(c, tt_fold_rank(f, first), tt_fold_rank(f, first + count));
}

static void reduce_scatter_halving_fold_in(struct tt_sched *s, const struct tt_coll *c,
                                           const struct tt_fold *f)
{
    const struct tt_block all = tt_blocks_of(c, 0, c->nranks);

    if (!f->active) {
        tt_sched_put(s, c->rank - 1, tt_src(all.offset), tt_pipe(0), all.bytes, 0);
        return;
    }
    tt_sched_wait(s, c->rank + 1, tt_pipe(0), all.bytes, 0);
    tt_sched_reduce(s, tt_work(all.offset), tt_src(all.offset), tt_pipe(0), all.bytes, false);
}

static void reduce_scatter_halving_halve(struct tt_sched *s, const struct tt_coll *c,
                                         const struct tt_fold *f, uint32_t i)
{
    const uint32_t count = f->groups >> (i + 1);    /* groups left after this round */
    const uint32_t other = f->group ^ count;
    const uint32_t peer = tt_fold_rank(f, other);
    const struct tt_block leaving = reduce_scatter_halving_rows(c, f, other, count),
                          staying = reduce_scatter_halving_rows(c, f, f->group, count);
    const bool fresh = i == 0 && !f->folded, last = count == 1;
    const struct tt_ref theirs = tt_pipe(1 + i);
    const struct tt_ref ours = fresh ? tt_src(staying.offset) : tt_work(staying.offset);

    tt_sched_put(s, peer, fresh ? tt_src(leaving.offset) : tt_work(leaving.offset), theirs,
                 leaving.bytes, 0);
    tt_sched_wait(s, peer, theirs, staying.bytes, 0);
    tt_sched_reduce_ordered(s, last && !f->folded ? tt_dst(0) : tt_work(staying.offset), ours,
                            f->group & (2 * count - 1), theirs, other & (2 * count - 1),
                            staying.bytes, last);
}

static void reduce_scatter_halving_fold_out(struct tt_sched *s, const struct tt_coll *c,
                                            const struct tt_fold *f)
{
    const uint32_t active = f->active ? c->rank : c->rank - 1;
    const struct tt_block own = tt_block_of(c, active), extra = tt_block_of(c, active + 1);

    if (!f->active) {
        tt_sched_wait(s, active, tt_dst(0), extra.bytes, 0);
        return;
    }
    tt_sched_put(s, active + 1, tt_work(extra.offset), tt_dst(0), extra.bytes, 0);
    tt_sched_copy(s, tt_dst(0), tt_work(own.offset), own.bytes);
}

static void reduce_scatter_halving_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const uint64_t before = f.extras ? 1 : 0;

    if (c->nranks == 1)
        tt_sched_own(s, c);
    else if (k < before && f.folded)
        reduce_scatter_halving_fold_in(s, c, &f);
    else if (k >= before && k < before + f.rounds && f.active)
        reduce_scatter_halving_halve(s, c, &f, (uint32_t)(k - before));
    else if (k == before + f.rounds && f.folded)
        reduce_scatter_halving_fold_out(s, c, &f);
}

static struct tt_cost reduce_scatter_halving_cost(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const double total = (double)tt_blocks_total(c), half = total * (f.groups - 1) / f.groups;
    const double folding = f.extras ? 1 : 0;

    return (struct tt_cost){
        .messages = f.rounds + 2 * folding,
        .bytes = half + folding * total,
        .reduced = half + folding * total,
    };
}

const struct tt_algo tt_algo_reduce_scatter_halving = {
    .name = "reduce_scatter_halving", .summary = "short rows; best with a power of two ranks",
    .needs = "all rows together within " TT_WORK_MAX_TEXT,
    .quantizes = TT_QUANTIZED,
    .kind = TT_REDUCE_SCATTER,
    .fits = reduce_scatter_halving_fits,
    .fits_named = tt_fits_packed,
    .nrounds = reduce_scatter_halving_nrounds,
    .round = reduce_scatter_halving_round,
    .work_bytes = reduce_scatter_halving_work_bytes,
    .npeers = tt_npeers_tree,
    .cost = reduce_scatter_halving_cost,
};

const struct tt_algo tt_algo_reduce_scatterv_halving = {
    .name = "reduce_scatterv_halving", .summary = "short rows; best with a power of two ranks",
    .needs = "packed rows, together within " TT_WORK_MAX_TEXT,
    .kind = TT_REDUCE_SCATTERV,
    .fits = reduce_scatter_halving_fits,
    .fits_named = tt_fits_packed,
    .nrounds = reduce_scatter_halving_nrounds,
    .round = reduce_scatter_halving_round,
    .work_bytes = reduce_scatter_halving_work_bytes,
    .npeers = tt_npeers_tree,
    .cost = reduce_scatter_halving_cost,
};
