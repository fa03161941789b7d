#include "support/wan_net.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"
#include "support/wan_fair.h"
#include "support/wan_packet.h"
#include "support/wan_queue.h"

#define GOLDEN 0x9e3779b97f4a7c15ull    /* increment of SplitMix64 */

/* The stage that a packet in flight reaches next. */
enum stage {
    STAGE_PAIR,                         /* the fair queue of the pair */
    STAGE_LEFT,                         /* the end of the pair's link, after that queue */
    STAGE_DOWN,                         /* the receiver's link */
    STAGE_ARRIVED
};

struct packet {
    struct wan_fair_item queued;        /* in the fair queue of the pair */
    uint32_t from;
    enum stage stage;
    size_t bytes;
    struct wan_shape shape;
    uint8_t frame[];
};

/* The time at which a packet in flight reaches its next stage. */
struct event {
    uint64_t due_ns;
    uint64_t order;                     /* order of events with equal times */
    struct packet *packet;
};

struct pair_state {
    struct wan_queue queue;
    struct wan_count count;
    uint64_t drawn;                     /* number of segments whose loss was decided */
    bool in_burst;                      /* the last segment was lost */
    uint64_t last_ns;                   /* arrival time of the last packet */
    struct wan_fair *fair;              /* NULL: not used yet */
    bool sends;                         /* a packet of that queue is on the link */
};

struct wan_net {
    struct wan_matrix matrix;
    struct wan_queue up[WAN_HOSTS_MAX], down[WAN_HOSTS_MAX];
    struct pair_state pair[WAN_HOSTS_MAX][WAN_HOSTS_MAX];
    uint64_t strays;                    /* number of packets to unknown hosts */
    uint64_t room_bytes, under_way_bytes, under_way_peak_bytes;
    uint64_t norders;
    struct event *heap;                 /* binary heap; the earliest event is at the top */
    size_t nevents, nevents_max;
    struct packet *taken;               /* the last received packet; the caller may read its
                                           frame */
    uint8_t piece[WAN_FRAME_BYTES_MAX];
};

tutti_status wan_net_create(struct wan_net **out, const struct wan_matrix *m, uint64_t room_bytes)
{
    struct wan_net *net = calloc(1, sizeof *net);

    if (!net)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a net of %u hosts", m->nhosts);
    net->matrix = *m;
    net->room_bytes = room_bytes;
    *out = net;
    return TUTTI_OK;
}

static struct packet *packet_of(struct wan_fair_item *item)
{
    return (struct packet *)((char *)item - offsetof(struct packet, queued));
}

static void fair_destroy(struct wan_fair *q)
{
    struct wan_fair_item *item;

    while (q && (item = wan_fair_pop(q)))
        free(packet_of(item));
    free(q);
}

void wan_net_destroy(struct wan_net *net)
{
    for (size_t i = 0; i < net->nevents; i++)
        free(net->heap[i].packet);
    for (uint32_t i = 0; i < WAN_HOSTS_MAX * WAN_HOSTS_MAX; i++)
        fair_destroy(net->pair[i / WAN_HOSTS_MAX][i % WAN_HOSTS_MAX].fair);
    free(net->heap);
    free(net->taken);
    free(net);
}

/* ---- packets in flight, by time ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static bool heap_grow(struct wan_net *net)
{
    const size_t n = net->nevents_max ? 2 * net->nevents_max : 1024;
    struct event *heap = reallocarray(net->heap, n, sizeof *heap);

    if (!heap)
        return false;
    net->heap = heap;
    net->nevents_max = n;
    return true;
}

/* There must be space for one more event. */
static void heap_push(struct wan_net *net, uint64_t due_ns, struct packet *packet)
{
    const struct event e = { .due_ns = due_ns, .order = net->norders++, .packet = packet };
    size_t at = net->nevents++;

    tt_assert(at < net->nevents_max);
    for (; at > 0 && is_before(&e, &net->heap[(at - 1) / 2]); at = (at - 1) / 2)
        net->heap[at] = net->heap[(at - 1) / 2];
    net->heap[at] = e;
}

