#include "sim/des.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "base/status.h"
#include "sim/des_state.h"

#define PROGRESS_EVENTS (1u << 16)

/* Prefetch distance, in events, of the data that they touch. */
#define FETCH_MESSAGE 20
#define FETCH_RANK 12
#define FETCH_STEPS 6

/* ---- actions of a rank ---- */

static void spend_ns(struct des *s, uint32_t me, double ns) { des_spend(s, me, ns * TT_PS_PER_NS); }

/* An eager message was read: its credit returns with the next message, or separately when half of
 * the credits are pending. */
static void eager_read(struct des *s, uint32_t me, uint16_t peer)
{
    struct des_flow *f = &s->rank[me].flow[peer];
    uint32_t m;

    if (++f->eager_owed < DES_EAGER_CREDIT / 2)
        return;
    des_flush(s);
    m = des_new(s, me, peer, DES_GIVE);
    if (m != DES_NONE)
        des_send(s, me, peer, m);
}

static void place_read(struct des *s, uint32_t me, const struct tt_place *at)
{
    if (at->kind == TT_AT_EAGER)
        eager_read(s, me, at->peer);
}

/* Sends an eager message. Returns false without credit. */
static bool des_send_eager(struct des *s, uint32_t me, uint16_t peer, uint32_t tag, uint64_t bytes)
{
    struct des_flow *f = &s->rank[me].flow[peer];
    uint32_t m;

    if (f->eager_out == DES_EAGER_CREDIT)
        return false;
    f->eager_out++;
    des_flush(s);
    m = des_new(s, me, peer, DES_EAGER);
    if (m == DES_NONE)
        return true;
    s->msg[m].seq = tag;
    s->msg[m].bytes = bytes;
    des_spend_bytes(s, me, m, bytes);
    des_send(s, me, peer, m);
    return true;
}

/* Returns whether a rank opens its final buffer for the data of `step`, by the same rule as the
 * engine. */
static bool des_opens_direct(const struct des *s, const struct tt_exec *x, uint16_t step)
{
    const struct tt_des_conf *c = s->conf;
    const struct tt_exec_step *t = &x->step[step];
    const struct tt_des_way *way =
        des_way(s, tt_layout_distance(c->net->layout, x->conf.coll->rank, t->s.peer));
    const bool single = way->single_bytes && t->s.bytes >= way->single_bytes &&
                        (tt_coll_reduces(c->algo->kind) ? !way->mapped : t->to_dst);

    if ((!way->direct && !single) || c->algo->direct_unsafe)
        return false;
    return c->algo->kind != TT_ALLTOALL || t->to_dst;
}

static void send_control(struct des *s, uint32_t me, const struct tt_action *a, enum des_kind kind,
                         bool direct)
{
    uint32_t m;

    des_flush(s);
    m = des_new(s, me, a->peer, kind);
    if (m == DES_NONE)
        return;
    s->msg[m].direct = direct;
    s->msg[m].seq = kind == DES_CREDIT ? a->seq : s->rank[me].peers[a->peer].in_depth;
    if (kind == DES_CREDIT)
        s->msg[m].stream = a->stream;
    des_send(s, me, a->peer, m);
}

/* Opens a flow. If all messages are fetched by single copy, the whole message may be sent at
 * once. */
static void do_open_flow(struct des *s, uint32_t me, const struct tt_action *a)
{
    struct tt_exec *x = &s->rank[me].exec;
    const struct tt_exec_step *t = &x->step[a->step];
    const struct tt_des_way *way =
        des_way(s, tt_layout_distance(s->conf->net->layout, me, t->s.peer));
    const bool direct = des_opens_direct(s, x, a->step);
    uint8_t depth = x->conf.depth;

    if (way->single_bytes && !way->mapped)
        depth = tt_exec_depth_of(x, t->s.bytes, way->whole_bytes);
    tt_exec_deepen(x, a->peer, true, depth);
    send_control(s, me, a, DES_READY, direct);
    tt_exec_opened(x, a->peer, direct);
}

/* Sends a segment. Returns false if the lanes to the peer are full. */
static bool put_segment(struct des *s, uint32_t me, const struct tt_action *a)
{
    struct des_flow *f = &s->rank[me].flow[a->peer];
    const uint64_t most =
        s->bounds_lanes ? des_lanes_bytes(s, me, s->rank[me].peers[a->peer].rank) : 0;

    if (most) {
        if (f->outstanding && f->outstanding + a->bytes > most)
            return false;
        f->outstanding += a->bytes;
    }
    des_send_segment(s, me, a);
    place_read(s, me, &a->a);
    return true;
}

