/* All-reduce around two rings in opposite directions. Shapes: src[bytes], dst[bytes], split into
 * two halves, each into nranks blocks.
 * The first half is processed as in allreduce_ring, with rank r sending to r + 1; the second half
 * in the other direction, with rank r sending to r - 1. A rank sends as many bytes as in one ring,
 * half of them over each of two paths. For long vectors if the path between two ranks is the limit,
 * not the total rate of a rank: e.g. a separate link to each neighbour, or internet paths slower
 * than the access links.
 * 2 (n - 1) * (latency + bytes / 2n / bandwidth of one path) if a rank's two paths are independent.
 * If they share bandwidth: the time of one ring, with twice the messages.
 * Known as the bidirectional ring; each of the two rings is that of allreduce_ring, which names the
 * source. */
#include "algo/algos.h"
#include "algo/blocks.h"

/* The first ring sends to higher ranks, the second to lower ones. */
enum { RINGS = 2 };

/* The rank `places` behind this one; the ring carries its data to this rank. */
static uint32_t behind(const struct tt_coll *c, uint32_t ring, uint32_t places)
{
    const uint32_t n = c->nranks, r = c->rank;

    return ring == 0 ? (r + n - places % n) % n : (r + places) % n;
}

static uint32_t allreduce_two_rings_next(const struct tt_coll *c, uint32_t ring)
{
    return behind(c, ring, c->nranks - 1);
}

/* The block of the ring's half that is complete at `rank` after the reduction. */
static struct tt_block allreduce_two_rings_block_of(const struct tt_coll *c, uint32_t ring,
                                                    uint32_t rank)
{
    const uint64_t half = tt_block_bytes(c->bytes, c->elem_bytes, RINGS, ring);

    return (struct tt_block){
        tt_block_offset(c->bytes, c->elem_bytes, RINGS, ring) +
            tt_block_offset(half, c->elem_bytes, c->nranks, rank),
        tt_block_bytes(half, c->elem_bytes, c->nranks, rank),
    };
}

/* The lowest of the ranks that contributed to the value received in round k: the ranks 1 to k + 1
 * places behind. */
static uint32_t lowest_coming(const struct tt_coll *c, uint32_t ring, uint32_t k)
{
    return tt_lowest(behind(c, ring, ring == 0 ? k + 1 : 1), k + 1, c->nranks);
}

/* Tags of a round's messages; also names of their pipes. */
static uint32_t tag_of(uint32_t ring, uint64_t k) { return (uint32_t)(RINGS * k) + ring; }

static void allreduce_two_rings_pass(struct tt_sched *s, const struct tt_coll *c, uint32_t ring,
                                     uint32_t k)
{
    const struct tt_block leaving = allreduce_two_rings_block_of(c, ring, behind(c, ring, k + 1));
    const uint32_t tag = tag_of(ring, k);

    tt_sched_put(s, allreduce_two_rings_next(c, ring),
                 k == 0 ? tt_src(leaving.offset) : tt_dst(leaving.offset), tt_pipe(tag),
                 leaving.bytes, tag);
}

static void allreduce_two_rings_take(struct tt_sched *s, const struct tt_coll *c, uint32_t ring,
                                     uint32_t k)
{
    const struct tt_block coming = allreduce_two_rings_block_of(c, ring, behind(c, ring, k + 2));
    const uint32_t tag = tag_of(ring, k);

    tt_sched_wait(s, behind(c, ring, 1), tt_pipe(tag), coming.bytes, tag);
    tt_sched_reduce_ordered(s, tt_dst(coming.offset), tt_pipe(tag), lowest_coming(c, ring, k),
                            tt_src(coming.offset), c->rank, coming.bytes, k == c->nranks - 2);
}

/* Round k of the allgather of the sums. */
static void allreduce_two_rings_hand_on(struct tt_sched *s, const struct tt_coll *c, uint32_t ring,
                                        uint32_t k, uint32_t tag)
{
    const struct tt_block leaving = allreduce_two_rings_block_of(c, ring, behind(c, ring, k));

    tt_sched_put(s, allreduce_two_rings_next(c, ring), tt_dst(leaving.offset),
                 tt_dst(leaving.offset), leaving.bytes, tag);
}

static void allreduce_two_rings_keep(struct tt_sched *s, const struct tt_coll *c, uint32_t ring,
                                     uint32_t k, uint32_t tag)
{
    const struct tt_block coming = allreduce_two_rings_block_of(c, ring, behind(c, ring, k + 1));

    tt_sched_wait(s, behind(c, ring, 1), tt_dst(coming.offset), coming.bytes, tag);
}

static uint64_t allreduce_two_rings_nrounds(const struct tt_coll *c)
{
    return c->nranks > 1 ? 2 * (uint64_t)(c->nranks - 1) : 1;
}

/* Both rings put before either waits: programs are also run step by step. */
static void allreduce_two_rings_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t half = c->nranks - 1, i = (uint32_t)k;

    if (c->nranks == 1) {
        tt_sched_own(s, c);
        return;
    }
    for (uint32_t ring = 0; ring < RINGS; ring++)
        if (i < half)
            allreduce_two_rings_pass(s, c, ring, i);
        else
            allreduce_two_rings_hand_on(s, c, ring, i - half, tag_of(ring, k));
    for (uint32_t ring = 0; ring < RINGS; ring++)
        if (i < half)
            allreduce_two_rings_take(s, c, ring, i);
        else
            allreduce_two_rings_keep(s, c, ring, i - half, tag_of(ring, k));
}

static struct tt_cost allreduce_two_rings_cost(const struct tt_coll *c)
{
    const double steps = c->nranks - 1, block = (double)c->bytes / c->nranks;

    return (struct tt_cost){ .messages = 2 * steps * tt_cost_burst(RINGS),
                             .bytes = 2 * steps * block,
                             .reduced = steps * block };
}

/* Two tags per round, in 32 bits. */
static bool allreduce_two_rings_fits(const struct tt_coll *c)
{
    return allreduce_two_rings_nrounds(c) <= UINT32_MAX / RINGS;
}

const struct tt_algo tt_algo_allreduce_two_rings = {
    .name = "allreduce_two_rings",
    .summary = "long vectors, if a link is slower than the total rate of a rank",
    .needs = "fewer than 2^31 rounds",
    .quantizes = TT_QUANTIZED_FEEDBACK,
    .kind = TT_ALLREDUCE,
    .fits = allreduce_two_rings_fits,
    .nrounds = allreduce_two_rings_nrounds,
    .round = allreduce_two_rings_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_two,
    .cost = allreduce_two_rings_cost,
    .by_name = true,
};
