#include "base/chooser.h"

/* How often each way is tried: of uses, or of runs. */
struct pace {
    uint32_t first;         /* before ways are compared */
    uint32_t again;         /* later, in a row: the first ones find the caches as the way before left them */
    uint32_t soonest;       /* after so many, then after twice as many and so on: the first tries may have misled, */
    uint32_t every;         /* and then every so many: a way that takes twice the time costs 1 % */
};

static const struct pace of_uses = { .first = 4, .again = 12, .soonest = 64, .every = 1024 };
static const struct pace of_runs = { .first = 2, .again = 5, .soonest = 32, .every = 256 };

static const struct pace *pace_of(const struct tt_chooser *c) { return c->in_runs ? &of_runs : &of_uses; }

/* The first way of which too little is known; c->ways: none. */
static uint8_t unknown(const struct tt_chooser *c)
{
    uint8_t way = 0;

    while (way < c->ways && c->known[way] >= pace_of(c)->first)
        way++;
    return way;
}

/* How many uses ago tries began. */
static uint32_t since_tries(const struct pace *p, uint32_t uses)
{
    uint32_t began = p->soonest;

    if (uses >= p->every)
        return uses % p->every;
    while (2 * began <= uses)
        began *= 2;
    return uses >= began ? uses - began : UINT32_MAX;
}

/* All ways are tried, the first one first, whichever is in use: where what a way takes depends on how others go, too, all go the same one while it is
 * tried. If each tried what it does not use itself, those who once came to different answers would never see what it is to go together. */
static uint8_t next(struct tt_chooser *c, uint8_t ways, uint8_t in_use)
{
    const struct pace *p = pace_of(c);
    uint8_t way;
    uint32_t since;

    c->ways = ways;
    c->uses++;
    if (c->uses == 1)
        return 0;           /* whatever is done once is done now: it says nothing */
    way = unknown(c);
    if (way < ways)
        return way;
    since = since_tries(p, c->uses);
    return since < ways * p->again ? (uint8_t)(since / p->again) : in_use;
}

uint8_t tt_chooser_next(struct tt_chooser *c, uint8_t ways)
{
    return c->last = next(c, ways, c->best);
}

uint8_t tt_chooser_runs_next(struct tt_chooser_runs *r, uint8_t ways, uint32_t run, uint8_t in_use, bool *timed)
{
    const uint32_t at = r->uses++ % run;

    r->chooser.in_runs = run > 1;
    *timed = at == run - 1;
    if (at == 0)
        r->chooser.last = next(&r->chooser, ways, in_use);
    return r->chooser.last;
}

/* Of one try, and no more: what took little long ago may not do so now. */
static uint32_t kept(const struct tt_chooser *c)
{
    return pace_of(c)->again < TT_CHOOSER_KEPT ? pace_of(c)->again : TT_CHOOSER_KEPT;
}

/* A use may be interrupted, wait for somebody who comes late, or meet a page that is not there yet: the least of some tells what it takes. */
static uint64_t least(const struct tt_chooser *c, uint8_t way)
{
    uint32_t min = UINT32_MAX;

    for (uint32_t i = 0; i < kept(c) && i < c->known[way]; i++)
        min = c->cost[way][i] < min ? c->cost[way][i] : min;
    return min;
}

void tt_chooser_learn(struct tt_chooser *c, uint8_t way, uint64_t cost, const uint8_t margins[])
{
    if (c->uses == 1 && !c->in_runs)
        return;
    c->cost[way][c->known[way]++ % kept(c)] = cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
    if (unknown(c) < c->ways)
        return;
    for (uint8_t other = 0; other < c->ways; other++) {
        const uint64_t used = least(c, c->best);

        if (other != c->best && least(c, other) < used - used * margins[other] / 16)
            c->best = other;
    }
}
