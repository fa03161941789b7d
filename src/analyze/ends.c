#include "analyze/ends.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATE_NS 20e9                    /* dumps of busy processes are at most this late */

static void count_lane(struct tt_ends *e, const struct tt_dumps_lane *lane)
{
    const struct tt_dumps_rank *r = &e->w->d->ranks[lane->rank];

    if (lane->posts <= lane->completions)
        return;
    e->npending[lane->rank]++;
    e->nposted[lane->rank] += lane->last_post != TT_DUMPS_NEVER && r->has_clock &&
                              r->heard != TT_DUMPS_NEVER && lane->last_post > r->heard;
}

bool tt_ends_init(struct tt_ends *e, const struct tt_waits *w)
{
    const struct tt_dumps *d = w->d;

    *e = (struct tt_ends){ .w = w };
    e->nfinds_silent = calloc((size_t)d->nranks + 1, sizeof *e->nfinds_silent);
    e->npending = calloc((size_t)d->nranks + 1, sizeof *e->npending);
    e->nposted = calloc((size_t)d->nranks + 1, sizeof *e->nposted);
    if (!e->nfinds_silent || !e->npending || !e->nposted) {
        tt_ends_fini(e);
        return false;
    }
    for (size_t i = 0; i < d->nreports; i++)
        e->nfinds_silent[d->reports[i].by]++;
    for (size_t i = 0; i < d->nlanes; i++)
        count_lane(e, &d->lanes[i]);
    for (uint32_t r = 0; r < d->nranks; r++)
        e->nisolated += tt_ends_condition(e, r) == TT_CONDITION_ISOLATED;
    return true;
}

void tt_ends_fini(struct tt_ends *e)
{
    free(e->nfinds_silent);
    free(e->npending);
    free(e->nposted);
    *e = (struct tt_ends){ .w = NULL };
}

void tt_ends_evidence(struct tt_diagnosis *x, const char *fmt, ...)
{
    va_list ap;

    if (x->nevidence == TT_DIAGNOSIS_EVIDENCE)
        return;
    va_start(ap, fmt);
    vsnprintf(x->evidence[x->nevidence], sizeof x->evidence[0], fmt, ap);
    va_end(ap);
    tt_diagnosis_trim(x->evidence[x->nevidence++]);
}

void tt_ends_culprit(struct tt_diagnosis *x, uint32_t rank)
{
    for (uint32_t i = 0; i < x->nculprits && i < TT_DIAGNOSIS_CULPRITS; i++)
        if (x->culprits[i] == rank)
            return;
    if (x->nculprits < TT_DIAGNOSIS_CULPRITS)
        x->culprits[x->nculprits] = rank;
    x->nculprits++;
}

const char *tt_ends_span(int64_t from, int64_t to, char out[32])
{
    const double s = 1e-9 * ((double)to - (double)from);

    if (from == TT_DUMPS_NEVER || to == TT_DUMPS_NEVER)
        snprintf(out, 32, "an unknown time");
    else if (s < 0.001)
        snprintf(out, 32, "%.0f us", 1e6 * s);
    else if (s < 1)
        snprintf(out, 32, "%.1f ms", 1e3 * s);
    else
        snprintf(out, 32, "%.1f s", s);
    return out;
}

/* ---- the condition of a process ---- */

/* Returns whether the dump was written about as early as those of other ranks, as far as a busy
 * machine permits. A stopped process writes its dump only when it continues. */
static bool is_on_time(const struct tt_waits *w, const struct tt_dumps_rank *r)
{
    if (!r->has_dump || !r->has_clock || r->now == TT_DUMPS_NEVER || r->gone == TT_DUMPS_NEVER ||
        w->at == TT_DUMPS_NEVER)
        return r->has_dump;
    return (double)r->now - (double)w->at <= LATE_NS ||
           (double)r->now - (double)w->at <= 0.5 * ((double)w->at - (double)r->gone);
}

static bool was_lost_before(const struct tt_waits *w, const struct tt_dumps_rank *r)
{
    return r->nlost > 0 && (r->gone == TT_DUMPS_NEVER || w->at == TT_DUMPS_NEVER ||
                            !w->has_failure || r->gone <= w->at);
}

/* The report of the coordinator has priority: it knows more than the members. */
static enum tt_condition departed_condition(const struct tt_dumps_rank *r)
{
    return r->departed == TT_DEPARTED_DIED     ? TT_CONDITION_DIED
           : r->departed == TT_DEPARTED_SILENT ? TT_CONDITION_STOPPED
                                               : TT_CONDITION_NO_DUMP;
}

