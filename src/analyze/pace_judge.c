/* Evaluates a window. */
#include <stdlib.h>

#include "analyze/grow.h"
#include "analyze/pace_findings.h"
#include "analyze/pace_series.h"
#include "base/status.h"

#define MOST 0.75               /* share of the operations in a window */
#define ALIKE_MIN 3u            /* minimum groups with operations of one class to compare them */

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

/* Sets the usual time of series order[n], which have one class and are sorted by median. It is the
 * time of the faster groups, because a slow rank may be in half of the groups. */
static void set_usual(struct tt_pace *p, const uint32_t *order, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        struct tt_pace_series *s = &p->series[order[k]];

        s->is_compared = n >= ALIKE_MIN;
        s->usual =
            s->is_compared ? p->series[order[(n - 1) / 3]].median : tt_pace_series_usual(p, s);
    }
}

static bool judge_series(struct tt_pace *p, struct tt_pace_series *s)
{
    struct tt_pace_members *g = &p->groups[s->group];
    const bool is_slow = s->usual > 0 && s->median > TT_PACE_SLOW * s->usual;

    if (!is_slow && !tt_pace_series_keep(p, s))
        return false;
    if (s->usual <= 0)
        return true;
    if (is_slow) {
        g->nslow += s->nops;
        g->slow_ns += (s->median - s->usual) * s->nops;
    } else if (s->is_compared) {        /* otherwise it may always have been slow */
        g->nnormal += s->nops;
    }
    if (s->median > g->factor * s->usual)
        g->factor = s->median / s->usual;
    return true;
}

/* Lists the series with enough transfer times in used_series, by class and median. Returns their
 * number. */
static uint32_t list_series(struct tt_pace *p)
{
    uint32_t n = 0;

    for (size_t i = 0; i < p->nused_series; i++) {
        struct tt_pace_series *s = &p->series[p->used_series[i]];

        p->counts.nsteps++;
        if (s->nsamples < TT_PACE_OPS_MIN)
            continue;
        tt_pace_series_set_median(p, s);
        p->used_series[n++] = p->used_series[i];
    }
    if (n > 0)
        qsort_r(p->used_series, n, sizeof *p->used_series, by_class_and_median, p);
    return n;
}

static bool judge_groups(struct tt_pace *p, double window_ns)
{
    const uint32_t n = list_series(p);
    const uint32_t *order = p->used_series;

    for (uint32_t at = 0, next; at < n; at = next) {
        for (next = at + 1; next < n; next++)
            if (p->series[order[next]].class != p->series[order[at]].class)
                break;
        set_usual(p, order + at, next - at);
    }
    for (uint32_t k = 0; k < n; k++)
        if (!judge_series(p, &p->series[order[k]]))
            return false;
    for (size_t i = 0; i < p->nused_groups; i++) {
        struct tt_pace_members *g = &p->groups[p->used_groups[i]];

        if (g->nslow > g->nnormal && g->slow_ns >= TT_PACE_SHARE * window_ns)
            g->state = TT_PACE_IS_SLOW;
        else if (g->nslow + g->nnormal > 0 && g->nslow <= g->nnormal)
            g->state = TT_PACE_NORMAL;
    }
    return true;
}

/* ---- ranks ---- */

static int by_number(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

    return a < b ? -1 : a > b;
}