static struct event heap_pop(struct wan_net *net)
{
    const struct event first = net->heap[0];
    const struct event last = net->heap[--net->nevents];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < net->nevents) {
        if (child + 1 < net->nevents && is_before(&net->heap[child + 1], &net->heap[child]))
            child++;
        if (!is_before(&net->heap[child], &last))
            break;
        net->heap[at] = net->heap[child];
        at = child;
    }
    net->heap[at] = last;
    return first;
}

/* ---- packets ---- */

/* Creates a packet in flight from a frame. Returns NULL if there is no space. */
static struct packet *packet_create(struct wan_net *net, uint32_t from,
                                    const struct wan_shape *shape, const uint8_t *frame,
                                    size_t bytes)
{
    struct packet *p;

    if (net->under_way_bytes + bytes > net->room_bytes ||
        (net->nevents == net->nevents_max && !heap_grow(net)))
        return NULL;
    p = malloc(sizeof *p + bytes);
    if (!p)
        return NULL;
    *p = (struct packet){ .from = from, .stage = STAGE_DOWN, .shape = *shape, .bytes = bytes };
    memcpy(p->frame, frame, bytes);
    net->under_way_bytes += bytes;
    if (net->under_way_bytes > net->under_way_peak_bytes)
        net->under_way_peak_bytes = net->under_way_bytes;
    return p;
}

static void packet_destroy(struct wan_net *net, struct packet *p)
{
    net->under_way_bytes -= p->bytes;
    free(p);
}

static struct wan_shape shape_of(const struct wan_net *net, const uint8_t *frame, size_t bytes)
{
    struct wan_shape shape;
    const bool is_packet = wan_shape_read(&shape, frame, bytes, net->matrix.nhosts);

    tt_assert(is_packet);
    return shape;
}

/* Sends segments [first, first + n) of a frame, which reach `stage` at due_ns. */
static void send_piece(struct wan_net *net, uint64_t due_ns, enum stage stage, uint32_t from,
                       const struct wan_shape *s, const uint8_t *frame, size_t bytes,
                       uint32_t first, uint32_t n)
{
    struct wan_shape shape = *s;
    struct packet *p;

    if (n < s->nsegments) {
        bytes = wan_piece_write(net->piece, s, frame, first, n);
        frame = net->piece;
        shape = shape_of(net, frame, bytes);
    }
    p = packet_create(net, from, &shape, frame, bytes);
    if (!p) {
        net->pair[from][s->to].count.dropped_room += n;
        return;
    }
    p->stage = stage;
    heap_push(net, due_ns, p);
}

/* Shortens a packet to its first n segments. */
static void packet_cut(struct wan_net *net, struct packet *p, uint32_t n)
{
    size_t bytes;

    if (n == p->shape.nsegments)
        return;
    bytes = wan_piece_write(net->piece, &p->shape, p->frame, 0, n);
    tt_assert(bytes < p->bytes);
    net->under_way_bytes -= p->bytes - bytes;
    p->bytes = bytes;
    memcpy(p->frame, net->piece, bytes);
    p->shape = shape_of(net, p->frame, bytes);
}

/* ---- transfer ---- */

/* Returns how many of the first n segments fit into a queue at now_ns; the others are counted as
 * dropped. *out_ns: when the last one leaves. */
static uint32_t pass(struct wan_queue *q, const struct wan_line *line, uint64_t now_ns,
                     const struct wan_shape *s, uint32_t n, uint64_t *dropped, uint64_t *out_ns)
{
    const uint32_t fit = wan_shape_fit(s, wan_queue_room(q, line, now_ns));
    const uint32_t kept = fit < n ? fit : n;

    *dropped += n - kept;
    *out_ns = now_ns;
    if (kept > 0) {
        const uint64_t left_ns = wan_queue_enter(q, line, now_ns, wan_shape_bytes(s, kept));

        *out_ns = line->discipline == WAN_POLICER ? now_ns : left_ns;
    }
    return kept;
}

