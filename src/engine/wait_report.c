/* The ranks that the operations of this process wait for, or waited for when they failed. Other
 * ranks query them. */
#include "engine/wait_report.h"

#include <string.h>

#include "base/clock.h"
#include "engine/describe.h"

/* The deadlines of ranks are at about the same time. A rank whose operation has just failed is
 * often in its next operation when other ranks query it. That operation is not the one that delayed
 * them. */
#define FAILED_NS (2 * TT_SECOND)

/* Marks that the failed operations no longer block this rank. They are still reported for some
 * time. */
static void end_failed_ones(struct tt_engine *e)
{
    pthread_mutex_lock(&e->waiting_lock);
    e->failed_is_past = true;
    pthread_mutex_unlock(&e->waiting_lock);
}

static void keep_failed(struct tt_engine *e, const struct tt_waiting *w)
{
    pthread_mutex_lock(&e->waiting_lock);
    if (e->failed_is_past)
        e->nfailed = 0;
    e->failed_is_past = false;
    e->failed_ns = tt_now_ns();
    if (e->nfailed == TT_WAITINGS)
        memmove(e->failed, e->failed + 1, --e->nfailed * sizeof *e->failed);
    e->failed[e->nfailed++] = *w;
    pthread_mutex_unlock(&e->waiting_lock);
    e->failed_starts = e->starts;
    e->failed_ndirect = e->ndirect;
}

static bool has_failed_in(const struct tt_engine *e, uint32_t context)
{
    for (uint32_t i = 0; i < e->nfailed && !e->failed_is_past; i++)
        if (e->failed[i].context == context)
            return true;
    return false;
}

/* The waited-for rank is recorded only for timeouts and losses: other failures have a different
 * cause. */
void tt_op_has_failed(const struct tt_op *op, tutti_status status)
{
    struct tt_engine *e = op->context->engine;
    struct tt_waiting w = { .context = op->context->id,
                            .rank = UINT32_MAX,
                            .op = op->p2p ? UINT64_MAX : op->seq,
                            .ended = true };

    if (status == TUTTI_ERR_TIMEOUT || status == TUTTI_ERR_PEER_LOST)
        w.rank = tt_op_waits_for(op);
    if (w.rank != UINT32_MAX || !has_failed_in(e, w.context))
        keep_failed(e, &w);
}

static bool began_after_failure(const struct tt_engine *e, const struct tt_op *op)
{
    return e->nfailed && (int32_t)(op->started - e->failed_starts) > 0;
}

void tt_op_has_succeeded(const struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;

    if (!e->failed_is_past && began_after_failure(e, op))
        end_failed_ones(e);
}

void tt_context_has_refused(const struct tt_context *c)
{
    if (!has_failed_in(c->engine, c->id))
        keep_failed(c->engine,
                    &(struct tt_waiting){
                        .context = c->id, .rank = c->failed_by, .op = UINT64_MAX, .ended = true });
}

void tt_waits_publish(struct tt_engine *e)
{
    struct tt_waiting now[TT_WAITINGS_KEPT];
    uint32_t n = 0;

    for (const struct tt_context *c = e->contexts; c; c = c->next) {
        for (const struct tt_op *op = c->active; op && n < TT_WAITINGS_KEPT; op = op->next)
            now[n++] = (struct tt_waiting){ .context = c->id,
                                            .rank = tt_op_waits_for(op),
                                            .op = op->p2p ? UINT64_MAX : op->seq,
                                            .late = began_after_failure(e, op) };
        if (!c->active && c->waiting && n < TT_WAITINGS_KEPT)
            now[n++] = (struct tt_waiting){ .context = c->id,
                                            .rank = UINT32_MAX,
                                            .op = c->waiting->seq,
                                            .late = began_after_failure(e, c->waiting) };
    }
    if (e->nfailed && !e->failed_is_past && e->ndirect != e->failed_ndirect)
        end_failed_ones(e);     /* direct calls have succeeded since */
    if (!n && !e->nwaiting)
        return;
    pthread_mutex_lock(&e->waiting_lock);
    memcpy(e->waiting, now, n * sizeof *now);
    e->nwaiting = n;
    pthread_mutex_unlock(&e->waiting_lock);
}

/* Returns entry i of the operations in progress, followed by the failed ones. The caller holds
 * waiting_lock. */
static const struct tt_waiting *waiting_at(const struct tt_engine *e, uint32_t i)
{
    return i < e->nwaiting ? &e->waiting[i] : &e->failed[i - e->nwaiting];
}

uint32_t tt_engine_list_waits(struct tt_engine *e, uint32_t context, uint64_t op,
                              struct tt_waiting out[TT_WAITINGS])
{
    uint32_t first = UINT32_MAX, n = 0, total;
    bool recent;

    pthread_mutex_lock(&e->waiting_lock);
    recent = e->nfailed && tt_now_ns() - e->failed_ns < FAILED_NS;
    total = e->nwaiting + (e->failed_is_past && !recent ? 0 : e->nfailed);
    for (uint32_t i = 0; i < total && first == UINT32_MAX; i++)
        if (waiting_at(e, i)->context == context && waiting_at(e, i)->op == op)
            first = i;
    if (first != UINT32_MAX)
        out[n++] = *waiting_at(e, first);
    for (uint32_t i = 0; i < total && n < TT_WAITINGS; i++)
        if (i != first && !(recent && waiting_at(e, i)->late))
            out[n++] = *waiting_at(e, i);
    pthread_mutex_unlock(&e->waiting_lock);
    return n;
}
