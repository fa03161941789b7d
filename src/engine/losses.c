/* Losses of peers, and the failures that they have reported. */
#include "engine/losses.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/context_fail.h"
#include "engine/context_teardown.h"
#include "engine/describe.h"
#include "engine/peers.h"

static bool has_member(const struct tt_context *c, uint32_t rank)
{
    for (uint32_t i = 0; i < c->nranks; i++)
        if (c->ranks[i] == rank)
            return true;
    return false;
}

/* Returns the last failure that a rank reported, or NULL. */
static const char *report_of(const struct tt_engine *e, uint32_t rank)
{
    for (uint32_t i = 0; i < e->nreports && i < TT_REPORTS; i++)
        if (e->reports[i].rank == rank)
            return e->reports[i].sentence;
    return NULL;
}

void tt_report_keep(struct tt_engine *e, uint32_t rank, const char *sentence)
{
    struct tt_report *r = NULL;

    if (rank == UINT32_MAX)
        return;
    if (!e->reports)
        e->reports = calloc(TT_REPORTS, sizeof *e->reports);
    if (!e->reports)
        return;
    for (uint32_t i = 0; i < e->nreports && i < TT_REPORTS && !r; i++)
        if (e->reports[i].rank == rank)
            r = &e->reports[i];
    if (!r)
        r = &e->reports[e->nreports++ % TT_REPORTS];
    r->rank = rank;
    snprintf(r->sentence, sizeof r->sentence, "%s", sentence);
}

/* Prints "; it had reported: ...", or "". */
const char *tt_report_text(const struct tt_engine *e, uint32_t rank, char out[TT_REPORT_TEXT_BYTES])
{
    const char *report = report_of(e, rank);

    if (report)
        snprintf(out, TT_REPORT_TEXT_BYTES, "; it had reported: %.*s", TT_REPORT_TEXT_BYTES - 30,
                 report);
    else
        out[0] = 0;
    return out;
}

void tt_peer_lost(struct tt_engine *e, uint32_t rank, const char *how)
{
    struct tt_peer *p = tt_peer_of(e, rank);
    char who[TT_RANK_TEXT_BYTES], why[TT_ERROR_BYTES], report[TT_REPORT_TEXT_BYTES];

    if (p && p->state == TT_PEER_LOST)
        return;
    if (p)
        p->state = TT_PEER_LOST;
    snprintf(why, sizeof why, "%s was lost: %.*s%s", tt_rank_text(e, rank, who),
             TT_ERROR_BYTES - TT_REPORT_TEXT_BYTES - 60, how, tt_report_text(e, rank, report));
    for (struct tt_context *c = e->contexts, *next; c; c = next) {
        next = c->next;
        if (has_member(c, rank))
            tt_context_fail_here(c, TUTTI_ERR_PEER_LOST, why, true);
    }
}

void tt_peer_left(struct tt_engine *e, struct tt_peer *p)
{
    p->left_ns = tt_now_ns();       /* tt_check_deadlines handles the rest */
    tt_peer_has_left(e, p);
}
