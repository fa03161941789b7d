/* See dqplb.h. */
#include "wire/dqplb.h"

#include <math.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"
#include "wire/planted.h"

#define NONE UINT32_MAX     /* no position in the window */

/* States of a segment. In doubt: its lane went down before it completed. */
enum { UNDER_WAY = 1, IN_DOUBT, TO_RESEND, COMPLETE };

/* ---- limits ---- */

#define OUTSTANDING_MAX 64u
#define SEGMENT_MAX (4u << 20)
#define WINDOW_AHEAD 8u         /* how far a slow lane may fall behind, in fills of all lanes */
/* minimum fills: with fewer, a lane with a quarter of the others' rate blocks all lanes
 * (docs/lanes.md) */
#define WINDOW_FILLS 4u

/* Defaults by distance: lanes, full segments outstanding on each, and segment length. */
static const struct {
    uint32_t lanes, segments;
    uint64_t segment_bytes;
} suits[TT_DISTANCES] = {
    [TT_NEAR_SELF] = { 1, 4, 64u << 10 },
    [TT_NEAR_SOCKET] = { 1, 4, 64u << 10 },
    [TT_NEAR_HOST] = { 1, 4, 64u << 10 },
    [TT_NEAR_RACK] = { 2, 4, 128u << 10 },
    [TT_NEAR_ZONE] = { 4, 4, 128u << 10 },
    [TT_NEAR_BUILDING] = { 8, 4, 256u << 10 },
    [TT_NEAR_FABRIC] = { 16, 4, 256u << 10 },
    [TT_NEAR_WAN] = { 16, 4, 2u << 20 },
};

uint32_t tt_dqplb_window_of(uint32_t lanes, uint32_t outstanding)
{
    uint32_t window = 1;

    while (window < WINDOW_AHEAD * lanes * outstanding && window < TT_DQPLB_WINDOW_MAX)
        window *= 2;
    return window;
}

uint32_t tt_dqplb_lane_count(enum tt_distance distance)
{
    return suits[distance].lanes;
}

struct tt_dqplb_limits tt_dqplb_limits_of(enum tt_distance distance, uint32_t lanes,
                                          uint32_t window, double bytes_per_s, uint64_t rtt_ns)
{
    struct tt_dqplb_limits l = {
        .lanes = lanes,
        .outstanding = tt_dqplb_within(window / 2 / lanes, 1, OUTSTANDING_MAX),
        .window = window,
        .segment_bytes = suits[distance].segment_bytes,
    };
    const uint32_t full = tt_dqplb_within(window / WINDOW_FILLS / lanes, 1, OUTSTANDING_MAX);
    const double least = (double)suits[distance].segments * (double)l.segment_bytes,
                 held = 2 * bytes_per_s * (double)rtt_ns / 1e9;
    double each = least * suits[distance].lanes / lanes;
    uint32_t segments;

    if (each < held / lanes)
        each = held / lanes;
    if (each < least)
        each = least;
    while (each > full * (double)l.segment_bytes && l.segment_bytes < SEGMENT_MAX)
        l.segment_bytes *= 2;
    segments = each < full * (double)l.segment_bytes
                   ? (uint32_t)ceil(each / (double)l.segment_bytes)
                   : full;
    l.lane_bytes = segments * l.segment_bytes;
    return l;
}

/* ---- sender ---- */

void tt_dqplb_sender_init(struct tt_dqplb_sender *s, const struct tt_dqplb_limits *limits,
                          uint32_t first, struct tt_dqplb_segment *segment)
{
    tt_assert(limits->segment_bytes >= 1 && limits->window >= 1 &&
              limits->window <= TT_DQPLB_WINDOW_MAX &&
              (limits->window & (limits->window - 1)) == 0);
    *s = (struct tt_dqplb_sender){
        .limits = *limits, .segment = segment, .head = first, .tail = first
    };
    tt_dqplb_lanes_init(&s->lanes, limits->lanes, limits->outstanding);
    tt_dqplb_rebound(s, limits->segment_bytes, limits->lane_bytes);
    for (uint32_t i = 0; i < TT_DQPLB_LANES_MAX; i++)
        s->oldest[i] = s->newest[i] = NONE;
}

