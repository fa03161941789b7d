/* Calls that start operations, blocking or not, and the operations that are kept for later calls of
 * the same shape. */
#include "engine/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "engine/context.h"
#include "engine/exec_actions.h"
#include "engine/input_backup.h"
#include "engine/op.h"
#include "engine/op_end.h"
#include "engine/op_lists.h"
#include "engine/op_trace.h"
#include "engine/progress.h"
#include "engine/requests.h"
#include "trace/dump.h"

/* number of consecutive direct calls of which one runs a full progress pass */
#define FULL_PASS_EVERY 16

/* Prepares a kept operation for the next call. Returns false, without effect, if that is not
 * possible. */
static bool reuse_kept(struct tt_op *op, const void *src, void *dst, uint32_t tag,
                       int64_t timeout_ms)
{
    op->conf.tag = tag;
    if (tt_op_assign_key(op))
        return false;
    op->record = 0;
    op->desc.mode = op->context->mode;
    op->conf.src = src;
    op->conf.dst = dst;
    op->conf.timeout_ms = timeout_ms;
    op->deadline_ns = op->probe_ns = 0;
    op->now = NULL;
    tt_op_back_up(op);
    tt_exec_restart(&op->exec);
    if (op->eager.tried)
        tt_copy_eager_begin(&op->eager);
    return true;
}

/* Returns whether no other operation needs progress. Also returns false at intervals, so that a
 * full pass runs. */
static bool is_only_work(const struct tt_context *c)
{
    struct tt_engine *e = c->engine;

    return !e->nexposed && !e->credit_due && ++e->ndirect % FULL_PASS_EVERY &&
           atomic_load_explicit(&e->ntrouble, memory_order_relaxed) == e->trouble_seen;
}

/* Returns whether all unexpected messages of a peer for this call are eager messages of a matching
 * call. */
static bool only_matching_from(const struct tt_op *op, const struct tt_context_peer *cp)
{
    for (uint64_t left = cp ? cp->kept : 0; left; left &= left - 1) {
        const struct tt_unexpected *m = tt_unexpected_at(cp, (uint32_t)__builtin_ctzll(left));

        if (m->opseq != op->seq || tt_is_p2p(m->desc.kind) != op->p2p ||
            (op->p2p && m->desc.kind == op->desc.kind))
            continue;
        if (m->type != TT_CELL_EAGER || !tt_same_desc(&m->desc, &op->desc))
            return false;
    }
    return true;
}

/* Returns whether all unexpected messages for this call are eager messages of a matching call. */
static bool only_matching_eager(const struct tt_op *op)
{
    const struct tt_context *c = op->context;

    if (!c->nunexpected)
        return true;
    if (op->p2p)    /* its flow may not have been looked up yet */
        return op->exec.npeers == 1 &&
               only_matching_from(op, tt_sparse_get(&c->peers, c->ranks[op->exec_peers[0].rank]));
    for (const struct tt_peer *p = c->engine->up; p; p = p->next_up)
        if (!only_matching_from(op, tt_sparse_get(&c->peers, p->rank)))
            return false;
    return true;
}

/* Frees a kept operation. */
static void drop_kept(struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;

    for (uint32_t i = 0; i < op->exec.npeers; i++)
        op->flow[i].cp = NULL;
    op->kept = false;
    op->loan = TT_LOAN_NONE;
    tt_op_recycle(e, op);
}

void tt_op_drop_lapsed(struct tt_op **kept)
{
    if (*kept && (*kept)->loan == TT_LOAN_LAPSED) {
        drop_kept(*kept);
        *kept = NULL;
    }
}

/* Copies the memory of a completed straight operation that later calls read. */
static bool copy_reused(struct tt_op *copy, const struct tt_op *op)
{
    const uint32_t n = op->exec.npeers ? op->exec.npeers : 1;
    const uint64_t work_bytes = op->conf.algo->work_bytes(&op->conf.coll);

    copy->flow = malloc(n * sizeof *copy->flow);
    copy->exec_peers = malloc(n * sizeof *copy->exec_peers);
    copy->work = work_bytes ? malloc(work_bytes) : NULL;
    copy->work_cap = work_bytes;
    if (!copy->flow || !copy->exec_peers || (work_bytes && !copy->work))
        return false;
    if (op->exec.npeers) {
        memcpy(copy->flow, op->flow, op->exec.npeers * sizeof *copy->flow);
        memcpy(copy->exec_peers, op->exec_peers, op->exec.npeers * sizeof *copy->exec_peers);
    }
    if (work_bytes)
        memcpy(copy->work, op->work, work_bytes);
    copy->peers_cap = copy->peers_max = copy->exec.peers_max = op->exec.npeers;
    copy->exec.peer = copy->exec_peers;
    copy->exec.conf.coll = &copy->conf.coll;
    return true;
}

/* Returns a copy, with a fifth of the memory, of a completed straight operation that is in no list.
 * Many communicators may keep operations, e.g. in a mesh of process groups. NULL: out of memory. */
