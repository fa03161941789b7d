/* Short puts with a signal each, to several ranks with one doorbell. */
#include "window/window.h"
#include "window/fence.h"
#include "window/handle.h"
#include "window/peer.h"

#define BATCH 32            /* descriptors of one doorbell: the length of a verbs chain */

struct several {
    struct tt_call_check attempt;
    struct tt_window_short *puts;
    uint32_t n, at;             /* puts before `at` were sent, or returned to the caller */
};

static struct tt_desc short_desc(const struct several *s, const struct tt_window_short *p,
                                 const struct tt_window_way *way)
{
    return (struct tt_desc){
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE,
        .peer = tt_window_job_rank(s->attempt.window, p->rank),
        .local = (void *)(uintptr_t)p->src,
        .bytes = p->bytes,
        .key = &way->key,
        .offset = p->offset,
        .signal_op = TT_SIGNAL_SET,
        .signal_key = &way->key,
        .signal_offset = p->signal_offset,
        .signal_value = p->signal_value,
        .cookie = TT_CLIENT_COOKIE,
    };
}

/* Returns the peer of a put, with all fences recorded. PENDING in *st also while puts are queued
 * that a fence orders before this one. */
static struct tt_window_peer *reach_short(const struct several *s, const struct tt_window_short *p,
                                          struct tt_window_way **way, struct tt_wire **wire,
                                          tutti_status *st)
{
    struct tt_window *w = s->attempt.window;
    struct tt_engine_client_link link;
    struct tt_window_peer *peer;

    *st = tt_window_reach(w, p->rank, way, &link);
    if (*st)
        return NULL;
    peer = tt_window_peer_of(w->home, tt_window_job_rank(w, p->rank));
    if (!peer) {
        *st = TUTTI_ERR_NOMEM;
        return NULL;
    }
    *wire = link.wire;
    tt_window_check_fences(w->home, peer);
    if (tt_window_is_queued(peer, peer->fence_tick))
        *st = TUTTI_PENDING;
    return peer;
}

/* Collects descriptors of the next puts over one wire, from s->at, each with a fence if
 * required. Returns their number. PENDING in *st: the first put cannot be sent yet. OK and 0: it
 * must be sent by message. */
static int collect_descs(struct several *s, struct tt_desc d[BATCH], struct tt_wire **wire,
                         tutti_status *st)
{
    int n = 0;

    *st = TUTTI_OK;
    *wire = NULL;
    for (uint32_t i = s->at; i < s->n && n + 2 <= BATCH; i++) {
        struct tt_window_way *way = NULL;
        struct tt_wire *its = NULL;
        tutti_status here;
        const struct tt_window_peer *peer = reach_short(s, &s->puts[i], &way, &its, &here);

        if (i == s->at) {
            s->attempt.rank = s->puts[i].rank;
            *st = here;
        }
        if (here || (*wire && its != *wire) || way->by_mail || peer->mail_fenced)
            break;
        *wire = its;
        if (peer->fenced && !(its->caps & TT_WIRE_CAP_ORDERED))
            d[n++] = (struct tt_desc){ .kind = TT_DESC_FENCE, .peer = peer->rank };
        d[n++] = short_desc(s, &s->puts[i], way);
    }
    return n;
}

/* Records that the wire has taken the put of this descriptor. */
static void mark_sent(struct several *s, const struct tt_desc *d)
{
    struct tt_windows *home = s->attempt.window->home;
    struct tt_window_peer *peer = home->peers[d->peer];

    s->puts[s->at++].gone = true;
    peer->fenced = false;
    tt_flush_put(&peer->marks, home->tick);
}

static tutti_status step(struct tt_call_check *a)
{
    struct several *s = (struct several *)a;

    while (s->at < s->n) {
        struct tt_desc d[BATCH];
        struct tt_wire *wire;
        tutti_status st;
        const int n = collect_descs(s, d, &wire, &st);
        int taken;

        if (st)
            return st;
        if (n == 0) {
            s->at++;            /* posted by the caller */
            continue;
        }
        taken = wire->ops->post(wire, d, n);
        for (int i = 0; i < taken; i++)
            if (d[i].kind == TT_DESC_PUT)
                mark_sent(s, &d[i]);
        if (taken < n)
            return TUTTI_PENDING;
    }
    return TUTTI_OK;
}

tutti_status tt_window_put_several(struct tt_window *w, struct tt_window_short *puts, uint32_t n,
                                   int64_t timeout_ms, const char *call)
{
    struct several s = {
        .attempt = { .window = w,
                     .call = call,
                     .rank = UINT32_MAX,
                     .timeout_ms = timeout_ms,
                     .step = step },
        .puts = puts,
        .n = n,
    };

    return tt_call_check_run(&s.attempt);
}
