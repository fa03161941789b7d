/* Calls that all members make: waiting for the coordinator's decision, and its errors. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "elastic/mismatch.h"
#include "session/run.h"

#define EPOCH_COMMITS " (tutti_run_epoch commits tentative operations first)"

static bool optimizes(const tutti_run *run)
{
    return run->m.call.kind == TT_ELMSG_CALL && run->m.call.what == TT_CALL_OPTIMIZE;
}

/* Returns whether the measurement cannot complete: the epoch is over, and members that were
 * notified of this before they measured will not measure any more. */
static bool measurement_is_void(const tutti_run *run)
{
    return optimizes(run) && run->m.stopped;
}

/* Waits for the machine's CALL_DONE. After the deadline the call is cancelled, but a result that
 * arrives first still counts. The coordinator confirms a cancellation at once; without a
 * coordinator, the member leaves the run after the default timeout of calls. If its replica group
 * becomes incomplete while it repeats an operation, the member is a newcomer, and cancels at once:
 * when it is admitted, the others will be in other calls. */
static tutti_status wait_done(tutti_run *run, uint64_t deadline_ns, const char *name)
{
    bool cancelled = false;

    while (!run->call_done && !run->over) {
        const bool goes_back = (run->dropped || measurement_is_void(run)) && !cancelled;

        if (!goes_back && (tt_run_wait_awake(run, &deadline_ns) || run->call_done || run->over))
            continue;
        if (cancelled) {
            tt_run_give_up(run, name);
            continue;
        }
        cancelled = true;
        deadline_ns = tt_run_deadline(run, 0);
        tt_member_cancel(&run->m, tt_now_ns());
    }
    return run->call_done ? TUTTI_OK : tt_run_check(run);
}

tutti_status tt_round_collides(const tutti_run *run, const char *name)
{
    for (uint32_t tag = 0; tag < run->ntags; tag++)
        if (run->tags[tag].in_use)
            return tt_fail(TUTTI_ERR_INVALID, "%s: an operation with tag %u is already in progress",
                           name, tag);
    return tt_fail(TUTTI_ERR_INVALID, "%s: %s is already in progress", name,
                   run->calling ? "another group call of the run"
                                : "a call on the view's communicator");
}

tutti_status tt_round_refuse(tutti_run *run, const char *name)
{
    const tutti_status st = tt_run_check(run);

    if (st)
        return st;
    if (run->m.epoch == 0)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: this member is not in a view (call tutti_run_epoch to join one)", name);
    return tt_round_collides(run, name);
}

/* Returns whether one member called `epoch` and the other `commit`. The commit may be part of an
 * epoch call (tt_deferred_close), so that the program did not call it explicitly. */
static bool met_commit(const struct tt_member_act *r)
{
    return (r->differs & (uint8_t) ~(TT_DIFFERS_OVER | TT_DIFFERS_BACK)) == TT_DIFFERS_CALL &&
           ((r->value == TT_CALL_EPOCH && r->also == TT_CALL_COMMIT) ||
            (r->value == TT_CALL_COMMIT && r->also == TT_CALL_EPOCH));
}

static tutti_status mismatch(const tutti_run *run, const char *name, const struct tt_member_act *r)
{
    const struct tt_mismatch m = { .differs = r->differs,
                                   .id = r->id,
                                   .value = r->value,
                                   .other = r->other,
                                   .also = r->also,
                                   .op = r->op };
    char text[TT_MISMATCH_BYTES], why[TT_ERROR_BYTES];

    if (!run->result_over)
        return tt_fail(TUTTI_ERR_MISMATCH, "%s: %s; this is member %" PRIu64 "%s", name,
                       tt_mismatch_text(text, &m), run->m.id,
                       r->differs == TT_DIFFERS_OPERATIONS
                           ? " (to roll back tentative operations, call tutti_run_revoke, then "
                             "tutti_run_epoch)"
                       : r->differs == (TT_DIFFERS_INSIDE | TT_DIFFERS_BACK)
                           ? "; the epoch has ended (call tutti_run_epoch for the next view)"
                       : met_commit(r) ? EPOCH_COMMITS
                                       : "");
    snprintf(why, sizeof why, "%s: %s; this is member %" PRIu64 "%s; the epoch had ended", name,
             tt_mismatch_text(text, &m), run->m.id, met_commit(r) ? EPOCH_COMMITS : "");
    /* usually not an error: the call is repeated for the next epoch */
    tt_log(TT_LOG_WARN, "%s", why);
    return tt_fail_again(TUTTI_ERR_MISMATCH, why);
}

/* Returns the error of a passed deadline without a responsible member: all had called `epoch`,
 * but no view was formed. */
