#include "comm/neighbours.h"

#include <stdlib.h>

struct tt_neighbours *tt_neighbours_create(uint32_t rank, const uint32_t *ranks, uint32_t n)
{
    struct tt_neighbours *s = calloc(1, sizeof *s + n * sizeof *s->list);

    if (!s)
        return NULL;
    s->rank = rank;
    s->n = n;
    for (uint32_t i = 0; i < n; i++)
        s->list[i].rank = ranks[i];
    return s;
}

void tt_neighbours_begin_roll(struct tt_neighbours *s, uint64_t now_ns)
{
    s->roll_ns = now_ns;
    for (uint32_t i = 0; i < s->n; i++)
        s->list[i].nanswers = 0;
}

static void record_query(struct tt_neighbour *p, uint64_t now_ns)
{
    p->asked_ns = now_ns;
    if (!p->first_ns)
        p->first_ns = now_ns;
}

/* Responses before the roll call are ignored, so its first query is always sent. */
bool tt_neighbours_is_due(struct tt_neighbours *s, uint32_t i, uint64_t now_ns)
{
    struct tt_neighbour *p = &s->list[i];

    if (!p->is_connected || p->nanswers >= TT_NEIGHBOURS_SAMPLES ||
        (p->asked_ns >= s->roll_ns && p->first_ns))
        return false;
    record_query(p, now_ns);
    return true;
}

bool tt_neighbours_is_due_every(struct tt_neighbours *s, uint32_t i, uint64_t every_ns,
                                uint64_t now_ns)
{
    struct tt_neighbour *p = &s->list[i];

    if (!p->is_connected || (p->asked_ns && now_ns - p->asked_ns < every_ns))
        return false;
    record_query(p, now_ns);
    return true;
}

void tt_neighbours_answer(struct tt_neighbours *s, uint32_t rank, const struct tt_clock_exchange *x,
                          const struct tt_clock_offset *told)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct tt_neighbour *p = &s->list[i];

        if (p->rank != rank || x->sent_ns > p->asked_ns || x->received_ns < x->sent_ns)
            continue;           /* it responds to a query that was not sent */
        p->first_ns = x->sent_ns < p->asked_ns ? p->asked_ns : 0;
        p->answered_ns = x->received_ns;
        p->nanswers += x->sent_ns >= s->roll_ns;
        tt_response_time_add(&s->times, x->received_ns - x->sent_ns);
        tt_clock_add(&p->clock, x, told);
    }
}

enum tt_neighbour_life tt_neighbours_life(const struct tt_neighbours *s, uint32_t i,
                                          uint64_t now_ns)
{
    const struct tt_neighbour *p = &s->list[i];

    if (p->answered_ns && p->answered_ns >= s->roll_ns)
        return TT_NEIGHBOUR_RESPONDS;
    if (!p->is_connected || !p->first_ns)
        return TT_NEIGHBOUR_UNKNOWN;
    return now_ns - p->first_ns >=
                   tt_response_time_silence_ns(&s->times, TT_NEIGHBOURS_SILENCE_NS_MAX)
               ? TT_NEIGHBOUR_SILENT
               : TT_NEIGHBOUR_UNKNOWN;
}

bool tt_neighbours_is_complete(const struct tt_neighbours *s, uint64_t now_ns)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->list[i].is_connected && s->list[i].nanswers < TT_NEIGHBOURS_SAMPLES &&
            tt_neighbours_life(s, i, now_ns) != TT_NEIGHBOUR_SILENT)
            return false;
    return true;
}

struct tt_clock_offset tt_neighbours_clock(const struct tt_neighbours *s, uint64_t now_ns)
{
    struct tt_clock_offset best = { .known = s->rank == 0 };

    for (uint32_t i = 0; i < s->n; i++) {
        const struct tt_neighbour *p = &s->list[i];
        struct tt_clock_offset pair, offset;

        if (p->rank > s->rank)
            continue;           /* its offset may depend on this rank's */
        pair =
            p->is_here ? tt_clock_of_host(&p->clock, now_ns) : tt_clock_of_pair(&p->clock, now_ns);
        offset = tt_clock_by_way_of(&p->clock, &pair, now_ns);
        if (offset.known && best.known && tt_clock_contradict(&offset, &best))
            return (struct tt_clock_offset){ .known = false };
        best = tt_clock_better(&offset, &best);
    }
    return best;
}
