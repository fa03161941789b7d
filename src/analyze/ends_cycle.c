/* Cycles of waits over several operations: ranks called them in different orders. */
#include <stdlib.h>

#include "analyze/ends.h"

/* Counts of the ranks of both communicators that made one of two calls, but not the other. */
struct votes {
    uint32_t nfirst, nsecond;
};

/* `names`: the ranks that called `second` but not `first` become culprits. */
static struct votes count_votes(const struct tt_ends *e, const struct tt_dumps_op *first,
                                const struct tt_dumps_op *second, struct tt_diagnosis *names)
{
    const struct tt_dumps *d = e->w->d;
    const struct tt_dumps_comm *a = &d->comms[first->comm], *b = &d->comms[second->comm];
    const struct tt_dumps_comm *smaller = a->nlocals < b->nlocals ? a : b;
    struct votes v = { 0, 0 };

    for (uint32_t k = 0; k < smaller->nlocals; k++) {
        const uint32_t rank = d->locals[d->by_comm[smaller->locals_first + k]].rank;
        bool in_first, in_second;

        if (!d->ranks[rank].is_complete || !tt_dumps_local_of(d, first->comm, rank) ||
            !tt_dumps_local_of(d, second->comm, rank))
            continue;
        in_first = tt_waits_called(e->w, rank, first);
        in_second = tt_waits_called(e->w, rank, second);
        v.nfirst += in_first && !in_second;
        v.nsecond += in_second && !in_first;
        if (names && in_second && !in_first)
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

/* Follows edges until a node repeats; returns that node. `steps` bounds the walk. */
static uint32_t find_repeat(const struct tt_waits *w, uint32_t node, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++)
        node = edge_within(w, node);        /* after so many steps it is on the cycle */
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

/* Each rank of the cycle has called `second` before `first`. It is at fault if more ranks did it in
 * the other order. */
static void find_odd(const struct tt_ends *e, struct tt_diagnosis *x)
{
    const uint32_t n = x->ncycle < TT_DIAGNOSIS_CYCLE ? x->ncycle : TT_DIAGNOSIS_CYCLE;
    const struct tt_dumps_op *ops = e->w->d->ops;

    for (uint32_t i = 0; i < n; i++) {
        const struct tt_dumps_op *first = &ops[x->cycle[i].op],
                                 *second = &ops[x->cycle[(i + 1) % n].op];
        struct votes v;

        if (first->class != TT_OP_COLLECTIVE || second->class != TT_OP_COLLECTIVE)
            continue;
        v = count_votes(e, first, second, NULL);
        if (v.nsecond == 0 || v.nfirst <= v.nsecond)
            continue;
        tt_ends_evidence(x,
                         "%u rank%s of both communicators called them in the other order than "
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
