#include "analyze/diagnosis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/ends.h"
#include "base/status.h"

#define ENDS_MAX 256u
#define HUNG_NS 10000000000     /* shorter waits can be part of normal operation */

/* Nodes sorted by component. */
struct groups {
    uint32_t *first;            /* [ncomponents + 1] */
    uint32_t *nodes;            /* [nnodes] */
};

static bool groups_init(struct groups *g, const struct tt_waits *w)
{
    g->first = calloc((size_t)w->ncomponents + 2, sizeof *g->first);
    g->nodes = calloc((size_t)w->nnodes + 1, sizeof *g->nodes);
    if (!g->first || !g->nodes)
        return false;
    for (uint32_t i = 0; i < w->nnodes; i++)
        g->first[w->component[i] + 2]++;
    for (uint32_t c = 2; c <= w->ncomponents; c++)
        g->first[c] += g->first[c - 1];
    for (uint32_t i = 0; i < w->nnodes; i++)
        g->nodes[g->first[w->component[i] + 1]++] = i;
    return true;
}

static void groups_fini(struct groups *g)
{
    free(g->first);
    free(g->nodes);
}

/* ---- one end ---- */

/* Finds a record that waits for a node of component c, to show the wait. */
static void find_waiter(const struct tt_waits *w, uint32_t c, struct tt_diagnosis *x,
                        uint32_t *waiter)
{
    *waiter = TT_DUMPS_NONE;
    for (uint32_t i = 0; i < w->nrecords && x->waits_op == TT_DUMPS_NONE; i++) {
        const struct tt_dumps_op *op = tt_waits_op(w, i);
        uint32_t to = w->records[i].target;

        if (to == TT_DUMPS_NONE)
            continue;
        if (w->component[to] != c && !tt_waits_is_rank(w, to) && !tt_waits_is_record(w, to))
            to = tt_waits_edge(w, to, 0);       /* a rank that has not called the instance */
        if (to == TT_DUMPS_NONE || w->component[to] != c)
            continue;
        *waiter = i;
        x->waits_by = op->rank;
        x->waits_op = w->records[i].op;
        x->waits_for = tt_waits_is_rank(w, to)     ? to
                       : tt_waits_is_record(w, to) ? tt_waits_op(w, to - w->d->nranks)->rank
                                                   : op->waits_rank;
        if (x->op == TT_DUMPS_NONE)
            x->op = x->waits_op;
    }
}

static void diagnose_records(const struct tt_ends *e, const uint32_t *nodes, uint32_t n,
                             struct tt_diagnosis *x)
{
    uint32_t *records = malloc(n * sizeof *records);

    if (!records)
        return;
    for (uint32_t i = 0; i < n; i++)
        records[i] = nodes[i] - e->w->d->nranks;
    tt_ends_transfer(e, records, n, x);
    free(records);
}

/* Diagnoses a rank. If it has no dump, it can be in the operation in which other ranks wait. */
static void diagnose_rank(const struct tt_ends *e, uint32_t rank, uint32_t waiter,
                          struct tt_diagnosis *x)
{
    tt_ends_rank(e, rank, x);
    if (x->kind == TT_DIAGNOSIS_UNKNOWN && waiter != TT_DUMPS_NONE &&
        e->w->young[rank] == TT_DUMPS_NONE)
        tt_ends_moving(e, waiter, x);
}

static void diagnose_end(const struct tt_ends *e, const uint32_t *nodes, uint32_t n, uint32_t c,
                         struct tt_diagnosis *x)
{
    const struct tt_waits *w = e->w;
    uint32_t waiter;
    bool only_records = true;

