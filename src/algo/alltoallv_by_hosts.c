/* Alltoallv by hosts. Shapes: src[nranks][send_bytes], dst[nranks][recv_bytes], rows of any size, anywhere.
 * Hosts take turns: at distance d every host sends to the host d further on and receives from the one as far back, each of its ranks to each of
 * theirs, so that all rails work and no host is sent to by several at once. The own host is distance 0. The traffic of the direct
 * one in another order. Rows are not packed per host as in the two-level alltoall: who would pass them on does not know their sizes,
 * which only their two ends do, so that where they go is for the receiver to say. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"

#define EACH 7      /* exchanges of a round; its first also copies */

static uint64_t nrounds(const struct tt_coll *c)
{
    struct tt_layout alone;
    const struct tt_layout *l = tt_layout_of(c, &alone);

    return l->nhosts * tt_phase_rounds(tt_layout_widest(l), EACH);
}

/* With places for as many ranks as the widest host has, place p of a host sends to place p + i of another. False: that one is empty. */
static bool rank_at(const struct tt_layout *l, uint32_t host, uint32_t place, uint32_t *out)
{
    const uint32_t local = place % tt_layout_widest(l);

    if (local >= tt_layout_host_ranks(l, host))
        return false;
    *out = tt_layout_rank(l, host, local);
    return true;
}

static void round_k(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    struct tt_layout alone;
    const struct tt_layout *l = tt_layout_of(c, &alone);
    const uint32_t widest = tt_layout_widest(l), host = tt_layout_host(l, c->rank), me = tt_layout_local(l, c->rank);
    const uint64_t rounds = tt_phase_rounds(widest, EACH);
    const uint32_t far = (uint32_t)(k / rounds), first = (uint32_t)(k % rounds) * EACH;
    const uint32_t after = (host + far) % l->nhosts, before = (host + l->nhosts - far) % l->nhosts;
    uint32_t peer;

    for (uint32_t i = first; i < widest && i < first + EACH; i++)
        if (rank_at(l, after, me + i, &peer) && peer != c->rank)
            tt_sched_put(s, peer, tt_src(c->send_displs[peer]), tt_there(), c->send_bytes[peer], 0);
    for (uint32_t i = first; i < widest && i < first + EACH; i++)
        if (rank_at(l, before, me + widest - i, &peer) && peer != c->rank)
            tt_sched_wait(s, peer, tt_dst(c->recv_displs[peer]), c->recv_bytes[peer], 0);
    if (k == 0)
        tt_sched_own(s, c);
}

/* All ranks must choose alike, so the cost may not depend on the sizes, which differ by rank. */
static struct tt_cost cost(const struct tt_coll *c)
{
    return (struct tt_cost){ .messages = tt_cost_burst(c->nranks - 1) };
}

const struct tt_algo tt_algo_alltoallv_by_hosts = {
    .name = "alltoallv_by_hosts", .summary = "any sizes, several ranks to a host",
    .kind = TT_ALLTOALLV, .fits = tt_fits_always, .nrounds = nrounds, .round = round_k,
    .work_bytes = tt_work_none, .npeers = tt_npeers_all, .cost = cost,
};
