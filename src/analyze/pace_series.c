/* A series allocates memory only for existing data: transfer times of the current window are in one
 * list, and a history exists from the first window in which the series was evaluated. Other series
 * do not affect later windows, so they are dropped. Thus a job in which all messages have different
 * sizes needs about 100 bytes for each message of one window. */
#include "analyze/pace_series.h"

#include <stdlib.h>

#include "analyze/grow.h"
#include "base/prng.h"
#include "base/status.h"

#define DROP_MIN 4096u          /* minimum number of series to drop any */

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

/* ---- look-up ---- */

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

static void fill_slots(struct tt_pace *p)
{
    for (size_t i = 0; i < p->nslots; i++)
        p->slots[i] = 0;
    for (size_t i = 0; i < p->nseries; i++)
        *series_slot(p, p->series[i].group, p->series[i].class) = (uint32_t)i + 1;
}

static bool grow_slots(struct tt_pace *p)
{
    const size_t n = p->nslots ? 2 * p->nslots : 256;
    uint32_t *slots = realloc(p->slots, n * sizeof *slots);

    if (!slots)
        return false;
    p->slots = slots;
    p->nslots = n;
    fill_slots(p);
    return true;
}

/* Sets *out to the series of a group and class, which is added if it is new; NULL: there are too
 * many series. Returns false without memory. */
static bool series_of(struct tt_pace *p, uint32_t group, uint64_t class,
                      struct tt_pace_series **out)
{
    uint32_t *slot;

    *out = NULL;
    if (2 * p->nseries >= p->nslots && !grow_slots(p))
        return false;
    slot = series_slot(p, group, class);
    if (*slot == 0) {
        if (p->nseries == TT_PACE_SERIES_MAX)
            return true;
        if (!tt_grow(&p->series, &p->cap_series, p->nseries, sizeof *p->series))
            return false;
        p->series[p->nseries++] = (struct tt_pace_series){ .group = group, .class = class };
        *slot = (uint32_t)p->nseries;
    }
    *out = &p->series[*slot - 1];
    return true;
}

/* ---- transfer times ---- */

/* Adds a series to the series of the current window. Returns false without memory. */
static bool use_series(struct tt_pace *p, struct tt_pace_series *s)
{
    if (s->window == p->window + 1)
        return true;
    if (!tt_grow(&p->used_series, &p->cap_used_series, p->nused_series, sizeof *p->used_series))
        return false;
    p->used_series[p->nused_series++] = (uint32_t)(s - p->series);
    s->window = p->window + 1;
    s->nops = s->nsamples = s->last_sample = 0;
    return true;
}

bool tt_pace_series_add(struct tt_pace *p, uint32_t group, uint64_t class, double transfer_ns)
{
    const bool has_room = p->nsamples < TT_PACE_SAMPLES_MAX;
    struct tt_pace_series *s;

    if (!series_of(p, group, class, &s))
        return false;
    if (!s || (!has_room && transfer_ns > 0 && s->nsamples < TT_PACE_SAMPLES)) {
        p->counts.nskipped++;
        return true;
    }
    if (!use_series(p, s))
        return false;
    s->nops++;
    if (transfer_ns <= 0 || s->nsamples == TT_PACE_SAMPLES)
        return true;
    if (!tt_grow(&p->samples, &p->cap_samples, p->nsamples, sizeof *p->samples))
        return false;
    p->samples[p->nsamples++] =
        (struct tt_pace_sample){ .ns = transfer_ns, .before = s->last_sample };
    s->last_sample = (uint32_t)p->nsamples;
    s->nsamples++;
    return true;
}

void tt_pace_series_set_median(const struct tt_pace *p, struct tt_pace_series *s)
{
    double values[TT_PACE_SAMPLES];
    size_t n = 0;

    for (uint32_t at = s->last_sample; at; at = p->samples[at - 1].before)
        values[n++] = p->samples[at - 1].ns;
    tt_assert(n == s->nsamples);
    s->median = tt_pace_median(values, n);
}

/* ---- earlier windows ---- */

double tt_pace_series_usual(const struct tt_pace *p, const struct tt_pace_series *s)
{
    const uint32_t n = s->nhistory < TT_PACE_HISTORY ? s->nhistory : TT_PACE_HISTORY;
    double values[TT_PACE_HISTORY];

    if (s->nhistory < TT_PACE_HISTORY_MIN)
        return 0;
    for (uint32_t k = 0; k < n; k++)
        values[k] = p->histories[s->history - 1].medians[k];
    return tt_pace_median(values, n);
}

/* At most half of the series get a history, so that series need not be dropped in each window. */
bool tt_pace_series_keep(struct tt_pace *p, struct tt_pace_series *s)
{
    if (s->history == 0 && p->nhistories == TT_PACE_SERIES_MAX / 2)
        return true;
    if (s->history == 0) {
        if (!tt_grow(&p->histories, &p->cap_histories, p->nhistories, sizeof *p->histories))
            return false;
        p->histories[p->nhistories++] = (struct tt_pace_history){ .medians = { 0 } };
        s->history = (uint32_t)p->nhistories;
    }
    p->histories[s->history - 1].medians[s->nhistory++ % TT_PACE_HISTORY] = s->median;
    return true;
}

/* Series are dropped when their number has doubled, so that the amortized cost per operation is
 * constant. */
static bool is_full(const struct tt_pace *p)
{
    return p->nseries >= DROP_MIN &&
           (p->nseries >= 2 * p->nseries_kept || p->nseries == TT_PACE_SERIES_MAX);
}

static void drop_series(struct tt_pace *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->nseries; i++)
        if (p->series[i].history)
            p->series[kept++] = p->series[i];
    p->counts.nsteps += p->nseries + p->nslots;
    p->nseries = p->nseries_kept = kept;
    fill_slots(p);
}

void tt_pace_series_begin_window(struct tt_pace *p)
{
    p->nsamples = p->nused_series = 0;
    if (is_full(p))
        drop_series(p);
}

size_t tt_pace_series_bytes(const struct tt_pace *p)
{
    return p->cap_series * sizeof *p->series + p->nslots * sizeof *p->slots +
           p->cap_samples * sizeof *p->samples + p->cap_histories * sizeof *p->histories +
           p->cap_used_series * sizeof *p->used_series;
}
