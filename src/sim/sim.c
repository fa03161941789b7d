#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/status.h"

enum event_kind { EV_READY, EV_EAGER, EV_ARRIVED, EV_CREDIT, EV_RETRY };

/* Something that happens at rank `to`, because of rank `from`. */
struct event {
    uint64_t time_ns, order;    /* order breaks ties: the same seed gives the same run */
    uint32_t to, from;
    uint8_t kind, stream;
    bool direct;
    uint16_t step;              /* ARRIVED: of the put */
    uint32_t seq;               /* ARRIVED: segment; CREDIT: count; EAGER: tag */
    uint64_t bytes;
    uint8_t *data;              /* EAGER: the payload, owned */
    struct tt_place source, target;     /* ARRIVED, when not mapped: read and written when it happens */
};

/* An eager message that waits to be read. */
struct letter {
    struct letter *next;
    uint32_t from, tag;
    uint64_t bytes;
    bool claimed;
    uint8_t *data;
};

/* Where segments of one pair land at the receiver, and which have landed. */
struct landing {
    uint8_t *slots;             /* [streams][depth][segment_bytes] */
    uint32_t landed[TT_EXEC_STREAMS_MAX];       /* prefix */
    uint8_t *there[TT_EXEC_STREAMS_MAX];        /* [room]: which have landed; where they land direct, any number is ahead */
    uint32_t room[TT_EXEC_STREAMS_MAX];
};

struct sim_rank {
    struct tt_exec exec;
    struct tt_exec_peer *peers;
    struct landing *landing;    /* [peers_max] */
    struct letter *letters;
    struct event *early;        /* READY and ARRIVED before their peer was loaded */
    uint32_t nearly, early_cap, seen_loaded;
    uint8_t *src, *dst, *work, *stage;
    uint64_t link_free_ns;      /* when its outgoing link is free again */
    bool retries;               /* a RETRY is on its way */
    bool done;
};

struct sim {
    const struct tt_sim_conf *conf;
    struct sim_rank *rank;
    struct event *heap;
    size_t nheap, heap_cap;
    uint64_t now_ns, order, messages;
    uint32_t ndone;
    struct tt_prng prng;
};

static void *must(void *p)
{
    tt_assert(p);
    return p;
}

/* ---- the heap of events ------------------------------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static void push(struct sim *s, struct event ev)
{
    size_t i = s->nheap++;

    if (s->nheap > s->heap_cap) {
        s->heap_cap = s->heap_cap ? 2 * s->heap_cap : 1024;
        s->heap = must(realloc(s->heap, s->heap_cap * sizeof *s->heap));
    }
    ev.order = s->order++;
    for (; i > 0 && before(&ev, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = ev;
}

static struct event pop(struct sim *s)
{
    const struct event top = s->heap[0], last = s->heap[--s->nheap];
    size_t i = 0;

    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= s->nheap)
            break;
        if (c + 1 < s->nheap && before(&s->heap[c + 1], &s->heap[c]))
            c++;
        if (!before(&s->heap[c], &last))
            break;
        s->heap[i] = s->heap[c];
        i = c;
    }
    s->heap[i] = last;
    return top;
}

/* When a message of `bytes` that rank `from` sends now arrives. */
static uint64_t arrival_ns(struct sim *s, uint32_t from, uint64_t bytes)
{
    struct sim_rank *r = &s->rank[from];
    const uint64_t start = r->link_free_ns > s->now_ns ? r->link_free_ns : s->now_ns;

    r->link_free_ns = start + (uint64_t)((double)bytes * s->conf->byte_ns);
    s->messages++;
    return r->link_free_ns + s->conf->latency_ns +
           (s->conf->jitter_ns ? tt_prng_below(&s->prng, s->conf->jitter_ns) : 0);
}

/* ---- addresses ------------------------------------------------------------------------------------------- */