void tt_dqplb_rebound(struct tt_dqplb_sender *s, uint64_t segment_bytes, uint64_t lane_bytes)
{
    tt_assert(!s->cutting);
    s->limits.segment_bytes = segment_bytes;
    s->limits.lane_bytes = lane_bytes;
    s->lanes.bytes_max = lane_bytes ? lane_bytes : UINT64_MAX;
}

static struct tt_dqplb_segment *segment_of(struct tt_dqplb_sender *s, uint64_t number)
{
    return &s->segment[number & (s->limits.window - 1)];
}

bool tt_dqplb_begin(struct tt_dqplb_sender *s, uint64_t message, uint64_t bytes, bool fast)
{
    if (s->cutting)
        return false;
    s->cutting = true;
    s->message = message;
    s->bytes = bytes;
    s->cut = 0;
    s->fast = fast && bytes <= s->limits.segment_bytes;
    s->keeps_to = s->lanes_most = 0;
    return true;
}

void tt_dqplb_keep_to(struct tt_dqplb_sender *s, uint32_t lane)
{
    tt_assert(s->cutting && lane < s->limits.lanes);
    s->keeps_to = 1 + lane;
}

void tt_dqplb_keep_within(struct tt_dqplb_sender *s, uint32_t most)
{
    tt_assert(s->cutting && most >= 1);
    s->lanes_most = most;
}

/* Returns the lane that the current message is bound to. TT_DQPLB_NO_LANE: any, also if the bound
 * lane is down. */
static uint32_t lane_kept_to(const struct tt_dqplb_sender *s)
{
    return s->keeps_to == 0 || s->lanes.lane[s->keeps_to - 1].down ? TT_DQPLB_NO_LANE
                                                                   : s->keeps_to - 1;
}

static void put_on_lane(struct tt_dqplb_sender *s, struct tt_dqplb_segment *g, uint32_t lane)
{
    const uint32_t place = (uint32_t)(g - s->segment);

    g->state = UNDER_WAY;
    g->lane = (uint16_t)lane;
    g->after = NONE;
    if (s->lanes.lane[lane].outstanding == 0)
        s->oldest[lane] = place;
    else
        s->segment[s->newest[lane]].after = place;
    s->newest[lane] = place;
    tt_dqplb_lanes_give(&s->lanes, lane, 1, g->bytes);
}

static struct tt_dqplb_segment *oldest_to_resend(struct tt_dqplb_sender *s)
{
    for (uint64_t n = s->tail; n < s->head; n++)
        if (segment_of(s, n)->state == TO_RESEND)
            return segment_of(s, n);
    return NULL;
}

/* Length of the next segment of the current message. */
static uint64_t cut_bytes(const struct tt_dqplb_sender *s)
{
    const uint64_t left = s->bytes - s->cut;

    return left < s->limits.segment_bytes ? left : s->limits.segment_bytes;
}

static struct tt_dqplb_segment *cut_segment(struct tt_dqplb_sender *s, bool fast)
{
    struct tt_dqplb_segment *g = segment_of(s, s->head);
    const uint64_t bytes = cut_bytes(s);
    const bool last = s->cut + bytes == s->bytes;

    *g = (struct tt_dqplb_segment){
        .message = s->message,
        .offset = s->cut,
        .bytes = bytes,
        .last = last,
        .word = tt_dqplb_word(s->head++, last, fast),
    };
    s->cut += bytes;
    s->cutting = !g->last;
    return g;
}

