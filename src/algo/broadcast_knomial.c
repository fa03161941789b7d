/* k-nomial broadcast. Shapes: src[bytes] at root, dst[bytes].
 * Ranks are counted from the root. Each rank with the vector sends it to the k - 1 ranks k^level, 2
 * k^level, .. higher, the farthest level first, so the number of ranks that have it grows k-fold.
 * ceil(log_k n) levels, each of k - 1 messages from one rank: for short vectors, if the latency of
 * a message is long against the time for which it occupies its sender.
 * To add a k: one line at the end of this file, and one in algos.c. */
#include "algo/algos.h"
#include "algo/knomial.h"

static void round_of(struct tt_sched *s, const struct tt_coll *c, uint64_t round, uint32_t k)
{
    const uint32_t v = tt_from_root(c), n = c->nranks, levels = tt_knomial_levels(n, k);

    if (round < levels) {
        const uint64_t step = tt_knomial_power(k, levels - 1 - (uint32_t)round);
        const uint32_t children = tt_knomial_children(v, n, k, step);
        uint32_t parent;

        if (tt_knomial_parent(v, k, step, &parent))
            tt_sched_wait(s, tt_rank_at(c, parent), tt_dst(0), c->bytes, 0);
        for (uint32_t i = 1; i <= children; i++)
            tt_sched_put(s, tt_rank_at(c, v + i * (uint32_t)step), v == 0 ? tt_src(0) : tt_dst(0),
                         tt_dst(0), c->bytes, 0);
    }
    if (round == 0)
        tt_sched_own(s, c);
}

static struct tt_cost cost_of(const struct tt_coll *c, uint32_t k)
{
    const double bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = tt_knomial_messages(c->nranks, k),
        .bytes = tt_knomial_vectors(c->nranks, k) * bytes,
        .copied = bytes,
    };
}

static uint64_t work_of(const struct tt_coll *c, uint32_t k)
{
    (void)c, (void)k;
    return 0;
}

#define KNOMIAL(k) \
    TT_KNOMIAL(broadcast, k, .kind = TT_BROADCAST, .fits = tt_fits_always, \
               .summary = "short vectors, many ranks; " #k " times as many in each round")

KNOMIAL(4);
KNOMIAL(8);
