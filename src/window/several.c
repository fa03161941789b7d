/* Short puts with a signal each, to several ranks with one doorbell. */
#include "window/window.h"

#define BATCH 32            /* descriptors of one doorbell: as many as verbs chains */

struct several {
    struct tt_attempt attempt;
    struct tt_window_short *puts;
    uint32_t n, at;             /* all before `at` have gone, or are left to the caller */
};

static struct tt_desc desc_of(const struct several *s, const struct tt_window_short *p, const struct tt_window_way *way)
{
    return (struct tt_desc){
        .kind = TT_DESC_PUT, .flags = TT_DESC_INLINE, .peer = tt_window_job_rank(s->attempt.window, p->rank),
        .local = (void *)(uintptr_t)p->src, .bytes = p->bytes, .key = &way->key, .offset = p->offset,
        .signal_op = TT_SIGNAL_SET, .signal_key = &way->key, .signal_offset = p->signal_offset,
        .signal_value = p->signal_value, .cookie = TT_GUEST_COOKIE,
    };
}

/* The next ones of one wire. Returns how many there are from s->at on. PENDING in *st: the first cannot be reached yet. */
static int gather(struct several *s, struct tt_desc *d, struct tt_wire **wire, tutti_status *st)
{
    struct tt_window *w = s->attempt.window;
    int n = 0;

    *st = TUTTI_OK;
    *wire = NULL;
    for (uint32_t i = s->at; i < s->n && n < BATCH; i++) {
        struct tt_window_way *way;
        struct tt_guest_link link;
        tutti_status here = tt_window_reach(w, s->puts[i].rank, &way, &link);

        if (!here && !tt_window_peer_of(w->home, tt_window_job_rank(w, s->puts[i].rank)))
            here = TUTTI_ERR_NOMEM;
        if (n == 0) {
            s->attempt.rank = s->puts[i].rank;
            *st = here;
        }
        if (here || (*wire && link.wire != *wire) || way->by_mail)
            break;
        *wire = link.wire;
        d[n++] = desc_of(s, &s->puts[i], way);
    }
    return n;
}

static tutti_status step(struct tt_attempt *a)
{
    struct several *s = (struct several *)a;
    struct tt_window *w = a->window;

    while (s->at < s->n) {
        struct tt_desc d[BATCH];
        struct tt_wire *wire;
        tutti_status st;
        const int n = gather(s, d, &wire, &st);
        int taken;

        if (st)
            return st;
        if (n == 0) {
            s->at++;            /* by message: the caller's */
            continue;
        }
        taken = wire->ops->post(wire, d, n);
        for (int i = 0; i < taken; i++, s->at++) {
            s->puts[s->at].gone = true;
            tt_marks_put(&tt_window_peer_of(w->home, d[i].peer)->marks, w->home->tick);
        }
        if (taken < n)
            return TUTTI_PENDING;
    }
    return TUTTI_OK;
}

tutti_status tt_window_put_several(struct tt_window *w, struct tt_window_short *puts, uint32_t n, int64_t timeout_ms,
                                   const char *call)
{
    struct several s = {
        .attempt = { .window = w, .call = call, .rank = UINT32_MAX, .timeout_ms = timeout_ms, .step = step },
        .puts = puts, .n = n,
    };

    return tt_attempt_run(&s.attempt);
}
