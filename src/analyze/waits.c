#include "analyze/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/components.h"
#include "analyze/grow.h"
#include "analyze/p2p.h"
#include "base/status.h"

#define MEMBERS_VISITED_MAX (1ull << 28)    /* of all communicators: bounds the time */

/* ---- the time of the first failure ---- */

/* Returns whether a later operation of the same rank and communicator completed: then the
 * communicator was still usable. */
static bool completed_later(const struct tt_dumps *d, const struct tt_dumps_rank *r, uint32_t i)
{
    const struct tt_dumps_op *op = &d->ops[r->ops_first + i];

    for (uint32_t k = i + 1; k < r->nops && k < i + TT_DUMPS_KEPT; k++) {
        const struct tt_dumps_op *later = &d->ops[r->ops_first + k];

        if (later->comm == op->comm && !later->is_open)
            return true;
    }
    return false;
}

static void find_failure(struct tt_waits *w)
{
    const struct tt_dumps *d = w->d;
    int64_t first_dump = INT64_MAX, first_failure = INT64_MAX;

    for (uint32_t i = 0; i < d->nranks; i++) {
        const struct tt_dumps_rank *r = &d->ranks[i];
        bool is_in_any = false;

        if (!r->has_dump || !r->has_clock)
            continue;
        for (uint32_t k = 0; k < r->nops; k++) {
            const struct tt_dumps_op *op = &d->ops[r->ops_first + k];

            is_in_any |= op->is_open;
            if (op->is_open && op->ended != TT_DUMPS_NEVER && op->ended < first_failure &&
                !completed_later(d, r, k))
                first_failure = op->ended;
        }
        if (is_in_any && r->now != TT_DUMPS_NEVER && r->now < first_dump)
            first_dump = r->now;
    }
    w->has_failure = first_failure != INT64_MAX;
    w->at = w->has_failure ? first_failure : first_dump != INT64_MAX ? first_dump : TT_DUMPS_NEVER;
}

bool tt_waits_is_after(const struct tt_waits *w, uint32_t rank, int64_t t)
{
    const struct tt_dumps_rank *r = &w->d->ranks[rank];
    int64_t limit;

    return w->has_failure && r->has_clock && t != TT_DUMPS_NEVER &&
           !__builtin_add_overflow(w->at, 2 * (r->error_ns < INT64_MAX / 4 ? r->error_ns : 0),
                                   &limit) &&
           t > limit;
}

/* Returns how long an incomplete operation, or the application's wait for it, had lasted at the
 * dump of its rank. Returns infinity if it failed, or if the time is unknown. */
static double age_of(const struct tt_waits *w, const struct tt_dumps_op *op)
{
    const int64_t now = w->d->ranks[op->rank].now;

    return op->ended != TT_DUMPS_NEVER || op->called == TT_DUMPS_NEVER || now == TT_DUMPS_NEVER
               ? INFINITY
               : (double)now - (double)tt_waits_since(op);
}

/* Returns whether an operation is young. Different arguments prove a fault at any age. */
static bool is_young(const struct tt_waits *w, const struct tt_dumps_op *op)
{
    return w->d->hung_ns > 0 && op->is_open && age_of(w, op) < (double)w->d->hung_ns &&
           !(w->in_mismatch && w->in_mismatch[op - w->d->ops]);
}

static void find_young(struct tt_waits *w)
{
    for (uint32_t i = 0; i < w->d->nranks; i++) {
        const struct tt_dumps_rank *r = &w->d->ranks[i];

        w->young[i] = TT_DUMPS_NONE;
        for (uint32_t k = 0; k < r->nops; k++)
            if (is_young(w, &w->d->ops[r->ops_first + k]))
                w->young[i] = (uint32_t)(r->ops_first + k);
    }
}

/* Returns whether an operation was incomplete at the time of the first failure. Young operations
 * are included only while operations with different arguments are searched. */
static bool is_record(const struct tt_waits *w, const struct tt_dumps_op *op)
{
    return !tt_waits_is_after(w, op->rank, op->called) && (w->has_young || !is_young(w, op)) &&
           (op->is_open || tt_waits_is_after(w, op->rank, op->ended));
}

/* ---- records and instances ---- */

static int compare_u64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static bool is_of_all(const struct tt_dumps_op *op)
{
    return op->class == TT_OP_COLLECTIVE || op->class == TT_OP_SETUP;
}

