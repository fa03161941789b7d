/* Dissemination barrier.
 * In round k every rank signals the rank 2^k higher that it, and all ranks from which it has
 * received signals, have entered. After ceil(log2 n) rounds every rank has been signaled by all.
 * The signal is one byte with any value. Each received signal is copied over it, so the next one is
 * sent only after all earlier signals have arrived. Signals arrive in separate bytes, so they may
 * arrive early.
 * D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", 1988. */
#include "algo/algos.h"
#include "algo/blocks.h"

static uint64_t barrier_dissemination_work_bytes(const struct tt_coll *c)
{
    return 1 + tt_log2_up(c->nranks);
}

static void barrier_dissemination_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank, rounds = tt_log2_up(n);
    const struct tt_ref heard = tt_work(0), token = tt_work(1 + k);

    if (k >= rounds)
        return;
    tt_sched_put(s, (r + (1u << k)) % n, heard, token, 1, (uint32_t)k);
    tt_sched_wait(s, (r + n - (1u << k)) % n, token, 1, (uint32_t)k);
    if (k + 1 < rounds)
        tt_sched_copy(s, heard, token, 1);
}

static struct tt_cost barrier_dissemination_cost(const struct tt_coll *c)
{
    return (struct tt_cost){ .messages = tt_log2_up(c->nranks) };
}

const struct tt_algo tt_algo_barrier_dissemination = {
    .name = "barrier_dissemination",
    .summary = "any number of ranks",
    .kind = TT_BARRIER,
    .fits = tt_fits_always,
    .nrounds = tt_rounds_log,
    .round = barrier_dissemination_round,
    .work_bytes = barrier_dissemination_work_bytes,
    .npeers = tt_npeers_log,
    .cost = barrier_dissemination_cost,
};
