/* Limits the bytes that a near lane writes to the kernel in one poll (its quota). The kernel
 * accepts several megabytes. If both ends first send and then read, data in flight is evicted from
 * the cache. 64 MiB each way then take 39 ms, but 30 to 31 ms if each end alternates between
 * sending some and reading (bare sockets, two cores that share 8 MiB). In one direction, a limit
 * makes no difference (17 ms), and 1 MiB in one call is faster than in pieces.
 *
 * While both send much data, near peers therefore write with short quotas: a lane whose quota is
 * exhausted continues in the next poll. This needs continuous polling (tt_wire.unheard). Before a
 * thread sleeps, the kernel gets all data, or reports when it can accept more. */
#include "wire/tcp/tcp.h"

#define FIRST_QUOTA (1152u << 10)    /* 1 MiB with its headers */
#define SHORT_QUOTA (384u << 10)           /* bytes of the following quotas */
#define LOT (48u << 10)             /* minimum bytes of a read that start short quotas */
#define SHORT_QUOTAS_MAX 16u               /* number of short quotas after such a read */

static uint64_t quota_bytes(struct tt_tcp_lane *lane)
{
    if (!lane->quota_exhausted)
        return FIRST_QUOTA;
    if (lane->short_quotas == 0)
        return UINT64_MAX;
    lane->short_quotas--;
    return SHORT_QUOTA;
}

void tt_tcp_lane_write(struct tt_tcp_lane *lane)
{
    const struct tt_tcp *t = lane->link->tcp;

    if (lane->paced || !t->wire.unheard) {
        lane->quota_exhausted = false;
        tt_tcp_lane_flush(lane, UINT64_MAX);
        return;
    }
    if (lane->quota_poll != t->npolls) {
        lane->quota_poll = t->npolls;
        lane->quota_left = quota_bytes(lane);
    }
    if (lane->quota_left > 0)
        lane->quota_left = tt_tcp_lane_flush(lane, lane->quota_left);
    lane->quota_exhausted =
        lane->fd >= 0 && !lane->send_closed && (lane->quota_left == 0 || tt_tcp_queued(lane) > 0);
    if (lane->quota_exhausted)
        tt_tcp_mark(lane);
}

void tt_tcp_lane_takes(struct tt_tcp_lane *lane, uint64_t bytes)
{
    if (bytes >= LOT)
        lane->short_quotas = SHORT_QUOTAS_MAX;
}
