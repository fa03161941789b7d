/* Operations that all ranks have called, but that did not complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/ends.h"

#define EDGES_MAX 256u
#define MOVES_IF_WITHIN 8           /* progress: bytes arrived in the last 1/8 of its time */
#define SAMPLES_MAX 64u
#define SAMPLED_RANKS 8u
#define DEADLINE_FACTOR 2           /* longer than this multiple of the usual time is slow */

/* Bytes from one rank to another that did not arrive. */
struct edge {
    uint32_t from, to;
    int64_t since;
    uint64_t bytes;
    bool is_awaited;                /* `to` waits for `from` */
};

struct transfer {
    const struct tt_ends *e;
    const struct tt_waits *w;
    uint32_t instance;
    const struct tt_dumps_op *op;
    const uint32_t *members;        /* records */
    uint32_t nmembers;
    struct edge edges[EDGES_MAX];
    uint32_t nedges;
    int64_t first_called, last_called, observed;
    uint32_t last_caller;
    bool moves;
    double elapsed_ns, usual_ns;    /* usual_ns: 0: no earlier operation with these arguments */
};

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static const struct tt_dumps_peer *peer_of(const struct tt_dumps *d, const struct tt_dumps_op *op,
                                           uint32_t rank)
{
    for (uint32_t k = 0; k < op->npeers; k++)
        if (d->peers[op->peers_first + k].rank == rank)
            return &d->peers[op->peers_first + k];
    return NULL;
}

/* ---- progress ---- */

static int64_t activity_of(const struct tt_dumps *d, const struct tt_dumps_op *op)
{
    int64_t t = later(op->called, op->started);

    for (uint32_t k = 0; k < op->npeers; k++) {
        const struct tt_dumps_peer *p = &d->peers[op->peers_first + k];

        t = later(t, later(p->last_in, p->last_out));
    }
    return t;
}

static int64_t observed_at(const struct tt_dumps *d, const struct tt_dumps_op *op)
{
    return op->ended != TT_DUMPS_NEVER ? op->ended : d->ranks[op->rank].now;
}

static void measure_calls(struct transfer *t)
{
    const struct tt_waits_instance *o = &t->w->instances[t->instance];

    t->first_called = INT64_MAX;
    t->last_called = TT_DUMPS_NEVER;
    for (uint32_t k = 0; k < o->n; k++) {
        const struct tt_dumps_op *op = tt_waits_op(t->w, t->w->by_instance[o->first + k]);

        if (op->called == TT_DUMPS_NEVER || !t->w->d->ranks[op->rank].has_clock)
            continue;
        t->first_called = op->called < t->first_called ? op->called : t->first_called;
        if (op->called > t->last_called) {
            t->last_called = op->called;
            t->last_caller = op->rank;
        }
    }
}