static struct tt_op *compact_op(const struct tt_op *op)
{
    const size_t bytes = offsetof(struct tt_op, exec) + tt_exec_straight_bytes(&op->exec);
    struct tt_op *copy = malloc(bytes);

    if (!copy)
        return NULL;
    memcpy(copy, op, bytes);
    copy->compact = true;
    copy->stage = copy->backup = NULL;
    copy->stage_bytes = copy->backup_cap = 0;
    copy->arrays = NULL;
    copy->arrays_cap = 0;
    copy->rooms = NULL;
    copy->why = NULL;
    if (copy_reused(copy, op))
        return copy;
    tt_op_discard(copy);
    return NULL;
}

/* Chooses the kind of stores (ordinary or non-temporal) for the eager messages of later calls. */
static void choose_stores(struct tt_op *op)
{
    struct tt_copy_case c = {
        .what = TT_COPY_EAGER,
        .crowded = op->context->engine->spins == 0,
        .mapped = true,
        .coll = &op->conf.coll,
    };

    for (uint32_t i = 0; i < op->exec.npeers; i++)
        c.mapped &= op->flow[i].cp && op->flow[i].cp->peer->mail.theirs.mapped;
    for (uint32_t i = 0; i < op->exec.tail; i++)
        if (op->exec.step[i].s.opcode == TT_PUT && op->exec.step[i].s.bytes > c.bytes)
            c.bytes = op->exec.step[i].s.bytes;
    tt_copy_eager_settle(&op->eager, &c);
}

/* Keeps a completed operation, which is in no list, for the next call. *kept becomes the operation,
 * or a copy of it. A send or receive is not copied: it may use streams later, and a copy lacks the
 * memory for them. */
static void keep(struct tt_op *op, struct tt_op **kept)
{
    struct tt_op *copy;

    op->kept = true;
    choose_stores(op);
    copy = op->p2p ? NULL : compact_op(op);
    __atomic_store_n(kept, copy ? copy : op, __ATOMIC_RELAXED);
    if (copy)
        drop_kept(op);
}

/* Called when a request is freed. Returns an operation that a plan has lent to the request. False:
 * the operation was not lent. */
static bool give_back(struct tt_op *op)
{
    const bool succeeded = atomic_load_explicit(&op->status, memory_order_relaxed) == TUTTI_OK;

    if (op->loan != TT_LOAN_OUT) {
        for (uint32_t i = 0; i < op->exec.npeers && op->kept; i++)
            op->flow[i].cp = NULL;      /* the plan was dropped meanwhile */
        op->kept = false;
        return false;
    }
    op->loan = op->kept ? TT_LOAN_NONE : TT_LOAN_LAPSED;
    if (!op->kept && succeeded && op->exec.straight && !op->conf.owned) {
        op->loan = TT_LOAN_NONE;
        keep(op, op->conf.kept);
    }
    return true;
}

void tt_op_free_here(struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;
    size_t n;
    struct tt_op **members = tt_group_take_members(op, &n);

    for (size_t i = 0; i < n; i++)
        tt_op_free_here(members[i]);
    free(members);
    tt_request_release(op);
    atomic_store_explicit(&op->waited, TT_OP_UNWAITED, memory_order_relaxed);
    free(op->conf.owned);
    op->conf.owned = NULL;
    if (!give_back(op))
        tt_op_recycle(e, op);
}

void tt_op_keep_or_free(struct tt_op *op, struct tt_op **kept, tutti_status st)
{
    if (kept && *kept == op && !op->kept)
        *kept = NULL;           /* it used streams, and cannot be kept */
    if (op->kept || (kept && !*kept && !st && op->exec.straight && !op->conf.owned)) {
        tt_request_release(op);
        if (!op->kept)
            keep(op, kept);
        else if (op->eager.tried && !st)
            tt_copy_eager_record(&op->eager);
        return;
    }
    tt_op_free_here(op);
}

/* Waits for an operation that was started under the progress lock, and releases the lock. */
static tutti_status op_finish(struct tt_op *op, struct tt_op **kept)
{
    struct tt_engine *e = op->context->engine;
    tutti_status st;

    if (tt_op_is_over(op))
        tt_engine_progress(e);  /* other operations would starve if calls never waited */
    atomic_store_explicit(&op->waited, TT_OP_BLOCKING, memory_order_relaxed);
    if (!tt_engine_work(e, tt_request_is_over, op)) {
        tt_progress_unlock(e);
        tt_engine_wait(e, tt_request_is_over, op);
        tt_progress_lock(e);
    }
    atomic_store_explicit(&op->waited, TT_OP_UNWAITED, memory_order_relaxed);
    st = tt_op_status(op);
    tt_op_keep_or_free(op, kept, st);
    tt_progress_unlock(e);
    if (st && !e->members)
        tt_dump_await();        /* the caller may exit now */
    return st;
}

