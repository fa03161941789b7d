/* Recursive doubling allgather. Shapes: src[block], dst[nranks][block]; allgatherv: packed blocks.
 * In round i, groups that differ in bit i exchange all blocks that they have, which form one range
 * of dst and double in number.
 * log2(n) latencies; every byte is received once. If n is not a power of two, the odd ranks of the
 * first pairs fold into the even ones: they send their block before, and receive all others after.
 * Ranges remain contiguous, as a group is a range of ranks. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

static uint64_t allgather_doubling_nrounds(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);

    return f.groups == 1 ? 1 : f.rounds + (f.extras ? 2 : 0);
}

/* The blocks of the `count` groups in the aligned range that contains `group`. */
static struct tt_block allgather_doubling_held(const struct tt_coll *c, const struct tt_fold *f,
                                               uint32_t group, uint32_t count)
{
    const uint32_t first = group & ~(count - 1);

    return tt_blocks_of(c, tt_fold_rank(f, first), tt_fold_rank(f, first + count));
}

static void allgather_doubling_double_up(struct tt_sched *s, const struct tt_coll *c,
                                         const struct tt_fold *f, uint32_t i)
{
    const uint32_t other = f->group ^ (1u << i);
    const uint32_t peer = tt_fold_rank(f, other);
    const struct tt_block mine = allgather_doubling_held(c, f, f->group, 1u << i),
                          theirs = allgather_doubling_held(c, f, other, 1u << i);
    const bool fresh = i == 0 && !f->folded;

    tt_sched_put(s, peer, fresh ? tt_src(0) : tt_dst(mine.offset), tt_dst(mine.offset), mine.bytes,
                 0);
    tt_sched_wait(s, peer, tt_dst(theirs.offset), theirs.bytes, 0);
}

static void allgather_doubling_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const uint64_t before = f.extras ? 1 : 0;

    if (k < before && f.folded)
        tt_phase_gather_fold_in(s, c, &f);
    else if (k >= before && k < before + f.rounds && f.active)
        allgather_doubling_double_up(s, c, &f, (uint32_t)(k - before));
    else if (k > before && k == before + f.rounds && f.folded)
        tt_phase_gather_fold_out(s, c, &f);
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost allgather_doubling_cost(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const double n = c->nranks, total = (double)tt_blocks_total(c), passes = f.extras ? 2 : 1;

    return (struct tt_cost){
        .messages = f.rounds + (f.extras ? 2 : 0),
        .bytes = passes * total * (n - 1) / n,
        .copied = total / n,
    };
}

const struct tt_algo tt_algo_allgather_doubling = {
    .name = "allgather_doubling",
    .summary = "short blocks; best with a power of two ranks",
    .kind = TT_ALLGATHER,
    .fits = tt_fits_always,
    .nrounds = allgather_doubling_nrounds,
    .round = allgather_doubling_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_tree,
    .cost = allgather_doubling_cost,
};

const struct tt_algo tt_algo_allgatherv_doubling = {
    .name = "allgatherv_doubling", .summary = "short packed blocks; best with a power of two ranks",
    .needs = "packed blocks",
    .kind = TT_ALLGATHERV,
    .fits = tt_fits_packed,
    .nrounds = allgather_doubling_nrounds,
    .round = allgather_doubling_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_tree,
    .cost = allgather_doubling_cost,
};
