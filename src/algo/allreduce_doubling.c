/* Recursive doubling all-reduce. Shapes: src[bytes], dst[bytes].
 * In round i, groups that differ in bit i exchange their values, and both reduce them with the
 * lower group's on the left: results are bitwise identical. log2(n) * (latency + bytes /
 * bandwidth): few messages, for short vectors. If n is not a power of two, the odd ranks of the
 * first pairs fold into the even ones before, and get the result after. This takes two more rounds.
 * Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH",
 * 2005. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

static uint64_t allreduce_doubling_nrounds(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);

    return f.groups == 1 ? 1 : f.rounds + (f.extras ? 2 : 0);
}

static void allreduce_doubling_double_up(struct tt_sched *s, const struct tt_coll *c,
                                         const struct tt_fold *f, uint32_t i)
{
    const uint32_t other = f->group ^ (1u << i);
    const uint32_t peer = tt_fold_rank(f, other);
    const struct tt_ref mine = i == 0 && !f->folded ? tt_src(0) : tt_dst(0);
    const struct tt_ref theirs = tt_pipe(1 + i);

    tt_sched_put(s, peer, mine, theirs, c->bytes, 0);
    tt_sched_wait(s, peer, theirs, c->bytes, 0);
    tt_sched_reduce_ordered(s, tt_dst(0), mine, f->group, theirs, other, c->bytes,
                            i == f->rounds - 1);
}

static void allreduce_doubling_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);

    if (tt_phase_among_groups(s, c, &f, f.rounds, &k))
        allreduce_doubling_double_up(s, c, &f, (uint32_t)k);
}

static struct tt_cost allreduce_doubling_cost(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const double messages = f.rounds + (f.extras ? 2 : 0), bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = messages,
        .bytes = messages * bytes,
        .reduced = (f.rounds + (f.extras ? 1 : 0)) * bytes,
    };
}

const struct tt_algo tt_algo_allreduce_doubling = {
    .name = "allreduce_doubling",
    .summary = "short vectors, any number of ranks",
    .kind = TT_ALLREDUCE,
    .fits = tt_fits_always,
    .nrounds = allreduce_doubling_nrounds,
    .round = allreduce_doubling_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_tree,
    .cost = allreduce_doubling_cost,
};
