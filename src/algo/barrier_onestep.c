/* One-step barrier.
 * Each rank signals every other rank, and returns when all signals have arrived: n - 1 messages of
 * one byte, one latency. The byte's value is not used; signals arrive in separate bytes, so they
 * may arrive early. For few ranks, especially if they share cores. A waiting rank yields its core,
 * so in every round of dissemination all ranks must run on the core once more; here each rank must
 * run only twice, to signal and to receive. */
#include "algo/algos.h"
#include "algo/blocks.h"

#define FEW 8

static bool barrier_onestep_fits(const struct tt_coll *c)
{
    return c->nranks <= FEW;
}

/* This rank's token, then a place for the token of each rank. */
static uint64_t barrier_onestep_work_bytes(const struct tt_coll *c)
{
    return 1 + c->nranks;
}

static void barrier_onestep_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank;

    (void)k;
    for (uint32_t i = 1; i < n; i++)
        tt_sched_put(s, (r + i) % n, tt_work(0), tt_work(1 + r), 1, 0);
    for (uint32_t i = 1; i < n; i++)
        tt_sched_wait(s, (r + n - i) % n, tt_work(1 + (r + n - i) % n), 1, 0);
}

static struct tt_cost barrier_onestep_cost(const struct tt_coll *c)
{
    return (struct tt_cost){ .messages = tt_cost_burst(c->nranks - 1) };
}

const struct tt_algo tt_algo_barrier_onestep = {
    .name = "barrier_onestep",
    .summary = "few ranks",
    .needs = "8 ranks or fewer",
    .kind = TT_BARRIER,
    .fits = barrier_onestep_fits,
    .nrounds = tt_rounds_one,
    .round = barrier_onestep_round,
    .work_bytes = barrier_onestep_work_bytes,
    .npeers = tt_npeers_all,
    .cost = barrier_onestep_cost,
};
