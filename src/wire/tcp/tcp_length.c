/* Segment lengths. On receipt of a segment, the kernel acknowledges at once if more than the
 * longest segment seen (its rcv_mss) is unacknowledged. It sends a packet, which on loopback the
 * other end processes before the send returns; that takes 1.5 to 2 us. A message of 1 KiB after one
 * of 112 bytes therefore takes as long as one of 10 KiB.
 *
 * A connection on loopback therefore starts with a segment longer than eager messages. The kernel
 * lowers its estimate after two equally long segments in a row, unless they are short. A message as
 * long as the previous one therefore gets one more frame. Both fillers are redundant
 * acknowledgements. The number of segments in flight is not affected: a reader that empties the
 * socket acknowledges every second segment (tcp_peek.c), and a connection starts with a window of
 * ten. */
#include "wire/tcp/tcp.h"

#include <stdlib.h>

/* two shorter segments do not lower the estimate (524 with timestamps) */
#define SHORT_BYTES 512u

/* Returns whether lengths matter. Other lanes pay for each byte, or are not read in one piece. Lane
 * 0 carries urgent frames, responses and, as a single lane, all short messages. */
static bool matters(const struct tt_tcp_lane *lane)
{
    return lane->number == 0 && !lane->paced && !lane->stream;
}

void tt_tcp_length_open(struct tt_tcp_lane *lane)
{
    uint8_t *frames = matters(lane) ? malloc(TT_TCP_LONG_BYTES) : NULL;

    if (!frames)
        return;
    tt_tcp_acknowledge_redundantly(lane->link, frames, TT_TCP_LONG_BYTES / TT_FRAME_BYTES);
    tt_tcp_lane_flush(lane, UINT64_MAX);
}

bool tt_tcp_length_is_again(const struct tt_tcp_lane *lane, uint64_t bytes)
{
    const struct tt_tcp_queue *q = &lane->queues[TT_TCP_REPLY];

    return lane->last_bytes && bytes == lane->last_bytes && matters(lane) &&
           q->depth - (q->tail - q->head) > TT_TCP_REQUESTS + 2;     /* for responses */
}

void tt_tcp_length_sent(struct tt_tcp_lane *lane, uint64_t bytes)
{
    if (bytes >= SHORT_BYTES)
        lane->last_bytes = bytes;
}
