#include "engine/copies.h"

#define FIRST_TRIES 4u      /* operations of either way before they are compared */
#define TRY_EVERY 64u       /* operations: the other way may take twice the time, so 2 % */

uint32_t tt_copies_class(uint64_t bytes)
{
    const uint32_t c = 63 - (uint32_t)__builtin_clzll(bytes / TT_COPIES_BYTES_MIN);

    return c < TT_COPIES_CLASSES ? c : TT_COPIES_CLASSES - 1;
}

bool tt_copies_next(struct tt_copies *c)
{
    const uint32_t fewer = c->known[0] < c->known[1] ? c->known[0] : c->known[1];

    c->ops++;
    if (c->ops == 1)
        return false;       /* whatever is done once is done now: it says nothing */
    if (fewer < FIRST_TRIES)
        return c->known[1] < c->known[0];
    return c->single != (c->ops % TRY_EVERY == 0);
}

/* An operation may wait for a rank that comes late, or be interrupted: the least of some tells what it takes. */
static uint32_t least(const struct tt_copies *c, bool single)
{
    uint32_t min = UINT32_MAX;

    for (uint32_t i = 0; i < TT_COPIES_KEPT && i < c->known[single]; i++)
        min = c->cost[single][i] < min ? c->cost[single][i] : min;
    return min;
}

void tt_copies_learn(struct tt_copies *c, bool single, uint64_t bytes, uint64_t ns)
{
    const uint64_t cost = bytes ? ns * 1000 / bytes : 0;
    uint32_t used, other;

    if (c->ops == 1)
        return;
    c->cost[single][c->known[single]++ % TT_COPIES_KEPT] = cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
    if (c->known[0] < FIRST_TRIES || c->known[1] < FIRST_TRIES)
        return;
    used = least(c, c->single);
    other = least(c, !c->single);
    if (other < used - used / 16)
        c->single = !c->single;
}
