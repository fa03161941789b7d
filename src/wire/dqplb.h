/* Dynamic queue pair load balancing: several lanes to a peer, each with a bound on what is outstanding, and one order for who listens. Pure.
 * Source: "Collective Communication for 100k+ GPUs", section 4.4.
 *
 * The sender cuts messages into segments, numbers them, and deals them out to its lanes in turn; a lane that has its fill is skipped until
 * something on it completes, so that a slow path carries what it can and holds up nobody. Each lane keeps the order of what is posted on it (a
 * reliable queue pair, a TCP connection), and the lanes among each other keep none. With each segment goes a word of 32 bits, the "immediate":
 *
 *      bit  31      notify: the last segment of a message
 *      bit  30      fast: a message of one segment, on lane 0
 *      bits 29..24  0
 *      bits 23..0   the number of the segment; wraps
 *
 * The receiver marks in a bitmap what came early, and tells of a message when all segments up to its last have come: in the order in which
 * messages were begun, each exactly once. A fast message has its number as all others: it overtakes nobody.
 *
 * A lane that fails leaves segments in doubt: they may have arrived, or not. Sending them anew could write into a buffer that its owner has
 * taken back meanwhile. So both ends take the lane down first (nothing of it can arrive from then on), the receiver reports what it has, and the
 * sender sends the rest over other lanes.
 *
 * Segments under way, from the oldest that has not completed to the newest, are at most `window`; so a slow path holds up the others only
 * when they are a window ahead of it.
 *
 * How full lanes are, and which one is next, is dqplb_lanes.h; that and the receiver are for themselves, for wires whose segments come back in
 * another way: the tcp wire uses them (docs/lanes.md). */
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

#define TT_DQPLB_WINDOW_MAX 4096u       /* far below half of the numbers, so that early and late can be told apart */

/* The word of the segment with that number. */
static inline uint32_t tt_dqplb_word(uint64_t number, bool last, bool fast)
{
    return ((uint32_t)number & TT_DQPLB_SEQ_MASK) | (last ? TT_DQPLB_NOTIFY : 0) | (fast ? TT_DQPLB_FAST : 0);
}

/* How far the number with these 24 bits is ahead of `near`; negative: behind. Valid while it is less than half the space away. */
static inline int32_t tt_dqplb_ahead(uint64_t near, uint32_t number)
{
    const uint32_t ahead = (number - (uint32_t)near) & TT_DQPLB_SEQ_MASK;

    return ahead <= TT_DQPLB_SEQ_MASK / 2 ? (int32_t)ahead : (int32_t)ahead - (int32_t)TT_DQPLB_SEQ_MASK - 1;
}

/* ---- limits ---- */

struct tt_dqplb_limits {
    uint32_t lanes;         /* 1..TT_DQPLB_LANES_MAX */
    uint32_t outstanding;   /* segments of one lane, however short, at least 1 */
    uint32_t window;        /* segments of all: a power of two, 1..TT_DQPLB_WINDOW_MAX */
    uint64_t segment_bytes; /* at least 1 */
    uint64_t lane_bytes;    /* outstanding on one lane; 0: what its segments have */
};

