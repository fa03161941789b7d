/* Maximum bytes of one write to the kernel on a slow lane. Pure.
 *
 * The kernel may make one packet of up to 64 KiB from a write. A slow link sends such a packet
 * without interruption: 5 ms at 100 Mbit/s. Other packets wait behind it in every queue on the
 * path, for example a credit on which the other direction depends. On a slow lane, data is
 * therefore written in records no longer than the link sends in TT_PIECE_NS. Shorter records would
 * cost more wake-ups than they save. On a fast link there is no limit. */
#ifndef TT_WIRE_LANE_PACE_H
#define TT_WIRE_LANE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define TT_PIECE_NS 2600000ull
#define TT_PIECE_BYTES_MIN (8u << 10)
/* from this size on there is no limit: the kernel's packets are not longer */
#define TT_PIECE_BYTES_MAX (64u << 10)
#define TT_PACE_WINDOW (1u << 20)       /* minimum bytes between two measurements of the rate */

/* All zero: no measurement yet, and no limit. */
struct tt_lane_pace {
    uint64_t bytes;             /* limit per write: a power of two; 0: none */
    uint64_t sent, bulk;        /* since the last measurement: all bytes, and those of long
                                   writes */
    uint64_t look_at;           /* value of `sent` at the next measurement */
    uint64_t acked, busy_us;    /* values at the last measurement */
};

/* Records that n bytes of a write of `offered` were accepted. Returns true if a measurement with
 * tt_lane_pace_look is due. */
bool tt_lane_pace_sent(struct tt_lane_pace *p, uint64_t n, uint64_t offered);

/* Updates the limit from the kernel's counters of the connection: acknowledged bytes, and the time
 * with data in flight, excluding times with a closed receive window. Short messages wait for one
 * another and do not show the rate: if they dominate, the limit is unchanged. */
void tt_lane_pace_look(struct tt_lane_pace *p, uint64_t acked, uint64_t busy_us);

#endif
