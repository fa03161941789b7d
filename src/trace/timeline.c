#include "trace/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"

/* Maximum time by which an arrival may seem to precede its post, because clocks of hosts differ.
 * Segment numbers are not reused within this time. */
#define SKEW_NS (1 * TT_SECOND)

/* An event with sender and receiver of the segment, in rank 0's time. */
struct entry {
    const struct tt_trace_event *e;
    uint64_t at_ns;
    uint32_t from, to;
};

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_lane(const struct entry *x, const struct entry *y)
{
    int c = compare_u64(x->from, y->from);

    if (!c)
        c = compare_u64(x->to, y->to);
    if (!c)
        c = memcmp(x->e->wire, y->e->wire, sizeof x->e->wire);
    return c ? c : compare_u64(x->e->lane, y->e->lane);
}

static int by_segment(const struct entry *x, const struct entry *y)
{
    int c = by_lane(x, y);

    if (!c)
        c = compare_u64(x->e->number, y->e->number);
    return c ? c : compare_u64(x->e->part, y->e->part);
}

/* Orders events by segment, then by time, and simultaneous ones by their logical order. */
static int by_time(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = by_segment(x, y);

    if (!c)
        c = compare_u64(x->at_ns, y->at_ns);
    return c ? c : compare_u64(x->e->kind, y->e->kind);
}

/* Returns all events in order; *first_ns: time of the earliest one. NULL: out of memory. */
static struct entry *list_entries_by_segment(const struct tt_timeline_rank *ranks, uint32_t nranks,
                                             size_t n, uint64_t *first_ns, uint64_t *last_ns)
{
    struct entry *all = calloc(n + 1, sizeof *all);
    size_t at = 0;

    if (!all)
        return NULL;
    *first_ns = n ? UINT64_MAX : 0;
    *last_ns = 0;
    for (uint32_t r = 0; r < nranks; r++)
        for (uint32_t i = 0; i < ranks[r].nevents; i++) {
            const struct tt_trace_event *e = &ranks[r].events[i];
            const bool arrived = e->kind == TT_TRACE_ARRIVED;

            all[at] = (struct entry){ .e = e,
                                      .at_ns = e->at_ns - (uint64_t)ranks[r].ahead_ns,
                                      .from = arrived ? e->peer : r,
                                      .to = arrived ? r : e->peer };
            *first_ns = all[at].at_ns < *first_ns ? all[at].at_ns : *first_ns;
            *last_ns = all[at].at_ns > *last_ns ? all[at].at_ns : *last_ns;
            at++;
        }
    qsort(all, n, sizeof *all, by_time);
    return all;
}

static void begin_row(struct tt_timeline *t, const struct entry *x)
{
    struct tt_timeline_row *row = &t->rows[t->nrows++];

    *row = (struct tt_timeline_row){ .from = x->from,
                                     .to = x->to,
                                     .lane = x->e->lane,
                                     .rail = TT_TRACE_NO_RAIL,
                                     .first = t->nsegments };
    memcpy(row->wire, x->e->wire, sizeof row->wire);
}

/* Returns the field of a segment for the event's kind. */
static uint64_t *event_time(struct tt_timeline_segment *g, uint8_t kind)
{
    return kind == TT_TRACE_POSTED      ? &g->posted_ns
           : kind == TT_TRACE_COMPLETED ? &g->completed_ns
                                        : &g->arrived_ns;
}

/* Returns whether an event with the same numbers belongs to that segment. */
static bool belongs(struct tt_timeline_segment *g, const struct entry *x, uint64_t at_ns)
{
    if (*event_time(g, x->e->kind) != TT_NEVER)
        return false;
    if (x->e->kind == TT_TRACE_POSTED)
        return g->completed_ns == TT_NEVER && at_ns - g->arrived_ns < SKEW_NS;
    return true;
}

/* Adds an event to the newest segment, or starts a new one. */
static void timeline_add(struct tt_timeline *t, const struct entry *x, bool same, uint64_t at_ns)
{
    struct tt_timeline_row *row;
    struct tt_timeline_segment *g;

    if (!same || !belongs(&t->segments[t->nsegments - 1], x, at_ns))
        t->segments[t->nsegments++] = (struct tt_timeline_segment){
            .posted_ns = TT_NEVER, .completed_ns = TT_NEVER, .arrived_ns = TT_NEVER,
            .number = x->e->number, .part = x->e->part, .row = (uint32_t)(t->nrows - 1),
        };
    row = &t->rows[t->nrows - 1];
    row->end = t->nsegments;
    if (x->e->kind != TT_TRACE_ARRIVED && row->queue == 0) { /* arrivals have no queue */
        row->queue = x->e->queue;
        row->rail = x->e->rail;
    }
    g = &t->segments[t->nsegments - 1];
    *event_time(g, x->e->kind) = at_ns;
    if (x->e->kind == TT_TRACE_POSTED)
        g->bytes = x->e->bytes;
}

tutti_status tt_timeline_init(struct tt_timeline *t, const struct tt_timeline_rank *ranks,
                              uint32_t nranks)
{
    struct tt_timeline new = { .rows = NULL };
    uint64_t first_ns = 0, last_ns = 0;
    struct entry *all;
    size_t n = 0;

    for (uint32_t r = 0; r < nranks; r++)
        n += ranks[r].nevents;
    all = list_entries_by_segment(ranks, nranks, n, &first_ns, &last_ns);
    new.rows = calloc(n + 1, sizeof *new.rows);
    new.segments = calloc(n + 1, sizeof *new.segments);
    if (!all || !new.rows || !new.segments) {
        free(all);
        tt_timeline_fini(&new);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a timeline of %zu events", n);
    }
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || by_lane(&all[i - 1], &all[i]) != 0)
            begin_row(&new, &all[i]);
        timeline_add(&new, &all[i], i > 0 && by_segment(&all[i - 1], &all[i]) == 0,
                     all[i].at_ns - first_ns);
    }
    new.length_ns = last_ns - first_ns;
    free(all);
    *t = new;
    return TUTTI_OK;
}

void tt_timeline_fini(struct tt_timeline *t)
{
    free(t->rows);
    free(t->segments);
    *t = (struct tt_timeline){ .rows = NULL };
}

const char *tt_timeline_name(const struct tt_timeline_row *row, char name[TT_TIMELINE_NAME_BYTES])
{
    char queue[24] = "", rail[16] = "";

    if (row->queue)
        snprintf(queue, sizeof queue, ", QP %" PRIu32, row->queue);
    if (row->rail != TT_TRACE_NO_RAIL)
        snprintf(rail, sizeof rail, ", rail %u", row->rail);
    snprintf(name, TT_TIMELINE_NAME_BYTES, "%.8s to rank %" PRIu32 ", lane %u%s%s", row->wire,
             row->to, row->lane, queue, rail);
    return name;
}
