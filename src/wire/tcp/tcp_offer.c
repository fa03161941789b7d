/* The number of lanes per link if descriptors are scarce. Each lane takes one of the process's
 * descriptors (RLIMIT_NOFILE). So do control connections, files of the program, and the first lanes
 * of peers that are not connected yet. A reserve is kept for these; free descriptors beyond it are
 * shared by the peers that are still to connect. Each end offers a number of lanes in its HELLO or
 * WELCOME, and the lower offer is used. */
#include "wire/tcp/tcp.h"

#include "base/descriptors.h"
#include "base/log.h"

/* for control connections, handshakes, another communicator, files of the program */
#define RESERVE 32u

void tt_tcp_set_pending_lanes(struct tt_tcp_link *link, uint32_t lanes)
{
    link->tcp->promised += lanes - link->promised;
    link->promised = lanes;
}

/* Further lanes for one of `peers` peers that are not connected yet. */
static uint32_t lanes_per_peer(const struct tt_tcp *t, uint32_t peers)
{
    const uint32_t most = t->conf.lanes - 1, kept = RESERVE + t->promised + peers;
    const uint32_t free = tt_descriptors_free(kept + most * peers),
                   spare = free > kept ? free - kept : 0;

    return spare / peers < most ? spare / peers : most;
}

/* The connection that carries the offer already has its descriptor. */
uint32_t tt_tcp_offer(struct tt_tcp_link *link)
{
    struct tt_tcp *t = link->tcp;

    if (t->conf.lanes == 1 || link->offer)
        return link->offer ? link->offer : 1;
    link->offer = 1 + lanes_per_peer(
                          t, t->conf.nranks - 1 > t->noffers ? t->conf.nranks - 1 - t->noffers : 1);
    t->noffers++;
    if (link->offer < t->conf.lanes)
        tt_log(TT_LOG_INFO,
               "tcp: %u of %u lanes to rank %u: few descriptors are free (raise RLIMIT_NOFILE with "
               "ulimit -n)",
               link->offer, t->conf.lanes, link->peer);
    tt_tcp_set_pending_lanes(link, link->offer - 1);
    return link->offer;
}

bool tt_tcp_may_have_lane(void)
{
    return tt_descriptors_free(RESERVE) == RESERVE;
}
