/* Limits what a near lane writes to the kernel at once. The kernel accepts several megabytes. If
 * both ends first send and then read, data in flight has left the cache. 64 MiB each way then take
 * 39 ms, but 30 to 31 ms if each end alternates between sending some and reading (bare sockets, two
 * cores that share 8 MiB). In one direction it makes no difference (17 ms), and 1 MiB in one call
 * is faster than in pieces.
 *
 * While both send much data, near peers therefore take turns: a lane continues in the next poll
 * after its turn. This needs continuous polling (tt_wire.unheard). Before a thread sleeps, the
 * kernel gets all data, or reports when it can accept more. */
#include "wire/tcp/tcp.h"

#define FIRST_TURN (1152u << 10)    /* 1 MiB with its headers */
#define TURN (384u << 10)           /* bytes of the following turns */
#define LOT (48u << 10)             /* bytes of a read that count as much data */
#define TURNS_MAX 16u               /* short turns after such a read */

static uint64_t turn_bytes(struct tt_tcp_lane *lane)
{
    if (!lane->turn_unfinished)
        return FIRST_TURN;
    if (lane->turns == 0)
        return UINT64_MAX;
    lane->turns--;
    return TURN;
}

void tt_tcp_lane_turn(struct tt_tcp_lane *lane)
{
    const struct tt_tcp *t = lane->link->tcp;

    if (lane->paced || !t->wire.unheard) {
        lane->turn_unfinished = false;
        tt_tcp_lane_flush(lane, UINT64_MAX);
        return;
    }
    if (lane->turn != t->npolls) {
        lane->turn = t->npolls;
        lane->turn_left = turn_bytes(lane);
    }
    if (lane->turn_left > 0)
        lane->turn_left = tt_tcp_lane_flush(lane, lane->turn_left);
    lane->turn_unfinished =
        lane->fd >= 0 && !lane->send_closed && (lane->turn_left == 0 || tt_tcp_queued(lane) > 0);
    if (lane->turn_unfinished)
        tt_tcp_mark(lane);
}

void tt_tcp_lane_takes(struct tt_tcp_lane *lane, uint64_t bytes)
{
    if (bytes >= LOT)
        lane->turns = TURNS_MAX;
}