static uint8_t *slots_of(const struct sim *s, uint32_t rank, uint32_t peer)
{
    struct landing *l = &s->rank[rank].landing[peer];

    if (!l->slots)
        l->slots = must(malloc((size_t)s->conf->streams * s->conf->depth * s->conf->segment_bytes));
    return l->slots;
}

static struct letter **letter_of(struct sim_rank *r, uint32_t from, uint32_t tag)
{
    struct letter **at = &r->letters;

    while (*at && !((*at)->from == from && (*at)->tag == tag))
        at = &(*at)->next;
    return at;
}

static uint8_t *buffer_of(struct sim_rank *r, uint8_t buf)
{
    return buf == TT_BUF_SRC ? r->src : buf == TT_BUF_DST ? r->dst : r->work;
}

/* The address of byte `pos` of a place of rank me. */
static uint8_t *byte_at(struct sim *s, uint32_t me, const struct tt_place *at, uint64_t pos)
{
    struct sim_rank *r = &s->rank[me];
    const uint64_t slot = ((uint64_t)at->stream * s->conf->depth + at->slot) * s->conf->segment_bytes;
    uint32_t there;

    switch (at->kind) {
    case TT_AT_BUF:
        pos += at->skip;
        if (at->ref.block)
            pos = pos / at->ref.block * at->ref.stride + pos % at->ref.block;
        return buffer_of(r, at->ref.buf) + at->ref.offset + pos;
    case TT_AT_SLOT:
        return slots_of(s, me, at->peer) + slot + pos;
    case TT_AT_REMOTE:
        there = r->peers[at->peer].rank;
        return slots_of(s, there, (uint32_t)tt_exec_peer_of(&s->rank[there].exec, me)) + slot + pos;
    case TT_AT_STAGE:
        if (!r->stage)
            r->stage = must(malloc(TT_EXEC_STAGES * s->conf->segment_bytes));
        return r->stage + at->slot * s->conf->segment_bytes + pos;
    default:
        return (*letter_of(r, r->peers[at->peer].rank, at->slot))->data + at->skip + pos;
    }
}

static void move(struct sim *s, uint32_t to_rank, const struct tt_place *to, uint32_t from_rank,
                 const struct tt_place *from, uint64_t bytes)
{
    const bool strided = (to->kind == TT_AT_BUF && to->ref.block) || (from->kind == TT_AT_BUF && from->ref.block);

    if (!strided && bytes)
        memcpy(byte_at(s, to_rank, to, 0), byte_at(s, from_rank, from, 0), bytes);
    for (uint64_t i = 0; strided && i < bytes; i++)
        *byte_at(s, to_rank, to, i) = *byte_at(s, from_rank, from, i);
}

/* ---- actions ------------------------------------------------------------------------------------------------ */

static void read_letter(struct sim_rank *r, const struct tt_place *at)
{
    struct letter **l, *gone;

    if (at->kind != TT_AT_EAGER)
        return;
    l = letter_of(r, r->peers[at->peer].rank, at->slot);
    gone = *l;
    *l = gone->next;
    free(gone->data);
    free(gone);
}

static void send_eager(struct sim *s, uint32_t me, const struct tt_action *a)
{
    struct event ev = {
        .kind = EV_EAGER, .to = s->rank[me].peers[a->peer].rank, .from = me, .seq = a->tag, .bytes = a->bytes
    };

    ev.data = must(malloc(a->bytes + 1));
    for (uint64_t i = 0; i < a->bytes; i++)
        ev.data[i] = *byte_at(s, me, &a->a, i);
    ev.time_ns = arrival_ns(s, me, a->bytes);
    push(s, ev);
}

/* Where the wait for (rank, tag) takes its bytes; it has been loaded, as it opened the flow. */
static struct tt_ref where_it_waits(const struct tt_exec *x, uint32_t rank, uint32_t tag)
{
    for (uint32_t n = x->head; n != x->tail; n++) {
        const struct tt_step *t = &x->step[n % TT_EXEC_STEPS].s;

        if (t->opcode == TT_WAIT && t->peer == rank && t->tag == tag)
            return t->out;
    }
    tt_assert(false);
    return tt_dst(0);
}