enum tt_condition tt_ends_condition(const struct tt_ends *e, uint32_t rank)
{
    const struct tt_dumps_rank *r = &e->w->d->ranks[rank];

    if (!r->is_complete && (r->ndeparted > 0 || r->has_left || r->is_away))
        return departed_condition(r);
    if (!r->is_complete && r->nlost > 0)
        return was_lost_before(e->w, r) ? TT_CONDITION_DIED : TT_CONDITION_NO_DUMP;
    if (r->is_complete && r->nsilent > r->nalive && r->nsilent > 1 &&
        (e->nposted[rank] > 0 || (e->npending[rank] > 0 && is_on_time(e->w, r))))
        return TT_CONDITION_ISOLATED;
    if (r->nsilent > r->nalive && (!r->has_dump || !is_on_time(e->w, r)))
        return TT_CONDITION_STOPPED;
    if (!r->is_complete)
        return TT_CONDITION_NO_DUMP;
    /* it was lost after its dump, but before the others failed */
    if (r->nlost > 0 && was_lost_before(e->w, r) && r->now != TT_DUMPS_NEVER &&
        e->w->at != TT_DUMPS_NEVER && r->now < e->w->at)
        return TT_CONDITION_DIED;
    return TT_CONDITION_WORKS;
}

static void describe_departure(const struct tt_dumps_rank *r, struct tt_diagnosis *x)
{
    static const char *const whys[] = {
        [TT_DEPARTED_DIED] = "its connection closed",
        [TT_DEPARTED_SILENT] = "it sent nothing for longer than the lease",
        [TT_DEPARTED_UNREACHABLE] = "other members could not reach it",
        [TT_DEPARTED_PROTOCOL] = "it violated the protocol",
        [TT_DEPARTED_STATE] = "its shared state did not match",
        [TT_DEPARTED_OTHER] = "the dumps do not show why",
    };

    if (r->ndeparted > 0)
        tt_ends_evidence(x, "the coordinator removed it in epoch %llu (%s), as %u dump%s show%s",
                         (unsigned long long)r->departed_epoch, whys[r->departed], r->ndeparted,
                         r->ndeparted == 1 ? "" : "s", r->ndeparted == 1 ? "s" : "");
    else if (r->has_left)
        tt_ends_evidence(x, "it left the run in order");
    else if (r->is_away)
        tt_ends_evidence(x, "a later view is without it: it left, or its replica group was "
                            "incomplete");
}

static void describe_gone(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x,
                          const char *word, uint32_t n)
{
    const struct tt_dumps_rank *r = &e->w->d->ranks[rank];
    char span[32];

    if (n > 0)
        tt_ends_evidence(x, "%u rank%s report%s rank %u as %s", n, n == 1 ? "" : "s",
                         n == 1 ? "s" : "", rank, word);
    describe_departure(r, x);
    if (r->gone != TT_DUMPS_NEVER && e->w->at != TT_DUMPS_NEVER && r->gone <= e->w->at)
        tt_ends_evidence(x, "the last message of rank %u arrived %s before the %s", rank,
                         tt_ends_span(r->gone, e->w->at, span),
                         e->w->has_failure ? "first failure" : "first dump");
    if (!r->has_dump)
        tt_ends_evidence(x, "rank %u wrote no dump", rank);
    else if (!r->is_complete)
        tt_ends_evidence(x, "the dump of rank %u is incomplete", rank);
    x->since = r->gone;
}

/* Returns a rank that reports `rank` as silent. */
static uint32_t first_reporter(const struct tt_dumps *d, uint32_t rank)
{
    for (size_t i = 0; i < d->nreports; i++)
        if (d->reports[i].about == rank && d->reports[i].state == TT_PEER_SILENT)
            return d->reports[i].by;
    return TT_DUMPS_NONE;
}

/* The NIC of the rank failed. If other ranks are isolated, too, the link between two parts of the
 * job failed; only its ends are known. */
static void isolated(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x)
{
    x->kind = TT_DIAGNOSIS_LINK;
    describe_gone(e, rank, x, "silent", e->w->d->ranks[rank].nsilent);
    tt_ends_evidence(x, "rank %u itself is alive: %u of its lanes have posts without completion",
                     rank, e->npending[rank]);
    if (e->nisolated < 2)
        return;
    x->to = first_reporter(e->w->d, rank);
    tt_ends_evidence(x, "%u other ranks are in the same state", e->nisolated - 1);
}

