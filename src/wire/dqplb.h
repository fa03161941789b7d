/* Dynamic queue pair load balancing (DQPLB): several lanes to a peer, each with a limit on
 * outstanding data, and in-order delivery of messages. Pure.
 * Source: "Collective Communication for 100k+ GPUs", section 4.4.
 *
 * The sender cuts messages into numbered segments and distributes them to its lanes round-robin. It
 * skips a full lane until a segment of it completes, so a slow lane carries what it can and does
 * not block the others. Each lane is ordered (a reliable queue pair, a TCP connection); there is no
 * order among lanes. Each segment carries a 32-bit word, the "immediate":
 *
 *  bit  31      notify: last segment of a message
 *  bit  30      fast: a message of one segment, on lane 0
 *  bits 29..24  0
 *  bits 23..0   segment number; wraps
 *
 * The receiver marks segments received out of order in a bitmap. It reports a message when all
 * segments up to its last have arrived: each message exactly once, in the order in which they were
 * begun. Fast messages are numbered like all others and do not overtake.
 *
 * A lane failure leaves segments in doubt: they may or may not have arrived. A retransmit could
 * write into a buffer that its owner has already reclaimed. Therefore both ends first take the lane
 * down, after which nothing can arrive on it. Then the receiver reports the segments that it has,
 * and the sender retransmits the rest over other lanes.
 *
 * At most `window` segments are in flight, from the oldest incomplete one to the newest. A slow
 * lane therefore blocks the others only when they are a window ahead of it.
 *
 * Lane selection is in dqplb_lanes.h. It and the receiver can be used alone, by transports that
 * retransmit in another way: the tcp transport does (docs/lanes.md). */
#ifndef TT_WIRE_DQPLB_H
#define TT_WIRE_DQPLB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "topo/layout.h"
#include "wire/dqplb_lanes.h"

#define TT_DQPLB_NOTIFY (1u << 31)
#define TT_DQPLB_FAST (1u << 30)
#define TT_DQPLB_SEQ_MASK 0xffffffu

/* maximum window: far below half of the range of segment numbers, so old and new segments can be
 * distinguished */
#define TT_DQPLB_WINDOW_MAX 4096u

/* Returns the word of a segment. */
static inline uint32_t tt_dqplb_word(uint64_t number, bool last, bool fast)
{
    return ((uint32_t)number & TT_DQPLB_SEQ_MASK) | (last ? TT_DQPLB_NOTIFY : 0) |
           (fast ? TT_DQPLB_FAST : 0);
}

/* Returns the distance from `near` to the number with these 24 bits; negative: behind. Valid up to
 * half of the range of numbers. */
static inline int32_t tt_dqplb_ahead(uint64_t near, uint32_t number)
{
    const uint32_t ahead = (number - (uint32_t)near) & TT_DQPLB_SEQ_MASK;

    return ahead <= TT_DQPLB_SEQ_MASK / 2 ? (int32_t)ahead
                                          : (int32_t)ahead - (int32_t)TT_DQPLB_SEQ_MASK - 1;
}

/* ---- limits ---- */

struct tt_dqplb_limits {
    uint32_t lanes;         /* 1..TT_DQPLB_LANES_MAX */
    uint32_t outstanding;   /* maximum number of outstanding segments per lane, at least 1 */
    uint32_t window;        /* maximum number of segments in flight on all lanes: a power of two,
                               1..TT_DQPLB_WINDOW_MAX */
    uint64_t segment_bytes; /* at least 1 */
    uint64_t lane_bytes;    /* maximum number of outstanding bytes per lane; 0: limited by
                               segments only */
};

