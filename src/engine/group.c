#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "engine/calls.h"
#include "engine/context_end.h"
#include "engine/op.h"
#include "engine/progress.h"
#include "engine/requests.h"
#include "trace/dump.h"

/* Links the members in progress to their group. */
static void group_join(struct tt_op *group)
{
    for (size_t i = 0; i < group->nmembers; i++) {
        struct tt_op *op = group->members[i];

        if (tt_op_is_over(op))
            continue;
        op->group = group;
        group->nmembers_running++;
    }
    if (group->nmembers_running == 0)
        tt_group_end(group);
}

/* Fails the context, because peers depend on the members that have begun, and these cannot be
 * cancelled. */
static void fail_started(struct tt_context *c)
{
    char why[TT_ERROR_BYTES];

    snprintf(why, sizeof why, "an operation of a group failed to start: %s", tutti_last_error());
    tt_context_fail_here(c, TUTTI_ERR_ABORTED, why, true);
}

static tutti_status start_members(struct tt_op *group, const struct tt_op_conf *conf, size_t n)
{
    struct tt_context *c = group->context;
    tutti_status st = TUTTI_OK;

    while (group->nmembers < n && !st) {
        st = tt_op_start_here(c, &conf[group->nmembers], &group->members[group->nmembers]);
        group->nmembers += !st;
    }
    if (st && group->nmembers)
        fail_started(c);
    return st;
}

tutti_status tt_op_start_group(struct tt_context *c, const struct tt_op_conf *conf, size_t n,
                               struct tt_op **out)
{
    struct tt_op **members = n ? calloc(n, sizeof(struct tt_op *)) : NULL, *group;
    tutti_status st;

    if (n && !members)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a group of %zu operations", n);
    tt_progress_lock(c->engine);
    group = tt_op_blank(c);
    if (!group) {
        free(members);
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for an operation");
        goto give;
    }
    group->members = members;
    st = start_members(group, conf, n);
    group_join(group);
    if (st)
        tt_op_free_here(group);
    else
        *out = group;

give:
    tt_progress_unlock(c->engine);
    return st;
}

/* ---- groups that block ----------------------------------------------------------------------- */

/* Returns the configuration of a call like the kept operation, if that is in use or cannot be
 * reused. */
static struct tt_op_conf conf_like_kept(const struct tt_group_call *call, int64_t timeout_ms)
{
    struct tt_op_conf conf = (*call->kept)->conf;

    conf.src = call->src;
    conf.dst = call->dst;
    conf.tag = call->tag;
    conf.timeout_ms = timeout_ms;
    conf.kept = call->kept;
    return conf;
}

/* Starts a call. call->op becomes its operation, or NULL if it is over and has succeeded. */
static tutti_status start_call(struct tt_context *c, struct tt_group_call *call, int64_t timeout_ms)
{
    struct tt_op_conf conf;
    bool done;

    if (call->conf)
        return tt_op_start_here(c, call->conf, &call->op);
    if (tt_op_begin_again(*call->kept, call->src, call->dst, call->tag, timeout_ms, TT_LOAN_NONE,
                          &done)) {
        if (done)
            return TUTTI_OK;
        call->op = *call->kept;
        call->op->loan = TT_LOAN_OUT;   /* a later call of the group may have the same shape */
        return TUTTI_OK;
    }
    conf = conf_like_kept(call, timeout_ms);
    return tt_op_start_here(c, &conf, &call->op);
}

static bool starts_late(const struct tt_group_call *call)
{
    return !call->conf && (*call->kept)->desc.kind == TT_RECV;
}

/* Starts the calls: kept receives last, because they wait for their message for a while. On an
 * error all started calls are over. */
static tutti_status start_calls(struct tt_context *c, struct tt_group_call *calls, size_t n,
                                int64_t timeout_ms)
{
    tutti_status st = TUTTI_OK;
    bool started = false;

    for (size_t i = 0; i < n; i++)
        calls[i].op = NULL;
    for (int late = 0; late <= 1; late++)
        for (size_t i = 0; i < n && !st; i++)
            if (starts_late(&calls[i]) == late) {
                st = start_call(c, &calls[i], timeout_ms);
                started |= !st;
            }
    if (st && started)
        fail_started(c);
    return st;
}

/* Waits for an operation of a group. The progress lock may be released meanwhile. */
static void finish_call(struct tt_engine *e, struct tt_op *op)
{
    if (!tt_engine_work(e, tt_request_is_over, op)) {
        tt_progress_unlock(e);
        tt_engine_wait(e, tt_request_is_over, op);
        tt_progress_lock(e);
    }
}

static void release_call(struct tt_group_call *call)
{
    struct tt_op **const kept = call->conf ? call->conf->kept : call->kept, *op = call->op;

    atomic_store_explicit(&op->waited, TT_OP_UNWAITED, memory_order_relaxed);
    if (op->loan == TT_LOAN_OUT) {
        tt_op_free_here(op);
        return;
    }
    if (kept)
        tt_op_drop_lapsed(kept);
    tt_op_keep_or_free(op, kept,
                       (tutti_status)atomic_load_explicit(&op->status, memory_order_relaxed));
}

/* Waits for the started calls and releases them. Returns the status of the first failed one. */
static tutti_status finish_calls(struct tt_engine *e, struct tt_group_call *calls, size_t n)
{
    tutti_status st = TUTTI_OK;
    bool any = false, over = true;

    for (size_t i = 0; i < n; i++)
        if (calls[i].op) {
            any = true;
            over &= tt_op_is_over(calls[i].op);
            atomic_store_explicit(&calls[i].op->waited, TT_OP_BLOCKING, memory_order_relaxed);
        }
    if (any && over)
        tt_engine_progress(e);  /* other operations would starve if calls never waited */
    for (size_t i = 0; i < n && any; i++) {
        if (!calls[i].op)
            continue;
        finish_call(e, calls[i].op);
        st = st ? st : tt_op_status(calls[i].op);
    }
    for (size_t i = 0; i < n && any; i++)
        if (calls[i].op)
            release_call(&calls[i]);
    return st;
}

tutti_status tt_op_blocking_group(struct tt_context *c, struct tt_group_call *calls, size_t n,
                                  int64_t timeout_ms)
{
    struct tt_engine *e = c->engine;
    char why[TT_ERROR_BYTES];
    tutti_status st, started;

    tt_progress_lock(e);
    started = start_calls(c, calls, n, timeout_ms);
    if (started)
        snprintf(why, sizeof why, "%s", tutti_last_error());
    st = finish_calls(e, calls, n);
    tt_progress_unlock(e);
    if (started)
        st = tt_fail_again(started, why);
    if (st && !e->members)
        tt_dump_await();        /* the caller may exit now */
    return st;
}