static uint32_t source_of(const struct tt_dumps_op *op)
{
    return is_of_all(op) ? 0 : op->is_send ? op->rank : op->peer;
}

static uint32_t target_of(const struct tt_dumps_op *op)
{
    return is_of_all(op) ? 0 : op->is_send ? op->peer : op->rank;
}

/* Compares the operations of two records: 0 if they have the same instance. One-sided operations
 * and receives from any rank have no matching call. */
static int compare_instance(const struct tt_dumps_op *a, const struct tt_dumps_op *b)
{
    int c = compare_u64(a->comm, b->comm);

    c = c ? c : compare_u64(a->class, b->class);
    c = c ? c : compare_u64(a->seq, b->seq);
    c = c ? c : compare_u64(source_of(a), source_of(b));
    c = c ? c : compare_u64(target_of(a), target_of(b));
    if (a->class == TT_OP_COLLECTIVE)
        return c;
    c = c ? c : compare_u64((uint64_t)a->tag, (uint64_t)b->tag);
    if (a->class == TT_OP_SETUP)
        return c ? c : compare_u64(a->kind, b->kind);
    if (!c && (a->class == TT_OP_ONE_SIDED || a->peer == TT_DUMPS_NONE)) {
        c = compare_u64(a->rank, b->rank);
        c = c ? c : compare_u64(a->number, b->number);
    }
    return c;
}

static int by_instance(const void *a, const void *b, void *arg)
{
    const struct tt_waits *w = arg;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const int c = compare_instance(tt_waits_op(w, x), tt_waits_op(w, y));

    return c ? c : compare_u64(x, y);
}

static bool is_waited(const struct tt_waits *w, const struct tt_dumps_op *op)
{
    return op->waited != TT_DUMPS_NEVER && !tt_waits_is_after(w, op->rank, op->waited);
}

/* Adds the records of rank i with this `waited`, beginning with index n; only counts them before
 * w->records is allocated. Returns the index after the last one. */
static uint32_t list_records_of(struct tt_waits *w, uint32_t i, bool waited, uint32_t n)
{
    const struct tt_dumps_rank *r = &w->d->ranks[i];

    for (uint32_t k = 0; k < r->nops; k++) {
        const struct tt_dumps_op *op = &w->d->ops[r->ops_first + k];

        if (!is_record(w, op) || is_waited(w, op) != waited)
            continue;
        if (w->records)
            w->records[n] = (struct tt_waits_record){ .op = (uint32_t)(r->ops_first + k),
                                                      .target = TT_DUMPS_NONE,
                                                      .is_waited = waited };
        n++;
    }
    return n;
}

/* Counts the records of each rank, and lists them after w->records is allocated. */
static void list_records(struct tt_waits *w)
{
    const struct tt_dumps *d = w->d;
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->nranks; i++) {
        const uint32_t first = n;

        n = list_records_of(w, i, true, n);
        if (w->records) {
            w->rank_first[i] = first;
            w->nwaited[i] = n - first;
        }
        n = list_records_of(w, i, false, n);
    }
    if (w->records)
        w->rank_first[d->nranks] = n;
    w->nrecords = n;
}

static void list_instances(struct tt_waits *w)
{
    for (uint32_t i = 0; i < w->nrecords; i++)
        w->by_instance[i] = i;
    qsort_r(w->by_instance, w->nrecords, sizeof *w->by_instance, by_instance, w);
    for (uint32_t i = 0; i < w->nrecords; i++) {
        const uint32_t record = w->by_instance[i];

        if (i == 0 ||
            compare_instance(tt_waits_op(w, record), tt_waits_op(w, w->by_instance[i - 1])))
            w->instances[w->ninstances++] =
                (struct tt_waits_instance){ .first = i, .previous = TT_DUMPS_NONE };
        w->instances[w->ninstances - 1].n++;
        w->records[record].instance = w->ninstances - 1;
    }
}

const struct tt_dumps_op *tt_waits_op(const struct tt_waits *w, uint32_t record)
{
    return &w->d->ops[w->records[record].op];
}

