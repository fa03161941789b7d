/* Ring reduce_scatter. Shapes: src[nranks][block], dst[block]; reduce_scatterv: rows of any size.
 * In step k, rank r passes its running value of row r - k - 1 to the right and adds its own part to
 * the value from the left; row r is finished at rank r. (n - 1) * (latency + block / bandwidth):
 * bandwidth-optimal, and only neighbours communicate.
 * A running value needs space until it is sent: neither SRC, nor DST, which in place is unused
 * input. Therefore the ring runs once per slab of the rows, with two alternating slabs of WORK,
 * which stay in cache. */
#include "algo/algos.h"
#include "algo/blocks.h"

/* Two ranks have no running values: one slab suffices. */
static uint64_t reduce_scatter_ring_slab_bytes(const struct tt_coll *c)
{
    return c->nranks > 2 ? TT_SLAB_BYTES : UINT64_MAX;
}

/* The part of row i in a slab. */
static struct tt_block slab_of(const struct tt_coll *c, uint32_t i, uint64_t slab)
{
    const struct tt_block row = tt_block_of(c, i);
    const uint64_t begin = slab * reduce_scatter_ring_slab_bytes(c);

    if (begin >= row.bytes)
        return (struct tt_block){ row.offset, 0 };
    return (struct tt_block){
        row.offset + begin,
        row.bytes - begin < reduce_scatter_ring_slab_bytes(c) ? row.bytes - begin
                                                              : reduce_scatter_ring_slab_bytes(c),
    };
}

static uint64_t reduce_scatter_ring_nslabs(const struct tt_coll *c)
{
    const uint64_t longest = tt_blocks_longest(c);

    return longest <= reduce_scatter_ring_slab_bytes(c)
               ? 1
               : (longest - 1) / reduce_scatter_ring_slab_bytes(c) + 1;
}

/* Tags hold round numbers in 32 bits. */
static bool reduce_scatter_ring_fits(const struct tt_coll *c)
{
    return reduce_scatter_ring_nslabs(c) <= UINT32_MAX / c->nranks;
}

static uint64_t reduce_scatter_ring_nrounds(const struct tt_coll *c)
{
    return c->nranks > 1 ? reduce_scatter_ring_nslabs(c) * (c->nranks - 1) : 1;
}

static uint64_t reduce_scatter_ring_work_bytes(const struct tt_coll *c)
{
    const uint64_t longest = tt_blocks_longest(c);

    return c->nranks <= 2 ? 0 : TT_SLAB_BYTES + (longest < TT_SLAB_BYTES ? longest : TT_SLAB_BYTES);
}

static struct tt_ref running(uint64_t round)
{
    return tt_work(round % 2 * TT_SLAB_BYTES);
}

static void reduce_scatter_ring_round(struct tt_sched *s, const struct tt_coll *c, uint64_t round)
{
    const uint32_t n = c->nranks, r = c->rank, tag = (uint32_t)round;

    if (n == 1) {
        tt_sched_own(s, c);
        return;
    }
    const uint64_t slab = round / (n - 1);
    const uint32_t k = (uint32_t)(round % (n - 1));
    const struct tt_block leaving = slab_of(c, (r + 2 * n - k - 1) % n, slab);
    const struct tt_block coming = slab_of(c, (r + 2 * n - k - 2) % n, slab);
    const struct tt_ref theirs = tt_pipe(round);
    const bool last = k == n - 2;

    tt_sched_put(s, (r + 1) % n, k == 0 ? tt_src(leaving.offset) : running(round - 1), theirs,
                 leaving.bytes, tag);
    tt_sched_wait(s, (r + n - 1) % n, theirs, coming.bytes, tag);
    tt_sched_reduce_ordered(
        s, last ? tt_dst(coming.offset - tt_block_of(c, r).offset) : running(round), theirs,
        tt_lowest(r + n - k - 1, k + 1, n), tt_src(coming.offset), r, coming.bytes, last);
}

static struct tt_cost reduce_scatter_ring_cost(const struct tt_coll *c)
{
    const double steps = c->nranks - 1, bytes = steps * (double)tt_blocks_longest(c);

    return (struct tt_cost){
        .messages = steps + tt_cost_burst((uint32_t)reduce_scatter_ring_nslabs(c)) - 1,
        .bytes = bytes,
        .reduced = bytes,
    };
}

const struct tt_algo tt_algo_reduce_scatter_ring = {
    .name = "reduce_scatter_ring", .summary = "long rows, any number of ranks",
    .needs = "rows that are forwarded in fewer than 2^32 messages",
    .quantizes = TT_QUANTIZED_FEEDBACK,
    .kind = TT_REDUCE_SCATTER,
    .fits = reduce_scatter_ring_fits,
    .nrounds = reduce_scatter_ring_nrounds,
    .round = reduce_scatter_ring_round,
    .work_bytes = reduce_scatter_ring_work_bytes,
    .npeers = tt_npeers_two,
    .cost = reduce_scatter_ring_cost,
};

const struct tt_algo tt_algo_reduce_scatterv_ring = {
    .name = "reduce_scatterv_ring", .summary = "long rows of similar sizes, any number of ranks",
    .needs = "rows that are forwarded in fewer than 2^32 messages",
    .kind = TT_REDUCE_SCATTERV,
    .fits = reduce_scatter_ring_fits,
    .nrounds = reduce_scatter_ring_nrounds,
    .round = reduce_scatter_ring_round,
    .work_bytes = reduce_scatter_ring_work_bytes,
    .npeers = tt_npeers_two,
    .cost = reduce_scatter_ring_cost,
};