bool tt_ends_process(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x)
{
    const struct tt_dumps_rank *r = &e->w->d->ranks[rank];

    switch (tt_ends_condition(e, rank)) {
    case TT_CONDITION_DIED:
        x->kind = TT_DIAGNOSIS_DIED;
        describe_gone(e, rank, x, "lost", r->nlost);
        break;
    case TT_CONDITION_STOPPED:
        x->kind = TT_DIAGNOSIS_STOPPED;
        describe_gone(e, rank, x, "silent", r->nsilent);
        break;
    case TT_CONDITION_ISOLATED:
        isolated(e, rank, x);
        break;
    default: return false;
    }
    tt_ends_culprit(x, rank);
    return true;
}

/* ---- a rank in no operation ---- */

/* Returns the time at which the application last called the operation, or ended its wait for it. An
 * operation without a wait may end later. */
static int64_t active_until(const struct tt_waits *w, const struct tt_dumps_op *op)
{
    const bool was_waited = op->waited != TT_DUMPS_NEVER;
    int64_t t = op->called;

    if (was_waited && op->waited > t)
        t = op->waited;
    if (was_waited && op->ended > t && !tt_waits_is_after(w, op->rank, op->ended))
        t = op->ended;
    return t;
}

/* Describes the last operation of a rank. Calls after the failure of another rank are ignored. */
static void describe_last(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x)
{
    const struct tt_dumps *d = e->w->d;
    const struct tt_dumps_rank *r = &d->ranks[rank];
    const struct tt_dumps_op *last = NULL;
    char words[128], span[32];

    for (uint32_t k = 0; k < r->nops; k++) {
        const struct tt_dumps_op *op = &d->ops[r->ops_first + k];
        const int64_t t = active_until(e->w, op);

        if (tt_waits_is_after(e->w, rank, op->called) || t == TT_DUMPS_NEVER || t < x->since)
            continue;
        last = op;
        x->since = t;
    }
    if (last)
        tt_ends_evidence(x, "its last operation was %s, %s before its dump",
                         tt_diagnosis_op_words(d, last, words, sizeof words),
                         tt_ends_span(x->since, r->now, span));
    else
        tt_ends_evidence(x, "rank %u made no call", rank);
}

void tt_ends_young(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x)
{
    const struct tt_dumps_op *op = &e->w->d->ops[e->w->young[rank]];
    const int64_t since = tt_waits_since(op);
    char words[128], span[32];

    x->kind = TT_DIAGNOSIS_UNKNOWN;
    x->at = rank;
    tt_ends_evidence(x, "rank %u has %s %s for only %s, so it may still make progress", rank,
                     since > op->called ? "waited in" : "been in",
                     tt_diagnosis_op_words(e->w->d, op, words, sizeof words),
                     tt_ends_span(since, e->w->d->ranks[rank].now, span));
}

void tt_ends_since(const struct tt_ends *e, uint32_t record, struct tt_diagnosis *x)
{
    const struct tt_dumps_op *op = tt_waits_op(e->w, record);
    char words[128];

    if (tt_ends_process(e, op->waits_rank, x))
        return;
    x->kind = TT_DIAGNOSIS_UNKNOWN;
    x->at = op->waits_rank;
    tt_ends_evidence(x, "rank %u was in %s, too, but its call has ended since", op->waits_rank,
                     tt_diagnosis_op_words(e->w->d, op, words, sizeof words));
}