/* Returns whether data of this peer was just written by the peer itself, on this host. Fetched data
 * is already in its reader's cache. */
static bool has_come(const struct des *s, uint32_t me, uint16_t peer, bool eager)
{
    const enum tt_distance d =
        tt_layout_distance(s->conf->net->layout, me, s->rank[me].peers[peer].rank);
    const struct tt_des_way *way = des_way(s, d);

    return d <= TT_NEAR_HOST && (eager || way->mapped || !way->single_bytes);
}

static bool place_has_come(const struct des *s, uint32_t me, const struct tt_place *at)
{
    return (at->kind == TT_AT_SLOT || at->kind == TT_AT_EAGER) &&
           has_come(s, me, at->peer, at->kind == TT_AT_EAGER);
}

/* Nanoseconds per byte of a copy or reduction. */
static double des_work_byte_ns(const struct tt_des_conf *c, bool reduces, bool came)
{
    const double own = reduces ? c->reduce_byte_ns : c->copy_byte_ns;
    const double other = reduces ? c->came_reduce_byte_ns : c->came_copy_byte_ns;

    return came && other > 0 ? other : own;
}

static void spend_local(struct des *s, uint32_t me, const struct tt_action *a)
{
    const bool reduces = a->kind == TT_ACT_REDUCE;
    const bool came = place_has_come(s, me, &a->a) || (reduces && place_has_come(s, me, &a->b));

    spend_ns(s, me, (double)a->bytes * des_work_byte_ns(s->conf, reduces, came));
}

/* Runs an action. Returns false if the action must be retried later. */
static bool des_do_action(struct des *s, uint32_t me, const struct tt_action *a)
{
    struct des_rank *r = &s->rank[me];
    const struct tt_des_conf *c = s->conf;

    if (c->step_ns > 0)
        spend_ns(s, me, c->step_ns);
    switch (a->kind) {
    case TT_ACT_OPEN:
        do_open_flow(s, me, a);
        return true;
    case TT_ACT_CREDIT:
        send_control(s, me, a, DES_CREDIT, false);
        break;
    case TT_ACT_PUT:
        if (!put_segment(s, me, a))
            return false;
        tt_exec_taken(&r->exec, a, false);
        des_sent_heed(s, me, a->step);
        return true;
    case TT_ACT_EAGER:
        if (!des_send_eager(s, me, a->peer, a->tag, a->bytes))
            return false;
        place_read(s, me, &a->a);
        break;
    default:
        spend_local(s, me, a);
        place_read(s, me, &a->a);
        if (a->kind == TT_ACT_REDUCE)
            place_read(s, me, &a->b);
    }
    tt_exec_taken(&r->exec, a, true);
    return true;
}

static void operand_read(struct des *s, uint32_t me, int8_t writer)
{
    if (writer >= 0)
        eager_read(s, me, s->rank[me].exec.step[writer].peer);
}

static bool operand_has_come(const struct des *s, uint32_t me, int8_t writer)
{
    return writer >= 0 && has_come(s, me, s->rank[me].exec.step[writer].peer, true);
}

/* Runs a step of a straight-line program, as the engine does; false if it cannot run yet. */
static bool des_step_in_order(struct des *s, uint32_t me, const struct tt_exec_step *t)
{
    const struct tt_des_conf *c = s->conf;

    switch (t->s.opcode) {
    case TT_WAIT:
        if (!t->arrived)
            return false;
        if (t->s.out.buf == TT_BUF_PIPE && t->s.bytes)
            return true;
        spend_ns(s, me,
                 (double)t->s.bytes * des_work_byte_ns(c, false, has_come(s, me, t->peer, true)));
        eager_read(s, me, t->peer);
        return true;
    case TT_PUT:
        if (!des_send_eager(s, me, t->peer, t->s.tag, t->s.bytes))
            return false;
        break;
    case TT_COPY:
        spend_ns(s, me,
                 (double)t->s.bytes *
                     des_work_byte_ns(c, false, operand_has_come(s, me, t->writer_a)));
        break;
    default:
        spend_ns(s, me,
                 (double)t->s.bytes * des_work_byte_ns(c, true,
                                                       operand_has_come(s, me, t->writer_a) ||
                                                           operand_has_come(s, me, t->writer_b)));
        operand_read(s, me, t->writer_b);
    }
    operand_read(s, me, t->writer_a);
    return true;
}

