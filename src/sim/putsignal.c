#include "sim/putsignal.h"

#include <stdlib.h>

#include "base/status.h"
#include "sim/queue.h"

enum op { OP_PUT, OP_FENCE, OP_DRAIN, OP_SIGNAL };

enum state { ON_ITS_WAY, LANDING, LANDED };

struct message {
    struct tt_net_path path;
    uint64_t head_ps, tail_ps, bytes;
    uint32_t sender, put;       /* put: the message with the data of a signal; itself for a put */
    uint8_t hop, state;
};

struct sender {
    uint32_t rank, first_peer, npeers;
    uint32_t at;                /* index of the next transfer; their number: none left */
    uint32_t group_at, left;    /* first transfer of the current group, and number of transfers left
                                   in it; for decoupled modes */
    uint8_t phase;              /* of a transfer, or of a group */
    bool draining;
    uint32_t unacked;
    uint64_t clock_ps;          /* time of the proxy; at the end, of the last acknowledgement */
    uint64_t drains, fences, signals;
};

struct burst {
    const struct tt_putsignal_conf *conf;
    struct tt_net net;
    struct tt_queue queue;      /* of messages, by number */
    uint64_t now_ps;
    struct sender *sender;      /* [conf->senders] */
    struct message *message;    /* sender s has 2 * transfers, from index 2 * transfers * s on, puts
                                   before signals */
};

const char *tt_putsignal_mode_name(enum tt_putsignal_mode mode)
{
    static const char *const names[] = {
        [TT_PUTSIGNAL_PUT_ONLY] = "put-only",   [TT_PUTSIGNAL_COUPLED] = "coupled",
        [TT_PUTSIGNAL_DECOUPLED] = "decoupled", [TT_PUTSIGNAL_ORDERED] = "ordered",
        [TT_PUTSIGNAL_FULL] = "full",
    };

    return (unsigned)mode < TT_PUTSIGNAL_MODES ? names[mode] : "?";
}

/* ---- operations published by a device ---- */

/* Number of destinations: destination d has the transfers d, d + destinations, ... */
static uint32_t destinations_of(const struct burst *b, const struct sender *s)
{
    return b->conf->transfers < s->npeers ? b->conf->transfers : s->npeers;
}

/* For each transfer: put, drain or fence, signal. */
static bool next_coupled(const struct burst *b, struct sender *s, enum op *op, uint32_t *transfer)
{
    const enum op order[] = { OP_PUT, b->conf->mode == TT_PUTSIGNAL_COUPLED ? OP_DRAIN : OP_FENCE,
                              OP_SIGNAL };

    if (s->at == b->conf->transfers)
        return false;
    *op = order[s->phase];
    *transfer = s->at;
    s->phase = (uint8_t)((s->phase + 1) % 3);
    s->at += s->phase == 0;
    return true;
}

enum { PUTTING, FENCING, SIGNALLING };      /* phases of a sender, for decoupled modes */

/* Moves to the next transfer in the order of destinations. */
static void sender_next_transfer(const struct burst *b, struct sender *s)
{
    const uint32_t n = b->conf->transfers, d = destinations_of(b, s), to = s->at % d;

    s->at = s->at + d < n ? s->at + d : to + 1 < d ? to + 1 : n;
    s->left--;
}

/* Starts a pass over the current group. */
static void begin_phase(const struct burst *b, struct sender *s, uint8_t phase)
{
    const uint32_t n = b->conf->transfers, d = destinations_of(b, s);

    s->phase = phase;
    s->at = s->group_at;
    s->left = b->conf->group ? b->conf->group : (n - s->at % d + d - 1) / d;
}

/* All puts; then for each group a drain or fence of each of its destinations, and its signals. */
static bool next_decoupled(const struct burst *b, struct sender *s, enum op *op, uint32_t *transfer)
{
    const enum tt_putsignal_mode mode = b->conf->mode;
    const uint32_t n = b->conf->transfers, d = destinations_of(b, s);

    if (s->phase == PUTTING && s->at < n) {
        *op = OP_PUT;
        *transfer = s->at++;
        return true;
    }
    if (mode == TT_PUTSIGNAL_PUT_ONLY || s->group_at == n)
        return false;
    if (s->phase == PUTTING)
        begin_phase(b, s, FENCING);
    if (s->phase == FENCING) {
        const uint32_t to = s->at % d;

        *op = mode == TT_PUTSIGNAL_DECOUPLED ? OP_DRAIN : OP_FENCE;
        while (s->left && s->at % d == to)
            sender_next_transfer(b, s);
        if (!s->left)
            begin_phase(b, s, SIGNALLING);
        return true;
    }
    *op = OP_SIGNAL;
    *transfer = s->at;
    sender_next_transfer(b, s);
    if (!s->left) {
        s->group_at = s->at;
        if (s->at < n)
            begin_phase(b, s, FENCING);
    }
    return true;
}