uint32_t tt_waits_record_of(const struct tt_waits *w, uint32_t instance, uint32_t rank)
{
    const struct tt_waits_instance *o = &w->instances[instance];
    uint32_t low = o->first, high = o->first + o->n;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const uint32_t at = tt_waits_op(w, w->by_instance[middle])->rank;

        if (at == rank)
            return w->by_instance[middle];
        if (at < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return TT_DUMPS_NONE;
}

/* ---- arguments ---- */

static bool has_own_counts(const char *kind)
{
    const size_t n = strlen(kind);

    return (n > 0 && kind[n - 1] == 'v') || strstr(kind, "v_dynamic");
}

bool tt_waits_same(const struct tt_waits *w, const struct tt_dumps_op *a,
                   const struct tt_dumps_op *b)
{
    if (a->class == TT_OP_SETUP)
        return true;            /* the collectives inside it compare the arguments */
    if (a->class == TT_OP_P2P) {
        const struct tt_dumps_op *send = a->is_send ? a : b, *recv = a->is_send ? b : a;

        return a->is_send == b->is_send || send->bytes <= recv->bytes;
    }
    return a->kind == b->kind && a->type == b->type && a->redop == b->redop && a->root == b->root &&
           (a->algo == b->algo || a->algo == TT_INTERN_EMPTY || b->algo == TT_INTERN_EMPTY) &&
           (a->count == b->count || has_own_counts(tt_dumps_text(w->d, a->kind)));
}

static void compare_arguments(struct tt_waits *w)
{
    for (uint32_t i = 0; i < w->ninstances; i++) {
        struct tt_waits_instance *o = &w->instances[i];
        const struct tt_dumps_op *first = tt_waits_op(w, w->by_instance[o->first]);

        for (uint32_t k = 1; k < o->n && !o->differs; k++)
            o->differs = !tt_waits_same(w, first, tt_waits_op(w, w->by_instance[o->first + k]));
    }
}

/* Sets in_mismatch from the instances of all operations, young or not. */
static void mark_mismatches(struct tt_waits *w)
{
    for (uint32_t i = 0; i < w->nrecords; i++)
        w->in_mismatch[w->records[i].op] = w->instances[w->records[i].instance].differs;
}

/* ---- ranks without the call ---- */

/* Counts calls. Calls after the first failure are ignored: another rank had failed before. */
static void count_calls(struct tt_waits *w)
{
    const struct tt_dumps *d = w->d;

    for (size_t i = 0; i < d->nlocals; i++)
        w->ncalled[i] = d->locals[i].ncalled;
    for (uint32_t r = 0; w->has_failure && r < d->nranks; r++)
        for (uint32_t k = 0; k < d->ranks[r].nops; k++) {
            const struct tt_dumps_op *op = &d->ops[d->ranks[r].ops_first + k];
            const struct tt_dumps_local *l;

            if (op->class != TT_OP_COLLECTIVE || !tt_waits_is_after(w, r, op->called))
                continue;
            l = tt_dumps_local_of(d, op->comm, r);
            if (l && w->ncalled[l - d->locals] > op->seq)
                w->ncalled[l - d->locals] = op->seq;
        }
}

static uint64_t calls_of(const struct tt_waits *w, uint32_t comm, uint32_t rank)
{
    const struct tt_dumps_local *l = tt_dumps_local_of(w->d, comm, rank);

    return l ? w->ncalled[l - w->d->locals] : 0;
}

static bool has_setup_call(const struct tt_dumps *d, uint32_t rank, const struct tt_dumps_op *op)
{
    const struct tt_dumps_rank *r = &d->ranks[rank];

    for (uint32_t k = 0; k < r->nops; k++) {
        const struct tt_dumps_op *other = &d->ops[r->ops_first + k];

        if (other->class == op->class && other->comm == op->comm && other->kind == op->kind &&
            other->seq == op->seq && other->tag == op->tag)
            return true;
    }
    return false;
}

bool tt_waits_called(const struct tt_waits *w, uint32_t rank, const struct tt_dumps_op *op)
{
    if (op->class == TT_OP_COLLECTIVE)
        return calls_of(w, op->comm, rank) > op->seq;
    if (op->class == TT_OP_P2P && op->peer != TT_DUMPS_NONE)
        return rank == op->rank ||
               tt_dumps_p2p_called(w->d, rank, op->comm, op->rank, op->tag, !op->is_send) > op->seq;
    return rank == op->rank || (op->class == TT_OP_SETUP && has_setup_call(w->d, rank, op));
}

bool tt_waits_has_ended(const struct tt_waits *w, uint32_t record)
{
    const struct tt_dumps_op *op = tt_waits_op(w, record);
    const uint32_t p = op->waits_rank;

    return w->d->hung_ns > 0 && !w->has_failure && op->class != TT_OP_ONE_SIDED &&
           p != TT_DUMPS_NONE && p != op->rank && w->d->ranks[p].is_complete &&
           w->young[p] == TT_DUMPS_NONE &&
           tt_waits_record_of(w, w->records[record].instance, p) == TT_DUMPS_NONE &&
           tt_waits_called(w, p, op);
}

uint8_t tt_waits_reason(const struct tt_waits *w, uint32_t record)
{
    const struct tt_dumps_op *op = tt_waits_op(w, record);
    const uint32_t p = op->waits_rank;
    bool is_called;

    if (p == TT_DUMPS_NONE || p == op->rank || op->class == TT_OP_ONE_SIDED ||
        op->waits_for == TT_WAIT_COMPLETION || op->waits_for == TT_WAIT_MATCH)
        return op->waits_for;
    is_called = tt_waits_record_of(w, w->records[record].instance, p) != TT_DUMPS_NONE ||
                tt_waits_called(w, p, op);
    if (is_called)
        return op->waits_for == TT_WAIT_START ? TT_WAIT_DATA : op->waits_for;
    return w->d->ranks[p].is_complete ? TT_WAIT_START : op->waits_for;
}

static bool add_missing(struct tt_waits *w, struct tt_waits_instance *o, uint32_t rank)
{
    if (!tt_grow(&w->missing, &w->cap_missing, w->nmissing, sizeof *w->missing))
        return false;
    w->missing[w->nmissing++] = rank;
    o->nmissing++;
    return true;
}

/* Lists the members of a communicator with at least `from` and at most `seq` calls. `sure`: only
 * those with a complete dump; otherwise only those without. */
static bool list_missing(struct tt_waits *w, uint32_t i, uint64_t from, bool sure)
{
    struct tt_waits_instance *o = &w->instances[i];
    const struct tt_dumps_op *op = tt_waits_op(w, w->by_instance[o->first]);
    const struct tt_members *m = &w->d->comms[op->comm].members;
    uint32_t range = 0, k = 0, rank;

    while (tt_members_next(m, &range, &k, &rank)) {
        const uint64_t calls = calls_of(w, op->comm, rank);

        if (calls > op->seq || calls < from || w->d->ranks[rank].is_complete != sure)
            continue;
        if (!sure && w->seen_in[rank] == i)
            continue;
        if (!add_missing(w, o, rank))
            return false;
    }
    return true;
}

static bool find_missing_collective(struct tt_waits *w, uint32_t i, uint64_t *visited)
{
    struct tt_waits_instance *o = &w->instances[i];
    const struct tt_dumps_op *op = tt_waits_op(w, w->by_instance[o->first]);
    const struct tt_dumps_op *last =
        i > 0 ? tt_waits_op(w, w->by_instance[w->instances[i - 1].first]) : NULL;
    uint64_t from = 0;

    if (last && last->comm == op->comm && last->class == op->class) {
        const struct tt_waits_instance *p = &w->instances[i - 1];

        o->previous = p->nmissing > 0 ? i - 1 : p->previous;
        from = last->seq + 1;
    }
    *visited += w->d->comms[op->comm].members.n;
    if (*visited > MEMBERS_VISITED_MAX)
        return true;
    if (!list_missing(w, i, from, true))
        return false;
    o->is_proven =
        o->nmissing > 0 || (o->previous != TT_DUMPS_NONE && w->instances[o->previous].is_proven);
    return o->nmissing > 0 || o->previous != TT_DUMPS_NONE || list_missing(w, i, from, false);
}

static bool find_missing(struct tt_waits *w)
{
    uint64_t visited = 0;

    for (uint32_t i = 0; i < w->ninstances; i++) {
        struct tt_waits_instance *o = &w->instances[i];
        const struct tt_dumps_op *op = tt_waits_op(w, w->by_instance[o->first]);

        o->missing_first = (uint32_t)w->nmissing;
        if (op->class == TT_OP_COLLECTIVE && !find_missing_collective(w, i, &visited))
            return false;
        if (op->class == TT_OP_P2P && o->n == 1 && op->peer != TT_DUMPS_NONE &&
            op->peer != op->rank && !tt_waits_called(w, op->peer, op) &&
            !add_missing(w, o, op->peer))
            return false;
        if (op->class == TT_OP_P2P && o->nmissing > 0)
            o->is_proven = w->d->ranks[op->peer].is_complete;
    }
    return true;
}

/* Returns whether others report that a rank is lost, silent, or no longer in the run. */
static bool is_reported(const struct tt_dumps_rank *r)
{
    return r->nlost > 0 || r->nsilent > 0 || r->ndeparted > 0;
}

/* Finds the operations of ranks without a complete dump: other ranks received from them there. */
static void find_seen(struct tt_waits *w)
{
    const struct tt_dumps *d = w->d;

    for (uint32_t r = 0; r < d->nranks; r++)
        w->seen_in[r] = TT_DUMPS_NONE;
    for (uint32_t i = 0; i < w->nrecords; i++) {
        const struct tt_dumps_op *op = tt_waits_op(w, i);

        for (uint32_t k = 0; op->class != TT_OP_ONE_SIDED && k < op->npeers; k++) {
            const struct tt_dumps_peer *p = &d->peers[op->peers_first + k];
            const struct tt_dumps_rank *r = &d->ranks[p->rank];

            if (!r->is_complete && !is_reported(r) && p->received > 0)
                w->seen_in[p->rank] = w->records[i].instance;
        }
    }
}

/* ---- edges ---- */

/* Returns the instance if some ranks have not called it. If this is not proven, the record must
 * also have made no progress. */
static uint32_t target_by_calls(const struct tt_waits *w, const struct tt_dumps_op *op,
                                uint32_t instance)
{
    const struct tt_waits_instance *o = &w->instances[instance];
    const bool moved = op->step > 0 || op->npeers > 0;

    return o->is_proven || (!moved && (o->nmissing > 0 || o->previous != TT_DUMPS_NONE))
               ? tt_waits_node_of_instance(w, instance)
               : TT_DUMPS_NONE;
}

static const struct tt_dumps_peer *peer_in(const struct tt_waits *w, const struct tt_dumps_op *op,
                                           uint32_t rank)
{
    for (uint32_t k = 0; k < op->npeers; k++)
        if (w->d->peers[op->peers_first + k].rank == rank)
            return &w->d->peers[op->peers_first + k];
    return NULL;
}

/* Returns whether the peer that `op` waits for sent data long ago that did not arrive. Then the
 * chain of waits ends here, independent of the peer's own wait. */
static bool has_gap(const struct tt_waits *w, const struct tt_dumps_op *op,
                    const struct tt_dumps_op *from)
{
    const struct tt_dumps_peer *in = peer_in(w, op, from->rank), *out = peer_in(w, from, op->rank);
    const int64_t seen = from->ended != TT_DUMPS_NEVER ? from->ended : w->d->ranks[from->rank].now;

    if (!out || out->sent <= (in ? in->received : 0) || op->waits_for == TT_WAIT_COMPLETION ||
        op->waits_for == TT_WAIT_CREDIT || op->waits_for == TT_WAIT_CTS)
        return false;
    if (out->last_out == TT_DUMPS_NEVER || seen == TT_DUMPS_NEVER || from->called == TT_DUMPS_NEVER)
        return false;
    return (double)seen - (double)out->last_out > 0.1 * ((double)seen - (double)from->called);
}

/* Returns the node for which a record waits if the awaited rank has no complete dump. */
static uint32_t target_without_dump(const struct tt_waits *w, uint32_t rank, uint32_t instance)
{
    const struct tt_dumps_rank *r = &w->d->ranks[rank];

    return w->instances[instance].is_proven && !is_reported(r)
               ? tt_waits_node_of_instance(w, instance)
               : rank;
}

/* Returns the node for which a record waits. */
static uint32_t find_target(const struct tt_waits *w, uint32_t i)
{
    const struct tt_dumps_op *op = tt_waits_op(w, i);
    const uint32_t instance = w->records[i].instance, p = op->waits_rank;
    uint32_t other;

    if (w->instances[instance].differs)
        return tt_waits_node_of_instance(w, instance);
    if (p == TT_DUMPS_NONE || p == op->rank)
        return target_by_calls(w, op, instance);
    other = tt_waits_record_of(w, instance, p);
    if (other != TT_DUMPS_NONE && op->class != TT_OP_ONE_SIDED)
        return has_gap(w, op, tt_waits_op(w, other)) ? TT_DUMPS_NONE
                                                     : tt_waits_node_of_record(w, other);
    if (!w->d->ranks[p].is_complete)
        return target_without_dump(w, p, instance);
    if (w->young[p] != TT_DUMPS_NONE)
        return p;               /* perhaps in this very operation */
    if (op->class == TT_OP_ONE_SIDED)
        return op->waits_for == TT_WAIT_COMPLETION ? TT_DUMPS_NONE : p;
    return tt_waits_called(w, p, op) ? TT_DUMPS_NONE : p;
}

static void count_waiting(struct tt_waits *w)
{
    for (uint32_t r = 0; r < w->d->nranks; r++) {
        const uint32_t end = w->end_of[w->component[r]];

        w->nwaiting[end] += w->nwaited[r] > 0;
        for (uint32_t k = 0; k < w->nwaited[r]; k++)
            w->waited_ns[end] =
                fmax(w->waited_ns[end], age_of(w, tt_waits_op(w, w->rank_first[r] + k)));
    }
}

/* ---- creation and destruction ---- */

static void free_instances(struct tt_waits *w)
{
    free(w->records);
    free(w->rank_first);
    free(w->nwaited);
    free(w->by_instance);
    free(w->instances);
    w->records = NULL;
    w->rank_first = w->nwaited = w->by_instance = NULL;
    w->instances = NULL;
    w->ninstances = 0;
}

/* Lists the records and instances. Returns false without memory. */
static bool list_all(struct tt_waits *w)
{
    const size_t nranks = w->d->nranks;

    list_records(w);
    w->records = calloc((size_t)w->nrecords + 1, sizeof *w->records);
    w->rank_first = calloc(nranks + 1, sizeof *w->rank_first);
    w->nwaited = calloc(nranks + 1, sizeof *w->nwaited);
    w->by_instance = calloc((size_t)w->nrecords + 1, sizeof *w->by_instance);
    w->instances = calloc((size_t)w->nrecords + 1, sizeof *w->instances);
    if (!w->records || !w->rank_first || !w->nwaited || !w->by_instance || !w->instances)
        return false;
    list_records(w);
    list_instances(w);
    compare_arguments(w);
    return true;
}

/* Finds the operations with different arguments, including young ones. */
static bool find_mismatches(struct tt_waits *w)
{
    bool listed;

    w->in_mismatch = calloc(w->d->nops + 1, sizeof *w->in_mismatch);
    if (!w->in_mismatch)
        return false;
    w->has_young = true;
    listed = list_all(w);
    w->has_young = false;
    if (listed)
        mark_mismatches(w);
    free_instances(w);
    return listed;
}

static bool allocate(struct tt_waits *w)
{
    const size_t nranks = w->d->nranks;

    w->young = calloc(nranks + 1, sizeof *w->young);
    w->ncalled = calloc(w->d->nlocals + 1, sizeof *w->ncalled);
    w->seen_in = calloc(nranks + 1, sizeof *w->seen_in);
    return w->young && w->ncalled && w->seen_in;
}

static bool build(struct tt_waits *w)
{
    find_failure(w);
    if (!allocate(w) || (w->d->hung_ns > 0 && !find_mismatches(w)))
        return false;
    find_young(w);
    if (!list_all(w))
        return false;
    count_calls(w);
    find_seen(w);
    if (!find_missing(w))
        return false;
    for (uint32_t i = 0; i < w->nrecords; i++)
        w->records[i].target = find_target(w, i);
    w->nnodes = w->d->nranks + w->nrecords + w->ninstances;
    if (!tt_waits_components(w))
        return false;
    w->nwaiting = calloc((size_t)w->ncomponents + 1, sizeof *w->nwaiting);
    w->waited_ns = calloc((size_t)w->ncomponents + 1, sizeof *w->waited_ns);
    if (!w->nwaiting || !w->waited_ns)
        return false;
    count_waiting(w);
    return true;
}

tutti_status tt_waits_init(struct tt_waits *w, const struct tt_dumps *d)
{
    *w = (struct tt_waits){ .d = d };
    if (build(w))
        return TUTTI_OK;
    tt_waits_fini(w);
    return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for %zu operations of %u ranks",
                   d->nops, d->nranks);
}

void tt_waits_fini(struct tt_waits *w)
{
    free(w->in_mismatch);
    free_instances(w);
    free(w->missing);
    free(w->ncalled);
    free(w->seen_in);
    free(w->component);
    free(w->end_of);
    free(w->nwaiting);
    free(w->waited_ns);
    free(w->young);
    free(w->is_end);
    *w = (struct tt_waits){ .d = NULL };
}
