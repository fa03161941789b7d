/* Recursive vector halving and distance doubling all-reduce (Rabenseifner). Shapes: src[bytes],
 * dst[bytes].
 * Halving: in round i, groups that differ in bit i split their common range; each sends the other's
 * half and reduces its own. After log2(n) rounds each has one finished piece. Doubling reverses the
 * rounds: each exchanges its finished part for the other's. Each phase moves (n - 1) / n of the
 * vector: 2 log2(n) latencies at the bandwidth of a ring. Two ranks exchange halves, reduce one
 * each, and exchange the results. If n is not a power of two, odd ranks fold as in recursive
 * doubling.
 * R. Rabenseifner, "Optimization of Collective Reduction Operations", 2004. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

/* The vector is split into as many blocks as there are groups. Returns the range of a group before
 * halving round i, i in [0, rounds]: groups >> i blocks, selected by the group's low bits, the
 * lowest bit first. */
static struct tt_block allreduce_rabenseifner_share(const struct tt_coll *c,
                                                    const struct tt_fold *f, uint32_t group,
                                                    uint32_t i)
{
    uint32_t first = 0;

    for (uint32_t bit = 0; bit < i; bit++)
        if (group >> bit & 1)
            first += f->groups >> (bit + 1);
    const uint64_t begin = tt_block_offset(c->bytes, c->elem_bytes, f->groups, first);

    return (struct tt_block){
        begin,
        tt_block_offset(c->bytes, c->elem_bytes, f->groups, first + (f->groups >> i)) - begin,
    };
}

static void allreduce_rabenseifner_halve(struct tt_sched *s, const struct tt_coll *c,
                                         const struct tt_fold *f, uint32_t i)
{
    const uint32_t other = f->group ^ (1u << i);
    const uint32_t peer = tt_fold_rank(f, other);
    const struct tt_block leaving = allreduce_rabenseifner_share(c, f, other, i + 1),
                          staying = allreduce_rabenseifner_share(c, f, f->group, i + 1);
    const bool fresh = i == 0 && !f->folded;
    const struct tt_ref theirs = tt_pipe(1 + i);

    tt_sched_put(s, peer, fresh ? tt_src(leaving.offset) : tt_dst(leaving.offset), theirs,
                 leaving.bytes, i);
    tt_sched_wait(s, peer, theirs, staying.bytes, i);
    tt_sched_reduce_ordered(s, tt_dst(staying.offset),
                            fresh ? tt_src(staying.offset) : tt_dst(staying.offset), f->group,
                            theirs, other, staying.bytes, i == f->rounds - 1);
}

static void allreduce_rabenseifner_double_up(struct tt_sched *s, const struct tt_coll *c,
                                             const struct tt_fold *f, uint32_t i)
{
    const uint32_t other = f->group ^ (1u << i);
    const uint32_t peer = tt_fold_rank(f, other);
    const uint32_t tag = 2 * f->rounds - 1 - i;
    const struct tt_block mine = allreduce_rabenseifner_share(c, f, f->group, i + 1),
                          theirs = allreduce_rabenseifner_share(c, f, other, i + 1);

    tt_sched_put(s, peer, tt_dst(mine.offset), tt_dst(mine.offset), mine.bytes, tag);
    tt_sched_wait(s, peer, tt_dst(theirs.offset), theirs.bytes, tag);
}

static uint64_t allreduce_rabenseifner_nrounds(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);

    return f.groups == 1 ? 1 : 2 * f.rounds + (f.extras ? 2 : 0);
}

static void allreduce_rabenseifner_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);

    if (!tt_phase_among_groups(s, c, &f, 2 * f.rounds, &k))
        return;
    if (k < f.rounds)
        allreduce_rabenseifner_halve(s, c, &f, (uint32_t)k);
    else
        allreduce_rabenseifner_double_up(s, c, &f, 2 * f.rounds - 1 - (uint32_t)k);
}

static struct tt_cost allreduce_rabenseifner_cost(const struct tt_coll *c)
{
    const struct tt_fold f = tt_fold_of(c->rank, c->nranks);
    const double bytes = (double)c->bytes, moved = bytes * (f.groups - 1) / f.groups,
                 folding = f.extras ? 1 : 0;

    return (struct tt_cost){
        .messages = 2 * f.rounds + 2 * folding,
        .bytes = 2 * moved + 2 * folding * bytes,
        .reduced = moved + folding * bytes,
    };
}

const struct tt_algo tt_algo_allreduce_rabenseifner = {
    .name = "allreduce_rabenseifner",
    .summary = "long vectors, few rounds; best with a power of two ranks",
    .quantizes = TT_QUANTIZED_FEEDBACK,
    .kind = TT_ALLREDUCE,
    .fits = tt_fits_always,
    .nrounds = allreduce_rabenseifner_nrounds,
    .round = allreduce_rabenseifner_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_tree,
    .cost = allreduce_rabenseifner_cost,
};
