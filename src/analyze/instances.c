#include "analyze/instances.h"

#include <stdlib.h>

#include "base/status.h"

/* ---- order ---- */

static uint32_t sender_of(const struct tt_dumps_op *op)
{
    return op->is_send ? op->rank : op->peer;
}

static uint32_t receiver_of(const struct tt_dumps_op *op)
{
    return op->is_send ? op->peer : op->rank;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Compares the instances of two records. */
static int compare_keys(const struct tt_dumps_op *a, const struct tt_dumps_op *b)
{
    int c = compare_u64(a->comm, b->comm);

    c = c ? c : compare_u64(a->class, b->class);
    if (!c && a->class == TT_OP_P2P) {
        c = compare_u64(sender_of(a), sender_of(b));
        c = c ? c : compare_u64(receiver_of(a), receiver_of(b));
        c = c ? c : compare_u64((uint64_t)a->tag, (uint64_t)b->tag);
    }
    return c ? c : compare_u64(a->seq, b->seq);
}

static int compare_records(const void *x, const void *y, void *arg)
{
    const struct tt_dumps *d = arg;
    const uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct tt_dumps_op *a = &d->ops[i], *b = &d->ops[k];
    int c = compare_keys(a, b);

    if (!c && a->class == TT_OP_P2P)
        c = (int)b->is_send - (int)a->is_send;
    c = c ? c : compare_u64(a->rank, b->rank);
    return c ? c : compare_u64(i, k);
}

static bool is_grouped(const struct tt_dumps_op *op)
{
    return op->class == TT_OP_COLLECTIVE || (op->class == TT_OP_P2P && op->peer != TT_DUMPS_NONE);
}

/* ---- one instance ---- */

static uint32_t members_of(const struct tt_instances *in, const struct tt_instance *x)
{
    return x->is_message ? 2 : in->d->comms[x->comm].members.n;
}

/* Sets the latest end, and the last caller if it is known. */
static void find_times(const struct tt_instances *in, struct tt_instance *x)
{
    int64_t before = TT_DUMPS_NEVER, errors[2] = { 0, 0 };
    bool is_known = x->n >= 2 && x->n == members_of(in, x);

    x->last = in->order[x->first];
    x->last_called = x->ended = TT_DUMPS_NEVER;
    for (uint32_t k = 0; k < x->n; k++) {
        const struct tt_dumps_op *op = &in->d->ops[in->order[x->first + k]];
        const struct tt_dumps_rank *r = &in->d->ranks[op->rank];

        is_known &= r->has_clock && op->called != TT_DUMPS_NEVER;
        if (op->called > x->last_called) {
            before = x->last_called;
            x->last = in->order[x->first + k];
            x->last_called = op->called;
        } else if (op->called > before) {
            before = op->called;
        }
        if (op->ended == TT_DUMPS_NEVER)
            x->ended = INT64_MAX;
        else if (op->ended > x->ended)
            x->ended = op->ended;
        if (r->error_ns > errors[0]) {
            errors[1] = errors[0];
            errors[0] = r->error_ns;
        } else if (r->error_ns > errors[1]) {
            errors[1] = r->error_ns;
        }
    }
    x->ended = x->ended == INT64_MAX ? TT_DUMPS_NEVER : x->ended;
    x->before_last = before;
    x->error_ns = errors[0] < INT64_MAX / 2 ? errors[0] + errors[1] : INT64_MAX;
    if (!is_known)
        x->last = TT_DUMPS_NONE;
}

/* Begins an instance at order[at], and removes duplicate records of a rank. Returns the number of
 * records after it. */
static uint32_t add_instance(struct tt_instances *in, uint32_t at, uint32_t *kept)
{
    const struct tt_dumps_op *first = &in->d->ops[in->order[at]], *before = NULL;
    struct tt_instance *x = &in->list[in->n];

    *x = (struct tt_instance){ .first = *kept,
                               .comm = first->comm,
                               .is_message = first->class == TT_OP_P2P };
    for (; at < in->norder; at++) {
        const struct tt_dumps_op *op = &in->d->ops[in->order[at]];

        if (compare_keys(first, op) != 0)
            break;
        if (before && before->rank == op->rank && before->is_send == op->is_send)
            continue;
        in->of[in->order[at]] = in->n;
        in->order[(*kept)++] = in->order[at];
        x->n++;
        before = op;
    }
    find_times(in, x);
    in->n++;
    return at;
}

tutti_status tt_instances_init(struct tt_instances *in, const struct tt_dumps *d)
{
    uint32_t kept = 0;

    *in = (struct tt_instances){ .d = d };
    in->order = malloc((d->nops + 1) * sizeof *in->order);
    in->list = malloc((d->nops + 1) * sizeof *in->list);
    in->of = malloc((d->nops + 1) * sizeof *in->of);
    if (!in->order || !in->list || !in->of) {
        tt_instances_fini(in);
        return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for %zu operations", d->nops);
    }
    for (size_t i = 0; i < d->nops; i++) {
        in->of[i] = TT_DUMPS_NONE;
        if (is_grouped(&d->ops[i]))
            in->order[in->norder++] = (uint32_t)i;
    }
    qsort_r(in->order, in->norder, sizeof *in->order, compare_records, (void *)d);
    for (uint32_t at = 0; at < in->norder;)
        at = add_instance(in, at, &kept);
    in->norder = kept;
    return TUTTI_OK;
}

void tt_instances_fini(struct tt_instances *in)
{
    free(in->order);
    free(in->list);
    free(in->of);
    *in = (struct tt_instances){ .d = NULL };
}

/* ---- times ---- */

/* Returns a - b, or the maximum. */
static int64_t difference(int64_t a, int64_t b)
{
    int64_t out;

    return __builtin_sub_overflow(a, b, &out) ? INT64_MAX : out;
}

int64_t tt_instances_waited(const struct tt_instances *in, uint32_t op)
{
    const struct tt_dumps_op *o = &in->d->ops[op];
    const struct tt_instance *x;
    int64_t waited;

    if (in->of[op] == TT_DUMPS_NONE)
        return 0;
    x = &in->list[in->of[op]];
    if (x->last == TT_DUMPS_NONE || x->last == op ||
        (o->ended != TT_DUMPS_NEVER && o->ended < x->last_called))
        return 0;
    waited = difference(x->last_called, o->called);
    return waited > x->error_ns ? waited : 0;
}

int64_t tt_instances_transfer(const struct tt_instances *in, uint32_t op)
{
    const struct tt_dumps_op *o = &in->d->ops[op];
    const struct tt_instance *x;

    if (in->of[op] == TT_DUMPS_NONE || o->ended == TT_DUMPS_NEVER)
        return -1;
    x = &in->list[in->of[op]];
    if (x->last == TT_DUMPS_NONE || o->ended < x->last_called)
        return -1;
    return difference(o->ended, x->last_called);
}