/* Whether a rank opens its final buffer for what `step` takes: as the shell in op.c decides. */
static bool opens_direct(const struct tt_sim_conf *c, const struct tt_exec *x, uint16_t step)
{
    const enum tt_coll_kind kind = c->algo->kind;

    if (!c->direct || c->algo->direct_unsafe)
        return false;
    return (kind != TT_ALLTOALL && kind != TT_ALLTOALLV) || x->step[step].to_dst;
}

static void send_segment(struct sim *s, uint32_t me, const struct tt_action *a, bool instant)
{
    struct event ev = {
        .kind = EV_ARRIVED, .to = s->rank[me].peers[a->peer].rank, .from = me, .stream = a->stream, .seq = a->seq,
        .bytes = a->bytes, .step = a->step, .source = a->a, .target = a->out, .direct = a->direct,
    };

    if (a->direct)
        ev.target.ref = a->out.ref.buf == TT_BUF_THERE ? where_it_waits(&s->rank[ev.to].exec, me, a->tag)
                                                       : tt_coll_canonical(&s->conf->coll[ev.to], a->out.ref);
    if (instant && a->a.kind != TT_AT_REMOTE)
        move(s, a->direct ? ev.to : me, &ev.target, me, &a->a, a->bytes);
    if (instant)
        ev.bytes = 0;           /* it is there already; only the signal travels */
    ev.time_ns = arrival_ns(s, me, a->bytes);
    push(s, ev);
}

static bool is_strided(const struct tt_place *at) { return at->kind == TT_AT_BUF && at->ref.block; }

/* Element by element, where an operand or the output is strided. */
static void reduce(struct sim *s, uint32_t me, const struct tt_action *a, uint8_t *out2)
{
    const struct tt_sim_conf *c = s->conf;
    const uint64_t elem = c->coll[me].elem_bytes;
    const bool strided = is_strided(&a->out) || is_strided(&a->a) || is_strided(&a->b);
    const uint64_t piece = strided ? elem : a->bytes;

    for (uint64_t pos = 0; pos < a->bytes; pos += piece)
        (a->finish ? c->kernel_finish : c->kernel)(byte_at(s, me, &a->out, pos), out2 ? out2 + pos : NULL,
                                                   byte_at(s, me, &a->a, pos), byte_at(s, me, &a->b, pos), piece / elem,
                                                   false, c->nranks);
}

/* Eager, copy, reduce: done as soon as it is begun. */
static void do_at_once(struct sim *s, uint32_t me, const struct tt_action *a)
{
    struct sim_rank *r = &s->rank[me];
    uint8_t *out2 = a->out2.kind ? byte_at(s, me, &a->out2, 0) : NULL;

    switch (a->kind) {
    case TT_ACT_EAGER:
        send_eager(s, me, a);
        break;
    case TT_ACT_COPY:
        move(s, me, &a->out, me, &a->a, a->bytes);
        if (out2)
            move(s, me, &a->out2, me, &a->a, a->bytes);
        break;
    default:
        reduce(s, me, a, out2);
        read_letter(r, &a->b);
    }
    read_letter(r, &a->a);
}

