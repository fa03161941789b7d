/* Hierarchical all-reduce. Shapes: src[bytes], dst[bytes].
 * On each host a binomial tree reduces to the host's first rank. These ranks use recursive doubling
 * over the hosts, with the lower one's operand on the left. A binomial tree then broadcasts the
 * result to all ranks of the host. With H hosts of g ranks: log2(H) sequential messages between
 * hosts, and 2 log2(g) inside. For short vectors, where a flat algorithm sends as many messages
 * between hosts as a host has ranks. If H is not a power of two, the odd hosts of the first pairs
 * fold, as in the recursive doubling all-reduce. */
#include "algo/algos.h"
#include "algo/blocks.h"

/* pipe IDs: below, the levels of the tree; this one, the fold; above, rounds between hosts */
#define FOLD_PIPE 64u

struct tree {
    struct tt_layout alone;
    const struct tt_layout *layout;
    uint32_t host, n, me;           /* n: ranks of this rank's host; me: its local rank */
    uint32_t levels;                /* of the tree of the host with most ranks */
    struct tt_fold fold;            /* of hosts */
};

static void tree_init(struct tree *t, const struct tt_coll *c)
{
    t->layout = tt_layout_of(c, &t->alone);
    t->host = tt_layout_host(t->layout, c->rank);
    t->n = tt_layout_host_ranks(t->layout, t->host);
    t->me = tt_layout_local(t->layout, c->rank);
    t->levels = tt_log2_up(tt_layout_widest(t->layout));
    t->fold = tt_fold_of(t->host, t->layout->nhosts);
}

static uint32_t allreduce_hierarchical_rank_of(const struct tree *t, uint32_t local)
{
    return tt_layout_rank(t->layout, t->host, local);
}

static uint32_t first_of(const struct tree *t, uint32_t host)
{
    return tt_layout_rank(t->layout, host, 0);
}

/* Rounds between hosts: folding, doubling, unfolding. */
static uint32_t across_rounds(const struct tree *t)
{
    return t->layout->nhosts == 1 ? 0 : t->fold.rounds + (t->fold.extras ? 2 : 0);
}

static uint64_t allreduce_hierarchical_nrounds(const struct tt_coll *c)
{
    struct tree t;

    tree_init(&t, c);
    return c->nranks == 1 ? 1 : 2 * t.levels + across_rounds(&t);
}

/* Level p on the host: local v sends its value to v - 2^p if that is its lowest bit. */
static void reduce_level(struct tt_sched *s, const struct tt_coll *c, const struct tree *t,
                         uint32_t p)
{
    const uint32_t step = 1u << p;
    const bool last = t->layout->nhosts == 1 && t->me == 0 && 2ull * step >= t->n;

    if (t->me % (2 * step) == step)
        tt_sched_put(s, allreduce_hierarchical_rank_of(t, t->me - step),
                     p > 0 && t->me + 1 < t->n ? tt_dst(0) : tt_src(0), tt_pipe(p), c->bytes, 0);
    if (t->me % (2 * step) == 0 && t->me + step < t->n) {
        tt_sched_wait(s, allreduce_hierarchical_rank_of(t, t->me + step), tt_pipe(p), c->bytes, 0);
        tt_sched_reduce(s, tt_dst(0), p == 0 ? tt_src(0) : tt_dst(0), tt_pipe(p), c->bytes, last);
    }
}

static void broadcast_level(struct tt_sched *s, const struct tt_coll *c, const struct tree *t,
                            uint32_t p)
{
    const uint32_t step = 1u << p;

    if (t->me % (2 * step) == step)
        tt_sched_wait(s, allreduce_hierarchical_rank_of(t, t->me - step), tt_dst(0), c->bytes, 0);
    if (t->me % (2 * step) == 0 && t->me + step < t->n)
        tt_sched_put(s, allreduce_hierarchical_rank_of(t, t->me + step), tt_dst(0), tt_dst(0),
                     c->bytes, 0);
}

/* The value of this host before the exchange with other hosts. */
static struct tt_ref host_value(const struct tree *t)
{
    return t->n == 1 ? tt_src(0) : tt_dst(0);
}

