/* Alltoallv by hosts. Shapes: src[nranks][send_bytes], dst[nranks][recv_bytes], rows of any size,
 * anywhere.
 * Pairs of hosts exchange in steps. In step d, hosts a and b with a + b = d (mod hosts) exchange:
 * each rank of one with each rank of the other, in both directions at once. All rails are busy, no
 * host receives from several at once, and it can run in place. In one or two of the steps, the
 * ranks of a host exchange with each other. The messages are those of the direct algorithm, in
 * another order. Rows are not packed per host as in the two-level alltoall: only the two ends of a
 * row have its size, so no other rank can forward it. For the same reason the receiver determines
 * the destination. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

/* exchanges of a round: at most three schedule steps each; its first also copies */
#define EACH 5

static uint64_t alltoallv_by_hosts_nrounds(const struct tt_coll *c)
{
    struct tt_layout alone;
    const struct tt_layout *l = tt_layout_of(c, &alone);

    return l->nhosts * tt_phase_rounds(tt_layout_widest(l), EACH);
}

/* Each host has as many places as the largest host has ranks; ranks whose places add up to i
 * exchange. Returns false if the place is empty. */
static bool rank_at(const struct tt_layout *l, uint32_t host, uint32_t place, uint32_t *out)
{
    const uint32_t local = place % tt_layout_widest(l);

    if (local >= tt_layout_host_ranks(l, host))
        return false;
    *out = tt_layout_rank(l, host, local);
    return true;
}

static void alltoallv_by_hosts_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    struct tt_layout alone;
    const struct tt_layout *l = tt_layout_of(c, &alone);
    const uint32_t widest = tt_layout_widest(l), host = tt_layout_host(l, c->rank),
                   me = tt_layout_local(l, c->rank);
    const uint64_t rounds = tt_phase_rounds(widest, EACH);
    const uint32_t step = (uint32_t)(k / rounds), first = (uint32_t)(k % rounds) * EACH;
    const uint32_t other = (step + l->nhosts - host) % l->nhosts;
    uint32_t peer;

    for (uint32_t i = first; i < widest && i < first + EACH; i++)
        if (rank_at(l, other, i + widest - me, &peer) && peer != c->rank)
            tt_phase_give(s, c, peer);
    for (uint32_t i = first; i < widest && i < first + EACH; i++)
        if (rank_at(l, other, i + widest - me, &peer) && peer != c->rank)
            tt_phase_take(s, c, peer);
    if (k == 0)
        tt_sched_own(s, c);
}

/* All ranks must choose equally, so the cost must not depend on the sizes, which differ by rank. */
static struct tt_cost alltoallv_by_hosts_cost(const struct tt_coll *c)
{
    return (struct tt_cost){ .messages = tt_cost_burst(c->nranks - 1) };
}

const struct tt_algo tt_algo_alltoallv_by_hosts = {
    .name = "alltoallv_by_hosts",
    .summary = "any sizes, several ranks per host",
    .kind = TT_ALLTOALLV,
    .fits = tt_fits_always,
    .nrounds = alltoallv_by_hosts_nrounds,
    .round = alltoallv_by_hosts_round,
    .work_bytes = tt_work_none,
    .npeers = tt_npeers_all,
    .cost = alltoallv_by_hosts_cost,
};
