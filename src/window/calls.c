#include "base/clock.h"
#include "base/status.h"
#include "window/window.h"
#include "window/handle.h"
#include "window/transfer.h"

#define REASON_NS (250 * TT_MS)     /* time to wait for the reason of an abort */

uint64_t tt_window_deadline_ns(const struct tt_window *w, int64_t timeout_ms)
{
    return tt_deadline_ns(tt_now_ns(), timeout_ms ? timeout_ms : w->comm->timeout_ms);
}

/* ---- records --------------------------------------------------------------------------------- */

static struct tt_oplog_call window_call(const struct tt_window *w, enum tt_oplog_kind kind,
                                        uint32_t rank, uint64_t bytes)
{
    return (struct tt_oplog_call){
        .count = bytes,
        .peer = rank == UINT32_MAX
                    ? TT_OPLOG_NONE
                    : tt_engine_client_trace_rank(w->home->engine, tt_window_job_rank(w, rank)),
        .tag = TT_OPLOG_NONE,
        .comm = w->trace,
        .kind = (uint8_t)kind,
        .type = TT_OPLOG_NO_TYPE,
        .algo = TT_OPLOG_NO_ALGO,
        .flags = TT_OPLOG_STARTED,
    };
}

void tt_call_check_trace(struct tt_call_check *a, enum tt_oplog_kind kind, uint64_t bytes)
{
    a->traced = true;
    a->trace = window_call(a->window, kind, a->rank, bytes);
}

uint64_t tt_window_trace_begin(struct tt_window *w, enum tt_oplog_kind kind, uint32_t rank,
                               uint64_t bytes)
{
    struct tt_oplog_call call = window_call(w, kind, rank, bytes);

    call.seq = __atomic_fetch_add(&w->ncalls, 1, __ATOMIC_RELAXED);
    return tt_oplog_wants(call.seq) ? tt_oplog_begin(NULL, &call) : 0;
}

static void begin_record(struct tt_call_check *a)
{
    a->traced = false;
    a->trace.seq = __atomic_fetch_add(&a->window->ncalls, 1, __ATOMIC_RELAXED);
    if (tt_oplog_wants(a->trace.seq))
        a->record =
            tt_oplog_begin(tt_engine_client_trace_writer(a->window->home->engine), &a->trace);
}

/* ---- waiting calls --------------------------------------------------------------------------- */

static void list_attempt(struct tt_call_check *a)
{
    struct tt_windows *home = a->window->home;

    a->next = home->attempts;
    home->attempts = a;
    home->nattempts++;
}

static void unlist_attempt(struct tt_call_check *a)
{
    struct tt_windows *home = a->window->home;
    struct tt_call_check **at = &home->attempts;

    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    home->nattempts--;
}

/* Returns whether the call is over. The clock is read only if the call is not over at once. */
static bool attempt_is_over(struct tt_call_check *a)
{
    a->status = tt_context_status(a->window->comm->context, NULL, 0);
    a->failed = a->status != TUTTI_OK;
    if (a->failed)
        return true;
    a->status = a->step(a);
    if (a->status != TUTTI_PENDING)
        return true;
    if (!a->deadline_ns) {
        a->deadline_ns = tt_window_deadline_ns(a->window, a->timeout_ms);
        list_attempt(a);
    }
    tt_engine_client_due(a->window->home->engine, a->deadline_ns);
    if (tt_now_ns() < a->deadline_ns)
        return false;
    a->status = a->is_test ? TUTTI_PENDING : TUTTI_ERR_TIMEOUT;
    return true;
}

static bool go(void *arg)
{
    struct tt_call_check *a = arg;

    if (a->traced)
        begin_record(a);
    if (!attempt_is_over(a))
        return false;
    if (a->deadline_ns)
        unlist_attempt(a);
    tt_oplog_end(a->record, a->status == TUTTI_PENDING ? TUTTI_OK : a->status);
    return true;
}

static bool has_reason(void *arg)
{
    struct tt_call_check *a = arg;

    tt_engine_client_due(a->window->home->engine, a->deadline_ns);
    return tt_context_status(a->window->comm->context, NULL, 0) || tt_now_ns() >= a->deadline_ns;
}

/* Waits for the abort of a rank that no longer has the window. Such a rank has freed the window, or
 * has aborted, and the abort may arrive after the refusal of the operation. */
static void await_abort(struct tt_call_check *a)
{
    a->deadline_ns = tt_now_ns() + REASON_NS;
    tt_engine_client_until(a->window->home->engine, has_reason, a);
}

tutti_status tt_call_check_run(struct tt_call_check *a)
{
    tt_engine_client_until(a->window->home->engine, go, a);
    if (a->status == TUTTI_ERR_ABORTED && !a->failed)
        await_abort(a);
    a->failed |= (a->status == TUTTI_ERR_PEER_LOST || a->status == TUTTI_ERR_ABORTED) &&
                 tt_context_status(a->window->comm->context, NULL, 0);
    if (a->failed)
        return tt_window_status(a->window);
    if (a->status == TUTTI_ERR_PEER_LOST)
        return tt_fail(a->status, "%s: rank %u has destroyed its communicator", a->call, a->rank);
    if (a->status == TUTTI_ERR_TIMEOUT && a->rank == UINT32_MAX)
        return tt_fail(a->status, "%s: the operation was not complete at the deadline", a->call);
    if (a->status == TUTTI_ERR_TIMEOUT)
        return tt_fail(a->status,
                       "%s: rank %u did not complete the operation before the deadline (its "
                       "process may be stopped, or its network may be down)",
                       a->call, a->rank);
    return a->status;
}

tutti_status tt_call_check_run_transfer(struct tt_call_check *a, struct tt_window_transfer **t)
{
    struct tt_engine *e = a->window->home->engine;
    const tutti_status st = tt_call_check_run(a);

    if (*t) {
        tt_engine_client_enter(e);
        if (st)
            (*t)->counter = NULL;
        tt_transfer_leave(*t);
        tt_engine_client_leave(e);
        *t = NULL;
    }
    if (st == TUTTI_ERR_ABORTED && !a->failed)
        return tt_fail(st, "%s: rank %u has freed its window", a->call, a->rank);
    return st;
}
