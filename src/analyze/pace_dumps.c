#include "analyze/pace_dumps.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/status.h"

#define SPAN_MAX ((int64_t)1 << 60)

struct feed {
    const struct tt_instances *in;
    struct tt_pace_dumps *out;
    uint32_t *group;            /* [in->n] of an instance; NONE: the instance is not used */
    uint32_t *order;            /* [nused] instances by their end */
    uint32_t nused;
    int64_t *outside;           /* [nops] time outside of operations before the call */
    int64_t *times;             /* [3 * nranks] of one operation */
    uint32_t *ranks;            /* [nranks] scratch */
};

static const struct tt_dumps_op *op_of(const struct feed *f, const struct tt_instance *x,
                                       uint32_t k)
{
    return &f->in->d->ops[f->in->order[x->first + k]];
}

/* ---- groups ---- */

static bool is_used(const struct feed *f, const struct tt_instance *x)
{
    if (x->last == TT_DUMPS_NONE || op_of(f, x, 0)->rank == op_of(f, x, 1)->rank ||
        x->ended == TT_DUMPS_NEVER || x->last_called < -SPAN_MAX || x->last_called > SPAN_MAX ||
        x->ended > SPAN_MAX)
        return false;
    for (uint32_t k = 0; k < x->n; k++) {
        const struct tt_dumps_op *op = op_of(f, x, k);

        if (op->called < -SPAN_MAX || op->ended < op->called || tt_dumps_failed(f->in->d, op))
            return false;
    }
    return true;
}

/* Instances of a group follow each other. */
static bool is_same_group(const struct feed *f, const struct tt_instance *a,
                          const struct tt_instance *b)
{
    if (a->comm != b->comm || a->is_message != b->is_message)
        return false;
    return !a->is_message || (op_of(f, a, 0)->rank == op_of(f, b, 0)->rank &&
                              op_of(f, a, 1)->rank == op_of(f, b, 1)->rank);
}

static uint32_t add_group(struct feed *f, uint32_t i)
{
    const struct tt_instance *x = &f->in->list[i];
    uint32_t group;

    for (uint32_t k = 0; k < x->n; k++)
        f->ranks[k] = op_of(f, x, k)->rank;
    group = tt_pace_add_group(f->out->pace, f->ranks, x->n);
    if (group != TT_PACE_NONE)
        f->out->group_instance[f->out->ngroups++] = i;
    return group;
}

static bool make_groups(struct feed *f)
{
    uint32_t before = TT_DUMPS_NONE;

    for (uint32_t i = 0; i < f->in->n; i++) {
        const struct tt_instance *x = &f->in->list[i];

        f->group[i] = TT_PACE_NONE;
        if (!is_used(f, x))
            continue;
        if (before != TT_DUMPS_NONE && is_same_group(f, &f->in->list[before], x))
            f->group[i] = f->group[before];
        else
            f->group[i] = add_group(f, i);
        if (f->group[i] == TT_PACE_NONE)
            return false;
        before = i;
        f->order[f->nused++] = i;
    }
    return true;
}

/* ---- operations ---- */

