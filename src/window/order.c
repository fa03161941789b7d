/* Fence and quiet. A fence marks the peers; quiet drains them. */
#include "window/order.h"
#include "window/fence.h"
#include "window/handle.h"
#include "window/peer.h"

#include "base/status.h"

tutti_status tt_window_fence_rank(struct tt_window *w, uint32_t rank)
{
    struct tt_window_peer *p = tt_window_peer_of(w->home, tt_window_job_rank(w, rank));

    if (!p)
        return TUTTI_ERR_NOMEM;
    tt_window_peer_fence(w->home, p);
    return TUTTI_OK;
}

tutti_status tutti_window_fence(tutti_window *window, int rank)
{
    const bool all = rank == TUTTI_ALL_RANKS;
    struct tt_window *w = NULL;
    tutti_status st = tt_window_take_rank(window, all ? 0 : rank, "tutti_window_fence", &w);

    if (st)
        return st;
    tt_engine_client_enter(w->home->engine);
    if (all)
        w->home->fences++;
    else
        st = tt_window_fence_rank(w, (uint32_t)rank);
    tt_engine_client_leave(w->home->engine);
    return st;
}

struct quiet {
    struct tt_call_check attempt;
    bool all, late;             /* late: an operation failed after its call had returned */
    uint64_t tick;              /* 0: not begun */
};

/* Sets the message of a failure after its call had returned. */
static tutti_status failure_status(tutti_status st, uint32_t rank)
{
    if (st == TUTTI_ERR_ABORTED)
        return tt_fail(st,
                       "tutti_window_quiet: rank %u freed its window before all operations to it "
                       "were complete",
                       rank);
    return tt_fail(st,
                   "tutti_window_quiet: an operation to rank %u failed after the call that started "
                   "it had returned",
                   rank);
}

/* Drains one rank: posts a mark, if none follows all puts before the tick, and checks the
 * transfers in progress. Returns *failed once, without a message. */
static tutti_status quiet_one(struct tt_window *w, uint32_t rank, uint64_t tick,
                              tutti_status *failed)
{
    struct tt_window_peer *p = w->home->peers[tt_window_job_rank(w, rank)];
    struct tt_engine_client_link link;
    tutti_status st;
    bool queued;

    if (!p || rank == w->comm->rank)
        return TUTTI_OK;
    queued = tt_window_is_queued(p, tick);
    if (!queued && tt_flush_is_quiet(&p->marks, tick) && !tt_window_is_under_way(p, tick)) {
        st = *failed;
        *failed = TUTTI_OK;
        return st;
    }
    st = tt_engine_client_reach(w->home->engine, p->rank, &link);
    if (!st && !queued && tt_flush_needs_mark(&p->marks, tick))
        tt_window_mark(w->home, p, &link);
    return st ? st : TUTTI_PENDING;
}

tutti_status tt_window_quiet_rank(struct tt_window *w, uint32_t rank, uint64_t *tick,
                                  tutti_status *failed)
{
    tutti_status st, late;

    if (!*tick)
        *tick = ++w->home->tick;
    late = *failed;
    st = quiet_one(w, rank, *tick, failed);
    if (st == TUTTI_PENDING)
        return st;
    *tick = 0;
    return late && !*failed ? failure_status(st, rank) : st;
}

tutti_status tt_window_wake_rank(struct tt_window *w, uint32_t rank)
{
    struct tt_engine_client_link link;
    struct tt_desc d;
    tutti_status st;

    if (rank == w->comm->rank) {
        tt_engine_client_wake(w->home->engine);
        return TUTTI_OK;
    }
    st = tt_engine_client_reach(w->home->engine, tt_window_job_rank(w, rank), &link);
    if (st)
        return st;
    d = (struct tt_desc){
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE,
        .peer = link.theirs->peer,
        .key = link.theirs,
        .signal_op = TT_SIGNAL_ADD,
        .signal_key = link.theirs,
        .signal_offset = link.word,
        .cookie = TT_CLIENT_COOKIE,
    };
    return link.wire->ops->post(link.wire, &d, 1) == 1 ? TUTTI_OK : TUTTI_PENDING;
}

static tutti_status quiet_step(struct tt_call_check *a)
{
    struct quiet *q = (struct quiet *)a;
    struct tt_window *w = a->window;
    tutti_status st = TUTTI_OK;
    uint32_t worst = a->rank;

    if (!q->tick)
        q->tick = ++w->home->tick;
    for (uint32_t r = q->all ? 0 : a->rank; r < (q->all ? w->comm->nranks : a->rank + 1); r++) {
        const tutti_status late = w->ways[r].failed,
                           one = quiet_one(w, r, q->tick, &w->ways[r].failed);

        if (one == TUTTI_OK || st > TUTTI_PENDING)
            continue;
        worst = r;
        q->late = late && one == late;
        st = one;
    }
    a->rank = worst;
    return st;
}

tutti_status tutti_window_quiet(tutti_window *window, int rank, int64_t timeout_ms)
{
    struct quiet q = {
        .attempt = { .call = "tutti_window_quiet",
                     .rank = (uint32_t)rank,
                     .timeout_ms = timeout_ms,
                     .step = quiet_step },
        .all = rank == TUTTI_ALL_RANKS,
    };
    tutti_status st =
        tt_window_take_rank(window, q.all ? 0 : rank, q.attempt.call, &q.attempt.window);

    if (st)
        return st;
    tt_call_check_trace(&q.attempt, TT_OPLOG_QUIET, 0);
    if (q.all)
        q.attempt.trace.peer = TT_OPLOG_NONE;
    st = tt_call_check_run(&q.attempt);
    return q.late && st && !q.attempt.failed ? failure_status(st, q.attempt.rank) : st;
}