static void des_run_actions(struct des *s, uint32_t me)
{
    struct tt_exec *x = &s->rank[me].exec;
    struct tt_action a;

    if (x->straight) {
        struct tt_exec_step *t;

        while (x->head != x->tail &&
               (x->step[x->head].over || des_step_in_order(s, me, &x->step[x->head])))
            x->head++;
        while (x->head != x->tail && (t = tt_exec_meanwhile(x)) &&
               (t->over = des_step_in_order(s, me, t)))
            ;
        return;
    }
    while (tt_exec_next(x, &a))
        if (!des_do_action(s, me, &a))
            tt_exec_left(x, &a);
}

/* Returns whether the data of this message is fetched by single copy: to its destination, or to
 * slots that only its receiver writes. */
static bool msg_is_fetched(const struct des *s, const struct des_msg *m)
{
    const struct tt_des_way *way = des_way(s, m->path.distance);

    return way->single_bytes && (m->direct || !way->mapped) && m->kind != DES_EAGER;
}

/* Passes a message to its executor. Returns false if its step is not in the window yet. */
static bool pass_to_executor(const struct des *s, struct des_rank *r, const struct des_msg *m)
{
    const int peer = tt_exec_peer_of(&r->exec, m->from);

    if (peer < 0)
        return false;
    switch (m->kind) {
    case DES_READY:
        if (msg_is_fetched(s, m))
            tt_exec_lengthen(&r->exec, (uint16_t)peer, des_way(s, m->path.distance)->whole_bytes);
        tt_exec_deepen(&r->exec, (uint16_t)peer, false, (uint8_t)m->seq);
        tt_exec_ready(&r->exec, (uint16_t)peer, m->direct, des_way(s, m->path.distance)->mapped);
        return true;
    case DES_CREDIT:
        tt_exec_credit(&r->exec, (uint16_t)peer, m->stream, m->seq);
        return true;
    case DES_SEGMENT:
        tt_exec_arrived(&r->exec, (uint16_t)peer, m->stream, m->seq + m->seen);
        return true;
    default:
        /* never true if the length is unexpected; the rank is then reported as stuck */
        return tt_exec_eager(&r->exec, (uint16_t)peer, m->seq, m->bytes) == TUTTI_OK;
    }
}

/* Retries messages that arrived before their step. */
static void des_retry_early(struct des *s, struct des_rank *r)
{
    uint32_t *at = &r->early;

    while (*at != DES_NONE) {
        const uint32_t m = *at;

        if (!pass_to_executor(s, r, &s->msg[m])) {
            at = &s->msg[m].next;
            continue;
        }
        *at = s->msg[m].next;
        des_free(s, m);
    }
}

/* Updates the count of completed steps. */
static void keep_count(struct des *s, struct des_rank *r)
{
    s->steps_over += r->exec.head - r->seen_head;
    s->rounds_loaded += r->exec.round - r->seen_round;
    r->seen_head = r->exec.head;
    r->seen_round = (uint32_t)r->exec.round;
}

static void des_run_rank(struct des *s, uint32_t me)
{
    struct des_rank *r = &s->rank[me];

    do {
        if (r->exec.loaded != r->seen_loaded) {
            s->steps_loaded += r->exec.loaded - r->seen_loaded;
            r->seen_loaded = r->exec.loaded;
            des_retry_early(s, r);
        }
        des_run_actions(s, me);
    } while (r->exec.loaded != r->seen_loaded);
    des_flush(s);
    des_sent_before_rest(s, me);
    keep_count(s, r);
    if (!r->done && tt_exec_finished(&r->exec)) {
        r->done = true;
        r->finished_ps = r->clock_ps;
        s->ndone++;
    }
}

/* ---- events ---- */

/* Notifies the sender, a latency later, that its lane has drained. */
static void acknowledge(struct des *s, const struct des_msg *m)
{
    const uint32_t i = des_alloc(s);
    struct des_msg *ack = &s->msg[i];

    *ack = (struct des_msg){
        .kind = DES_ACK, .to = m->from, .from = m->to, .bytes = m->bytes, .next = DES_NONE
    };
    des_at(s, s->now_ps + m->path.latency_ps, i);
}

