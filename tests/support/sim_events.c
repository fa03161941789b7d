/* Pending events of the simulated network. */
#include <stdlib.h>

#include "base/status.h"
#include "support/sim_state.h"

void *tt_sim_must(void *p)
{
    tt_assert(p);
    return p;
}

static bool event_before(const struct tt_sim_event *a, const struct tt_sim_event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

struct tt_sim_event tt_sim_pop(struct tt_sim *s)
{
    const struct tt_sim_event top = s->heap[0], last = s->heap[--s->nheap];
    size_t i = 0;

    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= s->nheap)
            break;
        if (c + 1 < s->nheap && event_before(&s->heap[c + 1], &s->heap[c]))
            c++;
        if (!event_before(&s->heap[c], &last))
            break;
        s->heap[i] = s->heap[c];
        i = c;
    }
    s->heap[i] = last;
    return top;
}

void tt_sim_push(struct tt_sim *s, struct tt_sim_event ev)
{
    size_t i = s->nheap++;

    if (s->nheap > s->heap_cap) {
        s->heap_cap = s->heap_cap ? 2 * s->heap_cap : 1024;
        s->heap = tt_sim_must(realloc(s->heap, s->heap_cap * sizeof *s->heap));
    }
    ev.order = s->order++;
    for (; i > 0 && event_before(&ev, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = ev;
}

uint64_t tt_sim_arrival_ns(struct tt_sim *s, uint32_t from, uint64_t bytes)
{
    struct tt_sim_rank *r = &s->rank[from];
    const uint64_t start = r->link_free_ns > s->now_ns ? r->link_free_ns : s->now_ns;

    r->link_free_ns = start + (uint64_t)((double)bytes * s->conf->byte_ns);
    s->messages++;
    return r->link_free_ns + s->conf->latency_ns +
           (s->conf->jitter_ns ? tt_prng_below(&s->prng, s->conf->jitter_ns) : 0);
}
