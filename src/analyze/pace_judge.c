/* Judges a window. */
#include <stdlib.h>

#include "analyze/grow.h"
#include "analyze/pace_state.h"
#include "base/status.h"

#define MOST 0.75               /* share of the operations of a window */
#define ALIKE_MIN 3u            /* groups with operations of one class, to compare them */

/* ---- groups ---- */

static int by_class_and_median(const void *x, const void *y, void *arg)
{
    const struct tt_pace *p = arg;
    const struct tt_pace_series *a = &p->series[*(const uint32_t *)x],
                                *b = &p->series[*(const uint32_t *)y];

    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    if (a->median != b->median)
        return a->median < b->median ? -1 : 1;
    return a->group < b->group ? -1 : a->group > b->group;
}

static double usual_before(const struct tt_pace_series *s)
{
    const uint32_t n = s->nhistory < TT_PACE_HISTORY ? s->nhistory : TT_PACE_HISTORY;
    double values[TT_PACE_HISTORY];

    for (uint32_t k = 0; k < n; k++)
        values[k] = s->history[k];
    return s->nhistory < TT_PACE_HISTORY_MIN ? 0 : tt_pace_median(values, n);
}

/* Sets the usual time of series order[n], which are of one class and sorted by median: that of the
 * faster groups, as a slow rank may be in half of the groups. */
static void set_usual(struct tt_pace *p, const uint32_t *order, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        struct tt_pace_series *s = &p->series[order[k]];

        s->is_compared = n >= ALIKE_MIN;
        s->usual = s->is_compared ? p->series[order[(n - 1) / 3]].median : usual_before(s);
    }
}

static void judge_series(struct tt_pace *p, struct tt_pace_series *s)
{
    struct tt_pace_members *g = &p->groups[s->group];
    const bool is_slow = s->usual > 0 && s->median > TT_PACE_SLOW * s->usual;

    if (!is_slow)
        s->history[s->nhistory++ % TT_PACE_HISTORY] = s->median;
    if (s->usual <= 0)
        return;
    if (is_slow) {
        g->nslow += s->nops;
        g->slow_ns += (s->median - s->usual) * s->nops;
    } else if (s->is_compared) {        /* it may always have been slow */
        g->nnormal += s->nops;
    }
    if (s->median > g->factor * s->usual)
        g->factor = s->median / s->usual;
}

static bool judge_groups(struct tt_pace *p, double window_ns)
{
    uint32_t n = 0;

    for (size_t i = 0; i < p->nseries; i++) {
        struct tt_pace_series *s = &p->series[i];

        if (s->nsamples < TT_PACE_OPS_MIN)
            continue;
        s->median = tt_pace_median(s->samples, s->nsamples);
        if (!tt_grow(&p->by_class, &p->cap_by_class, n, sizeof *p->by_class))
            return false;
        p->by_class[n++] = (uint32_t)i;
    }
    if (n > 0)
        qsort_r(p->by_class, n, sizeof *p->by_class, by_class_and_median, p);
    for (uint32_t at = 0, next; at < n; at = next) {
        for (next = at + 1; next < n; next++)
            if (p->series[p->by_class[next]].class != p->series[p->by_class[at]].class)
                break;
        set_usual(p, p->by_class + at, next - at);
    }
    for (uint32_t k = 0; k < n; k++)
        judge_series(p, &p->series[p->by_class[k]]);
    for (size_t i = 0; i < p->ngroups; i++) {
        struct tt_pace_members *g = &p->groups[i];

        if (g->nslow > g->nnormal && g->slow_ns >= TT_PACE_SHARE * window_ns)
            g->state = TT_PACE_IS_SLOW;
        else if (g->nslow + g->nnormal > 0 && g->nslow <= g->nnormal)
            g->state = TT_PACE_NORMAL;
    }
    return true;
}

/* ---- ranks ---- */

