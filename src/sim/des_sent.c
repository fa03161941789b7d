/* Reuse of the sources of puts.
 *
 * Most sources may be reused without an effect: no step waits for the memory, and the rank
 * processes another event before it finishes. Such a source is not an event: it is recorded with
 * its rank, and processed before the rank's next event, with the same result. A source is an event
 * if a step may run because of it, or if the rank has no other event. */
#include "sim/des_state.h"

/* Returns whether the source of this step must be an event. With limited cores it always is, since
 * the rank needs a core to process it. */
static bool source_is_event(const struct des *s, uint32_t me, uint16_t step)
{
    const struct tt_exec *x = &s->rank[me].exec;

    return s->inbox || tt_exec_sent_matters(x, step) || tt_exec_only_unsent(x);
}

/* Records source i with its rank, ordered by time. */
static void record_source(struct des *s, uint32_t i)
{
    uint32_t *at = &s->rank[s->msg[i].to].unsent;

    while (*at != DES_NONE && s->msg[*at].tail_ps <= s->msg[i].tail_ps)
        at = &s->msg[*at].next;
    s->msg[i].next = *at;
    *at = i;
}

void des_sent_at(struct des *s, uint32_t me, uint32_t to, const struct des_sent *what,
                 uint64_t time_ps)
{
    const uint32_t i = des_alloc(s);

    s->msg[i].kind = DES_SENT;
    s->msg[i].to = me;
    s->msg[i].from = to;
    s->msg[i].step = what->step;
    s->msg[i].seq = what->seq;
    s->msg[i].count = what->count;
    s->msg[i].tail_ps = time_ps;
    s->msg[i].next = DES_NONE;
    if (source_is_event(s, me, what->step))
        des_at(s, time_ps, i);
    else
        record_source(s, i);
}

void des_sent(struct des *s, uint32_t i)
{
    const struct des_msg *m = &s->msg[i];

    for (uint32_t j = 0; j < m->count; j++)
        tt_exec_sent(&s->rank[m->to].exec, m->step, m->seq + j);
    des_free(s, i);
}

void des_sent_catch_up(struct des *s, uint32_t me)
{
    struct des_rank *r = &s->rank[me];

    while (r->unsent != DES_NONE && s->msg[r->unsent].tail_ps <= s->now_ps) {
        const uint32_t i = r->unsent;

        r->unsent = s->msg[i].next;
        des_sent(s, i);
    }
}

void des_sent_heed(struct des *s, uint32_t me, uint16_t step)
{
    uint32_t *at = &s->rank[me].unsent;

    if (*at == DES_NONE || !tt_exec_sent_matters(&s->rank[me].exec, step))
        return;
    while (*at != DES_NONE) {
        const uint32_t i = *at;

        if (s->msg[i].step != step) {
            at = &s->msg[i].next;
            continue;
        }
        *at = s->msg[i].next;
        des_at(s, s->msg[i].tail_ps, i);
    }
}

/* The last recorded source of a rank becomes an event, which also processes the earlier ones. */
static bool wake_with_last(struct des *s, uint32_t me)
{
    uint32_t *at = &s->rank[me].unsent;
    uint32_t last;

    if (*at == DES_NONE)
        return false;
    while (s->msg[*at].next != DES_NONE)
        at = &s->msg[*at].next;
    last = *at;
    *at = DES_NONE;
    des_at(s, s->msg[last].tail_ps, last);
    return true;
}

void des_sent_before_rest(struct des *s, uint32_t me)
{
    if (s->rank[me].unsent != DES_NONE && tt_exec_only_unsent(&s->rank[me].exec))
        wake_with_last(s, me);
}

bool des_sent_wake_all(struct des *s)
{
    bool any = false;

    for (uint32_t me = 0; me < s->conf->coll->nranks; me++)
        any |= wake_with_last(s, me);
    return any;
}
