/* Bruck alltoall. Shapes: src[nranks][block], dst[nranks][block].
 * WORK[i], 0 < i, first holds the block for the rank i higher. In round k every block whose i has
 * bit k is sent to the rank 2^k higher; afterwards each block is at its target. ceil(log2 n)
 * latencies, n / 2 blocks per round: for short blocks and many ranks. Arrivals wait in a pipe until
 * the blocks that they overwrite have been read.
 * J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing
 * systems", 1997. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 16     /* blocks that one of the last rounds copies */

static bool alltoall_bruck_fits(const struct tt_coll *c)
{
    return c->bytes <= TT_WORK_MAX / c->nranks;
}

static uint64_t alltoall_bruck_work_bytes(const struct tt_coll *c)
{
    return c->nranks * c->bytes;
}

/* Rounds: copies to WORK, the exchanges, copies to dst. */
static uint64_t alltoall_bruck_nrounds(const struct tt_coll *c)
{
    return 1 + tt_log2_up(c->nranks) + tt_phase_rounds(c->nranks - 1, EACH);
}

static void alltoall_bruck_enter(struct tt_sched *s, const struct tt_coll *c)
{
    const uint64_t before = c->rank * c->bytes, after = (c->nranks - c->rank - 1) * c->bytes;

    tt_sched_copy(s, tt_work(c->bytes), tt_src(before + c->bytes), after);
    tt_sched_copy(s, tt_work(c->bytes + after), tt_src(0), before);
    tt_sched_own(s, c);
}

/* Bytes of the blocks i < nranks with bit k: whole runs of 2^k, and the rest of the last one. */
static uint64_t moving_bytes(const struct tt_coll *c, uint32_t k)
{
    const uint64_t run = 1u << k, rest = c->nranks % (2 * run);

    return (c->nranks / (2 * run) * run + (rest > run ? rest - run : 0)) * c->bytes;
}

static void alltoall_bruck_exchange(struct tt_sched *s, const struct tt_coll *c, uint32_t k)
{
    const uint32_t n = c->nranks, r = c->rank, far = 1u << k;
    const uint64_t bytes = moving_bytes(c, k);
    const struct tt_ref moving =
        tt_strided(tt_work(far * c->bytes), far * c->bytes, 2 * far * c->bytes);

    tt_sched_put(s, (r + far) % n, moving, tt_pipe(k), bytes, k);
    tt_sched_wait(s, (r + n - far) % n, tt_pipe(k), bytes, k);
    tt_sched_copy(s, moving, tt_pipe(k), bytes);
}

static void alltoall_bruck_leave(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank;

    for (uint32_t i = (uint32_t)k * EACH + 1; i < n && i <= (k + 1) * EACH; i++)
        tt_sched_copy(s, tt_dst((r + n - i) % n * c->bytes), tt_work(i * c->bytes), c->bytes);
}

static void alltoall_bruck_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t rounds = tt_log2_up(c->nranks);

    if (k == 0)
        alltoall_bruck_enter(s, c);
    else if (k <= rounds)
        alltoall_bruck_exchange(s, c, (uint32_t)k - 1);
    else
        alltoall_bruck_leave(s, c, k - 1 - rounds);
}

static struct tt_cost alltoall_bruck_cost(const struct tt_coll *c)
{
    const double rounds = tt_log2_up(c->nranks), moved = rounds * (double)moving_bytes(c, 0);

    return (struct tt_cost){
        .messages = rounds, .bytes = moved, .copied = moved + 2 * (double)c->bytes * c->nranks,
    };
}

const struct tt_algo tt_algo_alltoall_bruck = {
    .name = "alltoall_bruck", .summary = "short blocks, many ranks",
    .needs = "all blocks together within 256 KiB",
    .kind = TT_ALLTOALL,
    .fits = alltoall_bruck_fits,
    .fits_named = tt_fits_always,
    .nrounds = alltoall_bruck_nrounds,
    .round = alltoall_bruck_round,
    .work_bytes = alltoall_bruck_work_bytes,
    .npeers = tt_npeers_log,
    .cost = alltoall_bruck_cost,
};