static bool index_ranks(struct tt_pace *p)
{
    uint32_t *by_rank;

    if (p->nindexed == p->ngroups)
        return true;
    by_rank = realloc(p->by_rank, (p->nseats + 1) * sizeof *by_rank);
    if (!by_rank)
        return false;
    p->by_rank = by_rank;
    for (uint32_t r = 0; r <= p->nranks + 1; r++)
        p->rank_first[r] = 0;
    for (size_t i = 0; i < p->nseats; i++)
        p->rank_first[p->seats[i].rank + 2]++;
    for (uint32_t r = 2; r <= p->nranks + 1; r++)
        p->rank_first[r] += p->rank_first[r - 1];
    for (size_t g = 0; g < p->ngroups; g++)
        for (uint32_t k = 0; k < p->groups[g].n; k++)
            by_rank[p->rank_first[p->seats[p->groups[g].first + k].rank + 1]++] = (uint32_t)g;
    p->nindexed = p->ngroups;
    return true;
}

/* Collects the evidence of one seat of a group. */
static void judge_seat(struct tt_pace *p, uint32_t group, const struct tt_pace_seat *s,
                       double window_ns)
{
    const struct tt_pace_members *g = &p->groups[group];
    struct tt_pace_rank *r = &p->ranks[s->rank];
    const double most = MOST * g->nops;

    r->nslow += g->state == TT_PACE_IS_SLOW;
    r->nnormal += g->state == TT_PACE_NORMAL;
    if (g->state == TT_PACE_IS_SLOW && g->factor > r->factor) {
        r->factor = g->factor;
        r->group = group;
    }
    if (g->nops < TT_PACE_OPS_MIN)
        return;
    r->is_judged |= g->nmutual >= TT_PACE_OPS_MIN;
    if (s->nbehind >= most && s->behind_ns >= TT_PACE_SHARE * window_ns) {
        r->nbehind++;
        r->group = group;
        r->factor = s->behind / s->nbehind;
    } else if (g->n > 2 && g->nmutual >= TT_PACE_OPS_MIN && g->state != TT_PACE_IS_SLOW) {
        r->nequal++;
    }
    if (s->nlate >= most && s->late_ns >= TT_PACE_SHARE * window_ns) {
        if (!r->is_late || s->lost_ns > r->lost_ns) {
            r->late_group = group;
            r->lost_ns = s->lost_ns;
        }
        r->is_late = true;
    }
}

/* Returns whether no other rank is in all slow groups of the rank. */
static bool is_only_one(struct tt_pace *p, uint32_t rank)
{
    const uint32_t *first = p->by_rank + p->rank_first[rank],
                   *end = p->by_rank + p->rank_first[rank + 1];
    bool only = true;

    for (int pass = 0; pass < 2; pass++)
        for (const uint32_t *at = first; at < end; at++) {
            const struct tt_pace_members *g = &p->groups[*at];

            for (uint32_t k = 0; k < g->n && g->state == TT_PACE_IS_SLOW; k++) {
                struct tt_pace_rank *other = &p->ranks[p->seats[g->first + k].rank];

                if (pass == 1)
                    other->shared = 0;
                else if (++other->shared == p->ranks[rank].nslow && other != &p->ranks[rank])
                    only = false;
            }
        }
    return only;
}

static void judge_ranks(struct tt_pace *p, double window_ns)
{
    for (size_t g = 0; g < p->ngroups; g++)
        for (uint32_t k = 0; k < p->groups[g].n; k++)
            judge_seat(p, (uint32_t)g, &p->seats[p->groups[g].first + k], window_ns);
    for (uint32_t i = 0; i < p->nranks; i++) {
        struct tt_pace_rank *r = &p->ranks[i];

        r->is_slow = (r->nbehind > 0 && r->nequal == 0) ||
                     (r->nslow >= 2 && r->nnormal == 0 && is_only_one(p, i));
        if (r->is_slow || r->nslow + r->nnormal + r->nequal > 0)   /* else nothing is known */
            r->slow_streak = r->is_slow ? r->slow_streak + 1 : 0;
        if (r->is_judged || r->is_late)
            r->late_streak = r->is_late ? r->late_streak + 1 : 0;
    }
}

/* ---- findings ---- */