/* Compares the time since the last bytes with the time since all ranks had called. */
static void measure_motion(struct transfer *t)
{
    const struct tt_dumps *d = t->w->d;
    const struct tt_waits_instance *o = &t->w->instances[t->instance];
    double youngest = -1, longest = 0;

    for (uint32_t k = 0; k < o->n; k++) {
        const struct tt_dumps_op *op = tt_waits_op(t->w, t->w->by_instance[o->first + k]);
        const int64_t seen = observed_at(d, op), active = activity_of(d, op);
        int64_t from = op->called;

        if (seen == TT_DUMPS_NEVER || active == TT_DUMPS_NEVER || from == TT_DUMPS_NEVER)
            continue;
        if (d->ranks[op->rank].has_clock && t->last_called != TT_DUMPS_NEVER)
            from = t->last_called;
        if (!op->is_open)
            youngest = 0;                       /* it completed after the failure of another rank */
        if (youngest < 0 || (double)seen - (double)active < youngest)
            youngest = (double)seen - (double)active;
        if (op->is_open && (double)seen - (double)from > longest)
            longest = (double)seen - (double)from;
        t->observed = later(t->observed, seen);
    }
    t->elapsed_ns = longest;
    t->moves = youngest >= 0 && youngest * MOVES_IF_WITHIN < longest;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Sets the median duration of earlier operations with the same arguments, from their start. */
static void measure_usual(struct transfer *t)
{
    const struct tt_dumps *d = t->w->d;
    const struct tt_waits_instance *o = &t->w->instances[t->instance];
    double samples[SAMPLES_MAX];
    uint32_t n = 0;

    for (uint32_t k = 0; k < o->n && k < SAMPLED_RANKS; k++) {
        const struct tt_dumps_op *op = tt_waits_op(t->w, t->w->by_instance[o->first + k]);
        const struct tt_dumps_rank *r = &d->ranks[op->rank];

        for (uint32_t i = 0; i < r->nops && n < SAMPLES_MAX; i++) {
            const struct tt_dumps_op *past = &d->ops[r->ops_first + i];

            if (past->comm == op->comm && past->seq < op->seq && !past->is_open &&
                past->started != TT_DUMPS_NEVER && past->ended != TT_DUMPS_NEVER &&
                tt_waits_same(t->w, past, op))
                samples[n++] = (double)past->ended - (double)past->started;
        }
    }
    if (n == 0)
        return;
    qsort(samples, n, sizeof *samples, compare_doubles);
    t->usual_ns = samples[n / 2] > 1 ? samples[n / 2] : 1;
}

/* ---- bytes that did not arrive ---- */

static void add_edge(struct transfer *t, const struct edge *e)
{
    for (uint32_t i = 0; i < t->nedges; i++) {
        struct edge *old = &t->edges[i];

        if (old->from != e->from || old->to != e->to)
            continue;
        old->bytes = e->bytes > old->bytes ? e->bytes : old->bytes;
        old->since = old->since == TT_DUMPS_NEVER ? e->since : old->since;
        return;
    }
    if (t->nedges < EDGES_MAX)
        t->edges[t->nedges++] = *e;
}

static bool awaits(const struct transfer *t, uint32_t rank, uint32_t from)
{
    const uint32_t record = tt_waits_record_of(t->w, t->instance, rank);

    return record != TT_DUMPS_NONE && tt_waits_op(t->w, record)->waits_rank == from;
}

static void find_pending_lanes(struct transfer *t)
{
    const struct tt_dumps *d = t->w->d;

    for (size_t i = 0; i < d->nlanes; i++) {
        const struct tt_dumps_lane *lane = &d->lanes[i];
        const bool is_awaited =
            awaits(t, lane->peer, lane->rank) || awaits(t, lane->rank, lane->peer);

        if (!is_awaited || lane->posts <= lane->completions)
            continue;
        add_edge(t, &(struct edge){ .from = lane->rank,
                                    .to = lane->peer,
                                    .since = later(lane->last_completion, TT_DUMPS_NEVER),
                                    .bytes = lane->posted_bytes -
                                             (lane->completed_bytes < lane->posted_bytes
                                                  ? lane->completed_bytes
                                                  : lane->posted_bytes),
                                    .is_awaited = true });
    }
}

/* Adds an edge if the waiting member has not received data that its peer has sent. */
static void find_gap(struct transfer *t, uint32_t waiting)
{
    const struct tt_dumps *d = t->w->d;
    const struct tt_dumps_op *op = tt_waits_op(t->w, waiting);
    const uint32_t p = op->waits_rank;
    const uint32_t record =
        p == TT_DUMPS_NONE ? TT_DUMPS_NONE : tt_waits_record_of(t->w, t->instance, p);
    const struct tt_dumps_peer *here, *there;

    if (p == TT_DUMPS_NONE || op->waits_for == TT_WAIT_COMPLETION ||
        op->waits_for == TT_WAIT_CREDIT || tt_waits_has_ended(t->w, waiting))
        return;
    here = peer_of(d, op, p);
    if (record == TT_DUMPS_NONE) {
        if (d->ranks[p].is_complete && op->class != TT_OP_ONE_SIDED && tt_waits_called(t->w, p, op))
            add_edge(t, &(struct edge){ .from = p,
                                        .to = op->rank,
                                        .since = here ? here->last_in : op->called,
                                        .is_awaited = true });
        return;
    }
    there = peer_of(d, tt_waits_op(t->w, record), op->rank);
    if (there && there->sent > (here ? here->received : 0))
        add_edge(t, &(struct edge){ .from = p,
                                    .to = op->rank,
                                    .since = here && here->last_in != TT_DUMPS_NEVER
                                                 ? here->last_in
                                                 : there->first_out,
                                    .bytes = there->sent - (here ? here->received : 0),
                                    .is_awaited = true });
}

static bool touches(const struct edge *e, uint32_t rank)
{
    return e->from == rank || e->to == rank;
}

/* Returns the rank that all edges share, if they lead to two or more peers; otherwise NONE. */
static uint32_t shared_end(const struct transfer *t)
{
    const uint32_t ends[] = { t->edges[0].from, t->edges[0].to };

    for (uint32_t k = 0; k < 2; k++) {
        bool all = true, several = false;
        uint32_t peer = ends[1 - k];

        for (uint32_t i = 0; i < t->nedges; i++) {
            const struct edge *e = &t->edges[i];

            all &= touches(e, ends[k]);
            several |= (e->from == ends[k] ? e->to : e->from) != peer;
        }
        if (all && several)
            return ends[k];
    }
    return TT_DUMPS_NONE;
}

static const struct edge *first_edge(const struct transfer *t)
{
    const struct edge *first = &t->edges[0];

    for (uint32_t i = 1; i < t->nedges; i++)
        if (t->edges[i].since < first->since)
            first = &t->edges[i];
    return first;
}

static void describe_edge(const struct transfer *t, const struct edge *e, struct tt_diagnosis *x)
{
    char span[32];

    if (e->bytes > 0)
        tt_ends_evidence(x, "%llu bytes from rank %u to rank %u did not arrive",
                         (unsigned long long)e->bytes, e->from, e->to);
    else
        tt_ends_evidence(x, "data from rank %u to rank %u did not arrive", e->from, e->to);
    if (e->since != TT_DUMPS_NEVER)
        tt_ends_evidence(x,
                         "the last bytes from rank %u to rank %u arrived %s before the end of "
                         "the records",
                         e->from, e->to, tt_ends_span(e->since, t->observed, span));
}

static void link_failed(const struct transfer *t, struct tt_diagnosis *x)
{
    const uint32_t shared = shared_end(t);
    const struct edge *first = first_edge(t);

    x->kind = TT_DIAGNOSIS_LINK;
    x->since = first->since;
    for (uint32_t i = 0; i < t->nedges && i < 3 && shared != TT_DUMPS_NONE; i++)
        describe_edge(t, &t->edges[i], x);
    if (shared != TT_DUMPS_NONE) {
        tt_ends_culprit(x, shared);
        tt_ends_evidence(x, "all such transfers have rank %u in common", shared);
        return;
    }
    tt_ends_culprit(x, first->from);
    x->to = first->to;
    describe_edge(t, first, x);
    tt_ends_evidence(x, "the processes of rank %u and rank %u are alive", first->from, first->to);
}

/* Finds two ranks of the operation of which one reports the other as silent, although that one
 * wrote its dump. */
static bool find_mutual_silence(struct transfer *t, struct tt_diagnosis *x)
{
    const struct tt_dumps *d = t->w->d;

    for (size_t i = 0; i < d->nreports; i++) {
        const struct tt_dumps_report *p = &d->reports[i];

        if (d->ranks[p->about].is_complete && awaits(t, p->by, p->about)) {
            add_edge(t, &(struct edge){ .from = p->about, .to = p->by, .since = p->last_heard });
            link_failed(t, x);
            return true;
        }
    }
    return false;
}

/* ---- slow ---- */

static void describe_motion(const struct transfer *t, struct tt_diagnosis *x)
{
    const struct tt_dumps_op *op = t->op;
    char span[32], usual[32];

    if (op->steps > 0)
        tt_ends_evidence(x, "rank %u is in step %u of %u after %s, and data still arrives",
                         op->rank, op->step, op->steps,
                         tt_ends_span(0, (int64_t)t->elapsed_ns, span));
    else
        tt_ends_evidence(x, "data still arrives after %s",
                         tt_ends_span(0, (int64_t)t->elapsed_ns, span));
    if (t->usual_ns > 0)
        tt_ends_evidence(x, "earlier operations with the same arguments took %s",
                         tt_ends_span(0, (int64_t)t->usual_ns, usual));
    else
        tt_ends_evidence(x,
                         "there is no earlier operation with the same arguments to compare with");
}

/* Returns the member without a wait, for which other records wait: it computes or copies. */
static const struct tt_dumps_op *busy_member(const struct transfer *t)
{
    const struct tt_waits_instance *o = &t->w->instances[t->instance];
    const struct tt_dumps_op *busy = NULL;

    if (t->nmembers != 1)
        return NULL;
    busy = tt_waits_op(t->w, t->members[0]);
    if (busy->waits_rank != TT_DUMPS_NONE)
        return NULL;
    for (uint32_t k = 0; k < o->n; k++)
        if (tt_waits_op(t->w, t->w->by_instance[o->first + k])->waits_rank == busy->rank)
            return busy;
    return NULL;
}

static void find_slow_place(const struct transfer *t, struct tt_diagnosis *x)
{
    const struct tt_dumps_op *busy = busy_member(t);
    const struct edge *most = NULL;

    for (uint32_t i = 0; i < t->nedges; i++)
        if (!most || t->edges[i].bytes > most->bytes)
            most = &t->edges[i];
    if (busy) {
        tt_ends_culprit(x, busy->rank);
        tt_ends_evidence(x, "rank %u waits for no other rank, and others wait for it", busy->rank);
    } else if (most && t->nedges == 1) {
        tt_ends_culprit(x, most->from);
        x->to = most->to;
        tt_ends_evidence(x, "%llu bytes are in flight from rank %u to rank %u",
                         (unsigned long long)most->bytes, most->from, most->to);
    }
}

/* Returns the latest end of an operation of a rank before a call. */
static int64_t busy_until(const struct tt_dumps *d, uint32_t rank, int64_t called)
{
    const struct tt_dumps_rank *r = &d->ranks[rank];
    int64_t t = TT_DUMPS_NEVER;

    for (uint32_t k = 0; k < r->nops; k++) {
        const struct tt_dumps_op *op = &d->ops[r->ops_first + k];

        if (op->ended != TT_DUMPS_NEVER && op->ended <= called)
            t = later(t, op->ended);
    }
    return t;
}

/* Returns whether the last caller was so late that the others' deadlines passed. It is at fault
 * only if it was in no operation during at least half of that time. */
static bool find_late_caller(const struct transfer *t, struct tt_diagnosis *x)
{
    const struct tt_dumps *d = t->w->d;
    const double late = (double)t->last_called - (double)t->first_called;
    const int64_t busy = t->last_called == TT_DUMPS_NEVER
                             ? TT_DUMPS_NEVER
                             : busy_until(d, t->last_caller, t->last_called);
    char span[32];

    if (t->last_called == TT_DUMPS_NEVER || late < 3 * t->elapsed_ns || busy == TT_DUMPS_NEVER ||
        (double)t->last_called - (double)busy < 0.5 * late)
        return false;
    x->kind = TT_DIAGNOSIS_NEVER_CALLED;
    x->since = busy;
    tt_ends_culprit(x, t->last_caller);
    tt_ends_evidence(x, "rank %u called %s after the first rank", t->last_caller,
                     tt_ends_span(t->first_called, t->last_called, span));
    tt_ends_evidence(x, "before that it was in no operation for %s",
                     tt_ends_span(busy, t->last_called, span));
    if (d->ranks[t->last_caller].note != TT_INTERN_EMPTY &&
        d->ranks[t->last_caller].note_at >= busy &&
        d->ranks[t->last_caller].note_at <= t->last_called) {
        x->kind = TT_DIAGNOSIS_OUTSIDE;
        tt_ends_evidence(x, "its annotation: \"%s\"",
                         tt_dumps_text(d, d->ranks[t->last_caller].note));
    }
    return true;
}

static void moves_slowly(const struct transfer *t, struct tt_diagnosis *x)
{
    if (find_late_caller(t, x))
        return;
    describe_motion(t, x);
    x->since = t->last_called;
    if (t->usual_ns > 0 && t->elapsed_ns <= DEADLINE_FACTOR * t->usual_ns) {
        x->kind = TT_DIAGNOSIS_DEADLINE;
        return;
    }
    x->kind = TT_DIAGNOSIS_SLOW;
    find_slow_place(t, x);
}

/* ---- all together ---- */

static void stands_still(struct transfer *t, struct tt_diagnosis *x)
{
    const struct tt_dumps_op *busy = busy_member(t);
    char span[32];

    if (t->nedges > 0) {
        link_failed(t, x);
        return;
    }
    if (find_mutual_silence(t, x))
        return;
    x->kind = TT_DIAGNOSIS_UNKNOWN;
    if (!busy)
        return;
    x->kind = TT_DIAGNOSIS_STOPPED;
    x->since = activity_of(t->w->d, busy);
    tt_ends_culprit(x, busy->rank);
    tt_ends_evidence(x,
                     "rank %u is in the operation, waits for no other rank, and made no progress "
                     "for %s",
                     busy->rank, tt_ends_span(x->since, observed_at(t->w->d, busy), span));
}

/* In a job that may still make progress, a member may make progress, or its wait may be over. If
 * so, sets UNKNOWN and returns true. */
static bool may_progress(const struct tt_ends *e, const uint32_t *members, uint32_t n,
                         struct tt_diagnosis *x)
{
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t rank = tt_waits_op(e->w, members[k])->rank;

        if (tt_waits_has_ended(e->w, members[k]))
            tt_ends_since(e, members[k], x);
        else if (e->w->young[rank] != TT_DUMPS_NONE)
            tt_ends_young(e, rank, x);
        else
            continue;
        return true;
    }
    return false;
}

