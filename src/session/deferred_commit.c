/* Tentative operations return when their part is done on this member; their outcome follows later.
 * The next operation of the tag provides it: no member can complete it before all have begun it,
 * and each member begins it only after completing the previous one. Otherwise a commit provides the
 * outcome. An operation of a role or group may complete before members of other roles or groups
 * have begun theirs, so it does not decide a previous one. Therefore no previous one may be
 * pending, and each member passes to the commit which operations it has begun. Until the outcome,
 * the run keeps the backup of overwritten input, and the caller's descriptor. The outcome is
 * written to the descriptor only during a call of the program.
 *
 * If a member is lost, some members get the error from the tentative operation still in
 * progress, and others from a later call. Their next calls would then differ. Therefore each tag
 * records whether a decision is pending (`owes`): a tentative operation was tried, and no final
 * operation or commit has followed. A view changes only after a commit has decided all of them.
 * tutti_run_epoch performs it (with "not good"), and it matches the commit of members that were
 * not notified of the loss. */
#include <stdio.h>

#include "session/run.h"

bool tt_deferred_fits(const tutti_elastic *op)
{
    return op->mode == TUTTI_ABORT &&
           (op->coll == TUTTI_ALLREDUCE || op->coll == TUTTI_REDUCE_SCATTER ||
            op->coll == TUTTI_ALLGATHER || op->coll == TUTTI_ALLTOALL || op->coll == TUTTI_BARRIER);
}

/* An operation without data, or in a view of one member, is not tentative, since it waits for no
 * other member. In a role or group this ignores the count: counts may differ between these, but all
 * members of the view must decide alike. */
bool tt_deferred_is(const tutti_run *run, const tutti_elastic *op)
{
    return op->tentative && run->space.nranks > 1 &&
           (tt_subgroup_is_part(run, op) || op->count > 0 || op->coll == TUTTI_BARRIER);
}

static void set_owing(tutti_run *run, struct tt_tag *t, enum tt_owing owes)
{
    run->nowing += (owes != TT_DEFERRED_NONE);
    run->nowing -= (t->owes != TT_DEFERRED_NONE);
    t->owed = t->owes;
    t->owes = owes;
}

void tt_deferred_set_pending(tutti_run *run, uint32_t tag)
{
    set_owing(run, &run->tags[tag], TT_DEFERRED_PENDING);
}

void tt_deferred_clear_pending(tutti_run *run, uint32_t tag)
{
    set_owing(run, &run->tags[tag], TT_DEFERRED_NONE);
}

void tt_deferred_clear_all(tutti_run *run)
{
    for (uint32_t tag = 0; run->nowing > 0 && tag < run->ntags; tag++)
        tt_deferred_clear_pending(run, tag);
}

/* If all members refuse the operation, no commit is needed. If only this member's call was invalid,
 * a decision is pending on the others, and they commit. Therefore this member commits as well,
 * before the view changes. */
void tt_deferred_refused(tutti_run *run, const struct tt_operation *o)
{
    if (o->tentative)
        set_owing(run, o->kept,
                  o->kept->owed == TT_DEFERRED_NONE ? TT_DEFERRED_REFUSED : o->kept->owed);
}

bool tt_deferred_tried(const tutti_run *run)
{
    for (uint32_t tag = 0; run->nowing > 0 && tag < run->ntags; tag++)
        if (run->tags[tag].owes == TT_DEFERRED_PENDING)
            return true;
    return false;
}

tutti_status tt_deferred_refuse(const tutti_run *run, const tutti_elastic *op, const char *name)
{
    if (!tt_deferred_tried(run))
        return TUTTI_OK;
    if (op)
        name = tt_operation_call();
    if (!op || tt_operation_retries(op))
        return tt_fail(
            TUTTI_ERR_INVALID,
            "%s: tentative operations are pending (first call tutti_run_commit, or run a "
            "non-tentative operation with the same tag)",
            name);
    for (uint32_t tag = 0; tag < run->ntags; tag++)
        if (run->tags[tag].tentative.op == op)
            return tt_fail(
                TUTTI_ERR_INVALID,
                "%s: this tutti_elastic belongs to the pending tentative operation with tag "
                "%u (use another one until the outcome)",
                name, tag);
    return TUTTI_OK;
}