/* Returns the loss probability of the next segment, after a lost segment or after another one: a
 * chain of two states (Gilbert, "Capacity of a Burst-Noise Channel", 1960). */
static double loss_after(const struct wan_pair *pair, bool lost)
{
    if (pair->burst <= 1 || pair->loss <= 0 || pair->loss >= 1)
        return pair->loss;
    return lost ? 1 - 1 / pair->burst : pair->loss / (pair->burst * (1 - pair->loss));
}

/* Returns whether the pair's next segment is lost; depends only on the seed, the pair and the index
 * of the segment. */
static bool draw_loss(struct wan_net *net, uint32_t from, uint32_t to)
{
    struct pair_state *state = &net->pair[from][to];
    const double loss = loss_after(&net->matrix.pair[from][to], state->in_burst);
    const uint64_t begin = tt_mix64(net->matrix.seed ^ tt_mix64((uint64_t)from << 32 | (to + 1)));
    const uint64_t drawn = tt_mix64(begin + state->drawn++ * GOLDEN);

    state->in_burst = (double)(drawn >> 11) < loss * 0x1p53;
    return state->in_burst;
}

/* Applies the pair's loss to the first n segments, and sends the remaining ones in as few pieces as
 * possible. */
static void lose(struct wan_net *net, uint64_t due_ns, uint32_t from, const struct wan_shape *s,
                 const uint8_t *frame, size_t bytes, uint32_t n)
{
    struct wan_count *count = &net->pair[from][s->to].count;
    uint32_t first = 0;

    for (uint32_t i = 0; i <= n; i++) {
        const bool is_lost = i < n && draw_loss(net, from, s->to);

        count->lost += is_lost;
        if ((is_lost || i == n) && i > first)
            send_piece(net, due_ns, STAGE_DOWN, from, s, frame, bytes, first, i - first);
        if (is_lost)
            first = i + 1;
    }
}

/* The first n segments of a frame have left the pair's link. */
static void leave_line(struct wan_net *net, uint64_t left_ns, uint32_t from,
                       const struct wan_shape *s, const uint8_t *frame, size_t bytes, uint32_t n)
{
    struct pair_state *pair = &net->pair[from][s->to];

    left_ns += net->matrix.pair[from][s->to].delay_ns;
    pair->last_ns = left_ns > pair->last_ns ? left_ns : pair->last_ns;
    if (n > 0)
        lose(net, pair->last_ns, from, s, frame, bytes, n);
}

/* ---- fair queues ---- */

/* Sends the next packet of a fair queue, if the link is free. */
static void fair_send(struct wan_net *net, uint64_t now_ns, struct pair_state *pair,
                      const struct wan_line *line)
{
    struct wan_fair_item *item = pair->sends ? NULL : wan_fair_pop(pair->fair);
    struct packet *p;

    if (!item)
        return;
    p = packet_of(item);
    if (net->nevents == net->nevents_max && !heap_grow(net)) {
        pair->count.dropped_room += p->shape.nsegments;
        packet_destroy(net, p);
        return;
    }
    p->stage = STAGE_LEFT;
    pair->sends = true;
    heap_push(net, wan_queue_enter(&pair->queue, line, now_ns, item->bytes), p);
}