tutti_status tt_op_blocking(struct tt_context *c, const struct tt_op_conf *conf)
{
    struct tt_op *op;
    tutti_status st;

    tt_progress_lock(c->engine);
    st = tt_op_start_here(c, conf, &op);
    if (!st)
        return op_finish(op, conf->kept);
    free(conf->owned);
    tt_progress_unlock(c->engine);
    return st;
}

/* Returns whether the kept operation can be started now. */
static bool may_begin_again(const struct tt_op *op)
{
    const struct tt_context *c = op->context;

    return op->loan == TT_LOAN_NONE && !atomic_load_explicit(&c->status, memory_order_relaxed) &&
           (op->p2p ? op->desc.kind == TT_SEND || !c->nunmatched
                    : c->nactive < TT_OPS_EXPOSED && !c->waiting);
}

/* Runs a kept operation that was started again, if it can complete without a long wait. only_work:
 * no other operation needs progress. */
static bool run_again_at_once(struct tt_op *op, bool only_work)
{
    if (!only_work || !only_matching_eager(op) || !tt_op_run_unexposed(op))
        return false;
    if (!op->record)
        tt_op_trace_begin(op, true);
    tt_oplog_end_last(&op->context->engine->oplog, op->record, op->last_tick - op->called_tick);
    tt_op_record_history(op);
    if (op->eager.tried)
        tt_copy_eager_record(&op->eager);
    return true;
}

/* Returns the configuration of a new call like the kept operation, if that is in use or cannot be
 * reused. The new operation may replace it. */
static struct tt_op_conf conf_again(struct tt_op **kept, const void *src, void *dst, uint32_t tag,
                                    int64_t timeout_ms)
{
    struct tt_op_conf conf = (*kept)->conf;

    tt_op_drop_lapsed(kept);
    conf.src = src;
    conf.dst = dst;
    conf.tag = tag;
    conf.timeout_ms = timeout_ms;
    conf.kept = kept;
    return conf;
}

bool tt_op_begin_again(struct tt_op *op, const void *src, void *dst, uint32_t tag,
                       int64_t timeout_ms, enum tt_loan loan, bool *done)
{
    struct tt_engine *e = op->context->engine;
    const uint32_t ndirect = e->ndirect;
    bool only_work;

    if (!may_begin_again(op))
        return false;
    only_work = is_only_work(op->context);
    if (!reuse_kept(op, src, dst, tag, timeout_ms))
        return false;
    op->loan = loan;
    if (loan == TT_LOAN_OUT)
        tt_request_hold(op);
    *done = run_again_at_once(op, only_work);
    if (*done)
        return true;
    e->failed_ndirect += e->ndirect - ndirect;      /* this call has not succeeded */
    if (loan != TT_LOAN_OUT)
        tt_request_hold(op);
    tt_op_join_again(op);
    return true;
}

tutti_status tt_op_again(struct tt_context *c, struct tt_op **kept, const void *src, void *dst,
                         uint32_t tag, int64_t timeout_ms)
{
    struct tt_op_conf conf;
    struct tt_op *op;
    bool done;

    tt_progress_lock(c->engine);
    op = *kept;
    if (tt_op_begin_again(op, src, dst, tag, timeout_ms, TT_LOAN_NONE, &done)) {
        if (!done)
            return op_finish(op, kept);
        tt_progress_unlock(c->engine);
        return TUTTI_OK;
    }
    conf = conf_again(kept, src, dst, tag, timeout_ms);
    tt_progress_unlock(c->engine);
    return tt_op_blocking(c, &conf);
}

tutti_status tt_op_start_again(struct tt_context *c, struct tt_op **kept, const void *src,
                               void *dst, int64_t timeout_ms, struct tt_op **out)
{
    struct tt_op_conf conf;
    struct tt_op *op;
    bool done;

    tt_progress_lock(c->engine);
    op = *kept;
    if (tt_op_begin_again(op, src, dst, 0, timeout_ms, TT_LOAN_OUT, &done)) {
        *out = op;
        tt_progress_unlock(c->engine);
        return TUTTI_OK;
    }
    conf = conf_again(kept, src, dst, 0, timeout_ms);
    tt_progress_unlock(c->engine);
    return tt_op_start(c, &conf, out);
}

void tt_op_drop(struct tt_context *c, struct tt_op **kept)
{
    if (!tt_op_is_kept(kept))
        return;
    tt_progress_lock(c->engine);
    if ((*kept)->loan == TT_LOAN_OUT)
        (*kept)->loan = TT_LOAN_NONE;
    else
        drop_kept(*kept);
    *kept = NULL;
    tt_progress_unlock(c->engine);
}

tutti_status tt_op_start(struct tt_context *c, const struct tt_op_conf *conf, struct tt_op **out)
{
    tutti_status st;

    tt_progress_lock(c->engine);
    st = tt_op_start_here(c, conf, out);
    if (st) {
        free(conf->owned);
    } else if (conf->kept && !*conf->kept) {
        (*out)->loan = TT_LOAN_OUT;
        *conf->kept = *out;
    }
    tt_progress_unlock(c->engine);
    return st;
}
