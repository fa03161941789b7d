/* When a segment comes, the kernel acknowledges at once if more than the longest segment that it has seen (its rcv_mss) is not acknowledged yet: it sends a
 * packet, which on loopback the other end of the connection digests before its send returns; that takes 1.5 to 2 us. So a message of 1 KiB behind one of
 * 112 bytes takes as much longer as if it had 10 KiB.
 *
 * A connection on loopback therefore begins with a segment that is longer than eager messages are. The kernel believes the length of two segments in a row instead, if
 * they are as long as each other and not short; so a message that would be as long as the one before gets one more frame. Both are made of
 * acknowledgements that say nothing new. What the sender may have under way does not depend on it: a reader that empties the socket acknowledges every second
 * segment (tcp_peek.c), and a connection begins with ten. */
#include "wire/tcp.h"

#include <stdlib.h>

#define SHORT_BYTES 512u    /* two segments of less are not believed (524, where segments carry timestamps) */

/* Others pay for each byte, or are not read in one piece; and what is urgent, answers and, on one lane, all short messages go over the first. */
static bool matters(const struct tt_tcp_lane *lane)
{
    return lane->number == 0 && !lane->paced && !lane->stream;
}

void tt_tcp_length_open(struct tt_tcp_lane *lane)
{
    uint8_t *frames = matters(lane) ? malloc(TT_TCP_LONG_BYTES) : NULL;

    if (!frames)
        return;
    tt_tcp_acknowledge_again(lane->link, frames, TT_TCP_LONG_BYTES / TT_FRAME_BYTES);
    tt_tcp_lane_flush(lane, UINT64_MAX);
}

bool tt_tcp_length_is_again(const struct tt_tcp_lane *lane, uint64_t bytes)
{
    const struct tt_tcp_queue *q = &lane->queues[TT_TCP_REPLY];

    return lane->last_bytes && bytes == lane->last_bytes && matters(lane) &&
           q->depth - (q->tail - q->head) > TT_TCP_REQUESTS + 2;     /* for what has to be said */
}

void tt_tcp_length_sent(struct tt_tcp_lane *lane, uint64_t bytes)
{
    if (bytes >= SHORT_BYTES)
        lane->last_bytes = bytes;
}