/* A packet enters the fair queue of its pair. If that is full, the longest flow loses packets. */
static void fair_enter(struct wan_net *net, uint64_t now_ns, struct packet *p)
{
    struct pair_state *pair = &net->pair[p->from][p->shape.to];
    const struct wan_line *line = &net->matrix.pair[p->from][p->shape.to].line;
    const uint64_t bytes = wan_shape_bytes(&p->shape, p->shape.nsegments);
    struct wan_fair_item *dropped;
    uint64_t room;
    uint32_t n;

    p->queued.flow = wan_flow(p->frame, p->bytes);
    while (pair->fair->bytes + bytes > line->queue_bytes &&
           (dropped = wan_fair_drop(pair->fair, p->queued.flow, bytes))) {
        pair->count.dropped_pair += packet_of(dropped)->shape.nsegments;
        packet_destroy(net, packet_of(dropped));
    }
    room = line->queue_bytes > pair->fair->bytes ? line->queue_bytes - pair->fair->bytes : 0;
    n = wan_shape_fit(&p->shape, room);
    n = n < p->shape.nsegments ? n : p->shape.nsegments;
    pair->count.dropped_pair += p->shape.nsegments - n;
    if (n == 0) {
        packet_destroy(net, p);
        return;
    }
    packet_cut(net, p, n);
    p->queued.bytes = wan_shape_bytes(&p->shape, n);
    wan_fair_push(pair->fair, &p->queued);
    fair_send(net, now_ns, pair, line);
}

/* A packet has left the link behind its fair queue. */
static void fair_leave(struct wan_net *net, uint64_t now_ns, struct packet *p)
{
    struct pair_state *pair = &net->pair[p->from][p->shape.to];
    const struct wan_line *line = &net->matrix.pair[p->from][p->shape.to].line;

    net->under_way_bytes -= p->bytes;       /* its pieces are counted from now on */
    leave_line(net, now_ns, p->from, &p->shape, p->frame, p->bytes, p->shape.nsegments);
    free(p);
    pair->sends = false;
    fair_send(net, now_ns, pair, line);
}

/* Returns whether packets of the pair are sent through a fair queue. */
static bool fair_applies(struct pair_state *pair, const struct wan_line *line)
{
    if (line->discipline != WAN_FAIR || !line->bit_s)
        return false;
    if (!pair->fair && (pair->fair = malloc(sizeof *pair->fair)))
        wan_fair_init(pair->fair);
    return pair->fair;
}

void wan_net_send(struct wan_net *net, uint64_t now_ns, uint32_t from, const uint8_t *frame,
                  size_t bytes)
{
    const struct wan_pair *line;
    struct pair_state *pair;
    struct wan_shape s;
    uint64_t left_ns;
    uint32_t n;

    tt_assert(from < net->matrix.nhosts);
    if (!wan_shape_read(&s, frame, bytes, net->matrix.nhosts) || s.to == from) {
        net->strays++;
        return;
    }
    pair = &net->pair[from][s.to];
    line = &net->matrix.pair[from][s.to];
    pair->count.packets++;
    pair->count.segments += s.nsegments;
    pair->count.bytes += wan_shape_bytes(&s, s.nsegments);
    n = pass(&net->up[from], &net->matrix.host[from].up, now_ns, &s, s.nsegments,
             &pair->count.dropped_up, &left_ns);
    if (fair_applies(pair, &line->line)) {
        if (n > 0)
            send_piece(net, left_ns, STAGE_PAIR, from, &s, frame, bytes, 0, n);
        return;
    }
    n = pass(&pair->queue, &line->line, left_ns, &s, n, &pair->count.dropped_pair, &left_ns);
    leave_line(net, left_ns, from, &s, frame, bytes, n);
}

/* Passes a packet to the down link of its host, where it may be queued again, or split. */
static void go_down(struct wan_net *net, uint64_t now_ns, struct packet *p)
{
    const uint32_t to = p->shape.to;
    struct wan_count *count = &net->pair[p->from][to].count;
    uint64_t left_ns;
    const uint32_t n = pass(&net->down[to], &net->matrix.host[to].down, now_ns, &p->shape,
                            p->shape.nsegments, &count->dropped_down, &left_ns);

    if (n > 0)
        packet_cut(net, p, n);
    p->stage = STAGE_ARRIVED;
    if (n > 0)
        heap_push(net, left_ns, p);
    else
        packet_destroy(net, p);
}