static void keep_early(struct des *s, struct des_rank *r, uint32_t i)
{
    uint32_t *at = &r->early;

    while (*at != DES_NONE)
        at = &s->msg[*at].next;
    s->msg[i].next = DES_NONE;
    *at = i;
}

static void take_credits(struct des_rank *r, const struct des_msg *m)
{
    const int peer = m->credits ? tt_exec_peer_of(&r->exec, m->from) : -1;

    if (peer < 0)
        return;
    tt_assert(r->flow[peer].eager_out >= m->credits);
    r->flow[peer].eager_out -= (uint8_t)m->credits;
    r->exec.progress = true;        /* actions that waited for credit may run */
}

/* Single copy shared with the sender: an idle sender copies half of the message. Returns the
 * receiver's bytes. A copy that starts later is shared only if there are two ranks in total, since
 * with more ranks the sender may be busy by then. */
static uint64_t share_single_copy(struct des *s, const struct des_msg *m, uint64_t bytes)
{
    const struct tt_des_way *way = des_way(s, m->path.distance);
    struct des_rank *from = &s->rank[m->from];
    const uint64_t begin_ps = s->rank[m->to].clock_ps;

    if (!way->shared_bytes || bytes < way->shared_bytes || s->inbox || from->clock_ps > begin_ps ||
        (begin_ps > s->now_ps && s->conf->coll->nranks > 2))
        return bytes;
    from->clock_ps = begin_ps;
    des_spend(s, m->from,
              (way->single_ns + (double)(bytes / 2) * way->single_byte_ns) * TT_PS_PER_NS);
    return bytes - bytes / 2;
}

/* Charges the receiving rank's thread. A train is delivered as one message only if the thread had
 * time for the rest while it arrived. Then only its end is charged (except for fetching). */
static void spend_receive(struct des *s, const struct des_msg *m, uint64_t data_bytes)
{
    const struct tt_des_way *way = des_way(s, m->path.distance);
    const bool fetched = msg_is_fetched(s, m);
    const double byte_ns = fetched ? way->single_byte_ns : way->receive_byte_ns;
    const double fetches = !fetched || !data_bytes ? 0 : m->count == 1 ? 1 : m->seen - m->shown;
    struct des_rank *r = &s->rank[m->to];

    r->clock_ps = r->clock_ps > s->now_ps ? r->clock_ps : s->now_ps;
    if (fetched)
        data_bytes = share_single_copy(s, m, data_bytes);
    des_spend(s, m->to,
              (way->receive_ns + fetches * way->single_ns + (double)data_bytes * byte_ns) *
                  TT_PS_PER_NS);
}

/* A message, or a part of a train, has arrived at its receiver. */
static void deliver(struct des *s, uint32_t i)
{
    const struct des_msg m = s->msg[i];     /* a copy, as the pool may be reallocated */
    struct des_rank *r = &s->rank[m.to];
    const bool whole = m.kind != DES_SEGMENT || m.seen == m.count || m.count == 1;
    const uint8_t before = m.credits;
    bool taken;

    if (m.count == 1)
        s->msg[i].seen = 1;
    spend_receive(s, &m, des_came(s, &m));
    if (before)
        take_credits(r, &m);
    s->msg[i].credits = 0;
    if (whole && m.kind == DES_SEGMENT && s->conf->lane_bytes[m.path.distance])
        acknowledge(s, &m);
    taken = m.kind == DES_GIVE || pass_to_executor(s, r, &s->msg[i]);
    tt_assert(taken || m.kind == DES_EAGER || m.kind == DES_READY);
    if (!taken)
        keep_early(s, r, i);
    if (taken && whole)
        des_free(s, i);
    des_run_rank(s, m.to);
    if (!whole)
        des_deliver_next(s, i);
}

/* The sources of some puts may be reused. */
static void des_handle_sent(struct des *s, uint32_t i)
{
    const uint32_t me = s->msg[i].to;

    if (s->rank[me].clock_ps < s->now_ps)
        s->rank[me].clock_ps = s->now_ps;
    des_sent(s, i);
    des_run_rank(s, me);
}

static void drained(struct des *s, uint32_t i)
{
    const struct des_msg m = s->msg[i];
    struct des_rank *r = &s->rank[m.to];

    des_free(s, i);
    if (r->clock_ps < s->now_ps)
        r->clock_ps = s->now_ps;
    r->flow[tt_exec_peer_of(&r->exec, m.from)].outstanding -= m.bytes;
    r->exec.progress = true;
    des_run_rank(s, m.to);
}