static void do_action(struct sim *s, uint32_t me, const struct tt_action *a)
{
    struct sim_rank *r = &s->rank[me];
    const struct tt_sim_conf *c = s->conf;
    const uint32_t peer = r->peers[a->peer].rank;
    bool instant = true;

    switch (a->kind) {
    case TT_ACT_OPEN:
        push(s, (struct event){ .kind = EV_READY, .to = peer, .from = me, .direct = opens_direct(c, &r->exec, a->step),
                                .time_ns = arrival_ns(s, me, 64) });
        tt_exec_opened(&r->exec, a->peer, opens_direct(c, &r->exec, a->step));
        return;
    case TT_ACT_CREDIT:
        push(s, (struct event){ .kind = EV_CREDIT, .to = peer, .from = me, .stream = a->stream, .seq = a->seq,
                                .time_ns = arrival_ns(s, me, 8) });
        break;
    case TT_ACT_PUT:
        /* A wire that keeps sources copies some of them all the same: strided or short ones. */
        instant = c->mapped || a->a.kind == TT_AT_REMOTE || tt_prng_below(&s->prng, 4) == 0;
        send_segment(s, me, a, instant);
        break;
    default:
        do_at_once(s, me, a);
    }
    tt_exec_taken(&r->exec, a, instant);
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

/* Segment `seq` is there; moves the prefix on. */
static void mark(struct landing *l, uint8_t stream, uint32_t seq)
{
    const uint32_t old = l->room[stream];

    if (seq >= old) {
        l->room[stream] = 2 * seq + 64;
        l->there[stream] = must(realloc(l->there[stream], l->room[stream]));
        memset(l->there[stream] + old, 0, l->room[stream] - old);
    }
    tt_assert(!l->there[stream][seq]);
    l->there[stream][seq] = 1;
    while (l->landed[stream] < l->room[stream] && l->there[stream][l->landed[stream]])
        l->landed[stream]++;
}

/* A segment lands: late ones move their bytes now, and free their source. */
static void land(struct sim *s, const struct event *ev, int peer)
{
    struct landing *l = &s->rank[ev->to].landing[peer];

    if (ev->bytes) {
        move(s, ev->direct ? ev->to : ev->from, &ev->target, ev->from, &ev->source, ev->bytes);
        tt_exec_sent(&s->rank[ev->from].exec, ev->step, ev->seq);
    }
    mark(l, ev->stream, ev->seq);
    tt_exec_arrived(&s->rank[ev->to].exec, (uint16_t)peer, ev->stream, l->landed[ev->stream]);
}

/* False: not yet, the peer has not been loaded. */
static bool happen(struct sim *s, const struct event *ev)
{
    struct sim_rank *r = &s->rank[ev->to];
    const int peer = tt_exec_peer_of(&r->exec, ev->from);

    if (peer < 0)
        return false;
    switch (ev->kind) {
    case EV_READY:
        tt_exec_ready(&r->exec, (uint16_t)peer, ev->direct, s->conf->mapped);
        break;
    case EV_CREDIT:
        tt_exec_credit(&r->exec, (uint16_t)peer, ev->stream, ev->seq);
        break;
    default:
        land(s, ev, peer);
        break;
    }
    return true;
}

static void keep(struct sim_rank *r, const struct event *ev)
{
    if (r->nearly == r->early_cap) {
        r->early_cap = r->early_cap ? 2 * r->early_cap : 8;
        r->early = must(realloc(r->early, r->early_cap * sizeof *r->early));
    }
    r->early[r->nearly++] = *ev;
}

static void offer_letters(struct sim_rank *r)
{
    for (struct letter *l = r->letters; l; l = l->next) {
        const int peer = tt_exec_peer_of(&r->exec, l->from);

        if (!l->claimed && peer >= 0)
            l->claimed = tt_exec_eager(&r->exec, (uint16_t)peer, l->tag, l->bytes) == TUTTI_OK;
    }
}

static void offer_early(struct sim *s, struct sim_rank *r)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < r->nearly; i++) {
        const struct event ev = r->early[i];

        if (!happen(s, &ev))
            r->early[kept++] = ev;
    }
    r->nearly = kept;
    offer_letters(r);
}

