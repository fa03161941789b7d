/* The number of lanes of a link.
 *
 * If the user has not set it, a near link has one (or one per rail), and a far link may have more
 * (tcp_demand.c). One measured round trip may be long because a host was busy. A link is therefore
 * far only if three round trips of its first connection are long: those of SYN, of SYN and ACK, and
 * of HELLO.
 *
 * If descriptors are scarce, links get fewer lanes. Each lane takes one of the process's
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

/* Returns whether the connection's peer is far. unknown: the result if there is no measurement yet,
 * as after a lost SYN. */
static bool is_far(const struct tt_tcp *t, int fd, bool unknown)
{
    const uint64_t trip_ns = tt_tcp_socket_round_trip_ns(fd);

    if (!t->far_ns)
        return true;
    return !tt_tcp_socket_is_loopback(fd) && (trip_ns ? trip_ns >= t->far_ns : unknown);
}

/* Returns how many lanes a link should have, by the round trip of its first connection. */
static uint32_t lanes_for(const struct tt_tcp_link *link, int fd)
{
    const struct tt_tcp *t = link->tcp;
    const bool more = t->lanes_free && t->far_lanes > t->conf.lanes;

    return more && is_far(t, fd, true) ? t->far_lanes : t->conf.lanes;
}

/* Returns how many further lanes, at most `most`, each of `peers` unconnected peers may have. */
static uint32_t lanes_per_peer(const struct tt_tcp *t, uint32_t most, uint32_t peers)
{
    const uint32_t kept = RESERVE + t->promised + peers;
    const uint32_t free = tt_descriptors_free(kept + most * peers),
                   spare = free > kept ? free - kept : 0;

    return spare / peers < most ? spare / peers : most;
}

/* The connection that carries the offer already has its descriptor. */
uint32_t tt_tcp_offer(struct tt_tcp_link *link, int fd)
{
    struct tt_tcp *t = link->tcp;
    const uint32_t others = t->conf.nranks - 1 > t->noffers ? t->conf.nranks - 1 - t->noffers : 1;
    uint32_t most;

    if (link->offer)
        return link->offer;
    most = lanes_for(link, fd);
    link->offer = 1 + (most > 1 ? lanes_per_peer(t, most - 1, others) : 0);
    t->noffers++;
    if (link->offer < most)
        tt_log(TT_LOG_INFO,
               "tcp: %u of %u lanes to rank %u: few descriptors are free (raise RLIMIT_NOFILE with "
               "ulimit -n)",
               link->offer, most, link->peer);
    tt_tcp_set_pending_lanes(link, link->offer - 1);
    return link->offer;
}

void tt_tcp_offer_confirm(struct tt_tcp_link *link, int fd)
{
    const struct tt_tcp *t = link->tcp;

    if (!t->lanes_free || link->offer <= t->conf.lanes || is_far(t, fd, false))
        return;
    link->offer = t->conf.lanes;
    tt_tcp_set_pending_lanes(link, link->offer - 1);
}

bool tt_tcp_may_have_lane(void)
{
    return tt_descriptors_free(RESERVE) == RESERVE;
}