static void start_rank(struct des *s, uint32_t i)
{
    const uint32_t me = s->msg[i].to;

    des_free(s, i);
    if (s->rank[me].clock_ps < s->now_ps)
        s->rank[me].clock_ps = s->now_ps;
    if (!s->rank[me].exec.straight)
        spend_ns(s, me, s->conf->plan_ns);
    des_run_rank(s, me);
}

static void des_handle(struct des *s, uint32_t m)
{
    des_sent_catch_up(s, s->msg[m].to);
    switch (s->msg[m].kind) {
    case DES_START:
        start_rank(s, m);
        break;
    case DES_SENT:
        des_handle_sent(s, m);
        break;
    case DES_ACK:
        drained(s, m);
        break;
    default:
        deliver(s, m);
    }
}

static bool is_on_its_way(const struct des_msg *m)
{
    return m->kind != DES_START && m->kind != DES_SENT && m->kind != DES_ACK && !m->delivered;
}

static void des_handle_event(struct des *s, struct tt_queue_item item)
{
    const struct des_msg *m = &s->msg[item.what];

    s->now_ps = item.time_ps;
    if (m->kind == DES_CORE)
        des_cores_go_on(s, item.what);
    else if (is_on_its_way(m))
        des_hop(s, item.what);
    else if (m->number && !des_lanes_in_order(s, item.what))
        return;
    else if (s->inbox)
        des_cores_come(s, item.what);
    else
        des_handle(s, item.what);
}

/* ---- simulation loop ---- */

uint64_t tt_des_memory(const struct tt_algo *algo, const struct tt_coll *coll,
                       const struct tt_net_conf *net)
{
    struct tt_coll c = *coll;
    uint64_t peers = 0;

    c.rank = c.root;        /* the root, whose memory may be the largest */
    peers = algo->npeers(&c);
    c.rank = (c.root + 1) % c.nranks;
    peers += (c.nranks - 1) * (uint64_t)algo->npeers(&c);
    return peers * (sizeof(struct tt_exec_peer) + sizeof(struct des_flow)) +
           c.nranks * (uint64_t)(sizeof(struct des_rank) + sizeof(struct tt_coll)) +
           tt_net_memory(net, peers);
}

/* Allocates the peers of all ranks in one array; pages that no executor uses are never
 * allocated. */
static bool make_peers(struct des *s)
{
    const struct tt_des_conf *c = s->conf;
    uint64_t n = 0;

    for (uint32_t r = 0; r < c->coll->nranks; r++)
        n += c->algo->npeers(&s->coll[r]) + 1u;
    s->peers = calloc(n, sizeof *s->peers);
    s->flows = calloc(n, sizeof *s->flows);
    if (!s->peers || !s->flows)
        return false;
    tt_pages_huge(s->peers, n * sizeof *s->peers);
    tt_pages_huge(s->flows, n * sizeof *s->flows);
    n = 0;
    for (uint32_t r = 0; r < c->coll->nranks; r++) {
        s->rank[r].peers = &s->peers[n];
        s->rank[r].flow = &s->flows[n];
        n += c->algo->npeers(&s->coll[r]) + 1u;
    }
    return true;
}

static void make_ranks(struct des *s)
{
    const struct tt_des_conf *c = s->conf;
    const struct tt_exec_conf exec = {
        .algo = c->algo,
        .segment_bytes = c->segment_bytes,
        .eager_bytes = c->eager_bytes,
        .streams = c->streams,
        .depth = c->depth,
    };

    for (uint32_t i = 0; i < c->coll->nranks; i++) {
        struct des_rank *r = &s->rank[i];
        struct tt_exec_conf mine = exec;

        mine.coll = &s->coll[i];
        r->slow = 1;
        r->early = r->unsent = DES_NONE;
        tt_exec_init(&r->exec, &mine, r->peers, c->algo->npeers(mine.coll));
        s->rounds_all += r->exec.nrounds;
    }
}

