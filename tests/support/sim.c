#include "support/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "support/sim_state.h"

/* ---- events ---- */

/* Segment `seq` has arrived; advances the prefix of received segments. */
static void landing_mark(struct tt_sim_landing *l, uint8_t stream, uint32_t seq)
{
    const uint32_t old = l->room[stream];

    if (seq >= old) {
        l->room[stream] = 2 * seq + 64;
        l->there[stream] = tt_sim_must(realloc(l->there[stream], l->room[stream]));
        memset(l->there[stream] + old, 0, l->room[stream] - old);
    }
    tt_assert(!l->there[stream][seq]);
    l->there[stream][seq] = 1;
    while (l->landed[stream] < l->room[stream] && l->there[stream][l->landed[stream]])
        l->landed[stream]++;
}

/* A segment arrives. If its data is copied late, this copies it now and releases the source. */
static void segment_land(struct tt_sim *s, const struct tt_sim_event *ev, int peer)
{
    struct tt_sim_landing *l = &s->rank[ev->to].landing[peer];

    if (ev->bytes) {
        tt_sim_move(s, ev->direct ? ev->to : ev->from, &ev->target, ev->from, &ev->source,
                    ev->bytes);
        tt_exec_sent(&s->rank[ev->from].exec, ev->step, ev->seq);
    }
    landing_mark(l, ev->stream, ev->seq);
    tt_exec_arrived(&s->rank[ev->to].exec, (uint16_t)peer, ev->stream, l->landed[ev->stream]);
}

/* Returns false if the peer has not been loaded yet. */
static bool sim_handle_event(struct tt_sim *s, const struct tt_sim_event *ev)
{
    struct tt_sim_rank *r = &s->rank[ev->to];
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
        segment_land(s, ev, peer);
        break;
    }
    return true;
}

static void keep_early_event(struct tt_sim_rank *r, const struct tt_sim_event *ev)
{
    if (r->nearly == r->early_cap) {
        r->early_cap = r->early_cap ? 2 * r->early_cap : 8;
        r->early = tt_sim_must(realloc(r->early, r->early_cap * sizeof *r->early));
    }
    r->early[r->nearly++] = *ev;
}

static void offer_letters(struct tt_sim_rank *r)
{
    for (struct tt_sim_letter *l = r->letters; l; l = l->next) {
        const int peer = tt_exec_peer_of(&r->exec, l->from);

        if (!l->claimed && peer >= 0)
            l->claimed = tt_exec_eager(&r->exec, (uint16_t)peer, l->tag, l->bytes) == TUTTI_OK;
    }
}

static void sim_retry_early(struct tt_sim *s, struct tt_sim_rank *r)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < r->nearly; i++) {
        const struct tt_sim_event ev = r->early[i];

        if (!sim_handle_event(s, &ev))
            r->early[kept++] = ev;
    }
    r->nearly = kept;
    offer_letters(r);
}

/* Returns whether the transport refuses the send; the rank then retries after a latency. */
static bool send_refused(struct tt_sim *s, uint32_t me, const struct tt_action *a)
{
    struct tt_sim_rank *r = &s->rank[me];

    if (!s->conf->refuse_one_in || a->kind == TT_ACT_REDUCE || a->kind == TT_ACT_COPY ||
        tt_prng_below(&s->prng, s->conf->refuse_one_in))
        return false;
    if (!r->retries)
        tt_sim_push(s, (struct tt_sim_event){ .kind = EV_RETRY,
                                              .to = me,
                                              .from = me,
                                              .time_ns = s->now_ns + s->conf->latency_ns });
    r->retries = true;
    return true;
}

/* Returns the source of a step of a straight-line program. */
static struct tt_place operand_place(const struct tt_exec *x, const struct tt_ref *ref,
                                     int8_t writer)
{
    if (writer < 0)
        return (struct tt_place){ .kind = TT_AT_BUF, .ref = *ref };
    return (struct tt_place){ .kind = TT_AT_EAGER,
                              .peer = x->step[writer].peer,
                              .slot = x->step[writer].s.tag };
}

/* Runs a step of a straight-line program, as the engine does. Returns false if it cannot run
 * yet. */
static bool sim_step_in_order(struct tt_sim *s, uint32_t me, const struct tt_exec_step *t)
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
        a.kind = t->s.opcode == TT_PUT    ? TT_ACT_EAGER
                 : t->s.opcode == TT_COPY ? TT_ACT_COPY
                                          : TT_ACT_REDUCE;
        a.a = operand_place(x, &t->s.a, t->writer_a);
        if (t->s.opcode == TT_REDUCE_STEP)
            a.b = operand_place(x, &t->s.b, t->writer_b);
    }
    if (send_refused(s, me, &a))
        return false;
    tt_sim_do_at_once(s, me, &a);
    return true;
}

static void run_in_order(struct tt_sim *s, uint32_t me)
{
    struct tt_exec *x = &s->rank[me].exec;

    struct tt_exec_step *t;

    while (x->head != x->tail &&
           (x->step[x->head].over || sim_step_in_order(s, me, &x->step[x->head])))
        x->head++;
    while (x->head != x->tail && (t = tt_exec_meanwhile(x)) &&
           (t->over = sim_step_in_order(s, me, t)))
        ;
}

static void sim_run_actions(struct tt_sim *s, uint32_t me)
{
    struct tt_exec *x = &s->rank[me].exec;
    struct tt_action a;

    while (tt_exec_next(x, &a))
        if (send_refused(s, me, &a))
            tt_exec_left(x, &a);
        else
            tt_sim_do_action(s, me, &a);
}

