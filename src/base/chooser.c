#include "base/chooser.h"

#define FIRST_TRIES 4u      /* uses of either way before they are compared */
#define TRY_EVERY 256u      /* uses: the other way may take twice the time, so 2 % */
#define TRY_TIMES 4u        /* in a row: the first finds the caches as the way in use left them */

bool tt_chooser_next(struct tt_chooser *c)
{
    const uint32_t fewer = c->known[0] < c->known[1] ? c->known[0] : c->known[1];

    c->uses++;
    if (c->uses == 1)
        return false;       /* whatever is done once is done now: it says nothing */
    if (fewer < FIRST_TRIES)
        return c->known[0] >= FIRST_TRIES;
    return c->second != (c->uses % TRY_EVERY < TRY_TIMES);
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

    if (c->uses == 1)
        return;
    c->cost[second][c->known[second]++ % TT_CHOOSER_KEPT] = cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
    if (c->known[0] < FIRST_TRIES || c->known[1] < FIRST_TRIES)
        return;
    used = least(c, c->second);
    if (least(c, !c->second) < used - used * margins[!c->second] / 16)
        c->second = !c->second;
}