/* Whether the wire has no room for it now: then the rank tries again a little later. */
static bool refused(struct sim *s, uint32_t me, const struct tt_action *a)
{
    struct sim_rank *r = &s->rank[me];

    if (!s->conf->refuse_one_in || a->kind == TT_ACT_REDUCE || a->kind == TT_ACT_COPY ||
        tt_prng_below(&s->prng, s->conf->refuse_one_in))
        return false;
    if (!r->retries)
        push(s, (struct event){ .kind = EV_RETRY, .to = me, .from = me, .time_ns = s->now_ns + s->conf->latency_ns });
    r->retries = true;
    return true;
}

/* Where a step of a straight program reads. */
static struct tt_place operand(const struct tt_exec *x, const struct tt_ref *ref, int8_t writer)
{
    if (writer < 0)
        return (struct tt_place){ .kind = TT_AT_BUF, .ref = *ref };
    return (struct tt_place){ .kind = TT_AT_EAGER, .peer = x->step[writer].peer, .slot = x->step[writer].s.tag };
}

/* A step of a straight program, as the shell does it; false if it cannot go yet. */
static bool do_in_order(struct sim *s, uint32_t me, const struct tt_exec_step *t)
{
    const struct tt_exec *x = &s->rank[me].exec;
    struct tt_action a = {
        .peer = t->peer, .tag = t->s.tag, .bytes = t->s.bytes, .finish = t->s.finish,
        .out = { .kind = TT_AT_BUF, .ref = t->s.out },
    };

    if (t->s.opcode == TT_WAIT) {
        if (!t->arrived || (t->s.out.buf == TT_BUF_PIPE && t->s.bytes))
            return t->arrived;
        a.kind = TT_ACT_COPY;
        a.a = (struct tt_place){ .kind = TT_AT_EAGER, .peer = t->peer, .slot = t->s.tag };
    } else {
        a.kind = t->s.opcode == TT_PUT ? TT_ACT_EAGER : t->s.opcode == TT_COPY ? TT_ACT_COPY : TT_ACT_REDUCE;
        a.a = operand(x, &t->s.a, t->writer_a);
        if (t->s.opcode == TT_REDUCE_STEP)
            a.b = operand(x, &t->s.b, t->writer_b);
    }
    if (refused(s, me, &a))
        return false;
    do_at_once(s, me, &a);
    return true;
}

static void run_in_order(struct sim *s, uint32_t me)
{
    struct tt_exec *x = &s->rank[me].exec;

    while (x->head != x->tail && do_in_order(s, me, &x->step[x->head]))
        x->head++;
}

static void run_actions(struct sim *s, uint32_t me)
{
    struct tt_exec *x = &s->rank[me].exec;
    struct tt_action a;

    while (tt_exec_next(x, &a))
        if (refused(s, me, &a))
            tt_exec_left(x, &a);
        else
            do_action(s, me, &a);
}

static void run(struct sim *s, uint32_t me)
{
    struct sim_rank *r = &s->rank[me];

    do {
        r->seen_loaded = r->exec.loaded;
        offer_early(s, r);
        if (r->exec.straight && s->conf->in_order)
            run_in_order(s, me);
        else
            run_actions(s, me);
    } while (r->exec.loaded != r->seen_loaded);
    if (!r->done && tt_exec_finished(&r->exec)) {
        r->done = true;
        s->ndone++;
    }
}

static void step(struct sim *s)
{
    struct event ev = pop(s);
    struct sim_rank *r = &s->rank[ev.to];

    s->now_ns = ev.time_ns;
    if (ev.kind == EV_EAGER) {
        struct letter *l = must(malloc(sizeof *l));

        *l = (struct letter){ .next = r->letters, .from = ev.from, .tag = ev.seq, .bytes = ev.bytes, .data = ev.data };
        r->letters = l;
    } else if (ev.kind == EV_RETRY) {
        r->retries = false;
    } else if (!happen(s, &ev)) {
        keep(r, &ev);
    }
    run(s, ev.to);
    if (ev.kind == EV_ARRIVED && ev.bytes)
        run(s, ev.from);
}

/* ---- the run ------------------------------------------------------------------------------------------------------- */

