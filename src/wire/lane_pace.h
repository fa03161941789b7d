/* How long a piece of a lane's bytes the kernel is given at once. Pure.
 *
 * The kernel makes one packet of up to 64 KiB of what it has. A slow link carries that without a break, at 100 Mbit/s for 5 ms, and what anybody
 * else sends waits behind it in each queue on the way: the word that opens a flow, say, without which the other direction stands still. So a slow
 * lane's bytes are written in records of their own, no longer than what its link carries in TT_PIECE_NS. Shorter ones would cost more wakes than they
 * save; on a fast link the kernel may make what it likes. */
#ifndef TT_WIRE_LANE_PACE_H
#define TT_WIRE_LANE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define TT_PIECE_NS 2600000ull
#define TT_PIECE_BYTES_MIN (8u << 10)
#define TT_PIECE_BYTES_MAX (64u << 10)  /* from here on there is no bound: the kernel's packets are no longer */
#define TT_PACE_WINDOW (1u << 20)       /* bytes that the rate is judged by, at least */

/* All zero: nothing is known yet, and pieces have no bound. */
struct tt_lane_pace {
    uint64_t bytes;             /* of a piece: a power of two; 0: no bound */
    uint64_t sent, bulk;        /* since the rate was last judged: all, and what went in long writes */
    uint64_t look_at;           /* of sent */
    uint64_t acked, busy_us;    /* when it was last judged */
};

/* n bytes were taken of a write of `offered`. True: the connection should be looked at, with tt_lane_pace_look. */
bool tt_lane_pace_sent(struct tt_lane_pace *p, uint64_t n, uint64_t offered);

/* What the kernel has counted of the connection so far: bytes that have arrived, and how long some were under way, without the time that
 * the receiver had no room. Short messages wait for one another, and tell nothing of the link: where they were many, all stays as it was. */
void tt_lane_pace_look(struct tt_lane_pace *p, uint64_t acked, uint64_t busy_us);

#endif