static void go_on(struct wan_net *net, uint64_t now_ns, struct packet *p)
{
    switch (p->stage) {
    case STAGE_PAIR:
        fair_enter(net, now_ns, p);
        break;
    case STAGE_LEFT:
        fair_leave(net, now_ns, p);
        break;
    default:
        go_down(net, now_ns, p);
    }
}

uint64_t wan_net_due(const struct wan_net *net)
{
    return net->nevents ? net->heap[0].due_ns : TT_NEVER;
}

bool wan_net_take(struct wan_net *net, uint64_t now_ns, struct wan_arrival *out)
{
    free(net->taken);
    net->taken = NULL;
    while (wan_net_due(net) <= now_ns) {
        const struct event e = heap_pop(net);
        struct packet *p = e.packet;
        struct wan_count *count = &net->pair[p->from][p->shape.to].count;

        if (p->stage != STAGE_ARRIVED) {
            go_on(net, e.due_ns, p);        /* at its due time, even if processed late */
            continue;
        }
        count->arrived_segments += p->shape.nsegments;
        count->arrived_bytes += wan_shape_bytes(&p->shape, p->shape.nsegments);
        net->under_way_bytes -= p->bytes;
        net->taken = p;
        *out = (struct wan_arrival){ p->from, p->shape.to, e.due_ns, p->bytes, p->frame };
        return true;
    }
    return false;
}

tutti_status wan_net_change(struct wan_net *net, uint32_t from, uint32_t to, const char *key,
                            double value)
{
    return wan_matrix_change(&net->matrix, from, to, key, value);
}

const struct wan_count *wan_net_count(const struct wan_net *net, uint32_t from, uint32_t to)
{
    return &net->pair[from][to].count;
}

/* ---- output of counters ---- */

static void write_pair(FILE *to, const struct pair_state *pair)
{
    const struct wan_count *c = &pair->count;

    fprintf(to, "{\"packets\": %" PRIu64 ", \"segments\": %" PRIu64 ", \"bytes\": %" PRIu64 ", ",
            c->packets, c->segments, c->bytes);
    fprintf(to, "\"arrived_segments\": %" PRIu64 ", \"arrived_bytes\": %" PRIu64 ", ",
            c->arrived_segments, c->arrived_bytes);
    fprintf(to,
            "\"lost\": %" PRIu64 ", \"dropped_up\": %" PRIu64 ", \"dropped_pair\": %" PRIu64 ", ",
            c->lost, c->dropped_up, c->dropped_pair);
    fprintf(to, "\"dropped_down\": %" PRIu64 ", \"dropped_room\": %" PRIu64 ", ", c->dropped_down,
            c->dropped_room);
    fprintf(to, "\"queue_peak_bytes\": %" PRIu64 "}",
            pair->fair ? pair->fair->peak_bytes : pair->queue.peak_bytes);
}

void wan_net_write(FILE *to, const struct wan_net *net)
{
    const uint32_t n = net->matrix.nhosts;

    fprintf(to,
            "\"strays\": %" PRIu64 ", \"under_way_bytes\": %" PRIu64
            ", \"under_way_peak_bytes\": %" PRIu64 ", \"hosts\": [",
            net->strays, net->under_way_bytes, net->under_way_peak_bytes);
    for (uint32_t h = 0; h < n; h++)
        fprintf(to,
                "%s{\"up_queue_peak_bytes\": %" PRIu64 ", \"down_queue_peak_bytes\": %" PRIu64 "}",
                h ? ", " : "", net->up[h].peak_bytes, net->down[h].peak_bytes);
    fputs("], \"pairs\": [", to);
    for (uint32_t a = 0; a < n; a++) {
        fputs(a ? ", [" : "[", to);
        for (uint32_t b = 0; b < n; b++) {
            fputs(b ? ", " : "", to);
            if (a == b)
                fputs("null", to);
            else
                write_pair(to, &net->pair[a][b]);
        }
        fputc(']', to);
    }
    fputc(']', to);
}
