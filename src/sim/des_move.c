/* Messages in transit: from the sender's thread through the servers of the network to the
 * receiver. */
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "base/status.h"
#include "sim/des_state.h"

#define CONTROL_BYTES 64u       /* a mailbox cell: CTS, credit */

static bool msg_has_data(const struct des_msg *m)
{
    return m->kind == DES_EAGER || m->kind == DES_SEGMENT;
}

static uint64_t wire_bytes(const struct des_msg *m)
{
    return msg_has_data(m) ? m->bytes : CONTROL_BYTES;
}

/* ---- departure ---- */

/* Charges a rank's thread for sending one message. */
static void spend_send(struct des *s, uint32_t me, enum tt_distance d)
{
    des_spend(s, me, des_way(s, d)->send_ns * TT_PS_PER_NS);
    if (s->conf->jitter_ns > 0)
        s->rank[me].clock_ps = tt_net_after(
            s->rank[me].clock_ps,
            (double)tt_prng_below(&s->prng, (uint64_t)(s->conf->jitter_ns * TT_PS_PER_NS) + 1));
}

void des_spend_bytes(struct des *s, uint32_t me, uint32_t m, uint64_t bytes)
{
    const struct tt_des_way *way = des_way(s, s->msg[m].path.distance);

    if (way->send_byte_ns <= 0)
        return;
    des_spend(s, me, (double)bytes * way->send_byte_ns * TT_PS_PER_NS);
    if (s->msg[m].count == 1)
        s->msg[m].head_ps = s->rank[me].clock_ps;
    s->msg[m].tail_ps = s->rank[me].clock_ps;
}

uint32_t des_new(struct des *s, uint32_t me, uint16_t peer, enum des_kind kind)
{
    struct des_rank *r = &s->rank[me];
    const uint32_t i = des_alloc(s);
    struct des_msg *m = &s->msg[i];
    bool there;

    m->kind = (uint8_t)kind;
    m->from = me;
    m->to = r->peers[peer].rank;
    m->bytes = 0;
    m->seq = m->step = m->seen = m->shown = 0;
    m->count = 1;
    m->stream = m->hop = 0;
    m->direct = m->delivered = false;
    m->credits = r->flow[peer].eager_owed;
    m->next = DES_NONE;
    there = des_lanes_path(s, me, peer, m->to, kind == DES_SEGMENT, &m->path);
    spend_send(s, me, m->path.distance);
    if (!there) {
        s->lost++;
        des_free(s, i);
        return DES_NONE;
    }
    r->flow[peer].eager_owed = 0;
    m->head_ps = m->tail_ps = r->clock_ps;
    return i;
}

/* ps * part / whole, without overflow. */
static uint64_t share_of(uint64_t ps, uint16_t part, uint16_t whole)
{
    return ps / whole * part + ps % whole * part / whole;
}

/* A message passes the first server of its path from begin to end. The sources of a train's first
 * half may be reused before those of the second, so its sender need not idle between trains. */
static void msg_left(struct des *s, uint32_t i, uint64_t begin_ps, uint64_t end_ps)
{
    const struct des_msg *m = &s->msg[i];
    const uint32_t from = m->from, to = m->to;
    const uint16_t half = m->count / 2;
    const struct des_sent first = { .seq = m->seq, .step = m->step, .count = half };
    const struct des_sent second = { .seq = m->seq + half,
                                     .step = m->step,
                                     .count = (uint16_t)(m->count - half) };

    if (m->kind != DES_SEGMENT)
        return;
    if (half)
        des_sent_at(s, from, to, &first,
                    begin_ps + share_of(end_ps - begin_ps, half, (uint16_t)(half + second.count)));
    des_sent_at(s, from, to, &second, end_ps);
}

static void msg_arrive(struct des *s, uint32_t i)
{
    struct des_msg *m = &s->msg[i];

    m->delivered = true;
    if (m->count > 1)
        des_deliver_next(s, i);
    else
        des_at(s, m->tail_ps, i);
}

