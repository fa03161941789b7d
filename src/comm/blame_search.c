#include "comm/blame_search.h"

#include <string.h>

#include "base/status.h"

#define NOBODY UINT32_MAX

_Static_assert(TT_WAITINGS <= 8, "bits of due and done");

void tt_blame_search_init(struct tt_blame_search *p, struct tt_blame_search_rank *ranks,
                          uint32_t nranks)
{
    *p = (struct tt_blame_search){ .nranks = nranks, .rank = ranks };
}

static void record_query(struct tt_blame_search_rank *r, uint64_t now_ns)
{
    r->asked_ns = now_ns;
    if (!r->first_ns)
        r->first_ns = now_ns;
}

bool tt_blame_search_should_query(struct tt_blame_search *p, uint32_t rank, uint64_t now_ns)
{
    struct tt_blame_search_rank *r;

    if (rank >= p->nranks)
        return false;
    r = &p->rank[rank];
    if (r->asked_ns && now_ns - r->asked_ns < TT_PROBE_EVERY_NS)
        return false;
    record_query(r, now_ns);
    return true;
}

/* Returns a bitmap of the entries of r->waits that may block a rank's part in the operation *of. */
static uint8_t relevant(const struct tt_blame_search_rank *r, const struct tt_waiting *of)
{
    for (uint32_t i = 0; i < r->nwaits && of->op != UINT64_MAX; i++)
        if (r->waits[i].context == of->context && r->waits[i].op == of->op)
            return (uint8_t)(1u << i);
    return (uint8_t)((1u << r->nwaits) - 1);
}

uint32_t tt_blame_search_answer(struct tt_blame_search *p, uint32_t rank,
                                const struct tt_waiting *of, const struct tt_waiting *waits,
                                uint32_t n, uint64_t asked_ns, uint64_t now_ns,
                                struct tt_waiting ask[TT_WAITINGS])
{
    struct tt_blame_search_rank *r;
    uint32_t nask = 0;

    if (rank >= p->nranks)
        return 0;
    tt_assert(n <= TT_WAITINGS);
    r = &p->rank[rank];
    if (asked_ns < r->asked_ns && !r->first_ns)
        return 0;               /* overtaken by the response to a newer query */
    r->first_ns = asked_ns < r->asked_ns ? r->asked_ns : 0;
    if (asked_ns && asked_ns == r->asked_ns && now_ns >= asked_ns)
        tt_response_time_add(&p->times, now_ns - asked_ns);
    r->failed = false;
    r->nwaits = (uint8_t)n;
    memcpy(r->waits, waits, n * sizeof *waits);
    for (uint32_t left = relevant(r, of); left; left &= left - 1) {
        const struct tt_waiting *w = &r->waits[__builtin_ctz(left)];

        if (tt_blame_search_should_query(p, w->rank, now_ns))
            ask[nask++] = *w;
    }
    return nask;
}

void tt_blame_search_failed(struct tt_blame_search *p, uint32_t rank)
{
    if (rank < p->nranks)
        p->rank[rank].failed = true;
}

/* ---- blame ---- */

struct search {
    struct tt_blame_search *p;
    uint64_t since_ns, now_ns;
    uint32_t first, last;       /* queue of ranks whose responses must be followed */
    struct tt_blamed found;
    bool idles;                 /* several ranks respond, and are in no operation */
    bool open;
    struct tt_waiting ask;
};

static void search_enqueue(struct search *s, uint32_t rank)
{
    struct tt_blame_search_rank *r = &s->p->rank[rank];

    if (r->queued || !(r->due & ~r->done))
        return;
    r->queued = true;
    r->next = NOBODY;
    if (s->first == NOBODY)
        s->first = rank;
    else
        s->p->rank[s->last].next = rank;
    s->last = rank;
}

/* Visits a rank that another rank on the chain waits for. */
static void visit(struct search *s, const struct tt_waiting *w)
{
    struct tt_blame_search_rank *r = w->rank < s->p->nranks ? &s->p->rank[w->rank] : NULL;

    if (!r)
        return;
    if (r->search != s->p->searches) {
        r->search = s->p->searches;
        r->due = r->done = 0;
        r->queued = false;
    }
    if (!r->first_ns && r->asked_ns < s->since_ns) {
        s->open = true;
        if (s->ask.rank == NOBODY) {
            s->ask = *w;
            record_query(r, s->now_ns);
        }
    } else if (r->first_ns) {
        const bool silent = s->now_ns - r->first_ns >=
                            tt_response_time_silence_ns(&s->p->times, TT_PROBE_SILENCE_NS_MAX);

        s->open |= !silent;
        if (silent)
            *(r->failed ? &s->found.gone : &s->found.silent) = w->rank;
    } else if (r->nwaits == 0) {
        s->idles |= s->found.idle != NOBODY && s->found.idle != w->rank;
        s->found.idle = w->rank;
    }
    r->due |= relevant(r, w);
    search_enqueue(s, w->rank);
}

/* Finds the rank that the rank in *w waits for, or waited for when it failed. */
static void find_next(const struct tt_blame_search *p, const struct tt_waiting *w,
                      struct tt_blamed *out)
{
    const struct tt_blame_search_rank *r = w->rank < p->nranks ? &p->rank[w->rank] : NULL;

    for (uint32_t left = r ? relevant(r, w) : 0; left && out->next == NOBODY; left &= left - 1) {
        const struct tt_waiting *its = &r->waits[__builtin_ctz(left)];

        out->next = its->rank;
        out->next_ended = its->ended;
    }
}

enum tt_blame tt_blame_search_blame(struct tt_blame_search *p, const struct tt_waiting *w,
                                    uint64_t since_ns, uint64_t now_ns, struct tt_blamed *out,
                                    struct tt_waiting *ask)
{
    struct search s = {
        .p = p,
        .since_ns = since_ns,
        .now_ns = now_ns,
        .first = NOBODY,
        .found = { .silent = NOBODY, .idle = NOBODY, .gone = NOBODY, .next = NOBODY },
        .ask = { .rank = NOBODY },
    };

    p->searches++;
    visit(&s, w);
    while (s.first != NOBODY && s.found.silent == NOBODY) {
        struct tt_blame_search_rank *r = &p->rank[s.first];
        const uint8_t follow = r->due & (uint8_t)~r->done;

        s.first = r->next;
        r->queued = false;
        r->done |= follow;
        for (uint32_t left = follow; left && s.found.silent == NOBODY; left &= left - 1)
            visit(&s, &r->waits[__builtin_ctz(left)]);
    }
    *ask = s.ask;
    if (s.idles)
        s.found.idle = NOBODY;
    find_next(p, w, &s.found);
    *out = s.found;
    if (s.found.silent != NOBODY)
        return TT_BLAME_RANK;
    return s.open ? TT_BLAME_OPEN : TT_BLAME_NOBODY;
}
