/* See lanes.h. */
#include "sim/lanes.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "sim/queue.h"

#define PS_PER_S 1e12

enum what { AT_WAY, LET_GO, THERE, HEARD };

/* A segment in transit; `what` is its next event. */
struct flight {
    uint32_t sender, next;      /* next: in the free list */
    enum what what;
    struct tt_dqplb_segment segment;
};

struct connection {
    struct tt_dqplb_sender sender;
    struct tt_dqplb_receiver receiver;
    struct tt_dqplb_segment *segment;
    uint64_t *words;
    uint64_t nic_free_ps;
    uint32_t begun, over, delivered;         /* counts of messages */
    uint32_t *stripes;                  /* STATIC: per message, number of stripes that have not
                                           arrived and not been acknowledged */
};

struct way {
    double bytes_per_s;
    uint64_t free_ps, queued;
};

struct lanes {
    const struct tt_lanes_case *c;
    struct tt_dqplb_limits limits;
    struct connection *connection;
    struct way way[TT_LANES_WAYS_MAX];
    struct tt_queue queue;
    struct flight *flight;
    uint32_t nflights, room, free;
    uint64_t now_ps, queued, queued_most;
    double queued_time;         /* bytes times picoseconds */
};

static uint64_t transfer_ps(uint64_t bytes, double bytes_per_s)
{
    return (uint64_t)((double)bytes / bytes_per_s * PS_PER_S);
}

static void schedule_flight(struct lanes *s, uint32_t flight, enum what what, uint64_t time_ps)
{
    s->flight[flight].what = what;
    tt_queue_push(&s->queue, (struct tt_queue_item){ .time_ps = time_ps, .what = flight });
}

static uint32_t new_flight(struct lanes *s)
{
    if (s->free != UINT32_MAX) {
        const uint32_t f = s->free;

        s->free = s->flight[f].next;
        return f;
    }
    if (s->nflights == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->flight = realloc(s->flight, s->room * sizeof *s->flight);
        tt_assert(s->flight);
    }
    return s->nflights++;
}

/* Passes a segment to the NIC, which sends in the order of posting. */
static void post_segment(struct lanes *s, uint32_t sender, const struct tt_dqplb_segment *segment)
{
    struct connection *k = &s->connection[sender];
    const uint32_t f = new_flight(s);

    s->flight[f].sender = sender;
    s->flight[f].segment = *segment;
    if (k->nic_free_ps < s->now_ps)
        k->nic_free_ps = s->now_ps;
    k->nic_free_ps += transfer_ps(segment->bytes, s->c->nic_bytes_per_s);
    schedule_flight(s, f, AT_WAY, k->nic_free_ps);
}

static void post_stripes(struct lanes *s, uint32_t sender)
{
    struct connection *k = &s->connection[sender];
    const uint32_t lanes = s->limits.lanes;

    for (; k->begun < s->c->messages && k->begun - k->over < s->c->depth; k->begun++)
        for (uint32_t i = 0; i < lanes; i++) {
            const struct tt_dqplb_segment stripe = {
                .message = k->begun,
                .lane = (uint16_t)i,
                .bytes = (s->c->message_bytes + i) / lanes,
            };

            post_segment(s, sender, &stripe);
        }
}

static void post_all(struct lanes *s, uint32_t sender)
{
    struct connection *k = &s->connection[sender];
    struct tt_dqplb_segment segment;

    if (s->c->how == TT_LANES_STATIC) {
        post_stripes(s, sender);
        return;
    }
    for (;;) {
        if (tt_dqplb_next(&k->sender, &segment))
            post_segment(s, sender, &segment);
        else if (k->begun < s->c->messages && k->begun - k->over < s->c->depth &&
                 tt_dqplb_begin(&k->sender, k->begun, s->c->message_bytes, false))
            k->begun++;
        else
            return;
    }
}

static void queue_changes(struct lanes *s, struct way *w, int64_t by)
{
    w->queued += (uint64_t)by;
    s->queued += (uint64_t)by;
    if (s->queued > s->queued_most)
        s->queued_most = s->queued;
}