static void allreduce_hierarchical_fold_in(struct tt_sched *s, const struct tt_coll *c,
                                           const struct tree *t)
{
    if (!t->fold.folded)
        return;
    if (!t->fold.active) {
        tt_sched_put(s, first_of(t, t->host - 1), host_value(t), tt_pipe(FOLD_PIPE), c->bytes, 0);
        return;
    }
    tt_sched_wait(s, first_of(t, t->host + 1), tt_pipe(FOLD_PIPE), c->bytes, 0);
    tt_sched_reduce(s, tt_dst(0), host_value(t), tt_pipe(FOLD_PIPE), c->bytes, false);
}

static void allreduce_hierarchical_fold_out(struct tt_sched *s, const struct tt_coll *c,
                                            const struct tree *t)
{
    if (!t->fold.folded)
        return;
    if (t->fold.active)
        tt_sched_put(s, first_of(t, t->host + 1), tt_dst(0), tt_dst(0), c->bytes, 0);
    else
        tt_sched_wait(s, first_of(t, t->host - 1), tt_dst(0), c->bytes, 0);
}

static void allreduce_hierarchical_double_up(struct tt_sched *s, const struct tt_coll *c,
                                             const struct tree *t, uint32_t i)
{
    const struct tt_fold *f = &t->fold;
    const uint32_t other = f->group ^ (1u << i), peer = first_of(t, tt_fold_rank(f, other));
    const struct tt_ref mine = i == 0 && !f->folded ? host_value(t) : tt_dst(0);
    const struct tt_ref theirs = tt_pipe(FOLD_PIPE + 1 + i);

    tt_sched_put(s, peer, mine, theirs, c->bytes, 0);
    tt_sched_wait(s, peer, theirs, c->bytes, 0);
    tt_sched_reduce_ordered(s, tt_dst(0), mine, f->group, theirs, other, c->bytes,
                            i == f->rounds - 1);
}

/* Round i of the first ranks of hosts. */
static void allreduce_hierarchical_across(struct tt_sched *s, const struct tt_coll *c,
                                          const struct tree *t, uint32_t i)
{
    const uint32_t before = t->fold.extras ? 1 : 0;

    if (i < before)
        allreduce_hierarchical_fold_in(s, c, t);
    else if (i == before + t->fold.rounds)
        allreduce_hierarchical_fold_out(s, c, t);
    else if (t->fold.active)
        allreduce_hierarchical_double_up(s, c, t, i - before);
}

static void allreduce_hierarchical_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    struct tree t;
    uint32_t i = (uint32_t)k;

    if (c->nranks == 1) {
        tt_sched_own(s, c);
        return;
    }
    tree_init(&t, c);
    if (i < t.levels) {
        reduce_level(s, c, &t, i);
        return;
    }
    i -= t.levels;
    if (i < across_rounds(&t) && t.me == 0)
        allreduce_hierarchical_across(s, c, &t, i);
    else if (i >= across_rounds(&t))
        broadcast_level(s, c, &t, t.levels - 1 - (i - across_rounds(&t)));
}

static uint32_t allreduce_hierarchical_npeers(const struct tt_coll *c)
{
    struct tree t;

    tree_init(&t, c);
    return tt_log2_up(t.n) + 1 + (t.me == 0 ? t.fold.rounds + 1 : 0);
}

static struct tt_cost allreduce_hierarchical_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes;
    struct tree t;
    double levels, rounds;

    tree_init(&t, c);
    levels = 2 * t.levels;
    rounds = across_rounds(&t);
    if (t.layout->nhosts == 1)
        return (struct tt_cost){ .messages = levels,
                                 .bytes = levels * bytes,
                                 .reduced = levels / 2 * bytes };
    return (struct tt_cost){
        .messages = rounds, .bytes = rounds * bytes,
        .reduced = (levels / 2 + rounds - (t.fold.extras ? 1 : 0)) * bytes,
        .near_messages = levels, .near_bytes = levels * bytes,
    };
}

const struct tt_algo tt_algo_allreduce_hierarchical = {
    .name = "allreduce_hierarchical",
    .summary = "short vectors, several ranks per host",
    .kind = TT_ALLREDUCE,
    .fits = tt_fits_always,
    .nrounds = allreduce_hierarchical_nrounds,
    .round = allreduce_hierarchical_round,
    .work_bytes = tt_work_none,
    .npeers = allreduce_hierarchical_npeers,
    .cost = allreduce_hierarchical_cost,
};