/* Lists the ranks of the groups that had operations. Returns false without memory. */
static bool list_ranks(struct tt_pace *p)
{
    for (size_t i = 0; i < p->nused_groups; i++) {
        const struct tt_pace_members *g = &p->groups[p->used_groups[i]];

        for (uint32_t k = 0; k < g->n; k++) {
            const uint32_t rank = p->seats[g->first + k].rank;

            p->counts.nsteps++;
            if (p->ranks[rank].is_used)
                continue;
            if (!tt_grow(&p->used_ranks, &p->cap_used_ranks, p->nused_ranks, sizeof(uint32_t)))
                return false;
            p->ranks[rank].is_used = true;
            p->used_ranks[p->nused_ranks++] = rank;
        }
    }
    qsort(p->used_ranks, p->nused_ranks, sizeof *p->used_ranks, by_number);
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

/* Lists the slow groups of each rank. Returns false without memory. */
static bool list_slow(struct tt_pace *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->nused_ranks; i++) {
        p->ranks[p->used_ranks[i]].slow_first = n;
        n += p->ranks[p->used_ranks[i]].nslow;
    }
    while (p->cap_slow < n)
        if (!tt_grow(&p->slow, &p->cap_slow, p->cap_slow, sizeof *p->slow))
            return false;
    for (size_t i = 0; i < p->nused_groups; i++) {
        const struct tt_pace_members *g = &p->groups[p->used_groups[i]];

        for (uint32_t k = 0; k < g->n && g->state == TT_PACE_IS_SLOW; k++, p->counts.nsteps++)
            p->slow[p->ranks[p->seats[g->first + k].rank].slow_first++] = p->used_groups[i];
    }
    for (size_t i = 0; i < p->nused_ranks; i++)
        p->ranks[p->used_ranks[i]].slow_first -= p->ranks[p->used_ranks[i]].nslow;
    return true;
}

/* Returns whether a rank is in all of groups[n], except groups[without]. Adds the cost to
 * *steps. */
static bool is_in_all(const struct tt_pace *p, const struct tt_pace_rank *r, const uint32_t *groups,
                      uint32_t n, uint32_t without, uint64_t *steps)
{
    const uint32_t *mine = p->slow + r->slow_first;

    for (uint32_t k = 0; k < n; k++) {
        uint32_t low = 0, high = r->nslow;

        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;

            ++*steps;
            if (mine[middle] < groups[k])
                low = middle + 1;
            else
                high = middle;
        }
        ++*steps;
        if (k != without && (low == r->nslow || mine[low] != groups[k]))
            return false;
    }
    return true;
}

/* Returns whether no other rank is in all slow groups of the rank. Such a rank would be a member of
 * the smallest group. Returns false, too, if the window takes too many steps. */
static bool is_only_one(struct tt_pace *p, const struct tt_pace_rank *r, uint64_t steps_max)
{
    const uint32_t *groups = p->slow + r->slow_first;
    const struct tt_pace_members *smallest = &p->groups[groups[0]];
    uint32_t without = 0;

    for (uint32_t k = 1; k < r->nslow; k++, p->counts.nsteps++)
        if (p->groups[groups[k]].n < smallest->n) {
            smallest = &p->groups[groups[k]];
            without = k;
        }
    for (uint32_t k = 0; k < smallest->n; k++) {
        const struct tt_pace_rank *other = &p->ranks[p->seats[smallest->first + k].rank];

        if (p->counts.nsteps++ >= steps_max) {
            p->counts.nunjudged++;
            return false;
        }
        if (other != r && other->nslow >= r->nslow &&
            is_in_all(p, other, groups, r->nslow, without, &p->counts.nsteps))
            return false;
    }
    return true;
}

static bool judge_ranks(struct tt_pace *p, double window_ns)
{
    uint64_t steps_max;

    for (size_t i = 0; i < p->nused_groups; i++) {
        const struct tt_pace_members *g = &p->groups[p->used_groups[i]];

        for (uint32_t k = 0; k < g->n; k++)
            judge_seat(p, p->used_groups[i], &p->seats[g->first + k], window_ns);
    }
    if (!list_slow(p))
        return false;
    steps_max = p->counts.nsteps + TT_PACE_STEPS * p->nused_seats;
    for (size_t i = 0; i < p->nused_ranks; i++) {
        struct tt_pace_rank *r = &p->ranks[p->used_ranks[i]];

        r->is_slow = (r->nbehind > 0 && r->nequal == 0) ||
                     (r->nslow >= 2 && r->nnormal == 0 && is_only_one(p, r, steps_max));
        if (r->is_slow || r->nslow + r->nnormal + r->nequal > 0)   /* otherwise unknown */
            r->slow_streak = r->is_slow ? r->slow_streak + 1 : 0;
        if (r->is_judged || r->is_late)
            r->late_streak = r->is_late ? r->late_streak + 1 : 0;
    }
    return true;
}

