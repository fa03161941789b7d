/* The application's calls on its requests: test, wait, notify, free. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/calls.h"
#include "engine/context_end.h"
#include "engine/engine_client.h"
#include "engine/op.h"
#include "engine/op_lists.h"
#include "engine/progress.h"
#include "engine/requests.h"

bool tt_op_notify(struct tt_op *op, void (*notify)(void *arg), void *arg)
{
    const bool guarded = op->guarded;
    struct tt_context *c = tt_request_pin(op);
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
    tt_request_unpin(c, guarded);
    if (over)
        notify(arg);
    return !taken;
}

bool tt_op_test(struct tt_op *op)
{
    const bool guarded = op->guarded;
    struct tt_context *c;

    if (tt_op_is_over(op))
        return true;
    atomic_store_explicit(&op->waited, TT_OP_WATCHED, memory_order_relaxed);
    c = tt_request_pin(op);
    if (c && tt_progress_trylock(c->engine)) {
        tt_engine_progress(c->engine);
        tt_progress_unlock(c->engine);
    }
    tt_request_unpin(c, guarded);
    return tt_op_is_over(op);
}

void tt_op_wait(struct tt_op *op)
{
    const bool guarded = op->guarded;
    struct tt_context *c;

    if (tt_op_is_over(op))
        return;
    c = tt_request_pin(op);
    atomic_store_explicit(&op->waited, TT_OP_WAITED, memory_order_relaxed);
    if (c)
        tt_engine_wait(c->engine, tt_request_is_over, op);
    tt_request_unpin(c, guarded);
    atomic_store_explicit(&op->waited, TT_OP_UNWAITED, memory_order_relaxed);
}

struct until {
    struct tt_op *op;
    struct tt_engine *engine;
    uint64_t due_ns;
};

static bool over_or_due(void *arg)
{
    const struct until *until = arg;

    tt_engine_client_due(until->engine, until->due_ns);
    return tt_op_is_over(until->op) || tt_now_ns() >= until->due_ns;
}

bool tt_op_wait_until(struct tt_op *op, uint64_t due_ns)
{
    struct until until = { .op = op, .due_ns = due_ns };
    const bool guarded = op->guarded;
    struct tt_context *c;

    if (tt_op_is_over(op))
        return true;
    c = tt_request_pin(op);
    atomic_store_explicit(&op->waited, TT_OP_WATCHED, memory_order_relaxed);
    if (c) {
        until.engine = c->engine;
        tt_engine_wait(c->engine, over_or_due, &until);
    }
    tt_request_unpin(c, guarded);
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
        struct tt_context *c = tt_request_pin(ops[first]);

        if (c)
            tt_engine_wait(c->engine, any_done, &any);
        tt_request_unpin(c, guarded);
    }
    return any.index;
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
    struct tt_context *c = tt_request_pin(op);

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
    tt_request_unpin(c, guarded);
}