static bool add_found(struct tt_pace *p, const struct tt_pace_found *x)
{
    for (size_t i = 0; i < p->nfound; i++) {
        struct tt_pace_found *f = &p->found[i];

        if (f->kind != x->kind || f->rank != x->rank || f->to != x->to ||
            (x->rank == TT_PACE_NONE && f->group != x->group))
            continue;
        f->last = p->window;
        f->nwindows++;
        f->factor = x->factor;
        f->lost_ns += x->lost_ns;
        return true;
    }
    if (!tt_grow(&p->found, &p->cap_found, p->nfound, sizeof *p->found))
        return false;
    p->found[p->nfound] = *x;
    p->found[p->nfound].first = p->found[p->nfound].last = p->window;
    p->found[p->nfound++].nwindows = 1;
    return true;
}

static bool find_ranks(struct tt_pace *p)
{
    bool ok = true;

    for (uint32_t i = 0; i < p->nranks && ok; i++) {
        const struct tt_pace_rank *r = &p->ranks[i];

        if (r->is_slow && r->slow_streak >= TT_PACE_STREAK)
            ok = add_found(p, &(struct tt_pace_found){ .kind = TT_PACE_RANK,
                                                       .rank = i,
                                                       .to = TT_PACE_NONE,
                                                       .group = r->group,
                                                       .factor = r->factor });
        if (r->is_late && r->late_streak >= TT_PACE_STREAK && ok)
            ok = add_found(p, &(struct tt_pace_found){ .kind = TT_PACE_LATE,
                                                       .rank = i,
                                                       .to = TT_PACE_NONE,
                                                       .group = r->late_group,
                                                       .lost_ns = r->lost_ns });
    }
    return ok;
}

/* Slow groups without a slow rank. */
static bool find_groups(struct tt_pace *p)
{
    bool ok = true;

    for (uint32_t i = 0; i < p->ngroups && ok; i++) {
        struct tt_pace_members *g = &p->groups[i];
        const uint32_t from = p->seats[g->first].rank, to = p->seats[g->first + 1].rank;
        bool is_link = g->n == 2 && p->ranks[from].nnormal > 0 && p->ranks[to].nnormal > 0;
        bool is_slow = g->state == TT_PACE_IS_SLOW;

        for (uint32_t k = 0; k < g->n && is_slow; k++)
            is_slow = !p->ranks[p->seats[g->first + k].rank].is_slow;
        if (g->state != TT_PACE_UNKNOWN)
            g->streak = is_slow ? g->streak + 1 : 0;
        if (is_slow && g->streak >= TT_PACE_STREAK)
            ok = add_found(p,
                           &(struct tt_pace_found){ .kind = is_link ? TT_PACE_LINK : TT_PACE_GROUP,
                                                    .rank = is_link ? from : TT_PACE_NONE,
                                                    .to = is_link ? to : TT_PACE_NONE,
                                                    .group = i,
                                                    .factor = g->factor });
    }
    return ok;
}

static void begin_window(struct tt_pace *p)
{
    for (size_t i = 0; i < p->nseats; i++)
        p->seats[i] = (struct tt_pace_seat){ .rank = p->seats[i].rank };
    for (size_t i = 0; i < p->nseries; i++)
        p->series[i].nops = p->series[i].nsamples = 0;
    for (size_t i = 0; i < p->ngroups; i++) {
        struct tt_pace_members *g = &p->groups[i];

        *g = (struct tt_pace_members){ .first = g->first, .n = g->n, .streak = g->streak };
    }
    for (uint32_t i = 0; i < p->nranks; i++)
        p->ranks[i] = (struct tt_pace_rank){ .late_streak = p->ranks[i].late_streak,
                                             .slow_streak = p->ranks[i].slow_streak };
    p->window++;
}

tutti_status tt_pace_close(struct tt_pace *p, int64_t window_ns)
{
    bool ok = index_ranks(p) && judge_groups(p, (double)window_ns);

    if (ok) {
        judge_ranks(p, (double)window_ns);
        ok = find_ranks(p) && find_groups(p);
    }
    begin_window(p);
    return ok ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for a window");
}