/* Handles a message that has passed server `hop`. */
static void msg_next_hop(struct des *s, uint32_t i)
{
    struct des_msg *m = &s->msg[i];

    if (++m->hop == m->path.nup) {
        m->head_ps += m->path.latency_ps;
        m->tail_ps += m->path.latency_ps;
    }
    if (m->hop == m->path.nhops)
        msg_arrive(s, i);
    else
        des_at(s, m->head_ps, i);
}

static void count_message(struct des *s, const struct des_msg *m)
{
    s->result.messages += m->count;
    if (m->kind == DES_SEGMENT)
        s->result.segments += m->count;
    if (msg_has_data(m)) {
        s->result.bytes[m->path.distance] += m->bytes;
        s->result.puts[m->path.distance] += m->count;
    }
}

/* Limits the rate of a pair of ranks that has its own limit. */
static void bound_pair(struct des *s, struct des_flow *f, struct des_msg *m)
{
    const double byte_ps = s->net.pair_byte_ps[m->path.distance];

    if (byte_ps <= 0)
        return;
    if (f->pair_free_ps > m->head_ps)
        m->head_ps = f->pair_free_ps;
    f->pair_free_ps = tt_net_after(m->head_ps, (double)wire_bytes(m) * byte_ps);
    if (f->pair_free_ps > m->tail_ps)
        m->tail_ps = f->pair_free_ps;
}

void des_send(struct des *s, uint32_t me, uint16_t peer, uint32_t i)
{
    struct des_msg *m = &s->msg[i];
    uint64_t begin, end;

    count_message(s, m);
    bound_pair(s, &s->rank[me].flow[peer], m);
    if (!m->path.first_is_private) {
        des_at(s, m->head_ps, i);
        return;
    }
    tt_net_serve(&s->net, m->path.server[0], m->path.class_of[0], m->head_ps, wire_bytes(m), &begin,
                 &end);
    m->head_ps = begin;
    if (end > m->tail_ps)
        m->tail_ps = end;
    msg_left(s, i, begin, m->tail_ps);
    msg_next_hop(s, i);
}

void des_hop(struct des *s, uint32_t i)
{
    struct des_msg *m = &s->msg[i];
    uint64_t begin, end;

    tt_net_serve(&s->net, m->path.server[m->hop], m->path.class_of[m->hop], s->now_ps,
                 wire_bytes(m), &begin, &end);
    m->head_ps = begin;
    if (end > m->tail_ps)
        m->tail_ps = end;
    if (m->hop == 0)
        msg_left(s, i, begin, m->tail_ps);
    msg_next_hop(s, i);
}

/* ---- trains ---- */

/* Returns whether segment `a` continues the train, from the same put. */
static bool continues_train(const struct des *s, uint32_t me, const struct tt_action *a)
{
    const struct des_msg *m = s->train == DES_NONE ? NULL : &s->msg[s->train];

    return m && m->from == me && m->step == a->step && m->seq + m->count == a->seq &&
           m->stream == a->stream && m->count < UINT16_MAX;
}

void des_flush(struct des *s)
{
    const uint32_t i = s->train;
    const struct des_msg *m;

    if (i == DES_NONE)
        return;
    s->train = DES_NONE;
    m = &s->msg[i];
    des_send(s, m->from, (uint16_t)tt_exec_peer_of(&s->rank[m->from].exec, m->to), i);
}

/* Bytes that the sender of a segment copies: none if the data is already in the receiver's slot, or
 * will be fetched. */
static uint64_t copied_of(const struct des *s, uint32_t me, const struct tt_action *a)
{
    const uint32_t to = s->rank[me].peers[a->peer].rank;
    const struct tt_des_way *way = des_way(s, tt_layout_distance(s->conf->net->layout, me, to));

    return a->a.kind == TT_AT_REMOTE || ((a->direct || !way->mapped) && way->single_bytes)
               ? 0
               : a->bytes;
}