/* Schedules the start of each rank. */
static void schedule_starts(struct des *s)
{
    const struct tt_des_conf *c = s->conf;

    for (uint32_t i = 0; i < c->nfaults; i++) {
        const struct tt_fault *f = &c->faults[i];
        struct des_rank *r = &s->rank[f->where];    /* for faults of ranks; otherwise unused */

        if (f->kind == TT_FAULT_SLOW_RANK)
            tt_fault_slow(&r->slow, f->factor);     /* tt_net_init has checked the limits */
        else if (f->kind == TT_FAULT_LATE_RANK)
            r->clock_ps = tt_net_after(r->clock_ps, f->factor * TT_PS_PER_NS);
    }
    for (uint32_t r = 0; c->skew_ns > 0 && r < c->coll->nranks; r++)
        s->rank[r].clock_ps = tt_net_after(
            s->rank[r].clock_ps,
            (double)tt_prng_below(&s->prng, (uint64_t)(c->skew_ns * TT_PS_PER_NS) + 1));
    for (uint32_t r = 0; r < c->coll->nranks; r++) {
        const uint32_t m = des_alloc(s);

        s->msg[m] = (struct des_msg){ .kind = DES_START, .to = r, .next = DES_NONE };
        des_at(s, 0, m);
    }
}

static void report_progress(const struct des *s)
{
    const double loaded =
        s->rounds_loaded ? (double)s->rounds_loaded / (double)(s->rounds_all ? s->rounds_all : 1)
                         : 1;
    const double share =
        s->steps_loaded ? (double)s->steps_over / (double)s->steps_loaded * loaded : 0;

    if (s->conf->progress)
        s->conf->progress(s->conf->arg, share);
}

static tutti_status too_late(void)
{
    return tt_fail(TUTTI_ERR_INVALID, "simulated time too long: more than %.0f days",
                   (double)TT_NET_TIME_MAX_PS / (86400 * 1e12));
}

static tutti_status des_finish(struct des *s, struct tt_des_result *out)
{
    const struct tt_net *net = &s->net;
    uint64_t last = 0, first = UINT64_MAX;

    for (uint32_t r = 0; r < s->conf->coll->nranks; r++) {
        last = s->rank[r].finished_ps > last ? s->rank[r].finished_ps : last;
        first = s->rank[r].finished_ps < first ? s->rank[r].finished_ps : first;
    }
    if (last >= TT_NET_TIME_MAX_PS)
        return too_late();
    *out = s->result;
    if (s->result.cut)
        last = s->now_ps;
    out->time_ns = (double)last / TT_PS_PER_NS;
    out->first_ns = (double)first / TT_PS_PER_NS;
    for (uint32_t r = 0; r < s->conf->coll->nranks; r++)
        if ((double)s->work_ps[r] / TT_PS_PER_NS > out->work_ns)
            out->work_ns = (double)s->work_ps[r] / TT_PS_PER_NS;
    out->cores_busy = des_cores_busy(s, last);
    out->queue_most = s->queue.nitems_most;
    memcpy(out->peak_queue_bytes, net->peak_bytes, sizeof net->peak_bytes);
    for (uint32_t i = 0; last && i < net->nservers; i++) {
        const enum tt_distance d = tt_net_class(net, i);
        const double busy = (double)net->server[i].busy_ps / (double)last;

        out->busiest[d] = busy > out->busiest[d] ? busy : out->busiest[d];
        out->queues[d] = true;
    }
    return TUTTI_OK;
}

static void des_explain(const struct des *s, char *why, size_t why_bytes)
{
    static const char *const opcodes[] = { "a put", "a wait", "a reduction", "a copy" };
    const uint32_t n = s->conf->coll->nranks;

    for (uint32_t r = 0; r < n; r++) {
        const struct tt_exec *x = &s->rank[r].exec;
        const struct tt_step *t = tt_exec_at(x);
        char lost[64] = "", at[96] = "nothing";

        if (s->rank[r].done)
            continue;
        if (t)
            snprintf(at, sizeof at, "%s of %llu bytes with rank %u", opcodes[t->opcode],
                     (unsigned long long)t->bytes, t->peer);
        if (s->lost)
            snprintf(lost, sizeof lost, "; %u message%s lost at dead NICs", s->lost,
                     s->lost == 1 ? " was" : "s were");
        snprintf(
            why, why_bytes,
            "stuck at %.3f us: %u of %u ranks finished; rank %u is in round %llu of %llu at %s%s",
            (double)s->now_ps / 1e6, s->ndone, n, r, (unsigned long long)tt_exec_round_at(x),
            (unsigned long long)x->nrounds, at, lost);
        return;
    }
}

static void fetch_lines(const void *at, size_t bytes)
{
    for (size_t b = 0; b < bytes; b += 64)
        __builtin_prefetch((const char *)at + b);
}