/* The number between the two that is nearest to `value`. */
static inline uint32_t tt_dqplb_within(uint32_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* How many lanes suit a peer that far away. */
uint32_t tt_dqplb_lane_count(enum tt_distance distance);

/* What suits `lanes` lanes to a peer that far away, with a window of so many segments. Lanes and segments are few and short towards near peers, so that
 * queues in the switches stay short. Where more than that is under way on the way there and back (bytes_per_s over all lanes, round trips of rtt_ns; 0: not
 * known), all lanes together have twice as much outstanding as it holds. Never so much that the window is full before a lane of a quarter of the others' rate
 * has been overtaken: rather than more segments there are longer ones, up to 4 MiB. */
struct tt_dqplb_limits tt_dqplb_limits_of(enum tt_distance distance, uint32_t lanes, uint32_t window,
                                          double bytes_per_s, uint64_t rtt_ns);

/* A window that lets a slow path fall behind by several fills of all lanes, as far as windows go. */
uint32_t tt_dqplb_window_of(uint32_t lanes, uint32_t outstanding);

/* ---- sender ---- */

/* A segment, as it is posted: bytes [offset, offset + bytes) of that message, on that lane, with that word. */
struct tt_dqplb_segment {
    uint64_t message, offset, bytes;
    uint32_t word;
    uint16_t lane;
    uint8_t state;              /* what it is doing; dqplb.c's, as is `after` */
    bool last;                  /* of its message */
    uint32_t after;             /* the place of the next one of the same lane */
};

struct tt_dqplb_sender {
    struct tt_dqplb_limits limits;
    struct tt_dqplb_lanes lanes;
    struct tt_dqplb_segment *segment;           /* [window], the caller's */
    uint32_t oldest[TT_DQPLB_LANES_MAX], newest[TT_DQPLB_LANES_MAX];    /* of what is outstanding on each lane: places in the window */
    uint64_t head, tail;        /* numbers: of the next segment, of the oldest that tt_dqplb_over has not gone past */
    uint32_t resend;            /* segments that wait to be sent anew */
    uint64_t message, bytes, cut;   /* what is being cut: cut of bytes are */
    uint32_t keeps_to;          /* 1 + the lane that it keeps to; 0: none */
    uint32_t lanes_most;        /* that it may take of those that are up, the first ones; 0: all */
    bool cutting, fast;
};

/* `first`: the number of the first segment, as the receiver's. `segment` has limits->window entries and is the caller's, alive as long as s. */
void tt_dqplb_sender_init(struct tt_dqplb_sender *s, const struct tt_dqplb_limits *limits, uint32_t first,
                          struct tt_dqplb_segment *segment);

/* Begins a message; no bytes are one segment. `fast`: rather on lane 0 than on the next in turn. False while the one before is still being
 * cut: call tt_dqplb_next until it says no, and post. */
bool tt_dqplb_begin(struct tt_dqplb_sender *s, uint64_t message, uint64_t bytes, bool fast);

/* The message that has begun goes over this lane alone, and waits for it while it has its fill; over any if it is down. Before its first tt_dqplb_next. */
void tt_dqplb_keep_to(struct tt_dqplb_sender *s, uint32_t lane);

/* The message that has begun goes over the first `most` lanes (at least 1) that are up, and no others. Before its first tt_dqplb_next. */
void tt_dqplb_keep_within(struct tt_dqplb_sender *s, uint32_t most);

/* Other segments, and another bound on each lane, from the next message on; 0 as in tt_dqplb_limits. Not while one is being cut. */
void tt_dqplb_rebound(struct tt_dqplb_sender *s, uint64_t segment_bytes, uint64_t lane_bytes);

/* What is to be posted next; the caller has to. False: nothing, until a message begins, something completes, or a lane comes up. */
bool tt_dqplb_next(struct tt_dqplb_sender *s, struct tt_dqplb_segment *out);

/* The n oldest segments of that lane have completed. False: it has not so many, which no working lane says. */
bool tt_dqplb_completed(struct tt_dqplb_sender *s, uint32_t lane, uint32_t n);

/* Messages that are over (their sources may be used again), in order: one at a call. False: none. To be called until then after what completed,
 * for it also makes room in the window. */
bool tt_dqplb_over(struct tt_dqplb_sender *s, uint64_t *message);

/* The lane takes nothing from now on; what is outstanding on it is in doubt, and completes no more. */
void tt_dqplb_lane_down(struct tt_dqplb_sender *s, uint32_t lane);

/* The receiver's report, made after it had taken the lane down: what is in doubt has arrived, or is sent anew. False: no such report can be, and
 * nothing has changed. */
bool tt_dqplb_resolve(struct tt_dqplb_sender *s, uint32_t lane, const uint8_t *report, size_t bytes);

/* The lane works again. Its doubts must have been resolved. */
void tt_dqplb_lane_up(struct tt_dqplb_sender *s, uint32_t lane);

/* ---- receiver ---- */

struct tt_dqplb_receiver {
    uint64_t expected;          /* the number of the oldest segment that has not come */
    uint32_t window;
    uint64_t *came, *notify;    /* [TT_DQPLB_WORDS(window)] each, bits by number modulo window */
};

#define TT_DQPLB_WORDS(window) (((window) + 63) / 64)
#define TT_DQPLB_REPORT_BYTES(window) (4 + 8 * TT_DQPLB_WORDS(window))

/* `memory`: 2 * TT_DQPLB_WORDS(window) words, the caller's, alive as long as r. */
void tt_dqplb_receiver_init(struct tt_dqplb_receiver *r, uint32_t window, uint32_t first, uint64_t *memory);

/* A segment came over `lane` with `word`: how many messages are whole now that were not before. -1: a word that no right sender sends now
 * (outside of the window, a second time, fast but not alone or not on lane 0); nothing has changed. */
int tt_dqplb_came(struct tt_dqplb_receiver *r, uint32_t lane, uint32_t word);

/* What has come, for tt_dqplb_resolve: TT_DQPLB_REPORT_BYTES(window) bytes. */
void tt_dqplb_report(const struct tt_dqplb_receiver *r, uint8_t *out);

#endif
