/* Lanes with a long round trip, which have megabytes in flight.
 *
 * Their packets are paced over the round trip. Both ends send at once, so acknowledgements wait
 * behind data in the other direction and arrive in bursts. The data that they release then follows
 * in bursts. Queues on the path alternate between full and empty, and the link is idle while they
 * are empty (Zhang, Shenker, Clark, "Observations on the dynamics of a congestion control
 * algorithm: the effects of two-way traffic", 1991).
 *
 * Blocked lanes are retried without an event. The send buffer holds all unacknowledged data. The
 * kernel reports a socket as writable only once a third of the buffer is free, to save wake-ups. On
 * a long link the buffer (tcp_wmem, by default at most 4 MiB) limits the rate, which would vary
 * between full and two thirds. A blocked lane is therefore retried about 32 times per round trip:
 * on average 1/64 of the buffer is then empty. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "wire/tcp/tcp.h"

#define FAR_NS 2000000ull           /* minimum round trip of a far peer */
#define TRIES_IN_ROUND_TRIP 32
#define TRY_NS_MIN 1000000ull

bool tt_tcp_socket_is_loopback(int fd)
{
    struct sockaddr_storage a = { 0 }, b = { 0 };
    socklen_t a_bytes = sizeof a, b_bytes = sizeof b;

    if (getsockname(fd, (struct sockaddr *)&a, &a_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&b, &b_bytes) != 0)
        return false;
    if (a.ss_family == AF_INET)
        return ((struct sockaddr_in *)&a)->sin_addr.s_addr ==
               ((struct sockaddr_in *)&b)->sin_addr.s_addr;
    return memcmp(&((struct sockaddr_in6 *)&a)->sin6_addr, &((struct sockaddr_in6 *)&b)->sin6_addr,
                  16) == 0;
}

uint64_t tt_tcp_socket_round_trip_ns(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t bytes = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        info.tcpi_min_rtt == UINT32_MAX)
        return 0;
    return info.tcpi_min_rtt * 1000ull;
}

uint64_t tt_tcp_round_trip_ns(const struct tt_tcp_link *link)
{
    return tt_tcp_socket_round_trip_ns(link->lanes[0].fd);
}

void tt_tcp_pacing_open(struct tt_tcp_lane *lane)
{
    static const uint32_t bytes_per_s = UINT32_MAX - 1;     /* an unreachable limit makes the
                                                               kernel pace; UINT32_MAX means no
                                                               pacing */
    const uint64_t trip_ns = tt_tcp_socket_round_trip_ns(lane->fd),
                   try_ns = trip_ns / TRIES_IN_ROUND_TRIP;

    lane->far_ns = 0;
    if (trip_ns < FAR_NS)
        return;
    lane->far_ns = try_ns > TRY_NS_MIN ? try_ns : TRY_NS_MIN;
    setsockopt(lane->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof bytes_per_s);
}

void tt_tcp_pacing_try(struct tt_tcp *t, uint64_t now_ns)
{
    for (uint32_t i = t->nactive; i-- > 0;) {
        /* losing a link changes the list */
        struct tt_tcp_lane *lane = i < t->nactive ? t->active[i] : NULL;

        if (lane && lane->far_ns && lane->blocked && now_ns >= lane->try_ns)
            tt_tcp_lane_flush(lane, UINT64_MAX);
    }
}

uint64_t tt_tcp_pacing_deadline(const struct tt_tcp *t)
{
    uint64_t deadline_ns = TT_NEVER;

    for (uint32_t i = 0; i < t->nactive; i++) {
        const struct tt_tcp_lane *lane = t->active[i];

        if (lane->far_ns && lane->blocked && lane->try_ns < deadline_ns)
            deadline_ns = lane->try_ns;
    }
    return deadline_ns;
}
