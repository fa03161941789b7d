/* Lanes with a long round trip, which hold megabytes.
 *
 * Their packets are spread over the round trip: both ends send at once, and acknowledgements wait behind what goes the other way, so they come in
 * bunches, and what they let go follows in bunches; queues on the way run full and empty, and the link stands still meanwhile (Zhang, Shenker,
 * Clark, "Observations on the dynamics of a congestion control algorithm: the effects of two-way traffic", 1991).
 *
 * And their bytes are given to the kernel as soon as it has room. Its send buffer holds all that is not acknowledged, and it calls a socket writable
 * only once a third of the buffer is free: as wakes for less would not pay. On a long link the buffer (tcp_wmem, at most 4 MiB by default) is what
 * limits the rate; it would run between full and two thirds, and the rate with it. So a lane that is blocked is tried without being asked for, some 32 times in a round
 * trip: on the average 1/64 of the buffer is empty. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "wire/tcp.h"

#define FAR_NS 2000000ull           /* a round trip from which on a peer is far */
#define TRIES_IN_ROUND_TRIP 32
#define TRY_NS_MIN 1000000ull

/* The shortest of a connection so far. */
static uint64_t round_trip_ns(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t bytes = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_min_rtt == UINT32_MAX)
        return 0;
    return info.tcpi_min_rtt * 1000ull;
}

uint64_t tt_tcp_round_trip_ns(const struct tt_tcp_link *link)
{
    return round_trip_ns(link->lanes[0].fd);
}

void tt_tcp_far_open(struct tt_tcp_lane *lane)
{
    static const uint32_t bytes_per_s = UINT32_MAX - 1;     /* a limit that nobody reaches has the kernel pace; UINT32_MAX would be none */
    const uint64_t trip_ns = round_trip_ns(lane->fd), try_ns = trip_ns / TRIES_IN_ROUND_TRIP;

    lane->far_ns = 0;
    if (trip_ns < FAR_NS)
        return;
    lane->far_ns = try_ns > TRY_NS_MIN ? try_ns : TRY_NS_MIN;
    setsockopt(lane->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof bytes_per_s);
}

void tt_tcp_far_blocked(struct tt_tcp_lane *lane)
{
    lane->try_ns = tt_now_ns() + lane->far_ns;
}

void tt_tcp_far_try(struct tt_tcp *t, uint64_t now_ns)
{
    for (uint32_t i = t->nactive; i-- > 0;) {
        struct tt_tcp_lane *lane = i < t->nactive ? t->active[i] : NULL;    /* losing a link changes the list */

        if (lane && lane->far_ns && lane->blocked && now_ns >= lane->try_ns)
            tt_tcp_lane_flush(lane, UINT64_MAX);
    }
}

uint64_t tt_tcp_far_deadline(const struct tt_tcp *t)
{
    uint64_t deadline_ns = TT_NEVER;

    for (uint32_t i = 0; i < t->nactive; i++) {
        const struct tt_tcp_lane *lane = t->active[i];

        if (lane->far_ns && lane->blocked && lane->try_ns < deadline_ns)
            deadline_ns = lane->try_ns;
    }
    return deadline_ns;
}
