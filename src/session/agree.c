/* The two calls of all members that need only the coordinator's decision: agree and commit. */
#include <inttypes.h>
#include <stdio.h>

#include "session/run.h"

static tutti_status round_agree(tutti_run *run, uint64_t flags, int64_t timeout_ms,
                                struct tt_member_act *result)
{
    const struct tt_elmsg call = { .what = TT_CALL_AGREE, .value = flags };
    static const char name[] = "tutti_run_agree";
    tutti_status st;

    if (run->calling || run->noperations > 0)
        return tt_round_refuse(run, name);
    st = tt_deferred_refuse(run, NULL, name);
    if (st)
        return st;
    run->calling = true;
    st = tt_round_call(run, &call, tt_run_deadline(run, timeout_ms), name, result);
    if (!st)
        tt_deferred_clear_all(run);
    run->calling = false;
    return st;
}

/* After a loss, returns PEER_LOST; the message contains the flags on which the remaining members
 * agree. */
static tutti_status agreed_status(const tutti_run *run, const struct tt_member_act *result)
{
    char left[80];

    if (result->what != TT_ROUND_LOST)
        return TUTTI_OK;
    snprintf(left, sizeof left, "; the remaining members agree on %#" PRIx64, result->value);
    return tt_run_epoch_over(run, "tutti_run_agree", left);
}

tutti_status tutti_run_agree(tutti_run *run, uint64_t flags, int64_t timeout_ms, uint64_t *out)
{
    struct tt_member_act result;
    uint64_t record;
    tutti_status st;

    st = tt_run_check_call(run, out, "out", "tutti_run_agree");
    if (st)
        return st;
    record = tt_run_trace_begin(run, TT_OPLOG_RUN_AGREE, 0);
    tt_run_lock(run);
    st = round_agree(run, flags, timeout_ms, &result);
    if (!st) {
        *out = result.value;
        st = agreed_status(run, &result);
    }
    tt_run_unlock(run);
    tt_run_trace_end(record, st);
    return st;
}

tutti_status tutti_run_commit(tutti_run *run, int good, int64_t timeout_ms, int *outcome)
{
    static const char name[] = "tutti_run_commit";
    bool all = false;
    uint64_t record;
    tutti_status st;

    st = tt_run_check_call(run, outcome, "outcome", name);
    if (st)
        return st;
    record = tt_run_trace_begin(run, TT_OPLOG_RUN_COMMIT, 0);
    tt_run_lock(run);
    if (run->calling || run->noperations > 0) {
        st = tt_round_refuse(run, name);
    } else {
        run->calling = true;
        st = tt_deferred_commit(run, good, tt_run_deadline(run, timeout_ms), name, &all);
        run->calling = false;
    }
    tt_run_unlock(run);
    tt_run_trace_end(record, st);
    if (!st)
        *outcome = all;
    return st;
}