static bool next_op(const struct burst *b, struct sender *s, enum op *op, uint32_t *transfer)
{
    const enum tt_putsignal_mode mode = b->conf->mode;

    return mode == TT_PUTSIGNAL_COUPLED || mode == TT_PUTSIGNAL_ORDERED
               ? next_coupled(b, s, op, transfer)
               : next_decoupled(b, s, op, transfer);
}

/* ---- messages ---- */

static void burst_schedule(struct burst *b, uint64_t time_ps, uint32_t i)
{
    tt_queue_push(&b->queue, (struct tt_queue_item){ .time_ps = time_ps, .what = i });
}

/* The proxy passes a put or a signal to the network. */
static void proxy_send(struct burst *b, uint32_t number, uint32_t transfer, bool is_signal)
{
    const struct tt_putsignal_conf *c = b->conf;
    struct sender *s = &b->sender[number];
    const uint32_t put = 2 * c->transfers * number + transfer,
                   i = put + (is_signal ? c->transfers : 0);
    const uint32_t to = (s->first_peer + transfer % s->npeers) % c->net->layout->nranks;
    struct message *m = &b->message[i];

    s->clock_ps = tt_net_after(s->clock_ps, c->op_ns * TT_PS_PER_NS);
    *m = (struct message){ .head_ps = s->clock_ps,
                           .tail_ps = s->clock_ps,
                           .sender = number,
                           .put = put,
                           .bytes = c->header_bytes + (is_signal ? 0 : c->bytes) };
    tt_net_path(&b->net, s->rank, to, &m->path);    /* there are no dead rails */
    s->unacked++;
    burst_schedule(b, m->head_ps, i);
}

/* The proxy runs until it must wait, or is done. */
static void proxy_run(struct burst *b, uint32_t number)
{
    struct sender *s = &b->sender[number];
    uint32_t transfer = 0;
    enum op op;

    while (next_op(b, s, &op, &transfer)) {
        s->drains += op == OP_DRAIN;
        s->fences += op == OP_FENCE;
        s->signals += op == OP_SIGNAL;
        if (op == OP_PUT || op == OP_SIGNAL)
            proxy_send(b, number, transfer, op == OP_SIGNAL);
        s->draining = op == OP_DRAIN && s->unacked > 0;
        if (s->draining)
            return;
    }
}

static void burst_acked(struct burst *b, uint32_t number)
{
    struct sender *s = &b->sender[number];

    if (--s->unacked)
        return;
    if (b->now_ps > s->clock_ps)
        s->clock_ps = b->now_ps;
    if (s->draining)
        proxy_run(b, number);
}

/* Passes a message to the next server of its path, as in des_move.c: its head continues at once,
 * its tail when the slowest server has passed it. */
static void message_hop(struct burst *b, uint32_t i)
{
    struct message *m = &b->message[i];
    uint64_t begin, end;

    tt_net_serve(&b->net, m->path.server[m->hop], (enum tt_distance)m->path.class_of[m->hop],
                 b->now_ps, m->bytes, &begin, &end);
    m->head_ps = begin;
    if (end > m->tail_ps)
        m->tail_ps = end;
    if (++m->hop == m->path.nup) {
        m->head_ps += m->path.latency_ps;
        m->tail_ps += m->path.latency_ps;
    }
    if (m->hop < m->path.nhops) {
        burst_schedule(b, m->head_ps, i);
        return;
    }
    m->state = LANDING;
    burst_schedule(b, m->tail_ps, i);
}

static void message_step(struct burst *b, uint32_t i)
{
    struct message *m = &b->message[i];

    if (m->state == ON_ITS_WAY) {
        message_hop(b, i);
    } else if (m->state == LANDING) {
        m->state = LANDED;
        tt_assert(b->message[m->put].state == LANDED);  /* a reader of the signal sees the bytes */
        burst_schedule(b, m->tail_ps + m->path.latency_ps, i);
    } else {
        burst_acked(b, m->sender);
    }
}

/* ---- simulation ---- */

/* Sets a sender's peers: the ranks after those of its host, cyclically. Returns false if there are
 * none. */
