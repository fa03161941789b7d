/* k-nomial reduce. Shapes: src[bytes], dst[bytes] at root.
 * The reverse of broadcast_knomial: in each round every k-th remaining rank, counted from the root,
 * adds the running values of the k - 1 after it to its own. ceil(log_k n) levels, each of k - 1
 * vectors into one rank: for short vectors and many ranks. The running value is in WORK.
 * To add a k: one line at the end of this file, and one in algos.c. */
#include "algo/algos.h"
#include "algo/knomial.h"

static bool reduce_knomial_fits(const struct tt_coll *c)
{
    return c->bytes <= TT_WORK_MAX;
}

static uint64_t work_of(const struct tt_coll *c, uint32_t k)
{
    const uint32_t v = tt_from_root(c);

    return v > 0 && tt_knomial_subtree(v, c->nranks, k) > 1 ? c->bytes : 0;
}

static void reduce_knomial_take(struct tt_sched *s, const struct tt_coll *c, uint64_t step,
                                uint32_t children, uint32_t k)
{
    const uint32_t v = tt_from_root(c), n = c->nranks;
    const struct tt_ref sum = v == 0 ? tt_dst(0) : tt_work(0);

    for (uint32_t i = 1; i <= children; i++) {
        const uint32_t child = v + i * (uint32_t)step, from = tt_rank_at(c, child);
        const struct tt_ref theirs = tt_pipe(child);
        const uint32_t count = tt_knomial_subtree(child, n, k);

        tt_sched_wait(s, from, theirs, c->bytes, 0);
        tt_sched_reduce_ordered(s, sum, step == 1 && i == 1 ? tt_src(0) : sum,
                                tt_lowest(c->rank, child - v, n), theirs, tt_lowest(from, count, n),
                                c->bytes, v == 0 && child + count == n);
    }
}

static void round_of(struct tt_sched *s, const struct tt_coll *c, uint64_t round, uint32_t k)
{
    const uint32_t v = tt_from_root(c), n = c->nranks;
    const uint64_t step = tt_knomial_power(k, (uint32_t)round);
    uint32_t parent;

    if (n == 1)
        tt_sched_own(s, c);
    else if (tt_knomial_parent(v, k, step, &parent))
        tt_sched_put(s, tt_rank_at(c, parent),
                     tt_knomial_subtree(v, n, k) > 1 ? tt_work(0) : tt_src(0), tt_pipe(v), c->bytes,
                     0);
    else
        reduce_knomial_take(s, c, step, tt_knomial_children(v, n, k, step), k);
}

static struct tt_cost cost_of(const struct tt_coll *c, uint32_t k)
{
    const double bytes = tt_knomial_vectors(c->nranks, k) * (double)c->bytes;

    return (struct tt_cost){ .messages = tt_knomial_messages(c->nranks, k),
                             .bytes = bytes,
                             .reduced = bytes };
}

#define KNOMIAL(k) \
    TT_KNOMIAL(reduce, k, .kind = TT_REDUCE, .fits = reduce_knomial_fits,           \
               .fits_named = tt_fits_always, .needs = "vectors of at most 256 KiB", \
               .summary = "short vectors, many ranks; " #k " become one in each round")

KNOMIAL(4);
KNOMIAL(8);