static void rank_init(struct sim *s, uint32_t me, void *src, void *dst)
{
    const struct tt_sim_conf *c = s->conf;
    struct sim_rank *r = &s->rank[me];
    const struct tt_exec_conf ec = {
        .algo = c->algo, .coll = &c->coll[me], .segment_bytes = c->segment_bytes, .eager_bytes = c->eager_bytes,
        .streams = c->streams, .depth = c->depth,
    };
    const uint32_t peers = c->algo->npeers(&c->coll[me]);
    const uint64_t work = c->algo->work_bytes(&c->coll[me]);

    r->peers = must(calloc(peers + 1, sizeof *r->peers));
    r->landing = must(calloc(peers + 1, sizeof *r->landing));
    r->src = src;
    r->dst = dst;
    r->work = work ? must(calloc(1, work)) : NULL;
    tt_exec_init(&r->exec, &ec, r->peers, peers);
}

static void rank_fini(struct sim_rank *r)
{
    for (uint32_t i = 0; i < r->exec.npeers; i++) {
        free(r->landing[i].slots);
        for (int j = 0; j < TT_EXEC_STREAMS_MAX; j++)
            free(r->landing[i].there[j]);
    }
    while (r->letters) {
        struct letter *l = r->letters;

        r->letters = l->next;
        free(l->data);
        free(l);
    }
    free(r->peers);
    free(r->landing);
    free(r->early);
    free(r->work);
    free(r->stage);
}

static void explain(const struct sim *s, char *why, size_t why_bytes)
{
    static const char *const opcodes[] = { "a put", "a wait", "a reduction", "a copy" };

    for (uint32_t r = 0; r < s->conf->nranks; r++) {
        const struct tt_step *t = tt_exec_oldest(&s->rank[r].exec);
        char where[96] = "nothing";

        if (s->rank[r].done)
            continue;
        if (t)
            snprintf(where, sizeof where, "%s of %llu bytes, tag %u, peer %u", opcodes[t->opcode],
                     (unsigned long long)t->bytes, t->tag, t->peer);
        snprintf(why, why_bytes, "%u of %u ranks finished; rank %u is in round %llu of %llu at %s, waiting for %u",
                 s->ndone, s->conf->nranks, r, (unsigned long long)s->rank[r].exec.round,
                 (unsigned long long)s->rank[r].exec.nrounds, where, tt_exec_waits_for(&s->rank[r].exec));
        return;
    }
}

tutti_status tt_sim_run(const struct tt_sim_conf *conf, void *const *src, void *const *dst,
                        struct tt_sim_result *result, char *why, size_t why_bytes)
{
    struct sim s = { .conf = conf };
    tutti_status st = TUTTI_OK;

    tt_prng_init(&s.prng, conf->seed);
    s.rank = must(calloc(conf->nranks, sizeof *s.rank));
    for (uint32_t r = 0; r < conf->nranks; r++)
        rank_init(&s, r, src[r], dst[r]);
    for (uint32_t r = 0; r < conf->nranks; r++)
        run(&s, r);
    while (s.nheap && s.ndone < conf->nranks)
        step(&s);
    if (s.ndone < conf->nranks) {
        explain(&s, why, why_bytes);
        st = TUTTI_ERR_TIMEOUT;
    } else {
        *result = (struct tt_sim_result){ .time_ns = s.now_ns, .messages = s.messages };
        for (uint32_t r = 0; r < conf->nranks; r++) {
            const uint64_t bytes = sizeof s.rank[r].exec + s.rank[r].exec.npeers * sizeof *s.rank[r].peers;

            result->bytes_per_executor = bytes > result->bytes_per_executor ? bytes : result->bytes_per_executor;
        }
    }
    while (s.nheap)
        free(pop(&s).data);
    for (uint32_t r = 0; r < conf->nranks; r++)
        rank_fini(&s.rank[r]);
    free(s.rank);
    free(s.heap);
    return st;
}
