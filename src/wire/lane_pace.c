#include "wire/lane_pace.h"

bool tt_lane_pace_sent(struct tt_lane_pace *p, uint64_t n, uint64_t offered)
{
    p->sent += n;
    if (offered >= TT_PIECE_BYTES_MIN)
        p->bulk += n;
    return p->sent >= p->look_at + TT_PACE_WINDOW;
}

void tt_lane_pace_look(struct tt_lane_pace *p, uint64_t acked, uint64_t busy_us)
{
    const uint64_t came = acked - p->acked, took_us = busy_us - p->busy_us;
    const bool mostly_bulk = p->bulk >= p->sent - p->sent / 4;
    uint64_t bytes = TT_PIECE_BYTES_MIN;

    p->look_at = p->sent;
    if (came < TT_PACE_WINDOW / 2)
        return;                 /* most of the written data is still in flight */
    p->acked = acked;
    p->busy_us = busy_us;
    p->sent = p->bulk = p->look_at = 0;
    if (!mostly_bulk)
        return;
    while (bytes < TT_PIECE_BYTES_MAX && bytes * took_us * 1000 < came * TT_PIECE_NS)
        bytes *= 2;
    p->bytes = bytes < TT_PIECE_BYTES_MAX ? bytes : 0;
}
