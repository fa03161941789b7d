/* Scatter-allgather broadcast (van de Geijn). Shapes: src[bytes] at root, dst[bytes], split into
 * nranks blocks.
 * A binomial tree scatters the blocks, by rank counted from the root; a ring allgathers them. About
 * 2 bytes / bandwidth and log2(n) + n - 1 latencies: for long vectors and any number of ranks. An
 * inner rank of the tree keeps the blocks that pass through it, so the ring omits these.
 * M. Barnett et al., "Building a high-performance collective communication library", 1994. */
#include "algo/algos.h"
#include "algo/blocks.h"

static struct tt_block blocks(const struct tt_coll *c, uint32_t first, uint32_t count)
{
    const uint64_t begin = tt_block_offset(c->bytes, c->elem_bytes, c->nranks, first);

    return (struct tt_block){
        begin, tt_block_offset(c->bytes, c->elem_bytes, c->nranks, first + count) - begin
    };
}

static struct tt_ref broadcast_scatter_allgather_held(uint32_t v, uint64_t offset)
{
    return v == 0 ? tt_src(offset) : tt_dst(offset);
}

static void scatter_round(struct tt_sched *s, const struct tt_coll *c, uint32_t step)
{
    const uint32_t v = tt_from_root(c);
    struct tt_block b;

    if (v % (2 * step) == step) {
        b = blocks(c, v, tt_subtree(v, c->nranks));
        tt_sched_wait(s, tt_rank_at(c, v - step), tt_dst(b.offset), b.bytes, 0);
    }
    if (v % (2 * step) == 0 && v + step < c->nranks) {
        b = blocks(c, v + step, tt_subtree(v + step, c->nranks));
        tt_sched_put(s, tt_rank_at(c, v + step), broadcast_scatter_allgather_held(v, b.offset),
                     tt_dst(b.offset), b.bytes, 0);
    }
}

/* Returns whether v has block b from the scatter. */
static bool broadcast_scatter_allgather_has(const struct tt_coll *c, uint32_t v, uint32_t b)
{
    return b >= v && b - v < tt_subtree(v, c->nranks);
}

static void ring_round(struct tt_sched *s, const struct tt_coll *c, uint32_t k)
{
    const uint32_t n = c->nranks, v = tt_from_root(c), right = (v + 1) % n, left = (v + n - 1) % n;
    const uint32_t leaving = (v + n - k) % n, coming = (v + n - k - 1) % n;
    struct tt_block b;

    if (!broadcast_scatter_allgather_has(c, right, leaving)) {
        b = blocks(c, leaving, 1);
        tt_sched_put(s, tt_rank_at(c, right), broadcast_scatter_allgather_held(v, b.offset),
                     tt_dst(b.offset), b.bytes, 1 + k);
    }
    if (!broadcast_scatter_allgather_has(c, v, coming)) {
        b = blocks(c, coming, 1);
        tt_sched_wait(s, tt_rank_at(c, left), tt_dst(b.offset), b.bytes, 1 + k);
    }
}

static uint64_t broadcast_scatter_allgather_nrounds(const struct tt_coll *c)
{
    return c->nranks > 1 ? tt_log2_up(c->nranks) + (uint64_t)c->nranks - 1 : 1;
}

static void broadcast_scatter_allgather_round(struct tt_sched *s, const struct tt_coll *c,
                                              uint64_t k)
{
    const uint32_t rounds = tt_log2_up(c->nranks);

    if (k < rounds)
        scatter_round(s, c, 1u << (rounds - 1 - k));
    else if (c->nranks > 1)
        ring_round(s, c, (uint32_t)k - rounds);
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost broadcast_scatter_allgather_cost(const struct tt_coll *c)
{
    const double n = c->nranks, bytes = (double)c->bytes;

    return (struct tt_cost){
        .messages = tt_log2_up(c->nranks) + n - 1,
        .bytes = 2 * bytes * (n - 1) / n,
        .copied = bytes,
    };
}

/* The neighbours in the ring and in the tree. */
static uint32_t broadcast_scatter_allgather_npeers(const struct tt_coll *c)
{
    return tt_npeers_tree(c) + tt_npeers_two(c);
}

const struct tt_algo tt_algo_broadcast_scatter_allgather = {
    .name = "broadcast_scatter_allgather",
    .summary = "long vectors, many ranks",
    .kind = TT_BROADCAST,
    .fits = tt_fits_always,
    .nrounds = broadcast_scatter_allgather_nrounds,
    .round = broadcast_scatter_allgather_round,
    .work_bytes = tt_work_none,
    .npeers = broadcast_scatter_allgather_npeers,
    .cost = broadcast_scatter_allgather_cost,
};