/* Messages of stripes are reported when all stripes have arrived; their order does not matter
 * here. */
static void lanes_segment_arrived(struct lanes *s, struct connection *k,
                                  const struct tt_dqplb_segment *g)
{
    int whole;

    if (s->c->how == TT_LANES_STATIC) {
        k->delivered += --k->stripes[2 * g->message] == 0;
        return;
    }
    whole = tt_dqplb_received(&k->receiver, g->lane, g->word);
    tt_assert(whole >= 0);
    k->delivered += (uint32_t)whole;
}

static void segment_acked(struct lanes *s, struct connection *k, const struct tt_dqplb_segment *g)
{
    uint64_t message;

    if (s->c->how == TT_LANES_STATIC) {
        k->over += --k->stripes[2 * g->message + 1] == 0;
        return;
    }
    tt_assert(tt_dqplb_completed(&k->sender, g->lane, 1));
    while (tt_dqplb_over(&k->sender, &message))
        k->over++;
}

static void flight_step(struct lanes *s, uint32_t f)
{
    const struct flight at = s->flight[f];
    struct connection *k = &s->connection[at.sender];
    struct way *w = &s->way[(at.sender * s->limits.lanes + at.segment.lane) % s->c->ways];
    const uint64_t latency_ps = s->c->latency_ns * 1000;

    switch (at.what) {
    case AT_WAY:
        queue_changes(s, w, (int64_t)at.segment.bytes);
        if (w->free_ps < s->now_ps)
            w->free_ps = s->now_ps;
        w->free_ps += transfer_ps(at.segment.bytes, w->bytes_per_s);
        schedule_flight(s, f, LET_GO, w->free_ps);
        break;
    case LET_GO:
        queue_changes(s, w, -(int64_t)at.segment.bytes);
        schedule_flight(s, f, THERE, s->now_ps + latency_ps);
        break;
    case THERE:
        lanes_segment_arrived(s, k, &at.segment);
        schedule_flight(s, f, HEARD, s->now_ps + latency_ps);
        break;
    case HEARD:
        s->flight[f].next = s->free;
        s->free = f;
        segment_acked(s, k, &at.segment);
        post_all(s, at.sender);
        break;
    }
}

static tutti_status check_case(const struct tt_lanes_case *c)
{
    const struct {
        const char *name;
        uint64_t value, min, max;
    } counts[] = {
        { "senders", c->senders, 1, TT_LANES_SENDERS_MAX },
        { "ways", c->ways, 1, TT_LANES_WAYS_MAX },
        { "slow_ways", c->slow_ways, 0, c->ways },
        { "messages", c->messages, 1, UINT32_MAX },
        { "depth", c->depth, 1, UINT32_MAX },
        { "message_bytes", c->message_bytes, 1, UINT64_MAX },
        { "limits.lanes", c->limits.lanes, 1, TT_DQPLB_LANES_MAX },
    };
    const struct {
        const char *name;
        double value;
    } rates[] = {
        { "nic_bytes_per_s", c->nic_bytes_per_s },
        { "way_bytes_per_s", c->way_bytes_per_s },
        { "slow_share", c->slow_share },
    };

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < counts[i].min || counts[i].value > counts[i].max)
            return tt_fail(TUTTI_ERR_INVALID, "lanes: %s is %llu: must be %llu to %llu",
                           counts[i].name, (unsigned long long)counts[i].value,
                           (unsigned long long)counts[i].min, (unsigned long long)counts[i].max);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (!(rates[i].value > 0))
            return tt_fail(TUTTI_ERR_INVALID, "lanes: %s is %g: must be above 0", rates[i].name,
                           rates[i].value);
    return TUTTI_OK;
}

/* Sets limits so high that all posted segments may be outstanding. */
static bool unlimited(const struct tt_lanes_case *c, struct tt_dqplb_limits *l)
{
    const uint64_t segments =
        (c->message_bytes + l->segment_bytes - 1) / l->segment_bytes * c->depth;

    if (segments > TT_DQPLB_WINDOW_MAX)
        return false;
    l->lane_bytes = 0;
    l->outstanding = l->window = 1;
    while (l->window < segments)
        l->outstanding = l->window *= 2;
    return true;
}

