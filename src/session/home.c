/* The world of a run: its members by job rank, and the connections that it has lost. */
#include <stdlib.h>

#include "session/run.h"

uint32_t tt_run_home_rank(const struct tt_run_home *h, uint64_t id)
{
    uint32_t r = 0;

    while (r < h->n && h->ids[r] != id)
        r++;
    return r;
}

static bool has_lost(const struct tt_run_home *h, uint32_t r)
{
    return r < h->n && r != h->world->rank && tt_engine_has_lost(h->world->engine, r);
}

bool tt_run_home_fits(tutti_run *run)
{
    const struct tt_run_home *h = &run->home;

    if (!h->world)
        return false;
    for (uint32_t i = 0; i < run->m.nranks; i++) {
        const uint32_t r = tt_run_home_rank(h, run->m.view[i].id);

        if (r == h->n || has_lost(h, r))
            return false;
    }
    return true;
}

uint64_t tt_run_home_lost(tutti_run *run)
{
    const struct tt_run_home *h = &run->home;

    for (uint32_t i = 0; h->world && i < run->m.nranks; i++)
        if (has_lost(h, tt_run_home_rank(h, run->m.view[i].id)))
            return run->m.view[i].id;
    return 0;
}

/* The world is destroyed with its last communicator, which the program may still use; until then it
 * is detached from the run. */
void tt_run_home_leave(struct tt_run_home *h)
{
    if (h->world)
        tt_engine_set_hooks(h->world->engine, &(struct tt_engine_hooks){ .arg = NULL });
    free(h->ids);
    *h = (struct tt_run_home){ .world = NULL };
}
