/* How much of a near lane's queues the kernel is given at once. It takes some megabytes, and two ends that both send and then both read find that what is on its way
 * has left the cache: 64 MiB each way at once take 39 ms so, and 30 to 31 if each sends a little and then reads what has come (bare sockets, two cores that share 8 MiB). One way it is 17 and 17,
 * and 1 MiB in one call is faster than in pieces.
 *
 * So near peers take turns while both send a lot: a lane that has had its turn goes on in the next poll. That is for those who poll all the time (tt_wire.unheard): before somebody sleeps,
 * the kernel has all, or tells when it takes more. */
#include "wire/tcp.h"

#define FIRST_TURN (1152u << 10)    /* 1 MiB with its headers */
#define TURN (384u << 10)           /* of what follows */
#define LOT (48u << 10)             /* that comes at once */
#define TURNS_MAX 16u               /* since that last happened */

static uint64_t turn_bytes(struct tt_tcp_lane *lane)
{
    if (!lane->goes_on)
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
        lane->goes_on = false;
        tt_tcp_lane_flush(lane, UINT64_MAX);
        return;
    }
    if (lane->turn != t->npolls) {
        lane->turn = t->npolls;
        lane->turn_left = turn_bytes(lane);
    }
    if (lane->turn_left > 0)
        lane->turn_left = tt_tcp_lane_flush(lane, lane->turn_left);
    lane->goes_on = lane->fd >= 0 && !lane->deaf && (lane->turn_left == 0 || tt_tcp_queued(lane) > 0);
    if (lane->goes_on)
        tt_tcp_mark(lane);
}

void tt_tcp_lane_takes(struct tt_tcp_lane *lane, uint64_t bytes)
{
    if (bytes >= LOT)
        lane->turns = TURNS_MAX;
}
