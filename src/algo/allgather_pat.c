/* Parallel aggregated trees allgather. Shapes: src[block], dst[nranks][block].
 * Each block is sent down its own binomial tree, the farthest ranks first. All trees proceed in
 * step, and all blocks from one rank to another in a step are one message (src/algo/pat.h). Fully
 * aggregated: ceil(log2 n) latencies for any number of ranks, as with Bruck, but with few blocks on
 * long paths and many on short ones. With messages limited to TT_SLAB_BYTES: the same far steps
 * while they fit, then n / A - 1 near steps of A blocks, which are independent and overlap.
 * Every byte is received once. The blocks of a message are `apart` ranks apart: strided, in two
 * parts if they pass rank 0.
 * S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", 2025
 * (arXiv 2506.20252). */
#include "algo/algos.h"
#include "algo/pat.h"

static struct tt_pat allgather_pat_all_of(const struct tt_coll *c)
{
    return tt_pat_of(c->nranks, UINT64_MAX);
}

static struct tt_pat allgather_pat_bounded_of(const struct tt_coll *c)
{
    const uint64_t blocks = TT_SLAB_BYTES / (c->bytes ? c->bytes : 1),
                   half = 1ull << tt_log2_up(c->nranks) >> 1;

    return tt_pat_of(c->nranks, blocks < half ? blocks : half);
}

/* The blocks of trees [from, to) in which `rank` is offset first + i * apart; they must not pass
 * rank 0. */
static struct tt_ref blocks_at(const struct tt_coll *c, const struct tt_pat *p, uint32_t rank,
                               uint32_t first, uint32_t apart, uint32_t from, uint32_t to)
{
    const struct tt_ref ref = tt_dst(tt_pat_root(p, rank, first + (to - 1) * apart) * c->bytes);

    return to - from > 1 ? tt_strided(ref, c->bytes, apart * c->bytes) : ref;
}

/* One side of a step's message, sent by `sender`, which is offset `parent` of the trees. */
static void allgather_pat_pass(struct tt_sched *s, const struct tt_coll *c, const struct tt_pat *p,
                               uint32_t k, uint32_t sender, uint32_t peer)
{
    const struct tt_pat_step step = tt_pat_step(p, k);
    const uint32_t wrap = tt_pat_wrap(sender, step.parent, step.apart, step.count);
    const uint32_t part[] = { 0, wrap, step.count };

    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t bytes = (part[i + 1] - part[i]) * c->bytes;

        if (part[i] == part[i + 1])
            continue;
        const struct tt_ref at =
            blocks_at(c, p, sender, step.parent, step.apart, part[i], part[i + 1]);

        if (peer == c->rank)
            tt_sched_wait(s, sender, at, bytes, 2 * k + i);
        else
            tt_sched_put(s, peer, k == 0 ? tt_src(0) : at, at, bytes, 2 * k + i);
    }
}

static void allgather_pat_round_of(struct tt_sched *s, const struct tt_coll *c, uint64_t k,
                                   const struct tt_pat *p)
{
    const uint32_t n = c->nranks, r = c->rank;

    if (k < p->steps) {
        const uint32_t distance = tt_pat_step(p, (uint32_t)k).distance;

        allgather_pat_pass(s, c, p, (uint32_t)k, r, (r + distance) % n);
        allgather_pat_pass(s, c, p, (uint32_t)k, (r + n - distance) % n, r);
    }
    if (k == 0)
        tt_sched_own(s, c);
}

/* The depth of the trees in latencies; further steps overlap. */
static struct tt_cost allgather_pat_cost_of(const struct tt_coll *c, const struct tt_pat *p)
{
    const double n = c->nranks, total = (double)tt_blocks_total(c);
    const double beyond = p->steps - p->levels, strided = p->aggregated > 1 ? 2 * total : 0;

    return (struct tt_cost){
        .messages = 1.1 * p->levels + 0.4 * beyond,
        .bytes = total * (n - 1) / n,
        .copied = total / n + strided,
    };
}

static uint64_t allgather_pat_nrounds_of(const struct tt_pat *p)
{
    return p->steps > 0 ? p->steps : 1;
}

static uint64_t allgather_pat_nrounds(const struct tt_coll *c)
{
    const struct tt_pat p = allgather_pat_all_of(c);

    return allgather_pat_nrounds_of(&p);
}

static void allgather_pat_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct tt_pat p = allgather_pat_all_of(c);

    allgather_pat_round_of(s, c, k, &p);
}

static struct tt_cost allgather_pat_cost(const struct tt_coll *c)
{
    const struct tt_pat p = allgather_pat_all_of(c);

    return allgather_pat_cost_of(c, &p);
}

static uint64_t allgather_pat_nrounds_bounded(const struct tt_coll *c)
{
    const struct tt_pat p = allgather_pat_bounded_of(c);

    return allgather_pat_nrounds_of(&p);
}

static void allgather_pat_round_bounded(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const struct tt_pat p = allgather_pat_bounded_of(c);

    allgather_pat_round_of(s, c, k, &p);
}

static struct tt_cost allgather_pat_cost_bounded(const struct tt_coll *c)
{
    const struct tt_pat p = allgather_pat_bounded_of(c);

    return allgather_pat_cost_of(c, &p);
}

const struct tt_algo tt_algo_allgather_pat = {
    .name = "allgather_pat",
    .summary = "short blocks, if distant ranks are slow to reach; any number of ranks",
    .kind = TT_ALLGATHER,
    .fits = tt_fits_always,
    .nrounds = allgather_pat_nrounds,
    .round = allgather_pat_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_log,
    .cost = allgather_pat_cost,
};

const struct tt_algo tt_algo_allgather_pat_bounded = {
    .name = "allgather_pat_bounded",
    .summary = "longer blocks, if distant ranks are slow to reach; any number of ranks",
    .kind = TT_ALLGATHER,
    .fits = tt_fits_always,
    .nrounds = allgather_pat_nrounds_bounded,
    .round = allgather_pat_round_bounded,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_log,
    .cost = allgather_pat_cost_bounded,
};