void des_send_segment(struct des *s, uint32_t me, const struct tt_action *a)
{
    const uint64_t copied = copied_of(s, me, a);
    struct des_msg *m;
    uint32_t i;

    if (continues_train(s, me, a)) {
        m = &s->msg[s->train];
        spend_send(s, me, m->path.distance);
        m->bytes += a->bytes;
        m->count++;
        m->tail_ps = s->rank[me].clock_ps;
        des_spend_bytes(s, me, s->train, copied);
        return;
    }
    des_flush(s);
    i = des_new(s, me, a->peer, DES_SEGMENT);
    if (i == DES_NONE)
        return;
    m = &s->msg[i];
    m->bytes = a->bytes;
    m->seq = a->seq;
    m->step = a->step;
    m->stream = a->stream;
    m->direct = a->direct;
    des_spend_bytes(s, me, i, copied);
    s->train = i;
    if (des_lanes_stripe(s, me, m->to))
        m->number = ++s->rank[me].flow[a->peer].posted;
    /* segments sent at once are one message, with the number of the last one */
    if (s->conf->whole || m->number || a->bytes > s->conf->segment_bytes)
        des_flush(s);
}

/* Offset of segment j of a train from the train's start. */
static uint64_t train_offset(const struct des *s, const struct des_msg *m, uint32_t j)
{
    const uint64_t at = j * s->conf->segment_bytes;

    return at < m->bytes ? at : m->bytes;
}

uint64_t des_came(const struct des *s, const struct des_msg *m)
{
    if (m->kind != DES_SEGMENT || m->count == 1)
        return msg_has_data(m) ? m->bytes : 0;
    return train_offset(s, m, m->seen) - train_offset(s, m, m->shown);
}

/* Returns whether a step that waits for a part of the train could use it before the whole train has
 * arrived. */
static bool uses_part_early(struct des *s, const struct des_msg *m, const struct tt_exec_step *t,
                            uint64_t software_ps)
{
    struct tt_net_path p;

    if (t->s.opcode != TT_PUT || t->eager || !tt_net_path(&s->net, m->to, t->s.peer, &p))
        return true;
    return s->net.server[p.server[0]].free_ps < m->tail_ps + software_ps;
}

/* Returns whether the rest of a train may be delivered with its end. False if the train keeps the
 * receiver's thread busy most of the time. */
static bool train_may_wait(struct des *s, const struct des_msg *m)
{
    const struct tt_exec *x = &s->rank[m->to].exec;
    const int peer = tt_exec_peer_of(x, m->from);
    const struct tt_des_way *way = des_way(s, m->path.distance);
    const uint64_t software_ps =
        (uint64_t)((way->send_ns + way->receive_ns) * TT_PS_PER_NS * (double)s->rank[m->to].slow +
                   0.5);
    uint64_t bit = 0;

    if ((double)software_ps * m->count > (double)(m->tail_ps - m->head_ps))
        return false;
    if (!m->direct || peer < 0 || x->round < x->nrounds)
        return false;
    for (uint32_t n = x->head; n != x->tail; n++) {
        const struct tt_exec_step *t = &x->step[n % TT_EXEC_STEPS];

        if (!bit && !t->over && t->s.opcode == TT_WAIT && t->peer == peer &&
            t->stream == m->stream && !t->eager &&
            m->seq - t->seq0 < tt_exec_segments(t->s.bytes, x->conf.segment_bytes))
            bit = 1ull << n % TT_EXEC_STEPS;
        else if (bit && !t->over && t->deps & bit && uses_part_early(s, m, t, software_ps))
            return false;
    }
    return bit != 0;
}

void des_deliver_next(struct des *s, uint32_t i)
{
    struct des_msg *m = &s->msg[i];
    const double part = (double)train_offset(s, m, m->seen + 1u) / (double)m->bytes;
    uint64_t at;

    m->shown = m->seen;
    if (m->seen + 1 == m->count || train_may_wait(s, m)) {
        m->seen = m->count;
        at = m->tail_ps;
    } else {
        m->seen++;
        at = m->head_ps + (uint64_t)((double)(m->tail_ps - m->head_ps) * part + 0.5);
    }
    des_at(s, at > s->now_ps ? at : s->now_ps, i);
}