/* Prefetches the data of the next events, nearly all of which is no longer in the cache. There are
 * three steps, as each loads the address of the next. */
static void prefetch(const struct des *s)
{
    uint32_t what;

    if (tt_queue_peek(&s->queue, FETCH_MESSAGE, &what))
        fetch_lines(&s->msg[what], sizeof s->msg[what]);
    if (tt_queue_peek(&s->queue, FETCH_RANK, &what)) {
        const struct des_rank *r = &s->rank[s->msg[what].to];

        fetch_lines(r, offsetof(struct des_rank, exec.step));
        fetch_lines(&r->exec.flow, sizeof r->exec.flow);
    }
    if (tt_queue_peek(&s->queue, FETCH_STEPS, &what)) {
        const struct des_msg *m = &s->msg[what];
        const struct des_rank *r = &s->rank[m->to];
        const int peer = m->kind == DES_START ? -1 : tt_exec_peer_of(&r->exec, m->from);

        tt_exec_prefetch(&r->exec, peer, m->kind == DES_SENT ? 1ull << m->step : 0);
        if (peer >= 0)
            __builtin_prefetch(&r->flow[peer]);
        if (r->unsent != DES_NONE)
            __builtin_prefetch(&s->msg[r->unsent]);
    }
}

/* Returns whether a limit of the simulation is reached. */
static bool limit_reached(struct des *s)
{
    const struct tt_des_conf *c = s->conf;

    s->result.cut = (c->events_max && s->result.events >= c->events_max) ||
                    (c->time_max_ns > 0 && (double)s->now_ps > c->time_max_ns * TT_PS_PER_NS);
    return s->result.cut;
}

/* Call only if the queue of events is empty: waiting ranks return their pending credits, as the
 * engine does when idle. Returns false if no credit is pending. */
static bool return_pending_credits(struct des *s)
{
    bool paid = false;

    for (uint32_t me = 0; me < s->conf->coll->nranks; me++) {
        struct des_rank *r = &s->rank[me];

        for (uint32_t peer = 0; peer < r->exec.npeers; peer++) {
            uint32_t m;

            if (!r->flow[peer].eager_owed)
                continue;
            if (r->clock_ps < s->now_ps)
                r->clock_ps = s->now_ps;
            m = des_new(s, me, (uint16_t)peer, DES_GIVE);
            if (m == DES_NONE)
                continue;
            des_send(s, me, (uint16_t)peer, m);
            paid = true;
        }
    }
    return paid;
}

static bool des_next_event(struct des *s, struct tt_queue_item *out)
{
    return tt_queue_pop(&s->queue, out) || (des_sent_wake_all(s) && tt_queue_pop(&s->queue, out)) ||
           (return_pending_credits(s) && tt_queue_pop(&s->queue, out));
}

static tutti_status des_loop(struct des *s, struct tt_des_result *out, char *why, size_t why_bytes)
{
    struct tt_queue_item item;

    schedule_starts(s);
    while (s->ndone < s->conf->coll->nranks && !limit_reached(s) && des_next_event(s, &item)) {
        if (item.time_ps >= TT_NET_TIME_MAX_PS)
            return too_late();
        if (s->result.events++ % PROGRESS_EVENTS == 0)
            report_progress(s);
        prefetch(s);
        des_handle_event(s, item);
    }
    if (s->ndone < s->conf->coll->nranks && !s->result.cut) {
        des_explain(s, why, why_bytes);
        return TUTTI_ERR_TIMEOUT;
    }
    return des_finish(s, out);
}

static tutti_status check_costs(const struct tt_des_conf *c)
{
    const struct tt_des_way *far = &c->way, *near = c->near ? c->near : far;
    const struct {
        const char *name;
        double ns;
    } costs[] = {
        { "reduce_byte_ns", c->reduce_byte_ns },
        { "copy_byte_ns", c->copy_byte_ns },
        { "came_reduce_byte_ns", c->came_reduce_byte_ns },
        { "came_copy_byte_ns", c->came_copy_byte_ns },
        { "jitter_ns", c->jitter_ns },
        { "skew_ns", c->skew_ns },
        { "plan_ns", c->plan_ns },
        { "step_ns", c->step_ns },
        { "wake_ns", c->wake_ns },
        { "idle_ns", c->idle_ns },
        { "way.send_ns", far->send_ns },
        { "way.receive_ns", far->receive_ns },
        { "way.send_byte_ns", far->send_byte_ns },
        { "way.receive_byte_ns", far->receive_byte_ns },
        { "way.single_ns", far->single_ns },
        { "way.single_byte_ns", far->single_byte_ns },
        { "near.send_ns", near->send_ns },
        { "near.receive_ns", near->receive_ns },
        { "near.send_byte_ns", near->send_byte_ns },
        { "near.receive_byte_ns", near->receive_byte_ns },
        { "near.single_ns", near->single_ns },
        { "near.single_byte_ns", near->single_byte_ns },
    };

    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        if (!(costs[i].ns >= 0))        /* also true for NaN */
            return tt_fail(TUTTI_ERR_INVALID, "invalid cost: %s is %g: must be at least 0",
                           costs[i].name, costs[i].ns);
    return TUTTI_OK;
}

