#include "analyze/profile.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/grow.h"
#include "base/status.h"

/* ---- bandwidth ---- */

double tt_profile_busbw(const char *kind, uint64_t bytes, uint32_t nranks, int64_t ns)
{
    static const struct {
        const char *kind;
        enum { WHOLE, TWICE, OTHERS, BLOCKS } of;
    } kinds[] = {
        { "allreduce", TWICE },    { "reduce", WHOLE },    { "broadcast", WHOLE },
        { "send", WHOLE },         { "recv", WHOLE },      { "reduce_scatter", BLOCKS },
        { "allgather", BLOCKS },   { "gather", BLOCKS },   { "scatter", BLOCKS },
        { "alltoall", BLOCKS },    { "alltoallv", OTHERS },
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && nranks > 0 && ns > 0; i++) {
        const double others = (double)(nranks - 1);
        const double rate = (double)bytes / (double)ns;

        if (strcmp(kind, kinds[i].kind) != 0)
            continue;
        switch (kinds[i].of) {
        case TWICE: return 2 * rate * others / nranks;
        case OTHERS: return rate * others / nranks;
        case BLOCKS: return rate * others;
        default: return rate;
        }
    }
    return 0;
}

/* ---- rows ---- */

static int64_t duration(const struct tt_dumps_op *op)
{
    int64_t ns;

    if (op->ended == TT_DUMPS_NEVER || op->called == TT_DUMPS_NEVER ||
        __builtin_sub_overflow(op->ended, op->called, &ns) || ns < 0)
        return -1;
    return ns;
}