/* Clamps `value` to [least, most]. */
static inline uint32_t tt_dqplb_within(uint32_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Returns the default number of lanes to a peer at this distance. */
uint32_t tt_dqplb_lane_count(enum tt_distance distance);

/* Returns the limits of `lanes` lanes to a peer at this distance, with a window of `window`
 * segments. Near peers get few, short segments, to keep switch queues short. If the bandwidth-delay
 * product is larger (bytes_per_s over all lanes, rtt_ns; 0: unknown), all lanes together may have
 * twice that product outstanding. A lane with a quarter of the others' rate must not fill the
 * window. Segments therefore grow, up to 4 MiB, instead of becoming more numerous. */
struct tt_dqplb_limits tt_dqplb_limits_of(enum tt_distance distance, uint32_t lanes,
                                          uint32_t window, double bytes_per_s, uint64_t rtt_ns);

/* Returns a window in which a slow lane may fall behind by several fills of all lanes, up to the
 * maximum. */
uint32_t tt_dqplb_window_of(uint32_t lanes, uint32_t outstanding);

/* ---- sender ---- */

/* A segment to post: bytes [offset, offset + bytes) of the message, on this lane, with this
 * word. */
struct tt_dqplb_segment {
    uint64_t message, offset, bytes;
    uint32_t word;
    uint16_t lane;
    uint8_t state;              /* private to dqplb.c, as is `after` */
    bool last;                  /* last segment of its message */
    uint32_t after;             /* window position of the next segment of the same lane */
};

struct tt_dqplb_sender {
    struct tt_dqplb_limits limits;
    struct tt_dqplb_lanes lanes;
    struct tt_dqplb_segment *segment;           /* [window], owned by the caller */
    /* outstanding segments of each lane: window positions */
    uint32_t oldest[TT_DQPLB_LANES_MAX], newest[TT_DQPLB_LANES_MAX];
    uint64_t head, tail;        /* numbers: of the next segment, and of the oldest not yet passed
                                   by tt_dqplb_over */
    uint32_t resend;            /* number of segments to retransmit */
    uint64_t message, bytes, cut;   /* current message: `cut` of its bytes are in segments */
    uint32_t keeps_to;          /* 1 + the lane that the current message is bound to; 0: none */
    uint32_t lanes_most;        /* the current message may use only this number of lanes, the first
                                   that are up; 0: all */
    bool cutting, fast;
};

/* `first`: number of the first segment, as at the receiver. `segment` has limits->window entries;
 * the caller owns it and keeps it as long as s. */
void tt_dqplb_sender_init(struct tt_dqplb_sender *s, const struct tt_dqplb_limits *limits,
                          uint32_t first, struct tt_dqplb_segment *segment);

/* Begins a message; 0 bytes take one segment. `fast`: prefer lane 0. Returns false while the
 * previous message is not fully cut: post what tt_dqplb_next returns, until it returns false. */
bool tt_dqplb_begin(struct tt_dqplb_sender *s, uint64_t message, uint64_t bytes, bool fast);

/* Binds the current message to this lane, and waits while the lane is full. If the lane is down,
 * any lane is used. Call it before the message's first tt_dqplb_next. */
void tt_dqplb_keep_to(struct tt_dqplb_sender *s, uint32_t lane);

/* Limits the current message to the first `most` lanes (at least 1) that are up. Call it before its
 * first tt_dqplb_next. */
void tt_dqplb_keep_within(struct tt_dqplb_sender *s, uint32_t most);

/* Changes the segment length and the limit per lane from the next message on; 0 as in
 * tt_dqplb_limits. Not while a message is being cut. */
void tt_dqplb_rebound(struct tt_dqplb_sender *s, uint64_t segment_bytes, uint64_t lane_bytes);

/* Returns the next segment, which the caller must post. False: none until a message begins, a
 * segment completes, or a lane comes up. */
bool tt_dqplb_next(struct tt_dqplb_sender *s, struct tt_dqplb_segment *out);

/* Records completion of the n oldest segments of that lane. Returns false if fewer are outstanding,
 * which no correct lane reports. */
bool tt_dqplb_completed(struct tt_dqplb_sender *s, uint32_t lane, uint32_t n);

/* Returns the next completed message, in order; its source may be reused. False: none. After
 * completions, call it until it returns false, since it also advances the window. */
bool tt_dqplb_over(struct tt_dqplb_sender *s, uint64_t *message);

/* Takes the lane down: its outstanding segments are in doubt and can no longer complete. */
void tt_dqplb_lane_down(struct tt_dqplb_sender *s, uint32_t lane);

/* Processes the receiver's report, made after the receiver took the lane down. Segments in doubt
 * are marked complete or are retransmitted. Returns false, and changes nothing, if the report is
 * invalid. */
bool tt_dqplb_resolve(struct tt_dqplb_sender *s, uint32_t lane, const uint8_t *report,
                      size_t bytes);

/* Brings the lane up again. Its segments in doubt must have been resolved. */
void tt_dqplb_lane_up(struct tt_dqplb_sender *s, uint32_t lane);

/* ---- receiver ---- */

struct tt_dqplb_receiver {
    uint64_t expected;          /* number of the oldest missing segment */
    uint32_t window;
    uint32_t depth;             /* maximum distance of a received segment from the expected one,
                                   in the interval of tt_dqplb_depth */
    uint64_t *came, *notify;    /* [TT_DQPLB_WORDS(window)] each, indexed by number modulo window */
};

#define TT_DQPLB_WORDS(window) (((window) + 63) / 64)
#define TT_DQPLB_REPORT_BYTES(window) (4 + 8 * TT_DQPLB_WORDS(window))

/* `memory`: 2 * TT_DQPLB_WORDS(window) words; the caller owns it and keeps it as long as r. */
void tt_dqplb_receiver_init(struct tt_dqplb_receiver *r, uint32_t window, uint32_t first,
                            uint64_t *memory);

/* Records a segment received over `lane` with `word`. Returns how many more messages are complete,
 * or -1 for an invalid word: one outside of the window, a duplicate, or a fast one that is not a
 * whole message on lane 0. On -1 nothing has changed. */
int tt_dqplb_received(struct tt_dqplb_receiver *r, uint32_t lane, uint32_t word);

/* Returns the out-of-order depth of the current interval: the maximum distance of a received
 * segment from the oldest missing one. 0: all arrived in order. next: the next interval begins. */
static inline uint32_t tt_dqplb_depth(struct tt_dqplb_receiver *r, bool next)
{
    const uint32_t depth = r->depth;

    if (next)
        r->depth = 0;
    return depth;
}

/* Writes TT_DQPLB_REPORT_BYTES(window) bytes that list the received segments, for
 * tt_dqplb_resolve. */
void tt_dqplb_report(const struct tt_dqplb_receiver *r, uint8_t *out);

#endif
