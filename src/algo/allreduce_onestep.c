/* One-step all-reduce. Shapes: src[bytes], dst[bytes].
 * Each rank puts its whole vector to every other rank, and reduces all vectors in rank order, so
 * results are bitwise identical. One latency, (n - 1) * bytes in and out: for short vectors, mainly
 * in shared memory, where it takes one store to each peer and one load from each.
 * Few ranks reduce arrivals directly from their buffers. More ranks first collect them in WORK, as
 * arrival order differs from rank order. In place, the running value must not overwrite the input
 * before the input is used. */
#include "algo/algos.h"
#include "algo/blocks.h"

#define FEW 6       /* ranks whose exchanges and reductions fit in one round */
#define EACH 8      /* exchanges of a round with more ranks */

static bool allreduce_onestep_fits(const struct tt_coll *c)
{
    return c->bytes <= TT_WORK_MAX / (c->nranks + 1);
}

static uint64_t exchange_rounds(const struct tt_coll *c)
{
    return (c->nranks - 1 + EACH - 1) / EACH;
}

static uint64_t allreduce_onestep_nrounds(const struct tt_coll *c)
{
    if (c->nranks <= FEW)
        return 1;
    return exchange_rounds(c) + (c->nranks - 1 + TT_ROUND_STEPS_MAX - 1) / TT_ROUND_STEPS_MAX;
}

/* WORK: the running value, and with many ranks the vector of each rank. */
static uint64_t allreduce_onestep_work_bytes(const struct tt_coll *c)
{
    if (c->nranks <= FEW)
        return c->in_place && c->nranks > 2 ? c->bytes : 0;
    return c->bytes * (c->nranks + 1);
}

static struct tt_ref arrival(const struct tt_coll *c, uint32_t rank)
{
    return c->nranks <= FEW ? tt_pipe(rank) : tt_work((rank + 1) * c->bytes);
}

static struct tt_ref vector(const struct tt_coll *c, uint32_t rank)
{
    return rank == c->rank ? tt_src(0) : arrival(c, rank);
}

/* Adds rank j's vector, 1 <= j < nranks, to the running value of ranks 0 .. j - 1. */
static void allreduce_onestep_take(struct tt_sched *s, const struct tt_coll *c, uint32_t j)
{
    const bool last = j == c->nranks - 1;
    const struct tt_ref running = c->in_place ? tt_work(0) : tt_dst(0);

    tt_sched_reduce(s, last ? tt_dst(0) : running, j == 1 ? vector(c, 0) : running, vector(c, j),
                    c->bytes, last);
}

static void few(struct tt_sched *s, const struct tt_coll *c)
{
    const uint32_t n = c->nranks, r = c->rank;

    tt_sched_own(s, c);
    for (uint32_t i = 1; i < n; i++)
        tt_sched_put(s, (r + i) % n, tt_src(0), tt_pipe(r), c->bytes, 0);
    for (uint32_t j = 0; j < n; j++) {
        if (j != r)
            tt_sched_wait(s, j, tt_pipe(j), c->bytes, 0);
        if (j > 0)
            allreduce_onestep_take(s, c, j);
    }
}

static void allreduce_onestep_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank;

    if (n <= FEW) {
        few(s, c);
        return;
    }
    if (k < exchange_rounds(c)) {
        for (uint32_t i = (uint32_t)k * EACH + 1; i < n && i <= (k + 1) * EACH; i++) {
            const uint32_t from = (r + n - i) % n;

            tt_sched_put(s, (r + i) % n, tt_src(0), arrival(c, r), c->bytes, 0);
            tt_sched_wait(s, from, arrival(c, from), c->bytes, 0);
        }
        return;
    }
    k -= exchange_rounds(c);
    for (uint32_t j = (uint32_t)k * TT_ROUND_STEPS_MAX + 1;
         j < n && j <= (k + 1) * TT_ROUND_STEPS_MAX; j++)
        allreduce_onestep_take(s, c, j);
}

static struct tt_cost allreduce_onestep_cost(const struct tt_coll *c)
{
    const double bytes = (double)c->bytes * (c->nranks - 1);

    return (struct tt_cost){ .messages = tt_cost_burst(c->nranks - 1),
                             .bytes = bytes,
                             .reduced = bytes };
}

const struct tt_algo tt_algo_allreduce_onestep = {
    .name = "allreduce_onestep", .summary = "short vectors, few ranks, shared memory",
    .needs = "nranks + 1 vectors of at most 256 KiB in total",
    .kind = TT_ALLREDUCE,
    .fits = allreduce_onestep_fits,
    .fits_named = tt_fits_always,
    .nrounds = allreduce_onestep_nrounds,
    .round = allreduce_onestep_round,
    .work_bytes = allreduce_onestep_work_bytes,
    .npeers = tt_npeers_all,
    .cost = allreduce_onestep_cost,
};
