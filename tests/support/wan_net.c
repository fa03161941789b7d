#include "support/wan_net.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"
#include "support/wan_packet.h"
#include "support/wan_queue.h"

#define GOLDEN 0x9e3779b97f4a7c15ull    /* increment of SplitMix64 */

struct packet {
    uint32_t from;
    bool is_down;                       /* also through the receiver's line */
    size_t bytes;
    struct wan_shape shape;
    uint8_t frame[];
};

/* A packet in flight until a time. */
struct event {
    uint64_t due_ns;
    uint64_t order;                     /* order of events with equal times */
    struct packet *packet;
};

struct pair_state {
    struct wan_queue queue;
    struct wan_count count;
    uint64_t drawn;                     /* number of segments whose loss was decided */
    uint64_t last_ns;                   /* arrival time of the last packet */
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

void wan_net_destroy(struct wan_net *net)
{
    for (size_t i = 0; i < net->nevents; i++)
        free(net->heap[i].packet);
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

/* Requires space for one more event. */
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
    *p = (struct packet){ .from = from, .shape = *shape, .bytes = bytes };
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

/* Sends segments [first, first + n) of a frame, due at a time. */
static void send_piece(struct wan_net *net, uint64_t due_ns, uint32_t from,
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
    if (p)
        heap_push(net, due_ns, p);
    else
        net->pair[from][s->to].count.dropped_room += n;
}

/* ---- transfer ---- */

/* Returns the number of the first n segments that fit into a queue at now_ns; the others are
 * counted as dropped. *out_ns: when the last one leaves. */
static uint32_t pass(struct wan_queue *q, const struct wan_line *line, uint64_t now_ns,
                     const struct wan_shape *s, uint32_t n, uint64_t *dropped, uint64_t *out_ns)
{
    const uint32_t fit = wan_shape_fit(s, wan_queue_room(q, line, now_ns));
    const uint32_t kept = fit < n ? fit : n;

    *dropped += n - kept;
    *out_ns = now_ns;
    if (kept > 0)
        *out_ns = wan_queue_enter(q, line, now_ns, wan_shape_bytes(s, kept));
    return kept;
}

/* Returns whether the pair's next segment is lost; depends only on the seed, the pair and the
 * segment's number. */
static bool draw_loss(struct wan_net *net, uint32_t from, uint32_t to)
{
    const double loss = net->matrix.pair[from][to].loss;
    const uint64_t begin = tt_mix64(net->matrix.seed ^ tt_mix64((uint64_t)from << 32 | (to + 1)));
    const uint64_t drawn = tt_mix64(begin + net->pair[from][to].drawn++ * GOLDEN);

    return (double)(drawn >> 11) < loss * 0x1p53;
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
            send_piece(net, due_ns, from, s, frame, bytes, first, i - first);
        if (is_lost)
            first = i + 1;
    }
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
    n = pass(&pair->queue, &line->line, left_ns, &s, n, &pair->count.dropped_pair, &left_ns);
    left_ns += line->delay_ns;
    pair->last_ns = left_ns > pair->last_ns ? left_ns : pair->last_ns;
    if (n > 0)
        lose(net, pair->last_ns, from, &s, frame, bytes, n);
}

/* Passes a packet to the down line of its host, where it may wait again, or be split. */
static void go_down(struct wan_net *net, uint64_t now_ns, struct packet *p)
{
    const uint32_t to = p->shape.to;
    struct wan_count *count = &net->pair[p->from][to].count;
    uint64_t left_ns;
    const uint32_t n = pass(&net->down[to], &net->matrix.host[to].down, now_ns, &p->shape,
                            p->shape.nsegments, &count->dropped_down, &left_ns);

    if (n > 0 && n < p->shape.nsegments) {
        const size_t bytes = wan_piece_write(net->piece, &p->shape, p->frame, 0, n);

        tt_assert(bytes < p->bytes);
        net->under_way_bytes -= p->bytes - bytes;
        p->bytes = bytes;
        memcpy(p->frame, net->piece, bytes);
        p->shape = shape_of(net, p->frame, bytes);
    }
    p->is_down = true;
    if (n > 0)
        heap_push(net, left_ns, p);
    else
        packet_destroy(net, p);
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

        if (!p->is_down) {
            go_down(net, e.due_ns, p);      /* at its due time, even if processed late */
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
    fprintf(to, "\"queue_peak_bytes\": %" PRIu64 "}", pair->queue.peak_bytes);
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
