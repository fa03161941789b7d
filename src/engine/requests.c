#include "engine/requests.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"
#include "engine/context.h"
#include "engine/group.h"
#include "engine/op.h"
#include "engine/progress.h"

static pthread_mutex_t pinning = PTHREAD_MUTEX_INITIALIZER;    /* a leaf lock: protects the
                                                                  pointer from a request to its
                                                                  context */

void tt_request_hold(struct tt_op *op)
{
    struct tt_context *c = op->context;

    op->next_request = c->requests;
    op->request_at = &c->requests;
    if (c->requests)
        c->requests->request_at = &op->next_request;
    c->requests = op;
}

void tt_request_release(struct tt_op *op)
{
    *op->request_at = op->next_request;
    if (op->next_request)
        op->next_request->request_at = op->request_at;
}

/* Returns the context of a request, or NULL if it was closed and the request is over. A guarded
 * context stays open until unpin_context. */
static struct tt_context *pin_context(struct tt_op *op)
{
    struct tt_context *c;

    if (!op->guarded)
        return op->context;
    pthread_mutex_lock(&pinning);
    c = op->context;
    if (c)
        atomic_fetch_add(&c->pins, 1);
    pthread_mutex_unlock(&pinning);
    return c;
}

/* guarded: of the request, because an unguarded context may already be freed. */
static void unpin_context(struct tt_context *c, bool guarded)
{
    if (c && guarded)
        atomic_fetch_sub(&c->pins, 1);
}

void tt_request_complete(struct tt_op *op, tutti_status status)
{
    void (*const notify)(void *arg) = op->notify;
    void *const arg = op->notify_arg;

    op->notify = NULL;
    atomic_store_explicit(&op->status, (int)status, memory_order_release);
    if (notify)
        notify(arg);
}

bool tt_op_notify(struct tt_op *op, void (*notify)(void *arg), void *arg)
{
    const bool guarded = op->guarded;
    struct tt_context *c = pin_context(op);
    bool taken = false, over;

    if (c)
        tt_progress_lock(c->engine);
    over = tt_op_is_over(op);
    if (!over) {
        taken = op->notify != NULL;
        if (!taken) {
            op->notify = notify;
            op->notify_arg = arg;
            atomic_store_explicit(&op->waited, TT_OP_WATCHED, memory_order_relaxed);
        }
    }
    if (c)
        tt_progress_unlock(c->engine);
    if (c && !over)
        tt_engine_summon(c->engine);
    unpin_context(c, guarded);
    if (over)
        notify(arg);
    return !taken;
}

bool tt_request_is_over(void *arg)
{
    return tt_op_is_over(arg);
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
    if (!tt_op_give_back(op))
        tt_op_recycle(e, op);
}

bool tt_ops_orphan(struct tt_context *c)
{
    bool idle;

    pthread_mutex_lock(&pinning);
    idle = !tt_context_is_used(c);
    while (c->requests && idle) {
        struct tt_op *op = c->requests;

        tt_request_release(op);
        op->context = NULL;
    }
    pthread_mutex_unlock(&pinning);
    return idle;
}

bool tt_op_test(struct tt_op *op)
{
    const bool guarded = op->guarded;
    struct tt_context *c;

    if (tt_op_is_over(op))
        return true;
    atomic_store_explicit(&op->waited, TT_OP_WATCHED, memory_order_relaxed);
    c = pin_context(op);
    if (c && tt_progress_trylock(c->engine)) {
        tt_engine_progress(c->engine);
        tt_progress_unlock(c->engine);
    }
    unpin_context(c, guarded);
    return tt_op_is_over(op);
}

void tt_op_wait(struct tt_op *op)
{
    const bool guarded = op->guarded;
    struct tt_context *c;

    if (tt_op_is_over(op))
        return;
    c = pin_context(op);
    atomic_store_explicit(&op->waited, TT_OP_WAITED, memory_order_relaxed);
    if (c)
        tt_engine_wait(c->engine, tt_request_is_over, op);
    unpin_context(c, guarded);
    atomic_store_explicit(&op->waited, TT_OP_UNWAITED, memory_order_relaxed);
}

struct until {
    struct tt_op *op;
    uint64_t due_ns;
};

static bool over_or_due(void *arg)
{
    const struct until *until = arg;

    return tt_op_is_over(until->op) || tt_now_ns() >= until->due_ns;
}

bool tt_op_wait_until(struct tt_op *op, uint64_t due_ns)
{
    struct until until = { .op = op, .due_ns = due_ns };
    const bool guarded = op->guarded;
    struct tt_context *c;

    if (tt_op_is_over(op))
        return true;
    c = pin_context(op);
    atomic_store_explicit(&op->waited, TT_OP_WATCHED, memory_order_relaxed);
    if (c)
        tt_engine_wait(c->engine, over_or_due, &until);
    unpin_context(c, guarded);
    return tt_op_is_over(op);
}

struct any {
    struct tt_op **ops;
    size_t n, index;
};

static bool any_done(void *arg)
{
    struct any *any = arg;

    for (size_t i = 0; i < any->n; i++)
        if (any->ops[i] && tt_op_is_over(any->ops[i])) {
            any->index = i;
            return true;
        }
    return false;
}

size_t tt_op_wait_any(struct tt_op **ops, size_t n)
{
    struct any any = { .ops = ops, .n = n };
    size_t first = 0;

    while (!ops[first])
        first++;
    for (size_t i = first; i < n; i++)
        if (ops[i])
            atomic_store_explicit(&ops[i]->waited, TT_OP_WATCHED, memory_order_relaxed);
    while (!any_done(&any)) {
        const bool guarded = ops[first]->guarded;
        struct tt_context *c = pin_context(ops[first]);

        if (c)
            tt_engine_wait(c->engine, any_done, &any);
        unpin_context(c, guarded);
    }
    return any.index;
}

tutti_status tt_op_status(struct tt_op *op)
{
    const tutti_status st = (tutti_status)atomic_load_explicit(&op->status, memory_order_acquire);

    if (st > TUTTI_PENDING)
        tt_fail_again(st, op->why ? op->why : "out of memory for the message of this failure");
    return st;
}

/* Frees a request whose context was closed. It is not reused, because the engine's list of free
 * operations can no longer be reached. */
static void free_orphan(struct tt_op *op)
{
    size_t n;
    struct tt_op **members = tt_group_take_members(op, &n);

    for (size_t i = 0; i < n; i++)
        free_orphan(members[i]);
    free(members);
    free(op->conf.owned);
    tt_op_discard(op);
}

void tt_op_free(struct tt_op *op)
{
    const bool guarded = op->guarded;
    struct tt_context *c = pin_context(op);

    if (!c) {
        free_orphan(op);
        return;
    }
    tt_progress_lock(c->engine);
    if (!tt_op_is_over(op))
        tt_context_fail_here(c, TUTTI_ERR_ABORTED, "an operation was cancelled before it completed",
                             true);
    tt_op_free_here(op);
    tt_progress_unlock(c->engine);
    unpin_context(c, guarded);
}