static uint64_t size_class(uint64_t bytes)
{
    return bytes ? 1ull << (63 - __builtin_clzll(bytes)) : 0;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_rows(const struct tt_dumps_op *a, const struct tt_dumps_op *b)
{
    int c = compare_u64(a->comm, b->comm);

    c = c ? c : compare_u64(a->kind, b->kind);
    c = c ? c : compare_u64(size_class(a->bytes), size_class(b->bytes));
    return c ? c : compare_u64(a->algo, b->algo);
}

static int by_row_and_duration(const void *x, const void *y, void *arg)
{
    const struct tt_dumps *d = arg;
    const struct tt_dumps_op *a = &d->ops[*(const uint32_t *)x], *b = &d->ops[*(const uint32_t *)y];
    const int c = compare_rows(a, b);
    const int64_t s = duration(a), t = duration(b);

    return c ? c : s < t ? -1 : s > t;
}

static int by_value(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return a < b ? -1 : a > b;
}

/* ---- stages ---- */

const char *tt_profile_stage_name(enum tt_profile_stage stage)
{
    static const char *const names[] = {
        [TT_PROFILE_QUEUED] = "queued",     [TT_PROFILE_WAITED] = "waited",
        [TT_PROFILE_CONTROL] = "control",   [TT_PROFILE_REGISTER] = "register",
        [TT_PROFILE_SEND] = "send",         [TT_PROFILE_REDUCE] = "reduce",
        [TT_PROFILE_COPY] = "copy",         [TT_PROFILE_WIRE] = "wire",
    };

    return names[stage];
}

/* Returns ns, but at least 0 and at most *left, and subtracts it from *left. */
static double take(double *left, double ns)
{
    const double taken = ns < 0 ? 0 : ns < *left ? ns : *left;

    *left -= taken;
    return taken;
}

/* The first stages follow each other. Data that is transferred before the last call, e.g. to a peer
 * that has called, leaves no time for control messages. The measured times are parts of the
 * rest. */
bool tt_profile_stages_of(const struct tt_instances *in, uint32_t op, double out[TT_PROFILE_STAGES])
{
    const struct tt_dumps_op *o = &in->d->ops[op];
    double left = (double)duration(o), until;

    if (left < 0 || o->stages[0] < 0)
        return false;
    out[TT_PROFILE_QUEUED] =
        take(&left, o->started == TT_DUMPS_NEVER ? 0 : (double)o->started - (double)o->called);
    out[TT_PROFILE_WAITED] =
        take(&left, (double)tt_instances_waited(in, op) - out[TT_PROFILE_QUEUED]);
    until = out[TT_PROFILE_QUEUED] + out[TT_PROFILE_WAITED];
    out[TT_PROFILE_CONTROL] = take(&left, o->first_data == TT_DUMPS_NEVER
                                              ? 0
                                              : (double)o->first_data - (double)o->called - until);
    out[TT_PROFILE_REGISTER] = take(&left, o->stages[TT_OP_REGISTER]);
    out[TT_PROFILE_SEND] = take(&left, o->stages[TT_OP_SENDING]);
    out[TT_PROFILE_REDUCE] = take(&left, o->stages[TT_OP_REDUCE]);
    out[TT_PROFILE_COPY] = take(&left, o->stages[TT_OP_COPY]);
    out[TT_PROFILE_WIRE] = left;
    return true;
}

/* Adds one operation to its row. */
static void row_add(struct tt_profile_row *row, const struct tt_instances *in, uint32_t i)
{
    const struct tt_dumps_op *op = &in->d->ops[i];
    double stages[TT_PROFILE_STAGES];
    int64_t queued;

    if (tt_profile_stages_of(in, i, stages)) {
        row->nstaged++;
        for (int k = 0; k < TT_PROFILE_STAGES; k++)
            row->staged_ns[k] += stages[k];
    }
    row->calls++;
    row->nfailed += tt_dumps_failed(in->d, op);
    row->bytes += op->bytes;
    row->total_ns += (double)duration(op);
    row->waited_ns += (double)tt_instances_waited(in, i);
    if (op->started != TT_DUMPS_NEVER &&
        !__builtin_sub_overflow(op->started, op->called, &queued) && queued > 0)
        row->queued_ns += (double)queued;
}

static uint32_t ranks_of(const struct tt_instances *in, const struct tt_dumps_op *op)
{
    return op->class == TT_OP_P2P ? 2 : in->d->comms[op->comm].members.n;
}

/* Makes the row of order[0..n), sorted by duration. values[n]: scratch. */
static void row_make(struct tt_profile_row *row, const struct tt_instances *in,
                     const uint32_t *order, uint32_t n, int64_t *values)
{
    const struct tt_dumps_op *op = &in->d->ops[order[0]];
    uint32_t nvalues = 0;

    *row = (struct tt_profile_row){ .comm = op->comm,
                                    .kind = op->kind,
                                    .algo = op->algo,
                                    .bytes_from = size_class(op->bytes),
                                    .median_ns = duration(&in->d->ops[order[n / 2]]),
                                    .max_ns = duration(&in->d->ops[order[n - 1]]),
                                    .transfer_ns = -1 };
    for (uint32_t k = 0; k < n; k++) {
        const int64_t transfer = tt_instances_transfer(in, order[k]);

        row_add(row, in, order[k]);
        if (transfer >= 0)
            values[nvalues++] = transfer;
    }
    qsort(values, nvalues, sizeof *values, by_value);
    if (nvalues > 0)
        row->transfer_ns = values[nvalues / 2];
    row->busbw =
        tt_profile_busbw(tt_dumps_text(in->d, op->kind), row->bytes / row->calls, ranks_of(in, op),
                         row->transfer_ns > 0 ? row->transfer_ns : row->median_ns);
}

static int by_total(const void *x, const void *y)
{
    const struct tt_profile_row *a = x, *b = y;

    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return compare_u64((uint64_t)a->comm << 32 | a->kind, (uint64_t)b->comm << 32 | b->kind);
}

static bool make_rows(struct tt_profile *p, const struct tt_instances *in, uint32_t *order,
                      uint32_t n, int64_t *values)
{
    size_t cap = 0;

    for (uint32_t at = 0, next; at < n; at = next) {
        for (next = at + 1; next < n; next++)
            if (compare_rows(&in->d->ops[order[at]], &in->d->ops[order[next]]) != 0)
                break;
        if (!tt_grow(&p->rows, &cap, p->nrows, sizeof *p->rows))
            return false;
        row_make(&p->rows[p->nrows++], in, order + at, next - at, values);
    }
    if (p->nrows > 0)
        qsort(p->rows, p->nrows, sizeof *p->rows, by_total);
    return true;
}

/* Lists the completed operations in order[nops], sorted by row. Returns their number. */
static uint32_t list_completed(struct tt_profile *p, const struct tt_instances *in, uint32_t *order)
{
    const struct tt_dumps *d = in->d;
    uint32_t n = 0;

    p->begin = p->end = TT_DUMPS_NEVER;
    for (uint32_t i = 0; i < d->nops; i++) {
        const struct tt_dumps_op *op = &d->ops[i];

        p->nopen += op->ended == TT_DUMPS_NEVER;
        if (duration(op) < 0)
            continue;
        order[n++] = i;
        if (!d->ranks[op->rank].has_clock)
            continue;
        if (p->begin == TT_DUMPS_NEVER || op->called < p->begin)
            p->begin = op->called;
        if (p->end == TT_DUMPS_NEVER || op->ended > p->end)
            p->end = op->ended;
    }
    qsort_r(order, n, sizeof *order, by_row_and_duration, (void *)d);
    p->calls = n;
    return n;
}

/* ---- late callers ---- */

static int by_lost(const void *x, const void *y)
{
    const struct tt_profile_late *a = x, *b = y;

    if (a->lost_ns != b->lost_ns)
        return a->lost_ns > b->lost_ns ? -1 : 1;
    return compare_u64((uint64_t)a->comm << 32 | a->rank, (uint64_t)b->comm << 32 | b->rank);
}

/* Counts the last callers; late[nlocals] is in the order of tt_dumps.locals, known[ncomms] the
 * operations whose last caller is known. */
static void count_late(struct tt_profile *p, const struct tt_instances *in,
                       struct tt_profile_late *late, uint64_t *known)
{
    const struct tt_dumps *d = in->d;

    for (uint32_t i = 0; i < in->n; i++) {
        const struct tt_instance *x = &in->list[i];
        const struct tt_dumps_local *l;
        double lost = 0;

        p->ninstances++;
        if (x->last == TT_DUMPS_NONE)
            continue;
        p->nknown++;
        known[x->comm]++;
        for (uint32_t k = 0; k < x->n; k++)
            lost += (double)tt_instances_waited(in, in->order[x->first + k]);
        l = tt_dumps_local_of(d, x->comm, d->ops[x->last].rank);
        if (lost > 0 && l) {
            late[l - d->locals].times++;
            late[l - d->locals].lost_ns += lost;
        }
    }
}

static bool make_late(struct tt_profile *p, const struct tt_instances *in)
{
    const struct tt_dumps *d = in->d;
    struct tt_profile_late *late = calloc(d->nlocals + 1, sizeof *late);
    uint64_t *known = calloc((size_t)d->ncomms + 1, sizeof *known);

    p->late = late;
    if (!late || !known) {
        free(known);
        return false;
    }
    count_late(p, in, late, known);
    for (size_t i = 0; i < d->nlocals; i++)
        if (late[i].times > 0) {
            late[p->nlate] = late[i];
            late[p->nlate].comm = d->locals[i].comm;
            late[p->nlate].rank = d->locals[i].rank;
            late[p->nlate++].of = known[d->locals[i].comm];
        }
    qsort(late, p->nlate, sizeof *late, by_lost);
    free(known);
    return true;
}

tutti_status tt_profile_init(struct tt_profile *p, const struct tt_instances *in)
{
    uint32_t *order = malloc((in->d->nops + 1) * sizeof *order);
    int64_t *values = malloc((in->d->nops + 1) * sizeof *values);
    bool ok = order && values;

    *p = (struct tt_profile){ .nrows = 0 };
    if (ok)
        ok = make_rows(p, in, order, list_completed(p, in, order), values) && make_late(p, in);
    free(order);
    free(values);
    if (ok)
        return TUTTI_OK;
    tt_profile_fini(p);
    return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for %zu operations", in->d->nops);
}

void tt_profile_fini(struct tt_profile *p)
{
    free(p->rows);
    free(p->late);
    *p = (struct tt_profile){ .nrows = 0 };
}