bool tt_dqplb_next(struct tt_dqplb_sender *s, struct tt_dqplb_segment *out)
{
    struct tt_dqplb_segment *g = s->resend > 0 ? oldest_to_resend(s) : NULL;
    /* retransmits may use any lane */
    const uint32_t kept = g || !s->cutting ? TT_DQPLB_NO_LANE : lane_kept_to(s);
    uint64_t bytes;
    uint32_t lane;
    bool fast;

    if (!g && (!s->cutting ||
               s->head - s->tail >= s->limits.window + TT_PLANTED(TT_DQPLB_BUG_WINDOW_OVERRUN)))
        return false;
    bytes = g ? g->bytes : cut_bytes(s);
    fast = !g && s->fast && (kept == TT_DQPLB_NO_LANE || kept == 0) &&
           tt_dqplb_lanes_has_room(&s->lanes, 0, bytes);
    if (fast)
        lane = 0;
    else if (kept == TT_DQPLB_NO_LANE)
        lane = tt_dqplb_lanes_choose(&s->lanes, bytes, g ? 0 : s->lanes_most);
    else
        lane = tt_dqplb_lanes_has_room(&s->lanes, kept, bytes) ? kept : TT_DQPLB_NO_LANE;
    if (lane == TT_DQPLB_NO_LANE)
        return false;
    if (!g) {
        g = cut_segment(s, fast);
    } else {
        if (!TT_PLANTED(TT_DQPLB_BUG_FAST_ANYWHERE))
            g->word &= ~TT_DQPLB_FAST;
        s->resend--;
    }
    put_on_lane(s, g, lane);
    *out = *g;
    return true;
}

bool tt_dqplb_completed(struct tt_dqplb_sender *s, uint32_t lane, uint32_t n)
{
    const struct tt_dqplb_lane *l = &s->lanes.lane[lane];

    if (l->down || n > l->outstanding)
        return false;
    for (; n > 0; n--) {
        struct tt_dqplb_segment *g = &s->segment[s->oldest[lane]];

        tt_assert(tt_dqplb_lanes_done(&s->lanes, lane, 1, g->bytes));
        g->state = COMPLETE;
        s->oldest[lane] = g->after;
    }
    return true;
}

bool tt_dqplb_over(struct tt_dqplb_sender *s, uint64_t *message)
{
    while (s->tail < s->head && segment_of(s, s->tail)->state == COMPLETE) {
        const struct tt_dqplb_segment *g = segment_of(s, s->tail++);

        if (g->last) {
            *message = g->message;
            return true;
        }
    }
    return false;
}

static bool is_in_doubt(const struct tt_dqplb_segment *g, uint32_t lane)
{
    return g->state == IN_DOUBT && g->lane == lane;
}

void tt_dqplb_lane_down(struct tt_dqplb_sender *s, uint32_t lane)
{
    uint32_t at = s->oldest[lane];

    if (s->lanes.lane[lane].down)
        return;
    for (uint32_t n = s->lanes.lane[lane].outstanding; n > 0; n--) {
        s->segment[at].state = TT_PLANTED(TT_DQPLB_BUG_SENT_TWICE) ? TO_RESEND : IN_DOUBT;
        s->resend += TT_PLANTED(TT_DQPLB_BUG_SENT_TWICE);
        at = s->segment[at].after;
    }
    s->oldest[lane] = s->newest[lane] = NONE;
    tt_dqplb_lanes_down(&s->lanes, lane);
}

void tt_dqplb_lane_up(struct tt_dqplb_sender *s, uint32_t lane)
{
    for (uint64_t n = s->tail; n < s->head; n++)
        tt_assert(!is_in_doubt(segment_of(s, n), lane));
    tt_dqplb_lanes_up(&s->lanes, lane);
}

/* ---- reports ---- */

/* Returns whether the report marks the segment as received: all segments before `expected`, and
 * those whose bit (number modulo window) is set in came[]. */
static bool had_come(uint64_t number, uint64_t expected, const uint8_t *came, uint32_t window)
{
    const uint64_t bit = number & (window - 1);

    return number < expected || came[bit / 8] >> bit % 8 & 1;
}