static void open_connection(struct lanes *s, struct connection *k)
{
    const uint32_t window = s->limits.window;

    k->segment = calloc(window, sizeof *k->segment);
    k->words = calloc(2 * TT_DQPLB_WORDS(window), sizeof *k->words);
    k->stripes = calloc(2 * (size_t)s->c->messages, sizeof *k->stripes);
    tt_assert(k->segment && k->words && k->stripes);
    for (uint32_t i = 0; i < 2 * s->c->messages; i++)
        k->stripes[i] = s->limits.lanes;
    tt_dqplb_sender_init(&k->sender, &s->limits, 0, k->segment);
    k->sender.lanes.choice = s->c->choice;
    tt_dqplb_receiver_init(&k->receiver, window, 0, k->words);
}

static double lesser_rate(double a, double b)
{
    return a < b ? a : b;
}

static void lanes_result(const struct lanes *s, uint64_t delivered_ps, struct tt_lanes_result *out)
{
    const struct tt_lanes_case *c = s->c;
    double ways = 0;

    for (uint32_t i = 0; i < c->ways; i++)
        ways += s->way[i].bytes_per_s;
    out->seconds = (double)delivered_ps / PS_PER_S;
    out->bytes_per_s = (double)c->senders * c->messages * (double)c->message_bytes / out->seconds;
    out->share = out->bytes_per_s / lesser_rate(ways, c->senders * c->nic_bytes_per_s);
    out->queue_mean = s->queued_time / (double)delivered_ps;
    out->queue_most = (double)s->queued_most;
}

bool tt_lanes_run(const struct tt_lanes_case *c, struct tt_lanes_result *out)
{
    struct lanes s = { .c = c, .limits = c->limits, .free = UINT32_MAX };
    struct tt_queue_item item;
    uint64_t delivered = 0, delivered_ps = 0;

    if (check_case(c))
        return false;
    if (c->how == TT_LANES_STATIC)
        s.limits = (struct tt_dqplb_limits){
            .lanes = c->limits.lanes, .outstanding = 1, .window = 1, .segment_bytes = 1
        };
    if (c->how == TT_LANES_UNLIMITED && !unlimited(c, &s.limits)) {
        tt_fail(TUTTI_ERR_INVALID,
                "lanes: %u messages of %llu bytes exceed the maximum of %u segments of %llu bytes",
                c->depth, (unsigned long long)c->message_bytes, TT_DQPLB_WINDOW_MAX,
                (unsigned long long)c->limits.segment_bytes);
        return false;
    }
    s.connection = calloc(c->senders, sizeof *s.connection);
    tt_assert(s.connection);
    tt_queue_init(&s.queue);
    for (uint32_t i = 0; i < c->ways; i++)
        s.way[i].bytes_per_s = c->way_bytes_per_s * (i < c->slow_ways ? c->slow_share : 1);
    for (uint32_t i = 0; i < c->senders; i++) {
        open_connection(&s, &s.connection[i]);
        post_all(&s, i);
    }
    while (tt_queue_pop(&s.queue, &item)) {
        const struct flight *f = &s.flight[item.what];
        const uint32_t sender = f->sender, before = s.connection[sender].delivered;

        s.queued_time += (double)s.queued * (double)(item.time_ps - s.now_ps);
        s.now_ps = item.time_ps;
        flight_step(&s, item.what);
        delivered += s.connection[sender].delivered - before;
        if (s.connection[sender].delivered != before)
            delivered_ps = s.now_ps;
    }
    tt_assert(delivered == (uint64_t)c->senders * c->messages);
    lanes_result(&s, delivered_ps, out);
    for (uint32_t i = 0; i < c->senders; i++) {
        free(s.connection[i].segment);
        free(s.connection[i].words);
        free(s.connection[i].stripes);
    }
    free(s.connection);
    free(s.flight);
    tt_queue_fini(&s.queue);
    return true;
}
