#include "analyze/pace.h"

#include <stdlib.h>

#include "analyze/grow.h"
#include "analyze/pace_state.h"
#include "base/prng.h"
#include "base/status.h"

#define LATE_SHARE 0.25         /* of the transfer time: calls within it are not late */

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

double tt_pace_median(double *values, size_t n)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* ---- groups ---- */

struct tt_pace *tt_pace_create(uint32_t nranks)
{
    struct tt_pace *p = calloc(1, sizeof *p);

    if (p) {
        p->nranks = nranks;
        p->ranks = calloc((size_t)nranks + 1, sizeof *p->ranks);
        p->rank_first = calloc((size_t)nranks + 2, sizeof *p->rank_first);
    }
    if (p && p->ranks && p->rank_first)
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
    free(p->found);
    free(p->slots);
    free(p->values);
    free(p->by_class);
    free(p->by_rank);
    free(p->rank_first);
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

/* ---- series ---- */

static uint32_t *series_slot(const struct tt_pace *p, uint32_t group, uint64_t class)
{
    uint64_t at = tt_mix64(class ^ tt_mix64(group));

    for (;; at++) {
        uint32_t *slot = &p->slots[at & (p->nslots - 1)];

        if (*slot == 0 ||
            (p->series[*slot - 1].group == group && p->series[*slot - 1].class == class))
            return slot;
    }
}

static bool grow_slots(struct tt_pace *p)
{
    const size_t n = p->nslots ? 2 * p->nslots : 256;
    uint32_t *slots = calloc(n, sizeof *slots);

    if (!slots)
        return false;
    free(p->slots);
    p->slots = slots;
    p->nslots = n;
    for (size_t i = 0; i < p->nseries; i++)
        *series_slot(p, p->series[i].group, p->series[i].class) = (uint32_t)i + 1;
    return true;
}

/* Returns the series of a group and class, which it adds if it is new. NULL: out of memory. */
static struct tt_pace_series *series_of(struct tt_pace *p, uint32_t group, uint64_t class)
{
    uint32_t *slot;

    if (2 * p->nseries >= p->nslots && !grow_slots(p))
        return NULL;
    slot = series_slot(p, group, class);
    if (*slot == 0) {
        if (!tt_grow(&p->series, &p->cap_series, p->nseries, sizeof *p->series))
            return NULL;
        p->series[p->nseries++] = (struct tt_pace_series){ .group = group, .class = class };
        *slot = (uint32_t)p->nseries;
    }
    return &p->series[*slot - 1];
}

/* ---- operations ---- */

/* The times of an operation that its seats are compared with. */
struct times {
    double last_called, transfer;
    double called, outside, ended;      /* medians */
};

static double median_of(struct tt_pace *p, const int64_t *times, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        p->values[k] = (double)times[k];
    return tt_pace_median(p->values, n);
}

/* Compares one rank with the median. Only in operations in which all ranks wait for each other: the
 * receivers of a pipeline always wait for their senders. Of two ranks the median is in the middle,
 * so half of their difference counts; of many, it is a rank like others. */
static void compare_seat(struct tt_pace_seat *s, const struct tt_pace_op *op, uint32_t k,
                         uint32_t n, const struct times *t)
{
    const double scale = n == 2 ? 2 : 1, error = (double)op->error_ns;
    const double late = scale * ((double)op->called[k] - t->called);
    const double outside = scale * ((double)op->outside[k] - t->outside);
    const double mine = (double)op->ended[k] - t->last_called, usual = t->ended - t->last_called;

    if (op->is_mutual && late > LATE_SHARE * t->transfer + error && outside > late / 2) {
        s->nlate++;
        s->late_ns += late;
        for (uint32_t i = 0; i < n && (double)op->called[k] >= t->last_called; i++)
            s->lost_ns += (double)op->called[k] - (double)op->called[i];
    }
    if (op->is_mutual && op->class != 0 && n > 2 && usual > 0 &&
        mine > TT_PACE_SLOW * usual + error) {
        s->nbehind++;
        s->behind_ns += mine - usual;
        s->behind += mine / usual;
    }
}

tutti_status tt_pace_add(struct tt_pace *p, const struct tt_pace_op *op)
{
    struct tt_pace_members *g = &p->groups[op->group];
    struct tt_pace_series *s = op->class ? series_of(p, op->group, op->class) : NULL;
    struct times t = { .last_called = (double)op->called[0] };
    double last_ended = (double)op->ended[0];

    if ((op->class && !s) || !tt_grow(&p->values, &p->cap_values, 0, sizeof *p->values))
        return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for operations");
    while (p->cap_values < g->n)
        if (!tt_grow(&p->values, &p->cap_values, p->cap_values, sizeof *p->values))
            return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for %u ranks", g->n);
    for (uint32_t k = 1; k < g->n; k++) {
        if ((double)op->called[k] > t.last_called)
            t.last_called = (double)op->called[k];
        if ((double)op->ended[k] > last_ended)
            last_ended = (double)op->ended[k];
    }
    t.called = median_of(p, op->called, g->n);
    t.outside = median_of(p, op->outside, g->n);
    t.ended = median_of(p, op->ended, g->n);
    t.transfer = (op->is_mutual ? t.ended : last_ended) - t.last_called;
    for (uint32_t k = 0; k < g->n; k++)
        compare_seat(&p->seats[g->first + k], op, k, g->n, &t);
    g->nops++;
    g->nmutual += op->is_mutual && s;
    if (!s)
        return TUTTI_OK;
    s->nops++;
    if (t.transfer > (double)op->error_ns && s->nsamples < TT_PACE_SAMPLES)
        s->samples[s->nsamples++] = t.transfer;
    return TUTTI_OK;
}

const struct tt_pace_found *tt_pace_found(const struct tt_pace *p, uint32_t *n)
{
    *n = (uint32_t)p->nfound;
    return p->found;
}
