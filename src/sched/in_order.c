#include "sched/in_order.h"

#include <stdlib.h>

/* Returns the step of a wait's put in its sender's program; *from: the sender. */
static uint32_t put_of_wait(const struct tt_program *p, const struct tt_links *links, uint32_t rank,
                            uint32_t step, uint32_t *from)
{
    *from = p->steps[rank][step].peer;
    return links->mate[links->first[rank] + step] - links->first[*from];
}

/* Runs one rank as far as possible; returns whether it advanced. */
static bool run_rank(const struct tt_program *p, const struct tt_links *links, uint32_t rank,
                     uint32_t *at)
{
    const uint32_t began = at[rank];

    for (; at[rank] < p->nsteps[rank]; at[rank]++) {
        uint32_t from;

        if (p->steps[rank][at[rank]].opcode == TT_WAIT &&
            put_of_wait(p, links, rank, at[rank], &from) >= at[from])
            break;
    }
    return at[rank] > began;
}

/* Reports a cycle, found by following the blocked ranks. */
static tutti_status fail_cycle(const struct tt_program *p, const struct tt_links *links,
                               uint32_t rank, const uint32_t *at, const struct tt_finding *f)
{
    for (uint32_t i = 0; i < p->nranks; i++)
        put_of_wait(p, links, rank, at[rank], &rank);
    return tt_finding_step(f, rank, at[rank],
                           "deadlock in program order: circular wait (put before waiting)");
}

tutti_status tt_in_order_check(const struct tt_program *p, const struct tt_links *links,
                               const struct tt_finding *f)
{
    uint32_t *at = calloc(p->nranks, sizeof *at);       /* [nranks], current step */
    tutti_status st = TUTTI_OK;
    bool moved = true;

    if (!at)
        return tt_finding_nomem(f);
    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < p->nranks; r++)
            moved = run_rank(p, links, r, at) || moved;
    }
    for (uint32_t r = 0; r < p->nranks && st == TUTTI_OK; r++)
        if (at[r] < p->nsteps[r])
            st = fail_cycle(p, links, r, at, f);
    free(at);
    return st;
}