bool tt_dqplb_resolve(struct tt_dqplb_sender *s, uint32_t lane, const uint8_t *report, size_t bytes)
{
    const uint32_t window = s->limits.window;
    struct tt_reader in;
    uint64_t expected;
    uint32_t behind;

    if (!s->lanes.lane[lane].down || bytes != TT_DQPLB_REPORT_BYTES(window))
        return false;
    tt_reader_init(&in, report, bytes);
    behind = ((uint32_t)s->head - tt_read_u32(&in)) & TT_DQPLB_SEQ_MASK;
    expected = s->head - behind;
    for (uint64_t n = s->tail; n < s->head; n++)        /* the report is older than recent
                                                           traffic of other lanes, but by at most
                                                           one window */
        if (is_in_doubt(segment_of(s, n), lane) &&
            (behind > 2 * window || behind > s->head || n >= expected + window))
            return false;
    for (uint64_t n = s->tail; n < s->head; n++) {
        struct tt_dqplb_segment *g = segment_of(s, n);

        if (!is_in_doubt(g, lane))
            continue;
        g->state = had_come(n, expected, in.at, window) || TT_PLANTED(TT_DQPLB_BUG_NOT_SENT_ANEW)
                       ? COMPLETE
                       : TO_RESEND;
        s->resend += g->state == TO_RESEND;
    }
    return true;
}

void tt_dqplb_report(const struct tt_dqplb_receiver *r, uint8_t *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_DQPLB_REPORT_BYTES(r->window));
    tt_write_u32(&w, r->expected & TT_DQPLB_SEQ_MASK);
    for (uint32_t i = 0; i < TT_DQPLB_WORDS(r->window); i++)
        tt_write_u64(&w, r->came[i]);
}

/* ---- receiver ---- */

void tt_dqplb_receiver_init(struct tt_dqplb_receiver *r, uint32_t window, uint32_t first,
                            uint64_t *memory)
{
    const uint32_t words = TT_DQPLB_WORDS(window);

    tt_assert(window >= 1 && window <= TT_DQPLB_WINDOW_MAX && (window & (window - 1)) == 0);
    *r = (struct tt_dqplb_receiver){
        .expected = first, .window = window, .came = memory, .notify = memory + words
    };
    memset(memory, 0, 2 * words * sizeof *memory);
}

static uint64_t bit_of(const struct tt_dqplb_receiver *r, uint64_t number, uint32_t *word)
{
    const uint32_t bit = number & (r->window - 1);

    *word = bit / 64;
    return 1ull << bit % 64;
}

/* Consumes segments received out of order, up to the next gap. */
static int receiver_advance(struct tt_dqplb_receiver *r)
{
    uint32_t i;
    int whole = 0;

    for (uint64_t bit; bit = bit_of(r, r->expected, &i), r->came[i] & bit; r->expected++) {
        whole += (r->notify[i] & bit) != 0;
        r->came[i] &= ~bit;
        r->notify[i] &= ~bit;
    }
    return whole;
}

int tt_dqplb_received(struct tt_dqplb_receiver *r, uint32_t lane, uint32_t word)
{
    const uint32_t wrap = TT_PLANTED(TT_DQPLB_BUG_NO_WRAP) ? UINT32_MAX : TT_DQPLB_SEQ_MASK;
    const uint32_t ahead = ((word & TT_DQPLB_SEQ_MASK) - (uint32_t)r->expected) & wrap;
    const bool notify = word & TT_DQPLB_NOTIFY;
    bool early;
    uint64_t bit;
    uint32_t i;

    if (ahead >= r->window || word & ~(TT_DQPLB_NOTIFY | TT_DQPLB_FAST | TT_DQPLB_SEQ_MASK))
        return -1;
    if (word & TT_DQPLB_FAST && (lane != 0 || !notify))
        return -1;
    bit = bit_of(r, r->expected + ahead, &i);
    if (r->came[i] & bit)
        return -1;
    if (ahead > 0) {
        early = TT_PLANTED(TT_DQPLB_BUG_TOLD_EARLY) ||
                (TT_PLANTED(TT_DQPLB_BUG_FAST_OVERTAKES) && word & TT_DQPLB_FAST);
        r->came[i] |= bit;
        r->notify[i] |= notify && !early ? bit : 0;
        if (r->depth < ahead)
            r->depth = ahead;
        return notify && early;
    }
    r->expected++;
    return notify + receiver_advance(r);
}