void tt_ends_rank(const struct tt_ends *e, uint32_t rank, struct tt_diagnosis *x)
{
    const struct tt_dumps *d = e->w->d;
    const struct tt_dumps_rank *r = &d->ranks[rank];
    char span[32];

    if (tt_ends_process(e, rank, x))
        return;
    if (!r->is_complete) {
        x->at = rank;
        x->kind = TT_DIAGNOSIS_UNKNOWN;
        tt_ends_evidence(x,
                         r->has_dump ? "the dump of rank %u is incomplete"
                                     : "rank %u wrote no dump, or it is not among the files",
                         rank);
        describe_departure(r, x);
        if (r->nalive > 0)
            tt_ends_evidence(x, "%u rank%s report%s rank %u as alive", r->nalive,
                             r->nalive == 1 ? "" : "s", r->nalive == 1 ? "s" : "", rank);
        if (r->heard != TT_DUMPS_NEVER && e->w->at != TT_DUMPS_NEVER && r->heard <= e->w->at)
            tt_ends_evidence(x, "the last message of rank %u arrived %s before the %s", rank,
                             tt_ends_span(r->heard, e->w->at, span),
                             e->w->has_failure ? "first failure" : "first dump");
        return;
    }
    if (e->w->young[rank] != TT_DUMPS_NONE) {
        tt_ends_young(e, rank, x);
        return;
    }
    tt_ends_culprit(x, rank);
    x->kind = TT_DIAGNOSIS_NEVER_CALLED;
    describe_last(e, rank, x);
    tt_ends_evidence(x, "rank %u is in no operation", rank);
    if (r->note != TT_INTERN_EMPTY && (x->since == TT_DUMPS_NEVER || r->note_at >= x->since)) {
        x->kind = TT_DIAGNOSIS_OUTSIDE;
        tt_ends_evidence(x, "its annotation since then: \"%s\"", tt_dumps_text(d, r->note));
    }
}

/* ---- different arguments ---- */

static const char *argument_words(const struct tt_dumps *d, const struct tt_dumps_op *op, char *out,
                                  size_t cap)
{
    const char *type = tt_dumps_text(d, op->type), *redop = tt_dumps_text(d, op->redop);
    const char *algo = tt_dumps_text(d, op->algo);
    char root[24] = "";

    if (op->root != TT_DUMPS_NONE)
        snprintf(root, sizeof root, ", root %u", op->root);
    if (op->class == TT_OP_P2P)
        snprintf(out, cap, "%s of %llu bytes", tt_dumps_text(d, op->kind),
                 (unsigned long long)op->bytes);
    else
        snprintf(out, cap, "%s of %llu %s%s%s%s%s%s", tt_dumps_text(d, op->kind),
                 (unsigned long long)op->count, *type ? type : "elements", *redop ? ", " : "",
                 redop, root, *algo ? ", " : "", algo);
    return out;
}

#define SIGNATURES_MAX 16u

struct signatures {
    const struct tt_dumps_op *op[SIGNATURES_MAX];
    uint32_t n[SIGNATURES_MAX], kinds;
};

static uint32_t signature_of(const struct tt_waits *w, struct signatures *s,
                             const struct tt_dumps_op *op)
{
    uint32_t k = 0;

    while (k < s->kinds && !tt_waits_same(w, s->op[k], op))
        k++;
    if (k == s->kinds && k < SIGNATURES_MAX) {
        s->op[k] = op;
        s->kinds++;
    }
    if (k < SIGNATURES_MAX)
        s->n[k]++;
    return k;
}

static void describe_signatures(const struct tt_ends *e, const struct signatures *s,
                                struct tt_diagnosis *x)
{
    char words[160];

    for (uint32_t k = 0; k < s->kinds && k < 4; k++)
        tt_ends_evidence(x, "%u rank%s (first rank %u) called %s", s->n[k], s->n[k] == 1 ? "" : "s",
                         s->op[k]->rank, argument_words(e->w->d, s->op[k], words, sizeof words));
}

/* Names the ranks outside the majority. Without a majority either side may be at fault. */
void tt_ends_mismatch(const struct tt_ends *e, uint32_t instance, struct tt_diagnosis *x)
{
    const struct tt_waits *w = e->w;
    const struct tt_waits_instance *o = &w->instances[instance];
    struct signatures s = { .kinds = 0 };
    uint32_t most = 0;

    x->kind = TT_DIAGNOSIS_MISMATCH;
    x->op = w->records[w->by_instance[o->first]].op;
    for (uint32_t k = 0; k < o->n; k++)
        signature_of(w, &s, tt_waits_op(w, w->by_instance[o->first + k]));
    for (uint32_t k = 1; k < s.kinds; k++)
        most = s.n[k] > s.n[most] ? k : most;
    x->op = (uint32_t)(s.op[most] - w->d->ops);
    describe_signatures(e, &s, x);
    for (uint32_t k = 0; k < o->n && 2 * s.n[most] > o->n; k++) {
        const struct tt_dumps_op *op = tt_waits_op(w, w->by_instance[o->first + k]);

        if (!tt_waits_same(w, s.op[most], op)) {
            tt_ends_culprit(x, op->rank);
            x->since = op->called;
        }
    }
    if (x->nculprits == 0)
        tt_ends_evidence(x, "neither side has a majority: either side may be at fault");
}