static bool find_peers(const struct tt_layout *l, uint32_t rank, struct sender *s)
{
    const uint32_t host = tt_layout_host(l, rank), n = tt_layout_host_ranks(l, host);

    *s = (struct sender){ .rank = rank,
                          .first_peer = tt_layout_rank(l, host, 0) + n,
                          .npeers = l->nranks - n };
    return s->npeers > 0;
}

static tutti_status check_burst(const struct tt_putsignal_conf *c)
{
    const uint32_t nranks = c->net->layout->nranks;
    uint32_t ignored;

    if (!tt_layout_is_even(c->net->layout, &ignored))
        return tt_fail(TUTTI_ERR_INVALID,
                       "putsignal: uneven layout: each host must have the same number of "
                       "consecutive ranks");
    if (c->senders < 1 || c->senders > nranks)
        return tt_fail(TUTTI_ERR_INVALID,
                       "putsignal: senders is %u: must be 1 to %u (the number of ranks)",
                       c->senders, nranks);
    if (c->transfers < 1 || c->transfers > TT_PUTSIGNAL_MESSAGES_MAX / 2 / c->senders)
        return tt_fail(TUTTI_ERR_INVALID,
                       "putsignal: transfers is %u: with %u senders, it must be 1 to %u",
                       c->transfers, c->senders, TT_PUTSIGNAL_MESSAGES_MAX / 2 / c->senders);
    if (c->group && c->transfers % c->group)
        return tt_fail(TUTTI_ERR_INVALID,
                       "putsignal: transfers is %u: must be a multiple of group, %u", c->transfers,
                       c->group);
    if (c->header_bytes < 1)
        return tt_fail(TUTTI_ERR_INVALID, "putsignal: header_bytes is %llu: must be at least 1",
                       (unsigned long long)c->header_bytes);
    if (c->bytes > UINT64_MAX / 2)
        return tt_fail(TUTTI_ERR_INVALID, "putsignal: bytes is %llu: the maximum is %llu",
                       (unsigned long long)c->bytes, (unsigned long long)(UINT64_MAX / 2));
    if (!(c->op_ns >= 0))
        return tt_fail(TUTTI_ERR_INVALID, "putsignal: op_ns is %g: must be at least 0", c->op_ns);
    return TUTTI_OK;
}

static void burst_run(struct burst *b)
{
    struct tt_queue_item item;

    for (uint32_t s = 0; s < b->conf->senders; s++)
        proxy_run(b, s);
    while (tt_queue_pop(&b->queue, &item)) {
        b->now_ps = item.time_ps;
        message_step(b, item.what);
    }
}

static struct tt_putsignal_result burst_result(const struct burst *b)
{
    const struct sender *s = &b->sender[0];
    struct tt_putsignal_result r = { .drains = s->drains,
                                     .fences = s->fences,
                                     .signals = s->signals,
                                     .destinations = destinations_of(b, s) };
    uint64_t last_ps = 0;

    for (uint32_t i = 0; i < b->conf->senders; i++)
        if (b->sender[i].clock_ps > last_ps)
            last_ps = b->sender[i].clock_ps;
    r.time_ns = (double)last_ps / TT_PS_PER_NS;
    return r;
}

tutti_status tt_putsignal_run(const struct tt_putsignal_conf *conf, struct tt_putsignal_result *out)
{
    struct burst b = { .conf = conf };
    tutti_status st = check_burst(conf);

    if (!st)
        st = tt_net_init(&b.net, conf->net, NULL, 0);
    if (st)
        return st;
    tt_queue_init(&b.queue);
    b.sender = calloc(conf->senders, sizeof *b.sender);
    b.message = calloc(2 * (size_t)conf->transfers * conf->senders, sizeof *b.message);
    if (!b.sender || !b.message)
        st = tt_fail(TUTTI_ERR_NOMEM,
                     "putsignal: out of memory for %u transfers of each of %u senders",
                     conf->transfers, conf->senders);
    for (uint32_t s = 0; s < conf->senders && !st; s++)
        if (!find_peers(conf->net->layout, s, &b.sender[s]))
            st =
                tt_fail(TUTTI_ERR_INVALID, "putsignal: too few hosts: all %u ranks are on one host",
                        conf->net->layout->nranks);
    if (!st) {
        burst_run(&b);
        *out = burst_result(&b);
    }
    free(b.sender);
    free(b.message);
    tt_queue_fini(&b.queue);
    tt_net_fini(&b.net);
    return st;
}