tutti_status tt_deferred_follows(const tutti_run *run, const tutti_elastic *op, uint32_t tag)
{
    if (!run->tags[tag].tentative.op || !tt_deferred_is(run, op) || !tt_subgroup_is_part(run, op))
        return TUTTI_OK;
    return tt_fail(
        TUTTI_ERR_INVALID,
        "%s: a tentative operation with tag %u is pending, and a tentative operation in the "
        "scope of a role or group cannot follow it (use another tag, or first call "
        "tutti_run_commit or run a non-tentative operation with this tag)",
        tt_operation_call(), tag);
}

/* ---- the outcome ---- */

/* Releases the lock meanwhile. */
static void deliver_outcome(tutti_run *run, struct tt_tag *t)
{
    const struct tt_deferred was = t->tentative;
    const bool final = was.done && was.state == TT_OP_FINAL;
    tutti_status st = TUTTI_ERR_PEER_LOST;

    t->tentative.op = NULL;
    if (final) {
        run->stats.final++;
        was.op->status = TUTTI_OK;
        return;
    }
    if (!was.done) /* the outcome remains unknown: this member has left the run */
        st = tt_run_check(run);
    run->stats.restored++;
    tt_saved_restore(run, t, &was.saved);
    was.op->status = st;
}

void tt_deferred_deliver(tutti_run *run, uint32_t tag)
{
    struct tt_tag *t = &run->tags[tag];

    if (t->tentative.op && (t->tentative.done || run->over))
        deliver_outcome(run, t);
}

void tt_deferred_await(tutti_run *run, uint32_t tag, uint64_t deadline_ns)
{
    struct tt_tag *t = &run->tags[tag];
    char what[64];

    snprintf(what, sizeof what, "a tentative operation of tag %u", tag);
    while (t->tentative.op && !t->tentative.done && !run->over)
        if (!tt_run_wait(run, deadline_ns) && t->tentative.op && !t->tentative.done && !run->over)
            tt_run_give_up(run, what);
    tt_deferred_deliver(run, tag);
}

bool tt_deferred_keep(tutti_run *run, struct tt_operation *o)
{
    struct tt_tag *t = o->kept;

    if (run->over || !tt_member_complete_tentative(&run->m, o->tag, tt_now_ns()))
        return false;
    tt_deferred_deliver(run, o->tag); /* the previous operation */
    tt_assert(!t->tentative.op);
    t->tentative = (struct tt_deferred){ .op = o->op, .n = t->n, .saved = o->saved };
    o->op->status = TUTTI_PENDING;
    o->op->contributors = o->contributors;
    o->op->epoch = o->epoch;
    tt_operation_leave(run, o);
    return true;
}

/* ---- commit ---- */

tutti_status tt_deferred_commit(tutti_run *run, int good, uint64_t deadline_ns, const char *name,
                                bool *outcome)
{
    const struct tt_elmsg call = { .what = TT_CALL_COMMIT, .value = good ? 1 : 0 };
    struct tt_member_act result;
    const tutti_status st = tt_round_call(run, &call, deadline_ns, name, &result);

    if (st && !run->over)
        return st; /* the commit had no effect */
    for (uint32_t tag = 0; tag < run->ntags; tag++) {
        tt_deferred_await(run, tag, tt_run_deadline(run, 0));
        tt_deferred_clear_pending(run, tag);
    }
    if (st)
        return st;
    *outcome = result.value & 1;
    return tt_run_check(run);
}

static bool all_delivered(const tutti_run *run)
{
    for (uint32_t tag = 0; tag < run->ntags; tag++)
        if (run->tags[tag].tentative.op)
            return false;
    return true;
}

/* A MISMATCH is possible: another member may still be in the call that formed this view, detect a
 * loss there, and call for the next view at once. That member has tried no operation in this view.
 * Therefore no operation of all members was completed, and the undecided ones have failed.
 * Completed operations of a role or group get their outcomes when the epoch is over. */
tutti_status tt_deferred_close(tutti_run *run, uint64_t deadline_ns, const char *name)
{
    bool outcome;
    const tutti_status st = tt_deferred_commit(run, 0, deadline_ns, name, &outcome);

    if (st != TUTTI_ERR_MISMATCH)
        return st;
    for (uint32_t tag = 0; run->result_over && tag < run->ntags; tag++)
        tt_deferred_await(run, tag, tt_run_deadline(run, 0));
    if (!all_delivered(run))
        return st;
    tt_deferred_clear_all(run);
    return tt_run_check(run);
}
