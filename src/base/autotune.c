#include "base/autotune.h"

/* How often each way is tried, counted in uses or in runs. */
struct pace {
    uint32_t first;         /* tries of each way before ways are compared */
    uint32_t again;         /* later tries of each way, in a row; the first of them run with the
                               caches of the previous way */
    uint32_t soonest;       /* uses before the first retry; then after 2, 4, 8, ... times as
                               many, since early tries may mislead */
    uint32_t every;         /* uses between retries later; a way that takes twice the time then
                               costs 1 % */
};

static const struct pace of_uses = { .first = 4, .again = 12, .soonest = 64, .every = 1024 };
static const struct pace of_runs = { .first = 2, .again = 5, .soonest = 32, .every = 256 };

static const struct pace *pace_of(const struct tt_autotune *c)
{
    return c->in_runs ? &of_runs : &of_uses;
}

/* Returns the first way with too few tries, or c->ways. */
static uint8_t first_unmeasured(const struct tt_autotune *c)
{
    uint8_t way = 0;

    while (way < c->ways && c->known[way] >= pace_of(c)->first)
        way++;
    return way;
}

/* Returns the number of uses since the last retry began. */
static uint32_t since_tries(const struct pace *p, uint32_t uses)
{
    uint32_t began = p->soonest;

    if (uses >= p->every)
        return uses % p->every;
    while (2 * began <= uses)
        began *= 2;
    return uses >= began ? uses - began : UINT32_MAX;
}

/* Retries all ways in order, including the one in use. The cost of a way may depend on the ways
 * that other ranks use, so all ranks must try the same way at the same time. If each rank tried
 * only the ways that it does not use, ranks with different results would never measure a common
 * way. */
static uint8_t next_way(struct tt_autotune *c, uint8_t ways, uint8_t in_use)
{
    const struct pace *p = pace_of(c);
    uint8_t way;
    uint32_t since;

    c->ways = ways;
    c->uses++;
    if (c->uses == 1)
        return 0;           /* not representative: the first use also pays one-time costs */
    way = first_unmeasured(c);
    if (way < ways)
        return way;
    since = since_tries(p, c->uses);
    return since < ways * p->again ? (uint8_t)(since / p->again) : in_use;
}

uint8_t tt_autotune_next(struct tt_autotune *c, uint8_t ways)
{
    return c->last = next_way(c, ways, c->best);
}

uint8_t tt_autotune_runs_next(struct tt_autotune_runs *r, uint8_t ways, uint32_t run,
                              uint8_t in_use, bool *timed)
{
    const uint32_t at = r->uses++ % run;

    r->chooser.in_runs = run > 1;
    *timed = at == run - 1;
    if (at == 0)
        r->chooser.last = next_way(&r->chooser, ways, in_use);
    return r->chooser.last;
}

/* Number of costs considered: those of one retry, since older ones may be outdated. */
static uint32_t kept_costs(const struct tt_autotune *c)
{
    return pace_of(c)->again < TT_CHOOSER_KEPT ? pace_of(c)->again : TT_CHOOSER_KEPT;
}

/* A use may include an interrupt, a late peer or a page fault. The minimum of several is the true
 * cost. */
static uint64_t least_cost(const struct tt_autotune *c, uint8_t way)
{
    uint32_t min = UINT32_MAX;

    for (uint32_t i = 0; i < kept_costs(c) && i < c->known[way]; i++)
        min = c->cost[way][i] < min ? c->cost[way][i] : min;
    return min;
}

void tt_autotune_learn(struct tt_autotune *c, uint8_t way, uint64_t cost, const uint8_t margins[])
{
    if (c->uses == 1 && !c->in_runs)
        return;
    c->cost[way][c->known[way]++ % kept_costs(c)] = cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
    if (first_unmeasured(c) < c->ways)
        return;
    for (uint8_t other = 0; other < c->ways; other++) {
        const uint64_t used = least_cost(c, c->best);

        if (other != c->best && least_cost(c, other) < used - used * margins[other] / 16)
            c->best = other;
    }
}

/* ---- against a limit ------------------------------------------------------------------------- */

#define TIME_EVERY 4            /* one in TIME_EVERY uses of the first way is timed */
#define SLOW_TIMES 2            /* consecutive slow uses that switch to the second way */
#define SECONDS 64              /* uses of the second way before the first one is tried again */

bool tt_autotune_limit_next(struct tt_autotune_limit *l, bool *timed)
{
    *timed = false;
    if (l->seconds_left > 0) {
        l->seconds_left--;
        return true;
    }
    *timed = l->slow > 0 || ++l->untimed >= TIME_EVERY;
    return false;
}

void tt_autotune_limit_learn(struct tt_autotune_limit *l, bool slow)
{
    l->untimed = 0;
    l->slow = slow ? l->slow + 1 : 0;
    if (l->slow < SLOW_TIMES)
        return;
    l->slow = SLOW_TIMES - 1;   /* from now on, one slow use suffices */
    l->seconds_left = SECONDS;
}
