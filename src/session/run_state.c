/* What all calls of a run share: waiting, deadlines, checks of arguments, and the reasons for which
 * an epoch or the membership ends. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "session/run.h"

#define LOG_WAIT_NS TT_SECOND   /* delay after which a wait is logged */
#define TELL_NS_MAX (60 * TT_SECOND)

/* ---- waiting ---- */

bool tt_run_wait(tutti_run *run, uint64_t deadline_ns)
{
    struct timespec at = { .tv_sec = (time_t)(deadline_ns / TT_SECOND),
                           .tv_nsec = (long)(deadline_ns % TT_SECOND) };

    if (deadline_ns == TT_NEVER)
        return pthread_cond_wait(&run->changed, &run->lock) == 0;
    return pthread_cond_timedwait(&run->changed, &run->lock, &at) != ETIMEDOUT;
}

bool tt_run_wait_awake(tutti_run *run, uint64_t *deadline_ns)
{
    const bool in_time = tt_now_ns() < *deadline_ns;

    if (tt_run_wait(run, *deadline_ns))
        return true;
    if (!in_time || !tt_run_was_stalled(*deadline_ns, tt_now_ns()))
        return false;
    *deadline_ns = tt_run_deadline(run, 0);
    return true;
}

uint64_t tt_run_deadline(const tutti_run *run, int64_t timeout_ms)
{
    return tt_deadline_ns(tt_now_ns(), timeout_ms ? timeout_ms : run->timeout_ms);
}

bool tt_run_was_stalled(uint64_t deadline_ns, uint64_t now_ns)
{
    return now_ns > deadline_ns && now_ns - deadline_ns > TT_RUN_STILL_NS;
}

bool tt_run_should_log_wait(struct tt_run_waiting *w, bool waits, uint64_t now_ns,
                            uint64_t *waited_ns)
{
    if (!waits) {
        w->since_ns = 0;
        return false;
    }
    if (w->since_ns == 0)
        *w = (struct tt_run_waiting){ .since_ns = now_ns, .tell_ns = now_ns + LOG_WAIT_NS };
    *waited_ns = now_ns - w->since_ns;
    if (now_ns < w->tell_ns)
        return false;
    w->tell_ns = now_ns + (*waited_ns < TELL_NS_MAX ? *waited_ns : TELL_NS_MAX);
    return true;
}

/* ---- checks and reasons ---- */

tutti_status tt_run_check(tutti_run *run)
{
    if (!run->over)
        return TUTTI_OK;
    if (run->over_status == TUTTI_OK)
        return tt_fail_again(TUTTI_ERR_INVALID, "this member has left the run");
    return tt_fail_again(run->over_status, run->over_why);
}

tutti_status tt_run_check_call(const tutti_run *run, const void *given, const char *argument,
                               const char *name)
{
    if (!run || !given)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", name, run ? argument : "run");
    if (tt_run_is_inherited(run))
        return tt_fail(TUTTI_ERR_FORKED,
                       "%s: this process is a forked child; the run belongs to its parent", name);
    return TUTTI_OK;
}

tutti_status tt_run_check_out(const tutti_run *run, const void *out, const char *type,
                              size_t wanted, const char *name)
{
    const tutti_status st = tt_run_check_call(run, out, "out", name);
    size_t size;

    if (st)
        return st;
    memcpy(&size, out, sizeof size);
    if (size != wanted)
        return tt_fail(TUTTI_ERR_INVALID, "%s: out.size is %zu: must be sizeof(%s), %zu", name,
                       size, type, wanted);
    return TUTTI_OK;
}

tutti_status tt_run_lost(const char *format, ...)
{
    char why[TT_ERROR_BYTES];
    va_list values;

    va_start(values, format);
    vsnprintf(why, sizeof why, format, values);
    va_end(values);
    tt_log(TT_LOG_WARN, "%s", why);
    return tt_fail_again(TUTTI_ERR_PEER_LOST, why);
}

tutti_status tt_run_epoch_over(const tutti_run *run, const char *name, const char *more)
{
    return tt_run_lost("%s: epoch %" PRIu64 " has ended%s%s%s", name,
                       run->m.epoch ? run->m.epoch : run->space.epoch, *run->stop_why ? ": " : "",
                       run->stop_why, more);
}

void tt_run_end_epoch(tutti_run *run, tutti_status status)
{
    tt_member_revoke_as(&run->m,
                        status == TUTTI_ERR_PEER_LOST  ? TT_REVOKED_CUT
                        : status == TUTTI_ERR_TIMEOUT  ? TT_REVOKED_LATE
                        : status == TUTTI_ERR_MISMATCH ? TT_REVOKED_MISMATCH
                        : status == TUTTI_PENDING      ? TT_REVOKED_NO_REASON
                                                       : TT_REVOKED_FAILED,
                        status == TUTTI_ERR_PEER_LOST ? tt_run_home_lost(run) : 0, tt_now_ns());
}

void tt_run_break(tutti_run *run, tutti_status status, const char *format, ...)
{
    va_list values;

    run->over_status = status;
    va_start(values, format);
    vsnprintf(run->over_why, sizeof run->over_why, format, values);
    va_end(values);
    tt_log(TT_LOG_ERROR, "%s: %s", tutti_status_name(status), run->over_why);
    tt_member_leave(&run->m, TT_LEAVE_NOW, tt_now_ns());
}

void tt_run_give_up(tutti_run *run, const char *what)
{
    tt_run_break(run, TUTTI_ERR_TIMEOUT,
                 "no coordinator reported the result of %s before the deadline, so this member "
                 "left the run: %s",
                 what, run->link.why);
}

uint32_t tt_run_rank_of(const tutti_run *run, uint64_t id)
{
    for (uint32_t rank = 0; rank < run->m.nranks; rank++)
        if (run->m.view[rank].id == id)
            return rank;
    return UINT32_MAX;
}
