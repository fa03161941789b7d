#include "analyze/pace.h"

#include <stdlib.h>

#include "analyze/grow.h"
#include "analyze/pace_series.h"
#include "base/status.h"

#define LATE_SHARE 0.25         /* of the transfer time: a delay up to this is not late */

/* ---- groups ---- */

struct tt_pace *tt_pace_create(uint32_t nranks)
{
    struct tt_pace *p = calloc(1, sizeof *p);

    if (p) {
        p->nranks = nranks;
        p->ranks = calloc((size_t)nranks + 1, sizeof *p->ranks);
    }
    if (p && p->ranks)
        return p;
    tt_pace_destroy(p);
    tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for %u ranks", nranks);
    return NULL;
}

void tt_pace_destroy(struct tt_pace *p)
{
    if (!p)
        return;
    free(p->ranks);
    free(p->groups);
    free(p->seats);
    free(p->series);
    free(p->samples);
    free(p->histories);
    free(p->found);
    free(p->slots);
    free(p->found_slots);
    free(p->used_groups);
    free(p->used_ranks);
    free(p->used_series);
    free(p->values);
    free(p->slow);
    free(p);
}

uint32_t tt_pace_add_group(struct tt_pace *p, const uint32_t *ranks, uint32_t n)
{
    const size_t first = p->nseats;

    if (!tt_grow(&p->groups, &p->cap_groups, p->ngroups, sizeof *p->groups))
        goto no_memory;
    for (uint32_t k = 0; k < n; k++) {
        if (!tt_grow(&p->seats, &p->cap_seats, p->nseats, sizeof *p->seats))
            goto no_memory;
        p->seats[p->nseats++] = (struct tt_pace_seat){ .rank = ranks[k] };
    }
    p->groups[p->ngroups] = (struct tt_pace_members){ .first = first, .n = n };
    return (uint32_t)p->ngroups++;

no_memory:
    p->nseats = first;
    tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for a group of %u ranks", n);
    return TT_PACE_NONE;
}

/* ---- operations ---- */

/* The times of an operation with which its seats are compared. */
struct times {
    double last_called, transfer;
    double waited;                      /* for the last caller, by all others */
    double called, outside, ended;      /* medians */
};

static double median_of(struct tt_pace *p, const int64_t *times, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        p->values[k] = (double)times[k];
    return tt_pace_median(p->values, n);
}

/* Compares one rank with the median. Only for operations in which all ranks wait for each other:
 * the receivers of a pipeline always wait for their senders. The median of two ranks is in the
 * middle, so it is half of their difference away, which `scale` corrects. */
static void compare_seat(struct tt_pace_seat *s, const struct tt_pace_op *op, uint32_t k,
                         uint32_t n, const struct times *t)
{
    const double scale = n == 2 ? 2 : 1, error = (double)op->error_ns;
    const double transfer = t->transfer > 0 ? t->transfer : 0;
    const double late = scale * ((double)op->called[k] - t->called);
    const double outside = scale * ((double)op->outside[k] - t->outside);
    const double mine = (double)op->ended[k] - t->last_called, usual = t->ended - t->last_called;

    if (op->is_mutual && late > LATE_SHARE * transfer + error && outside > late / 2) {
        s->nlate++;
        s->late_ns += late;
        if ((double)op->called[k] >= t->last_called)
            s->lost_ns += t->waited;
    }
    if (op->is_mutual && op->class != 0 && n > 2 && usual > 0 &&
        mine > TT_PACE_SLOW * usual + error) {
        s->nbehind++;
        s->behind_ns += mine - usual;
        s->behind += mine / usual;
    }
}

/* Adds a group to the groups of the current window. Returns false without memory. */
static bool use_group(struct tt_pace *p, uint32_t group)
{
    struct tt_pace_members *g = &p->groups[group];

    while (p->cap_values < g->n || p->cap_values == 0)
        if (!tt_grow(&p->values, &p->cap_values, p->cap_values, sizeof *p->values))
            return false;
    if (g->nops > 0)
        return true;
    if (!tt_grow(&p->used_groups, &p->cap_used_groups, p->nused_groups, sizeof *p->used_groups))
        return false;
    p->used_groups[p->nused_groups++] = group;
    p->nused_seats += g->n;
    return true;
}

static struct times times_of(struct tt_pace *p, const struct tt_pace_op *op, uint32_t n)
{
    double last_ended = (double)op->ended[0];
    struct times t = { .last_called = (double)op->called[0] };

    for (uint32_t k = 1; k < n; k++) {
        if ((double)op->called[k] > t.last_called)
            t.last_called = (double)op->called[k];
        if ((double)op->ended[k] > last_ended)
            last_ended = (double)op->ended[k];
    }
    for (uint32_t k = 0; k < n; k++)
        t.waited += t.last_called - (double)op->called[k];
    t.called = median_of(p, op->called, n);
    t.outside = median_of(p, op->outside, n);
    t.ended = median_of(p, op->ended, n);
    t.transfer = (op->is_mutual ? t.ended : last_ended) - t.last_called;
    return t;
}

tutti_status tt_pace_add(struct tt_pace *p, const struct tt_pace_op *op)
{
    struct tt_pace_members *g = &p->groups[op->group];
    struct times t;
    double used;

    if (!use_group(p, op->group))
        return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for a group of %u ranks", g->n);
    t = times_of(p, op, g->n);
    used = t.transfer > (double)op->error_ns ? t.transfer : 0;
    if (op->class && !tt_pace_series_add(p, op->group, op->class, used))
        return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for operations");
    for (uint32_t k = 0; k < g->n; k++)
        compare_seat(&p->seats[g->first + k], op, k, g->n, &t);
    g->nops++;
    g->nmutual += op->is_mutual && op->class;
    return TUTTI_OK;
}

struct tt_pace_counts tt_pace_counts(const struct tt_pace *p)
{
    return p->counts;
}

const struct tt_pace_found *tt_pace_found(const struct tt_pace *p, uint32_t *n)
{
    *n = (uint32_t)p->nfound;
    return p->found;
}
