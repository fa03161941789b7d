/* Send and receive: one put, one wait. The peer is `root`; the receiver determines the
 * destination. */
#include "algo/algos.h"

static void p2p_direct_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)k;
    if (c->kind == TT_SEND)
        tt_sched_put(s, c->root, tt_src(0), tt_there(), c->bytes, 0);
    else
        tt_sched_wait(s, c->root, tt_dst(0), c->bytes, 0);
}

static uint32_t p2p_direct_npeers(const struct tt_coll *c)
{
    (void)c;
    return 1;
}

static struct tt_cost p2p_direct_cost(const struct tt_coll *c)
{
    return (struct tt_cost){ .messages = 1, .bytes = (double)c->bytes };
}

const struct tt_algo tt_algo_send_direct = {
    .name = "send_direct", .summary = "one put",
    .kind = TT_SEND, .fits = tt_fits_always, .nrounds = tt_rounds_one, .round = p2p_direct_round,
    .work_bytes = tt_work_none, .npeers = p2p_direct_npeers, .cost = p2p_direct_cost,
};

const struct tt_algo tt_algo_recv_direct = {
    .name = "recv_direct", .summary = "one wait",
    .kind = TT_RECV, .fits = tt_fits_always, .nrounds = tt_rounds_one, .round = p2p_direct_round,
    .work_bytes = tt_work_none, .npeers = p2p_direct_npeers, .cost = p2p_direct_cost,
};