/* ---- findings ---- */

static bool find_ranks(struct tt_pace *p)
{
    bool ok = true;

    for (size_t k = 0; k < p->nused_ranks && ok; k++) {
        const uint32_t i = p->used_ranks[k];
        const struct tt_pace_rank *r = &p->ranks[i];

        if (r->is_slow && r->slow_streak >= TT_PACE_STREAK)
            ok = tt_pace_findings_add(p, &(struct tt_pace_found){ .kind = TT_PACE_RANK,
                                                                  .rank = i,
                                                                  .to = TT_PACE_NONE,
                                                                  .group = r->group,
                                                                  .factor = r->factor });
        if (r->is_late && r->late_streak >= TT_PACE_STREAK && ok)
            ok = tt_pace_findings_add(p, &(struct tt_pace_found){ .kind = TT_PACE_LATE,
                                                                  .rank = i,
                                                                  .to = TT_PACE_NONE,
                                                                  .group = r->late_group,
                                                                  .lost_ns = r->lost_ns });
    }
    return ok;
}

/* Adds findings for slow groups without a slow rank. */
static bool find_groups(struct tt_pace *p)
{
    bool ok = true;

    for (size_t at = 0; at < p->nused_groups && ok; at++) {
        const uint32_t i = p->used_groups[at];
        struct tt_pace_members *g = &p->groups[i];
        const uint32_t from = p->seats[g->first].rank, to = p->seats[g->first + 1].rank;
        bool is_link = g->n == 2 && p->ranks[from].nnormal > 0 && p->ranks[to].nnormal > 0;
        bool is_slow = g->state == TT_PACE_IS_SLOW;

        for (uint32_t k = 0; k < g->n && is_slow; k++)
            is_slow = !p->ranks[p->seats[g->first + k].rank].is_slow;
        if (g->state != TT_PACE_UNKNOWN)
            g->streak = is_slow ? g->streak + 1 : 0;
        if (is_slow && g->streak >= TT_PACE_STREAK)
            ok = tt_pace_findings_add(
                p, &(struct tt_pace_found){ .kind = is_link ? TT_PACE_LINK : TT_PACE_GROUP,
                                            .rank = is_link ? from : TT_PACE_NONE,
                                            .to = is_link ? to : TT_PACE_NONE,
                                            .group = i,
                                            .factor = g->factor });
    }
    return ok;
}

static void begin_window(struct tt_pace *p)
{
    const size_t bytes = tt_pace_series_bytes(p);

    if (p->nseries > p->counts.nseries_most)
        p->counts.nseries_most = p->nseries;
    if (bytes > p->counts.bytes_most)
        p->counts.bytes_most = bytes;
    for (size_t i = 0; i < p->nused_groups; i++) {
        struct tt_pace_members *g = &p->groups[p->used_groups[i]];

        for (uint32_t k = 0; k < g->n; k++) {
            struct tt_pace_seat *s = &p->seats[g->first + k];

            *s = (struct tt_pace_seat){ .rank = s->rank };
        }
        *g = (struct tt_pace_members){ .first = g->first, .n = g->n, .streak = g->streak };
    }
    for (size_t i = 0; i < p->nused_ranks; i++) {
        struct tt_pace_rank *r = &p->ranks[p->used_ranks[i]];

        *r = (struct tt_pace_rank){ .late_streak = r->late_streak, .slow_streak = r->slow_streak };
    }
    p->nused_groups = p->nused_ranks = p->nused_seats = 0;
    tt_pace_series_begin_window(p);
    p->window++;
}

tutti_status tt_pace_close(struct tt_pace *p, int64_t window_ns)
{
    bool ok = true;

    if (p->nused_groups > 0) {
        qsort(p->used_groups, p->nused_groups, sizeof *p->used_groups, by_number);
        ok = list_ranks(p) && judge_groups(p, (double)window_ns) &&
             judge_ranks(p, (double)window_ns) && find_ranks(p) && find_groups(p);
    }
    begin_window(p);
    return ok ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for a window");
}