static void sim_run_rank(struct tt_sim *s, uint32_t me)
{
    struct tt_sim_rank *r = &s->rank[me];

    do {
        r->seen_loaded = r->exec.loaded;
        sim_retry_early(s, r);
        if (r->exec.straight && s->conf->in_order)
            run_in_order(s, me);
        else
            sim_run_actions(s, me);
    } while (r->exec.loaded != r->seen_loaded);
    if (!r->done && tt_exec_finished(&r->exec)) {
        r->done = true;
        s->ndone++;
    }
}

static void sim_step(struct tt_sim *s)
{
    struct tt_sim_event ev = tt_sim_pop(s);
    struct tt_sim_rank *r = &s->rank[ev.to];

    s->now_ns = ev.time_ns;
    if (ev.kind == EV_EAGER) {
        struct tt_sim_letter *l = tt_sim_must(malloc(sizeof *l));

        *l = (struct tt_sim_letter){
            .next = r->letters, .from = ev.from, .tag = ev.seq, .bytes = ev.bytes, .data = ev.data
        };
        r->letters = l;
    } else if (ev.kind == EV_RETRY) {
        r->retries = false;
    } else if (!sim_handle_event(s, &ev)) {
        keep_early_event(r, &ev);
    }
    sim_run_rank(s, ev.to);
    if (ev.kind == EV_ARRIVED && ev.bytes)
        sim_run_rank(s, ev.from);
}

/* ---- simulation loop ---- */

static void rank_init(struct tt_sim *s, uint32_t me, void *src, void *dst)
{
    const struct tt_sim_conf *c = s->conf;
    struct tt_sim_rank *r = &s->rank[me];
    const struct tt_exec_conf ec = {
        .algo = c->algo,
        .coll = &c->coll[me],
        .segment_bytes = c->segment_bytes,
        .eager_bytes = c->eager_bytes,
        .streams = c->streams,
        .depth = c->depth,
    };
    const uint32_t peers = c->algo->npeers(&c->coll[me]);
    const uint64_t work = c->algo->work_bytes(&c->coll[me]);

    r->peers = tt_sim_must(calloc(peers + 1, sizeof *r->peers));
    r->landing = tt_sim_must(calloc(peers + 1, sizeof *r->landing));
    r->src = src;
    r->dst = dst;
    r->work = work ? tt_sim_must(calloc(1, work)) : NULL;
    tt_exec_init(&r->exec, &ec, r->peers, peers);
}

static void rank_fini(struct tt_sim_rank *r)
{
    for (uint32_t i = 0; i < r->exec.npeers; i++) {
        free(r->landing[i].slots);
        for (int j = 0; j < TT_EXEC_STREAMS_MAX; j++)
            free(r->landing[i].there[j]);
    }
    while (r->letters) {
        struct tt_sim_letter *l = r->letters;

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

static void sim_explain(const struct tt_sim *s, char *why, size_t why_bytes)
{
    static const char *const opcodes[] = { "a put", "a wait", "a reduction", "a copy" };

    for (uint32_t r = 0; r < s->conf->nranks; r++) {
        const struct tt_step *t = tt_exec_at(&s->rank[r].exec);
        char where[96] = "nothing";

        if (s->rank[r].done)
            continue;
        if (t)
            snprintf(where, sizeof where, "%s of %llu bytes, tag %u, peer %u", opcodes[t->opcode],
                     (unsigned long long)t->bytes, t->tag, t->peer);
        snprintf(why, why_bytes,
                 "%u of %u ranks finished; rank %u is in round %llu of %llu at %s, waiting for %u",
                 s->ndone, s->conf->nranks, r,
                 (unsigned long long)tt_exec_round_at(&s->rank[r].exec),
                 (unsigned long long)s->rank[r].exec.nrounds, where,
                 tt_exec_waits_for(&s->rank[r].exec));
        return;
    }
}

tutti_status tt_sim_run(const struct tt_sim_conf *conf, void *const *src, void *const *dst,
                        struct tt_sim_result *result, char *why, size_t why_bytes)
{
    struct tt_sim s = { .conf = conf };
    tutti_status st = TUTTI_OK;

    tt_prng_init(&s.prng, conf->seed);
    s.rank = tt_sim_must(calloc(conf->nranks, sizeof *s.rank));
    for (uint32_t r = 0; r < conf->nranks; r++)
        rank_init(&s, r, src[r], dst[r]);
    for (uint32_t r = 0; r < conf->nranks; r++)
        sim_run_rank(&s, r);
    while (s.nheap && s.ndone < conf->nranks)
        sim_step(&s);
    if (s.ndone < conf->nranks) {
        sim_explain(&s, why, why_bytes);
        st = TUTTI_ERR_TIMEOUT;
    } else {
        *result = (struct tt_sim_result){ .time_ns = s.now_ns, .messages = s.messages };
        for (uint32_t r = 0; r < conf->nranks; r++) {
            const uint64_t bytes =
                sizeof s.rank[r].exec + s.rank[r].exec.npeers * sizeof *s.rank[r].peers;

            result->bytes_per_executor =
                bytes > result->bytes_per_executor ? bytes : result->bytes_per_executor;
        }
    }
    while (s.nheap)
        free(tt_sim_pop(&s).data);
    for (uint32_t r = 0; r < conf->nranks; r++)
        rank_fini(&s.rank[r]);
    free(s.rank);
    free(s.heap);
    return st;
}