static tutti_status check_des_conf(const struct tt_des_conf *c)
{
    const uint64_t seg = c->segment_bytes;

    if (c->coll->kind == TT_SEND || c->coll->kind == TT_RECV || c->coll->kind == TT_ALLTOALLV)
        return tt_fail(TUTTI_ERR_INVALID, "%s cannot be simulated: the calls of its ranks differ",
                       tt_coll_name(c->coll->kind));
    if (c->net->layout->nranks != c->coll->nranks)
        return tt_fail(TUTTI_ERR_INVALID,
                       "rank count mismatch: the call has %u rank%s, the network has %u",
                       c->coll->nranks, TT_PLURAL(c->coll->nranks), c->net->layout->nranks);
    if (seg < 8 || (seg & (seg - 1)) || seg < c->eager_bytes)
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid segment size %llu: must be a power of two, at least 8 and the "
                       "eager limit (%llu)",
                       (unsigned long long)seg, (unsigned long long)c->eager_bytes);
    if (c->streams < 1 || c->streams > TT_EXEC_STREAMS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "invalid number of streams %u: must be 1 to %u",
                       c->streams, TT_EXEC_STREAMS_MAX);
    if (c->depth < 1 || c->depth > TT_EXEC_DEPTH_MAX || (c->depth & (c->depth - 1)))
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid depth %u of a stream: must be a power of two up to %u", c->depth,
                       TT_EXEC_DEPTH_MAX);
    return check_costs(c);
}

/* Creates the calls of all ranks, and their executors. */
static tutti_status des_prepare(struct des *s)
{
    const struct tt_des_conf *c = s->conf;
    const uint32_t n = c->coll->nranks;

    s->rank = calloc(n, sizeof *s->rank);
    s->coll = calloc(n, sizeof *s->coll);
    s->work_ps = calloc(n, sizeof *s->work_ps);
    tt_pages_huge(s->rank, n * sizeof *s->rank);
    tt_pages_huge(s->coll, n * sizeof *s->coll);
    for (uint32_t r = 0; s->coll && r < n; r++) {
        s->coll[r] = *c->coll;
        s->coll[r].rank = r;
    }
    if (!s->rank || !s->coll || !s->work_ps || !make_peers(s) || !des_cores_init(s))
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the simulation of %u ranks (%llu MiB)",
                       n, (unsigned long long)(tt_des_memory(c->algo, c->coll, c->net) >> 20));
    make_ranks(s);
    return TUTTI_OK;
}

tutti_status tt_des_run(const struct tt_des_conf *conf, struct tt_des_result *out, char *why,
                        size_t why_bytes)
{
    struct des s = { .conf = conf, .free_msg = DES_NONE, .train = DES_NONE };
    tutti_status st = check_des_conf(conf);
    struct tt_net_conf net;

    if (st)
        return st;
    net = *conf->net;
    net.lanes_apart = true;
    st = tt_net_init(&s.net, &net, conf->faults, conf->nfaults);
    if (st)
        return st;
    for (int d = 0; d < TT_DISTANCES; d++)
        s.bounds_lanes |= conf->lane_bytes[d] != 0;
    s.handle = des_handle;
    tt_prng_init(&s.prng, conf->seed);
    tt_queue_init(&s.queue);
    st = des_prepare(&s);
    if (!st)
        st = des_loop(&s, out, why, why_bytes);
    des_cores_fini(&s);
    free(s.work_ps);
    free(s.rank);
    free(s.coll);
    free(s.peers);
    free(s.flows);
    free(s.msg);
    tt_queue_fini(&s.queue);
    tt_net_fini(&s.net);
    return st;
}