    *x = (struct tt_diagnosis){
        .kind = TT_DIAGNOSIS_UNKNOWN,
        .to = TT_DUMPS_NONE,
        .at = TT_DUMPS_NONE,
        .op = TT_DUMPS_NONE,
        .since = TT_DUMPS_NEVER,
        .waits_by = TT_DUMPS_NONE,
        .waits_op = TT_DUMPS_NONE,
        .waits_for = TT_DUMPS_NONE,
        .nwaiting = w->nwaiting[c],
    };
    find_waiter(w, c, x, &waiter);
    for (uint32_t i = 0; i < n; i++)
        only_records &= tt_waits_is_record(w, nodes[i]);
    if (only_records)
        diagnose_records(e, nodes, n, x);
    else if (n > 1)
        tt_ends_cycle(e, nodes, n, x);
    else if (tt_waits_is_rank(w, nodes[0]))
        diagnose_rank(e, nodes[0], waiter, x);
    else if (w->instances[nodes[0] - w->d->nranks - w->nrecords].differs)
        tt_ends_mismatch(e, nodes[0] - w->d->nranks - w->nrecords, x);
    else
        x->op =
            w->records[w->by_instance[w->instances[nodes[0] - w->d->nranks - w->nrecords].first]]
                .op;
}

/* ---- all ends ---- */

/* Rates how certain a diagnosis is: the cause is listed first. */
static int rate(const struct tt_diagnosis *x)
{
    static const int rates[TT_DIAGNOSIS_KINDS] = {
        [TT_DIAGNOSIS_DIED] = 9, [TT_DIAGNOSIS_MISMATCH] = 8, [TT_DIAGNOSIS_STOPPED] = 7,
        [TT_DIAGNOSIS_LINK] = 6, [TT_DIAGNOSIS_ORDER] = 5, [TT_DIAGNOSIS_OUTSIDE] = 4,
        [TT_DIAGNOSIS_NEVER_CALLED] = 4, [TT_DIAGNOSIS_SLOW] = 3, [TT_DIAGNOSIS_DEADLINE] = 2,
        [TT_DIAGNOSIS_UNKNOWN] = 0,
    };

    return x->kind == TT_DIAGNOSIS_SLOW && x->nculprits == 0 ? 1 : rates[x->kind];
}

static bool is_before(const struct tt_diagnosis *a, const struct tt_diagnosis *b)
{
    if (rate(a) != rate(b))
        return rate(a) > rate(b);
    if (a->since != b->since && a->since != TT_DUMPS_NEVER && b->since != TT_DUMPS_NEVER)
        return a->since < b->since;
    return a->nwaiting > b->nwaiting;
}

/* Inserts by rating and keeps the first ones. */
static void add_diagnosis(struct tt_diagnoses *out, const struct tt_diagnosis *x)
{
    uint32_t at = out->n;

    out->nall++;
    if (at == TT_DIAGNOSIS_MAX && !is_before(x, &out->list[--at]))
        return;
    for (; at > 0 && is_before(x, &out->list[at - 1]); at--)
        out->list[at] = out->list[at - 1];
    out->list[at] = *x;
    out->n += out->n < TT_DIAGNOSIS_MAX;
}

static bool is_mismatch(const struct tt_waits *w, const struct groups *g, uint32_t c)
{
    const uint32_t first = tt_waits_node_of_instance(w, 0);

    for (uint32_t i = g->first[c]; i < g->first[c + 1]; i++)
        if (g->nodes[i] >= first && w->instances[g->nodes[i] - first].differs)
            return true;
    return false;
}

/* Returns whether a component can be the cause: an operation has waited in it or for it for at
 * least hung_ns. Different arguments are a cause regardless of the time. */
static bool is_cause(const struct tt_waits *w, const struct groups *g, uint32_t c)
{
    const uint32_t n = g->first[c + 1] - g->first[c];

    return w->is_end[c] && (w->waited_ns[c] >= (double)w->d->hung_ns || is_mismatch(w, g, c)) &&
           (n > 1 || !tt_waits_is_rank(w, g->nodes[g->first[c]]) || w->nwaiting[c] > 0);
}