static tutti_status no_view(const tutti_run *run, const char *name, const struct tt_member_act *r)
{
    const uint32_t least = run->m.call.least ? run->m.call.least : 1;

    if (r->differs == TT_KEPT_OUT_MOST)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "%s: the view already has %" PRIu64
                       " member%s, and this member's `most` is %u",
                       name, r->value, TT_PLURAL(r->value), run->m.call.most);
    if (r->differs == TT_KEPT_OUT_GROUP)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "%s: the replica group was incomplete at this member's deadline: "
                       "group %u needs calls from %u members",
                       name, run->m.conf.group, run->m.conf.nroles);
    if (run->m.epoch == 0 && r->value > 0)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "%s: %" PRIu64 " member%s of the view did not admit this member before its "
                       "deadline (waiting newcomers, including this one: %" PRIu64 ")",
                       name, r->value, TT_PLURAL(r->value), r->other);
    if (run->m.epoch == 0)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "%s: no view was formed before this member's deadline "
                       "(waiting newcomers, including this one: %" PRIu64 "; `least` is %u)%s",
                       name, r->other, least,
                       r->other >= least
                           ? "; a view must satisfy the `least`, `most` and group of each member"
                           : "");
    return tt_fail(TUTTI_ERR_TIMEOUT,
                   "%s: no newcomer was admitted before this member's deadline (remaining members: "
                   "%" PRIu64 "; least: %u; waiting newcomers: %" PRIu64 ")%s",
                   name, r->value, least, r->other,
                   r->other > 0 || r->value >= least
                       ? "; the newcomers have not reached all members yet, or the `most` "
                         "or group of a newcomer prevents this view"
                       : "");
}

/* Returns the error of a passed deadline in `optimize`, after all members had called it. */
static tutti_status not_measured(const tutti_run *run, const char *name,
                                 const struct tt_member_act *r)
{
    if (r->other == 0)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "%s: no ring order was found before this member's deadline", name);
    return tt_fail(TUTTI_ERR_TIMEOUT,
                   "%s: member %" PRIu64
                   "%s had not measured its links before this member's deadline",
                   name, r->other, r->other == run->m.id ? " (this member)" : "");
}

static tutti_status timed_out(const tutti_run *run, const char *name, const struct tt_member_act *r)
{
    if (run->dropped)
        return tt_run_lost("%s: this member's replica group became incomplete and left the view "
                           "(tutti_run_epoch waits until it is complete)",
                           name);
    if (measurement_is_void(run))
        return tt_run_epoch_over(run, name, " (call tutti_run_epoch for the next view)");
    if (r->id)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "%s: member %" PRIu64
                       " did not make this call before this member's deadline",
                       name, r->id);
    if (optimizes(run))
        return not_measured(run, name, r);
    if (run->m.call.kind == TT_ELMSG_CALL && run->m.call.what == TT_CALL_EPOCH &&
        (run->m.epoch == 0 || run->m.call.flags & TT_EPOCH_ADMIT))
        return no_view(run, name, r);
    return tt_fail(TUTTI_ERR_TIMEOUT,
                   "%s: not all members made this call before this member's deadline%s%s", name,
                   run->link.state == TT_LINK_UP ? "" : "; the coordinator is unreachable: ",
                   run->link.state == TT_LINK_UP ? "" : run->link.why);
}

tutti_status tt_round_finish(tutti_run *run, uint64_t deadline_ns, const char *name,
                             struct tt_member_act *result)
{
    const tutti_status st = wait_done(run, deadline_ns, name);

    if (st)
        return st;
    *result = run->result;
    if (result->what == TT_ROUND_TIMEOUT)
        return timed_out(run, name, result);
    if (result->what == TT_ROUND_MISMATCH)
        return mismatch(run, name, result);
    return TUTTI_OK;
}

/* ---- a view with too few members ------------------------------------------------------------- */

/* Returns the number of remaining members of this member's view. */
static uint32_t members_left(const tutti_run *run)
{
    return run->m.news.lost < run->m.nranks ? run->m.nranks - run->m.news.lost : 0;
}

/* Returns whether this member waits in an epoch for newcomers, possibly forever. */
static bool lacks_members(const tutti_run *run)
{
    const struct tt_member *m = &run->m;

    const uint32_t size = m->conf.nroles > 1 ? m->conf.nroles : 1,
                   n = members_left(run) + m->news.newcomers;

    return !m->over && !run->over && m->calling && m->call.kind == TT_ELMSG_CALL &&
           m->call.what == TT_CALL_EPOCH && m->call.flags & TT_EPOCH_ADMIT && m->epoch > 0 &&
           n - n % size < m->call.least;
}

void tt_round_tick(tutti_run *run, uint64_t now_ns)
{
    uint64_t waited_ns;

    if (tt_run_should_log_wait(&run->lacking, lacks_members(run), now_ns, &waited_ns))
        tt_log(TT_LOG_WARN,
               "tutti_run_epoch has waited %llu s for newcomers (epoch %" PRIu64 ", remaining "
               "members: %u, least: %u, waiting newcomers: %u)",
               (unsigned long long)(waited_ns / TT_SECOND), run->m.epoch, members_left(run),
               run->m.call.least, run->m.news.newcomers);
}

uint64_t tt_round_next_ns(const tutti_run *run)
{
    return run->lacking.since_ns ? run->lacking.tell_ns : TT_NEVER;
}

tutti_status tt_round_call(tutti_run *run, const struct tt_elmsg *call, uint64_t deadline_ns,
                           const char *name, struct tt_member_act *result)
{
    run->call_done = false;
    if (tt_member_call(&run->m, call, tt_now_ns()) != TUTTI_OK)
        return tt_round_refuse(run, name);
    return tt_round_finish(run, deadline_ns, name, result);
}