/* Returns whether an operation of the instance ended because a rank was lost. Then it was not slow,
 * even if data arrived recently. */
static bool lost_a_rank(const struct transfer *t)
{
    const struct tt_waits_instance *o = &t->w->instances[t->instance];

    for (uint32_t k = 0; k < o->n; k++)
        if (tt_waits_op(t->w, t->w->by_instance[o->first + k])->status == TUTTI_ERR_PEER_LOST)
            return true;
    return false;
}

void tt_ends_transfer(const struct tt_ends *e, const uint32_t *members, uint32_t n,
                      struct tt_diagnosis *x)
{
    struct transfer t = {
        .e = e, .w = e->w, .members = members, .nmembers = n, .observed = TT_DUMPS_NEVER,
        .instance = e->w->records[members[0]].instance, .op = tt_waits_op(e->w, members[0]),
    };

    const struct tt_waits_instance *o = &e->w->instances[t.instance];

    x->op = e->w->records[members[0]].op;
    for (uint32_t k = 0; k < n; k++)
        if (tt_ends_process(e, tt_waits_op(e->w, members[k])->rank, x))
            return;
    if (may_progress(e, members, n, x))
        return;
    measure_calls(&t);
    measure_motion(&t);
    measure_usual(&t);
    find_pending_lanes(&t);
    for (uint32_t k = 0; k < o->n; k++)
        find_gap(&t, e->w->by_instance[o->first + k]);
    if (!t.moves)
        stands_still(&t, x);
    else if (lost_a_rank(&t))
        x->kind = TT_DIAGNOSIS_UNKNOWN;
    else
        moves_slowly(&t, x);
}

bool tt_ends_moving(const struct tt_ends *e, uint32_t record, struct tt_diagnosis *x)
{
    struct transfer t = {
        .e = e, .w = e->w, .members = &record, .nmembers = 1, .observed = TT_DUMPS_NEVER,
        .instance = e->w->records[record].instance, .op = tt_waits_op(e->w, record),
    };

    if (e->w->instances[t.instance].is_proven || t.op->class != TT_OP_COLLECTIVE || lost_a_rank(&t))
        return false;
    measure_calls(&t);
    measure_motion(&t);
    if (!t.moves)
        return false;
    measure_usual(&t);
    find_pending_lanes(&t);
    moves_slowly(&t, x);
    return true;
}
