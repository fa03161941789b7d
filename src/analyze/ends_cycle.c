/* Cycles of waits over several operations: ranks called them in different orders. */
#include <stdlib.h>

#include "analyze/ends.h"

/* Numbers of ranks that made one of two calls first. */
struct votes {
    uint32_t nfirst, nsecond;
};

/* Returns whether `other` is the same call as `op` in the program of another rank: in the same
 * communicator, or, if that rank is no member of it, in one with the same name. */
static bool is_counterpart(const struct tt_waits *w, const struct tt_dumps_op *op,
                           const struct tt_dumps_op *other)
{
    const struct tt_dumps_comm *a = &w->d->comms[op->comm], *b = &w->d->comms[other->comm];

    return op->class == other->class && op->kind == other->kind && op->tag == other->tag &&
           (op->comm == other->comm || (a->name != TT_INTERN_EMPTY && a->name == b->name &&
                                        !tt_dumps_local_of(w->d, op->comm, other->rank)));
}

/* Finds the positions of two calls in the records of a rank, in the order of its calls. `knows`:
 * the rank made the second call in this or an earlier iteration; false if the call can be on
 * several communicators with that name. */
static void find_calls(const struct tt_waits *w, uint32_t rank, const struct tt_dumps_op *first,
                       const struct tt_dumps_op *second, uint32_t *at_first, uint32_t *at_second,
                       bool *knows)
{
    const struct tt_dumps_rank *r = &w->d->ranks[rank];
    uint32_t of = TT_DUMPS_NONE;
    bool several = false;

    *at_first = *at_second = UINT32_MAX;
    *knows = false;
    for (uint32_t k = 0; k < r->nops; k++) {
        const struct tt_dumps_op *op = &w->d->ops[r->ops_first + k];

        if (tt_waits_is_after(w, rank, op->called))
            continue;
        if (op->comm == first->comm && op->seq == first->seq && op->class == first->class)
            *at_first = k;
        if (!is_counterpart(w, second, op))
            continue;
        several |= *knows && op->comm != of;
        of = op->comm;
        *knows = true;
        if (op->seq == second->seq)
            *at_second = k;
    }
    if (several) {
        *knows = false;
        *at_second = UINT32_MAX;
    }
}

/* Compares the order of two calls on all ranks of the first call's communicator. `names` (may be
 * NULL): ranks that made the second call first are added as culprits. */
static struct votes count_votes(const struct tt_ends *e, const struct tt_dumps_op *first,
                                const struct tt_dumps_op *second, struct tt_diagnosis *names)
{
    const struct tt_dumps *d = e->w->d;
    const struct tt_dumps_comm *c = &d->comms[first->comm];
    struct votes v = { 0, 0 };

    for (uint32_t k = 0; k < c->nlocals; k++) {
        const uint32_t rank = d->locals[d->by_comm[c->locals_first + k]].rank;
        uint32_t at_first, at_second;
        bool knows;

        if (!d->ranks[rank].is_complete)
            continue;
        find_calls(e->w, rank, first, second, &at_first, &at_second, &knows);
        v.nfirst += knows && at_first < at_second;
        v.nsecond += at_second < at_first;
        if (names && at_second < at_first)
            tt_ends_culprit(names, rank);
    }
    return v;
}

/* Returns the first edge of a node within its component, or NONE. */
static uint32_t edge_within(const struct tt_waits *w, uint32_t node)
{
    uint32_t to;

    for (uint32_t k = 0; (to = tt_waits_edge(w, node, k)) != TT_DUMPS_NONE; k++)
        if (w->component[to] == w->component[node])
            return to;
    return TT_DUMPS_NONE;
}

/* Follows edges until a node repeats; returns that node. `steps` bounds the number of edges. */
static uint32_t find_repeat(const struct tt_waits *w, uint32_t node, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++)
        node = edge_within(w, node);        /* after `steps` edges the node is on the cycle */
    return node;
}

/* Lists the records that precede an instance or a rank on the cycle. */
static void list_cycle(const struct tt_waits *w, uint32_t start, struct tt_diagnosis *x)
{
    uint32_t node = start;

    do {
        const uint32_t to = edge_within(w, node);

        if (tt_waits_is_record(w, node) && !tt_waits_is_record(w, to)) {
            if (x->ncycle < TT_DIAGNOSIS_CYCLE) {
                x->cycle[x->ncycle].op = w->records[node - w->d->nranks].op;
                x->cycle[x->ncycle].rank = w->d->ops[x->cycle[x->ncycle].op].rank;
            }
            x->ncycle++;
        }
        node = to;
    } while (node != start);
}

static void describe_cycle(const struct tt_waits *w, struct tt_diagnosis *x)
{
    char a[96], b[96];

    for (uint32_t i = 0; i < x->ncycle && i < 4 && i < TT_DIAGNOSIS_CYCLE; i++) {
        const uint32_t next = i + 1 < x->ncycle && i + 1 < TT_DIAGNOSIS_CYCLE ? i + 1 : 0;

        tt_ends_evidence(x, "rank %u waits in %s for rank %u, which is in %s", x->cycle[i].rank,
                         tt_diagnosis_op_words(w->d, &w->d->ops[x->cycle[i].op], a, sizeof a),
                         x->cycle[next].rank,
                         tt_diagnosis_op_words(w->d, &w->d->ops[x->cycle[next].op], b, sizeof b));
    }
}

/* Finds the rank at fault. Each rank of the cycle has called `second` before `first`. It is at
 * fault if more ranks made the two calls in the opposite order. */
static void find_odd(const struct tt_ends *e, struct tt_diagnosis *x)
{
    const uint32_t n = x->ncycle < TT_DIAGNOSIS_CYCLE ? x->ncycle : TT_DIAGNOSIS_CYCLE;
    const struct tt_dumps_op *ops = e->w->d->ops;

    for (uint32_t i = 0; i < n; i++) {
        const struct tt_dumps_op *first = &ops[x->cycle[i].op],
                                 *second = &ops[x->cycle[(i + 1) % n].op];
        struct votes v;

        if (first->class != TT_OP_COLLECTIVE)
            continue;
        v = count_votes(e, first, second, NULL);
        if (v.nsecond == 0 || v.nfirst <= v.nsecond)
            continue;
        tt_ends_evidence(x,
                         "%u rank%s made these calls in the other order than "
                         "rank %u",
                         v.nfirst, v.nfirst == 1 ? "" : "s", x->cycle[(i + 1) % n].rank);
        count_votes(e, first, second, x);
        x->op = x->cycle[i].op;
        x->since = second->called;
        return;
    }
    tt_ends_evidence(x, "no order has a majority of the ranks: any of them may be wrong");
}

void tt_ends_cycle(const struct tt_ends *e, const uint32_t *members, uint32_t n,
                   struct tt_diagnosis *x)
{
    const struct tt_waits *w = e->w;

    for (uint32_t i = 0; i < n; i++)
        if (tt_waits_is_rank(w, members[i]) && tt_ends_process(e, members[i], x))
            return;
    for (uint32_t i = 0; i < n; i++)
        if (tt_waits_is_rank(w, members[i]) && w->young[members[i]] != TT_DUMPS_NONE) {
            tt_ends_young(e, members[i], x);
            return;
        }
    x->kind = TT_DIAGNOSIS_ORDER;
    list_cycle(w, find_repeat(w, members[0], n), x);
    if (x->ncycle == 0) {
        x->kind = TT_DIAGNOSIS_UNKNOWN;
        return;
    }
    x->op = x->cycle[0].op;
    describe_cycle(w, x);
    find_odd(e, x);
}
