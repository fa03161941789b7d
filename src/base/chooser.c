#include "base/chooser.h"

#define FIRST_TRIES 4u      /* uses of either way before they are compared, */
#define FIRST_RUNS 2u       /* or runs */
#define TRY_EVERY 256u      /* uses: the other way may take twice the time, so 2 % */
#define TRY_SOONEST 32u     /* uses, then twice as many and so on up to TRY_EVERY: the first tries may have misled */
#define TRY_TIMES 5u        /* in a row: the first two find the caches as the other way left them */

static uint32_t first_tries(const struct tt_chooser *c) { return c->in_runs ? FIRST_RUNS : FIRST_TRIES; }

/* How many uses ago tries began. */
static uint32_t since_tries(uint32_t uses)
{
    uint32_t began = TRY_SOONEST;

    if (uses >= TRY_EVERY)
        return uses % TRY_EVERY;
    while (2 * began <= uses)
        began *= 2;
    return uses >= began ? uses - began : UINT32_MAX;
}

/* Both ways are tried, the first one first, whichever is in use: where what a way takes depends on how others go, too, all go the same one while it is
 * tried. If each tried what it does not use itself, those who once came to different answers would never see what it is to go together. */
static bool next(struct tt_chooser *c)
{
    const uint32_t fewer = c->known[0] < c->known[1] ? c->known[0] : c->known[1];
    uint32_t since;

    c->uses++;
    if (c->uses == 1)
        return false;       /* whatever is done once is done now: it says nothing */
    if (fewer < first_tries(c))
        return c->known[0] >= first_tries(c);
    since = since_tries(c->uses);
    return since < 2 * TRY_TIMES ? since >= TRY_TIMES : c->second;
}

bool tt_chooser_next(struct tt_chooser *c)
{
    return c->last = next(c);
}

bool tt_chooser_runs_next(struct tt_chooser_runs *r, uint32_t run, bool *timed)
{
    const uint32_t at = r->uses++ % run;

    r->chooser.in_runs = run > 1;
    *timed = at == run - 1;
    return at == 0 ? tt_chooser_next(&r->chooser) : r->chooser.last;
}

/* A use may be interrupted, wait for somebody who comes late, or meet a page that is not there yet: the least of some tells what it takes. */
static uint64_t least(const struct tt_chooser *c, bool second)
{
    uint32_t min = UINT32_MAX;

    for (uint32_t i = 0; i < TT_CHOOSER_KEPT && i < c->known[second]; i++)
        min = c->cost[second][i] < min ? c->cost[second][i] : min;
    return min;
}

void tt_chooser_learn(struct tt_chooser *c, bool second, uint64_t cost, const uint8_t margins[2])
{
    uint64_t used;

    if (c->uses == 1 && !c->in_runs)
        return;
    c->cost[second][c->known[second]++ % TT_CHOOSER_KEPT] = cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
    if (c->known[0] < first_tries(c) || c->known[1] < first_tries(c))
        return;
    used = least(c, c->second);
    if (least(c, !c->second) < used - used * margins[!c->second] / 16)
        c->second = !c->second;
}
