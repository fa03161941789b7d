/* Ring all-reduce in pieces, with a limit on bytes in flight. Shapes: src[bytes], dst[bytes], split
 * into k pieces of at most chunk_bytes.
 * Each piece has an owner, which differs from the previous piece's. It starts at the rank after its
 * owner and passes once round the ring. Each rank adds its own part and forwards the sum, without
 * storing it. The owner stores the result, and sends it round once more. The first pass of a piece
 * is one round, and its second pass is some rounds later. A window therefore holds many pieces at
 * different places of the ring, in the same order on all ranks. Early arrivals wait in slots. Only
 * the input is read from memory, and only the result is written to it.
 * A piece (tt_coll_piece_bytes) is one message. Pieces are reduced and forwarded by segments, whose
 * length is separate (tt_coll.reduce_bytes). A sender keeps at most chunks * chunk_bytes beyond
 * what its peer reports as consumed (tt_algo.bounded; engine/exec.h). This limits the data of the
 * all-reduce queued on a long path shared with others.
 * (2 (n - 1) + 0.8 (k - n)) * latency + 2 (n - 1) / n * bytes / bandwidth, for up to about 12 ranks
 * or vectors of many pieces.
 * After "Collective Communication for 100k+ GPUs", 2025, section 5.3: the fault-tolerant all-reduce
 * across replica groups. */
#include "algo/algos.h"
#include "algo/blocks.h"

#define WINDOW_PIECES 12u   /* pieces in an executor's window, of five steps each */
/* rounds from a piece's sum to its result; with fewer ranks, as many as ranks */
#define RESULT_AFTER 8u

struct piece {
    uint64_t offset, bytes;
    uint32_t owner;
    uint32_t sum_tag, result_tag;
    struct tt_ref coming, leaving;      /* pipes */
};

/* Number of pieces. There are at least as many as ranks, or as fit into the window if that is less.
 * Pieces are short, so that different loads of links even out. They are longer if the window must
 * span more ranks, but at most a chunk. If there are more pieces than ranks, each rank owns equally
 * many. */
static uint64_t npieces(const struct tt_coll *c)
{
    const uint64_t elements = c->bytes / c->elem_bytes, n = c->nranks;
    const uint64_t least = n < WINDOW_PIECES ? n : WINDOW_PIECES,
                   long_way = tt_coll_piece_bytes(c) * ((n + WINDOW_PIECES - 1) / WINDOW_PIECES);
    const uint64_t chunk = tt_coll_chunk_bytes(c), piece = chunk < long_way ? chunk : long_way;
    const uint64_t limit = piece > c->elem_bytes ? piece / c->elem_bytes : 1,
                   most = (elements + limit - 1) / limit;

    if (most <= least)
        return least;
    return most <= n ? most : (most + n - 1) / n * n;
}

static struct piece allreduce_ftar_piece_of(const struct tt_coll *c, uint64_t k)
{
    const uint32_t m = (uint32_t)npieces(c), i = (uint32_t)k,
                   apart = m < c->nranks ? c->nranks / m : 1;

    return (struct piece){
        .offset = tt_block_offset(c->bytes, c->elem_bytes, m, i),
        .bytes = tt_block_bytes(c->bytes, c->elem_bytes, m, i),
        .owner = (uint32_t)((uint64_t)i * apart % c->nranks),
        .sum_tag = 2 * i,
        .result_tag = 2 * i + 1,
        .coming = tt_pipe(2ull * i),
        .leaving = tt_pipe(2ull * i + 1),
    };
}

/* Rounds from a piece's sum to its result. */
static uint64_t result_after(const struct tt_coll *c)
{
    return c->nranks < RESULT_AFTER ? c->nranks : RESULT_AFTER;
}

static uint32_t right_of(const struct tt_coll *c) { return (c->rank + 1) % c->nranks; }

static uint32_t allreduce_ftar_left_of(const struct tt_coll *c)
{
    return (c->rank + c->nranks - 1) % c->nranks;
}

/* This rank's part of a piece's first pass, from the rank after its owner to its owner. */
static void sum_up(struct tt_sched *s, const struct tt_coll *c, const struct piece *k)
{
    const uint32_t n = c->nranks, first = (k->owner + 1) % n, before = (c->rank + n - first) % n;
    const bool last = c->rank == k->owner;
    const struct tt_ref own = tt_src(k->offset);

    if (before > 0) {
        tt_sched_wait(s, allreduce_ftar_left_of(c), k->coming, k->bytes, k->sum_tag);
        tt_sched_reduce_ordered(s, last ? tt_dst(k->offset) : k->leaving, k->coming,
                                tt_lowest(first, before, n), own, c->rank, k->bytes, last);
    }
    if (!last)
        tt_sched_put(s, right_of(c), before > 0 ? k->leaving : own, k->coming, k->bytes,
                     k->sum_tag);
}

/* The second pass, from its owner to the rank before it. */
static void hand_out(struct tt_sched *s, const struct tt_coll *c, const struct piece *k)
{
    const struct tt_ref result = tt_dst(k->offset);

    if (c->rank != k->owner)
        tt_sched_wait(s, allreduce_ftar_left_of(c), result, k->bytes, k->result_tag);
    if (right_of(c) != k->owner)
        tt_sched_put(s, right_of(c), result, result, k->bytes, k->result_tag);
}

static uint64_t allreduce_ftar_nrounds(const struct tt_coll *c)
{
    return c->nranks > 1 ? npieces(c) + result_after(c) : 1;
}

static void allreduce_ftar_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    struct piece piece;

    if (c->nranks == 1) {
        tt_sched_own(s, c);
        return;
    }
    if (k < npieces(c)) {
        piece = allreduce_ftar_piece_of(c, k);
        sum_up(s, c, &piece);
    }
    if (k >= result_after(c)) {
        piece = allreduce_ftar_piece_of(c, k - result_after(c));
        hand_out(s, c, &piece);
    }
}

static struct tt_cost allreduce_ftar_cost(const struct tt_coll *c)
{
    const double steps = c->nranks - 1, block = (double)c->bytes / c->nranks,
                 pieces = (double)npieces(c), ranks = c->nranks;

    return (struct tt_cost){ .messages = 2 * steps + (pieces > ranks ? 0.8 * (pieces - ranks) : 0),
                             .bytes = 2 * steps * block,
                             .reduced = steps * block };
}

/* Pieces are numbered in 32 bits, with two tags each. */
static bool allreduce_ftar_fits(const struct tt_coll *c)
{
    return npieces(c) < UINT32_MAX / 2;
}

const struct tt_algo tt_algo_allreduce_ftar = {
    .name = "allreduce_ftar", .summary = "long vectors over shared links; limits data in flight",
    .needs = "fewer than 2^31 pieces",
    .kind = TT_ALLREDUCE,
    .fits = allreduce_ftar_fits,
    .nrounds = allreduce_ftar_nrounds,
    .round = allreduce_ftar_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_two,
    .cost = allreduce_ftar_cost,
    .bounded = true,
};