static int by_call(const void *x, const void *y, void *arg)
{
    const struct tt_dumps *d = arg;
    const struct tt_dumps_op *a = &d->ops[*(const uint32_t *)x], *b = &d->ops[*(const uint32_t *)y];

    if (a->called != b->called)
        return a->called < b->called ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Sets the time of one rank outside of operations before each call: since the last earlier end. If
 * an earlier operation is still in progress: since its call. order[]: scratch. */
static void set_outside(struct feed *f, uint32_t rank, uint32_t *order)
{
    const struct tt_dumps *d = f->in->d;
    const struct tt_dumps_rank *r = &d->ranks[rank];
    int64_t called = TT_DUMPS_NEVER, ended = TT_DUMPS_NEVER;

    for (uint32_t k = 0; k < r->nops; k++)
        order[k] = (uint32_t)r->ops_first + k;
    qsort_r(order, r->nops, sizeof *order, by_call, (void *)d);
    for (uint32_t k = 0; k < r->nops; k++) {
        const struct tt_dumps_op *op = &d->ops[order[k]];
        int64_t since = ended <= op->called ? ended : called;

        if (__builtin_sub_overflow(op->called, since, &f->outside[order[k]]))
            f->outside[order[k]] = 0;
        called = op->called;
        ended = op->ended > ended ? op->ended : ended;
    }
}

static int by_end(const void *x, const void *y, void *arg)
{
    const struct tt_instances *in = arg;
    const uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;

    if (in->list[i].ended != in->list[k].ended)
        return in->list[i].ended < in->list[k].ended ? -1 : 1;
    return i < k ? -1 : i > k;
}

/* Returns whether no rank can end before all have called. */
static bool is_mutual(const char *kind)
{
    static const char *const kinds[] = { "allreduce",      "allgather",       "allgatherv",
                                         "reduce_scatter", "reduce_scatterv", "alltoall",
                                         "alltoallv",      "barrier" };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

/* Returns how often the host changes in the order of ranks. Groups with equal results are
 * comparable. */
static uint32_t host_changes(const struct feed *f, const struct tt_instance *x)
{
    uint32_t n = 0;

    for (uint32_t k = 1; k < x->n; k++)
        n += f->in->d->ranks[op_of(f, x, k)->rank].host !=
             f->in->d->ranks[op_of(f, x, k - 1)->rank].host;
    return n;
}

/* Returns the class of an operation; 0: none, because its blocks have different sizes, or its data
 * may have been sent before the last call. */
static uint64_t class_of(const struct feed *f, const struct tt_instance *x)
{
    const struct tt_dumps_op *op = op_of(f, x, 0);
    const char *kind = tt_dumps_text(f->in->d, op->kind);
    const uint64_t key[] = { op->kind,  op->algo, op->bytes,         op->type,
                             op->redop, x->n,     host_changes(f, x) };

    if (x->is_message ? x->last != f->in->order[x->first]
                      : !is_mutual(kind) || kind[strlen(kind) - 1] == 'v')
        return 0;
    return tt_hash_bytes(key, sizeof key, 1) | 1;
}

static tutti_status feed_one(struct feed *f, uint32_t i)
{
    const struct tt_instance *x = &f->in->list[i];
    int64_t *called = f->times, *ended = called + x->n, *outside = ended + x->n;

    for (uint32_t k = 0; k < x->n; k++) {
        called[k] = op_of(f, x, k)->called;
        ended[k] = op_of(f, x, k)->ended;
        outside[k] = f->outside[f->in->order[x->first + k]];
    }
    return tt_pace_add(
        f->out->pace,
        &(struct tt_pace_op){ .group = f->group[i],
                              .class = class_of(f, x),
                              .is_mutual = is_mutual(tt_dumps_text(f->in->d, op_of(f, x, 0)->kind)),
                              .error_ns = x->error_ns,
                              .called = called,
                              .ended = ended,
                              .outside = outside });
}

/* Adds all operations. Windows without operations, e.g. pauses of the job, are skipped. */
static tutti_status feed_all(struct feed *f, int64_t window_ns)
{
    const struct tt_instance *list = f->in->list;
    tutti_status st = TUTTI_OK;
    int64_t span;

    if (f->nused == 0)
        return TUTTI_OK;
    qsort_r(f->order, f->nused, sizeof *f->order, by_end, (void *)f->in);
    f->out->begin = list[f->order[0]].ended;
    span = list[f->order[f->nused - 1]].ended - f->out->begin;
    f->out->window_ns = window_ns > 0 ? window_ns : span / TT_PACE_WINDOWS + 1;
    for (uint32_t k = 0, next; k < f->nused && !st; k = next) {
        const int64_t window = (list[f->order[k]].ended - f->out->begin) / f->out->window_ns;

        for (next = k; next < f->nused && !st; next++) {
            if ((list[f->order[next]].ended - f->out->begin) / f->out->window_ns != window)
                break;
            st = feed_one(f, f->order[next]);
        }
        if (!st)
            st = tt_pace_close(f->out->pace, f->out->window_ns);
        f->out->nwindows++;
    }
    return st;
}

static tutti_status judge(struct feed *f, int64_t window_ns)
{
    const struct tt_dumps *d = f->in->d;

    for (uint32_t r = 0; r < d->nranks; r++)
        set_outside(f, r, f->order);
    return make_groups(f) ? feed_all(f, window_ns) : TUTTI_ERR_NOMEM;
}

tutti_status tt_pace_dumps_init(struct tt_pace_dumps *out, const struct tt_instances *in,
                                int64_t window_ns)
{
    const struct tt_dumps *d = in->d;
    struct feed f = { .in = in, .out = out };
    tutti_status st = TUTTI_ERR_NOMEM;

    *out = (struct tt_pace_dumps){ .pace = tt_pace_create(d->nranks) };
    out->group_instance = malloc((in->n + 1ul) * sizeof *out->group_instance);
    f.group = malloc((in->n + 1ul) * sizeof *f.group);
    f.order = malloc((d->nops + 1) * sizeof *f.order);
    f.outside = malloc((d->nops + 1) * sizeof *f.outside);
    f.times = malloc((3ul * d->nranks + 6) * sizeof *f.times);
    f.ranks = malloc((d->nranks + 2ul) * sizeof *f.ranks);
    if (out->pace && out->group_instance && f.group && f.order && f.outside && f.times && f.ranks)
        st = judge(&f, window_ns);
    free(f.group);
    free(f.order);
    free(f.outside);
    free(f.times);
    free(f.ranks);
    if (!st)
        return TUTTI_OK;
    tt_pace_dumps_fini(out);
    return tt_fail(st, "analyze: out of memory for %zu operations", d->nops);
}

void tt_pace_dumps_fini(struct tt_pace_dumps *p)
{
    tt_pace_destroy(p->pace);
    free(p->group_instance);
    *p = (struct tt_pace_dumps){ .pace = NULL };
}
