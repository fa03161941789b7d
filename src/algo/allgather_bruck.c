/* Bruck allgather. Shapes: src[block], dst[nranks][block]; allgatherv: packed blocks. In round k
 * each rank sends the 2^k blocks from its own upward (cyclically) to the rank 2^k before it. This
 * doubles the blocks of each rank. ceil(log2 n) latencies for any n; every byte is received once.
 * Blocks are sent directly to their final place, without a rotation at the end: a range that passes
 * the end of dst is sent as two. J. Bruck et al., "Efficient algorithms for all-to-all
 * communications in multiport message-passing systems", 1997. */
#include "algo/algos.h"
#include "algo/blocks.h"

/* The `count` blocks from `first` upward, modulo nranks, as two ranges; the second may be empty. */
static void ranges(const struct tt_coll *c, uint32_t first, uint32_t count, struct tt_block part[2])
{
    const uint32_t n = c->nranks, before_end = count < n - first ? count : n - first;

    part[0] = tt_blocks_of(c, first, first + before_end);
    part[1] = tt_blocks_of(c, 0, count - before_end);
}

static void allgather_bruck_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank, far = 1u << k;
    struct tt_block mine[2], theirs[2];

    if (far < n) {
        const uint32_t count = far < n - far ? far : n - far;
        const uint32_t to = (r + n - far) % n, from = (r + far) % n;

        ranges(c, r, count, mine);
        ranges(c, from, count, theirs);
        for (uint32_t i = 0; i < 2; i++)
            if (mine[i].bytes > 0 || i == 0)
                tt_sched_put(s, to, k == 0 ? tt_src(0) : tt_dst(mine[i].offset),
                             tt_dst(mine[i].offset), mine[i].bytes, 2 * (uint32_t)k + i);
        for (uint32_t i = 0; i < 2; i++)
            if (theirs[i].bytes > 0 || i == 0)
                tt_sched_wait(s, from, tt_dst(theirs[i].offset), theirs[i].bytes,
                              2 * (uint32_t)k + i);
    }
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost allgather_bruck_cost(const struct tt_coll *c)
{
    const double n = c->nranks, total = (double)tt_blocks_total(c), rounds = tt_log2_up(c->nranks);

    return (struct tt_cost){ .messages = 1.1 * rounds,
                             .bytes = total * (n - 1) / n,
                             .copied = total / n };
}

const struct tt_algo tt_algo_allgather_bruck = {
    .name = "allgather_bruck",
    .summary = "short blocks, any number of ranks",
    .kind = TT_ALLGATHER,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_log,
    .round = allgather_bruck_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_log,
    .cost = allgather_bruck_cost,
};

const struct tt_algo tt_algo_allgatherv_bruck = {
    .name = "allgatherv_bruck", .summary = "short packed blocks, any number of ranks",
    .needs = "packed blocks",
    .kind = TT_ALLGATHERV,
    .fits = tt_fits_packed,
    .nrounds = tt_rounds_log,
    .round = allgather_bruck_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_log,
    .cost = allgather_bruck_cost,
};
