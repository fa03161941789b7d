/* The ranks that tables and pictures show. */
#include <stdlib.h>

#include "tools/analyze/analyze.h"

static void add_row(struct analysis *a, uint32_t most, uint32_t rank)
{
    if (rank >= a->dumps.nranks || a->nrows == most)
        return;
    for (uint32_t i = 0; i < a->nrows; i++)
        if (a->rows[i] == rank)
            return;
    a->rows[a->nrows++] = rank;
}

static void add_rows_of(struct analysis *a, uint32_t most, const struct tt_diagnosis *x)
{
    for (uint32_t i = 0; i < x->nculprits && i < TT_DIAGNOSIS_CULPRITS; i++)
        add_row(a, most, x->culprits[i]);
    add_row(a, most, x->to);
    add_row(a, most, x->at);
    for (uint32_t i = 0; i < x->ncycle && i < TT_DIAGNOSIS_CYCLE; i++)
        add_row(a, most, x->cycle[i].rank);
    add_row(a, most, x->waits_for);
    add_row(a, most, x->waits_by);
}

/* Adds the ranks that are in the same operation. */
static void add_rows_in(struct analysis *a, uint32_t most, const struct tt_diagnosis *x)
{
    for (uint32_t i = 0; i < a->waits.nrecords && a->nrows < most; i++) {
        const struct tt_waits_instance *o = &a->waits.instances[a->waits.records[i].instance];

        if (a->waits.records[i].op != x->op)
            continue;
        for (uint32_t k = 0; k < o->n; k++)
            add_row(a, most, tt_waits_op(&a->waits, a->waits.by_instance[o->first + k])->rank);
    }
}

bool analyze_choose_rows(struct analysis *a, uint32_t most)
{
    const uint32_t n = a->dumps.nranks;

    most = most < n ? most : n;
    a->rows = calloc((size_t)most + 1, sizeof *a->rows);
    if (!a->rows)
        return false;
    for (uint32_t i = 0; i < a->found.n && i < 1; i++) {
        add_rows_of(a, most, &a->found.list[i]);
        add_rows_in(a, most, &a->found.list[i]);
    }
    for (uint32_t r = 0; r < n && a->nrows < most; r++)
        if (a->dumps.ranks[r].is_member)
            add_row(a, most, r);
    return true;
}

uint32_t analyze_record_of(const struct analysis *a, uint32_t rank)
{
    const struct tt_waits *w = &a->waits;

    return w->rank_first[rank] < w->rank_first[rank + 1] ? w->rank_first[rank] : TT_DUMPS_NONE;
}

bool analyze_is_culprit(const struct analysis *a, uint32_t rank)
{
    const struct tt_diagnosis *x = &a->found.list[0];

    if (a->found.n == 0)
        return false;
    for (uint32_t i = 0; i < x->nculprits && i < TT_DIAGNOSIS_CULPRITS; i++)
        if (x->culprits[i] == rank || x->to == rank)
            return true;
    return false;
}

const char *analyze_wait_name(uint8_t wait)
{
    static const char *const names[] = { "",    "start",      "data",  "credit",
                                         "cts", "completion", "match", "" };

    return names[wait <= TT_WAIT_OTHER ? wait : TT_WAIT_OTHER];
}

/* Returns the state of a former member of an elastic run. */
static const char *departed_state(const struct tt_dumps_rank *r)
{
    return r->departed == TT_DEPARTED_DIED     ? "lost"
           : r->departed == TT_DEPARTED_SILENT ? "silent"
           : r->ndeparted > 0                  ? "removed"
           : r->has_left                       ? "left"
                                               : "away";
}

const char *analyze_state(const struct analysis *a, uint32_t rank)
{
    const struct tt_dumps_rank *r = &a->dumps.ranks[rank];

    if (!r->is_complete && (r->ndeparted > 0 || r->has_left || r->is_away))
        return departed_state(r);
    if (r->nlost > 0 && !r->is_complete)
        return "lost";
    if (r->nsilent > r->nalive)
        return "silent";
    return !r->has_dump ? "no dump" : r->is_complete ? "alive" : "incomplete";
}