static int by_waiting(const void *a, const void *b, void *arg)
{
    const struct tt_waits *w = arg;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (w->nwaiting[x] != w->nwaiting[y])
        return w->nwaiting[x] > w->nwaiting[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Diagnoses the ENDS_MAX ends with the most waiting ranks. The number is limited because each
 * diagnosis takes time linear in the operations. */
static tutti_status diagnose_ends(const struct tt_ends *e, const struct groups *g,
                                  struct tt_diagnoses *out)
{
    struct tt_waits w = *e->w;
    uint32_t *ends = calloc((size_t)w.ncomponents + 1, sizeof *ends), n = 0;
    struct tt_diagnosis x;

    if (!ends)
        return TUTTI_ERR_NOMEM;
    for (uint32_t c = 0; c < w.ncomponents; c++)
        if (is_cause(&w, g, c))
            ends[n++] = c;
    qsort_r(ends, n, sizeof *ends, by_waiting, &w);
    for (uint32_t i = 0; i < n && i < ENDS_MAX; i++) {
        const uint32_t first = g->first[ends[i]];

        diagnose_end(e, g->nodes + first, g->first[ends[i] + 1] - first, ends[i], &x);
        add_diagnosis(out, &x);
    }
    out->nall += n > ENDS_MAX ? n - ENDS_MAX : 0;
    free(ends);
    return TUTTI_OK;
}

/* Returns whether a rank without a complete dump was lost, or removed from an elastic run. */
static bool is_gone(const struct tt_ends *e, uint32_t rank)
{
    const struct tt_dumps_rank *r = &e->w->d->ranks[rank];

    return !r->is_complete &&
           (r->ndeparted > 0 || (r->nlost > 0 && tt_ends_condition(e, rank) == TT_CONDITION_DIED));
}

static bool is_listed(const struct tt_diagnoses *out, uint32_t rank)
{
    for (uint32_t i = 0; i < out->n; i++)
        if (out->list[i].at == rank ||
            (out->list[i].nculprits > 0 && out->list[i].culprits[0] == rank))
            return true;
    return false;
}

/* Adds lost ranks at which no chain of waits ends: all operations may have ended before the dumps
 * were written. */
static void add_lost_ranks(const struct tt_ends *e, struct tt_diagnoses *out)
{
    const struct tt_dumps *d = e->w->d;

    for (uint32_t r = 0; r < d->nranks; r++) {
        struct tt_diagnosis x = {
            .to = TT_DUMPS_NONE, .at = r, .op = TT_DUMPS_NONE, .since = TT_DUMPS_NEVER,
            .waits_by = TT_DUMPS_NONE, .waits_op = TT_DUMPS_NONE, .waits_for = TT_DUMPS_NONE,
        };

        if (!is_gone(e, r) || is_listed(out, r))
            continue;
        tt_ends_rank(e, r, &x);
        add_diagnosis(out, &x);
    }
}

/* Merges lost ranks into one diagnosis. Those lost at about the same time failed together, e.g.
 * with their host. Those lost much later are a consequence: the launcher may have killed them. */
static void merge_lost_ranks(const struct tt_waits *w, struct tt_diagnoses *out)
{
    struct tt_diagnosis *first = &out->list[0];
    uint32_t kept = 1;
    int64_t limit = INT64_MAX;

    if (out->n == 0 || first->kind != TT_DIAGNOSIS_DIED)
        return;
    if (first->since != TT_DUMPS_NEVER && w->at != TT_DUMPS_NEVER && w->at > first->since)
        limit = first->since + (w->at - first->since) / 10;
    for (uint32_t i = 1; i < out->n; i++) {
        const struct tt_diagnosis *x = &out->list[i];

        if (x->kind != TT_DIAGNOSIS_DIED)
            out->list[kept++] = *x;
        else if (x->since == TT_DUMPS_NEVER || x->since <= limit)
            tt_ends_culprit(first, x->culprits[0]);
        else
            tt_ends_evidence(first, "rank %u was lost later", x->culprits[0]);
    }
    out->nall -= out->n - kept;
    out->n = kept;
}

/* Returns how long the waiting rank of this diagnosis had waited at the first failure. */
static double waited_ns(const struct tt_waits *w, const struct tt_diagnosis *x)
{
    const uint32_t i = x->waits_op != TT_DUMPS_NONE ? x->waits_op : x->op;
    const struct tt_dumps_op *op = i == TT_DUMPS_NONE ? NULL : &w->d->ops[i];

    if (!op || w->at == TT_DUMPS_NEVER || op->called == TT_DUMPS_NEVER)
        return 0;
    return (double)w->at - (double)op->called;
}

/* Drops diagnoses after a lost rank or a mismatch, which fail the job at once. It interrupts the
 * other ranks, so their waits prove nothing, unless they had lasted for long. */
static void drop_interrupted(const struct tt_waits *w, struct tt_diagnoses *out)
{
    uint32_t kept = 1;

    if (out->n == 0 ||
        (out->list[0].kind != TT_DIAGNOSIS_DIED && out->list[0].kind != TT_DIAGNOSIS_MISMATCH))
        return;
    for (uint32_t i = 1; i < out->n; i++) {
        const struct tt_diagnosis *x = &out->list[i];

        if (x->kind == TT_DIAGNOSIS_MISMATCH || waited_ns(w, x) >= HUNG_NS)
            out->list[kept++] = *x;
    }
    out->nall -= out->n - kept;
    out->n = kept;
}

static bool is_same_operation(const struct tt_waits *w, uint32_t a, uint32_t b)
{
    const struct tt_dumps_op *x = &w->d->ops[a], *y = &w->d->ops[b];

    return x->class == TT_OP_COLLECTIVE && y->class == TT_OP_COLLECTIVE && x->comm == y->comm &&
           x->seq == y->seq;
}

/* Returns whether both diagnoses name a link between the same two hosts. */
static bool is_same_link(const struct tt_dumps *d, const struct tt_diagnosis *a,
                         const struct tt_diagnosis *b)
{
    uint32_t from, to, first, second;

    if (a->kind != TT_DIAGNOSIS_LINK || b->kind != TT_DIAGNOSIS_LINK || a->to == TT_DUMPS_NONE ||
        b->to == TT_DUMPS_NONE)
        return false;
    from = d->ranks[a->culprits[0]].host;
    to = d->ranks[a->to].host;
    first = d->ranks[b->culprits[0]].host;
    second = d->ranks[b->to].host;
    return from != to && ((from == first && to == second) || (from == second && to == first));
}

/* Returns whether x adds nothing to an earlier diagnosis: both name the same rank or link; or x
 * names no rank, and is about the same operation. */
static bool repeats(const struct tt_waits *w, const struct tt_diagnosis *before,
                    const struct tt_diagnosis *x)
{
    if (x->nculprits > 0 && before->nculprits > 0 && is_same_link(w->d, before, x))
        return true;
    if (x->nculprits == 0)
        return before->op != TT_DUMPS_NONE && x->op != TT_DUMPS_NONE &&
               is_same_operation(w, before->op, x->op);
    return before->kind == x->kind && before->nculprits == 1 && x->nculprits == 1 &&
           before->culprits[0] == x->culprits[0] && before->to == x->to;
}

/* Drops repetitions, and diagnoses without evidence, unless there is no other one. */
static void drop_repeats(const struct tt_waits *w, struct tt_diagnoses *out)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < out->n; i++) {
        const struct tt_diagnosis *x = &out->list[i];
        bool is_new = kept == 0 || x->kind != TT_DIAGNOSIS_UNKNOWN || x->at != TT_DUMPS_NONE;

        for (uint32_t k = 0; k < kept && is_new; k++)
            is_new = !repeats(w, &out->list[k], x);
        if (is_new)
            out->list[kept++] = *x;
    }
    out->nall -= out->n - kept;
    out->n = kept;
}

tutti_status tt_diagnose(struct tt_diagnoses *out, const struct tt_waits *w)
{
    struct tt_ends e;
    struct groups g = { NULL, NULL };
    tutti_status st = TUTTI_ERR_NOMEM;

    out->n = out->nall = 0;
    if (tt_ends_init(&e, w)) {
        if (groups_init(&g, w))
            st = diagnose_ends(&e, &g, out);
        if (!st) {
            add_lost_ranks(&e, out);
            merge_lost_ranks(w, out);
            drop_interrupted(w, out);
            drop_repeats(w, out);
        }
        groups_fini(&g);
        tt_ends_fini(&e);
    }
    return st ? tt_fail(st, "analyze: out of memory for %u ranks", w->d->nranks) : TUTTI_OK;
}
