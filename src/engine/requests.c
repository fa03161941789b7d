#include "engine/requests.h"

#include <pthread.h>

#include "base/status.h"
#include "engine/context.h"
#include "engine/op.h"
#include "engine/op_lists.h"

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

struct tt_context *tt_request_pin(struct tt_op *op)
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

void tt_request_unpin(struct tt_context *c, bool guarded)
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

bool tt_request_is_over(void *arg)
{
    return tt_op_is_over(arg);
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

tutti_status tt_op_status(struct tt_op *op)
{
    const tutti_status st = (tutti_status)atomic_load_explicit(&op->status, memory_order_acquire);

    if (st > TUTTI_PENDING)
        tt_fail_again(st, op->why ? op->why : "out of memory for the message of this failure");
    return st;
}

/* ---- members of groups ---- */

void tt_group_end(struct tt_op *group)
{
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < group->nmembers && !st; i++) {
        st = (tutti_status)atomic_load_explicit(&group->members[i]->status, memory_order_relaxed);
        if (st)
            tt_op_set_why(group, group->members[i]->why);
    }
    tt_request_complete(group, st);
}

void tt_group_member_over(struct tt_op *member)
{
    struct tt_op *group = member->group;

    member->group = NULL;
    if (--group->nmembers_running == 0)
        tt_group_end(group);
}

struct tt_op **tt_group_take_members(struct tt_op *group, size_t *n)
{
    struct tt_op **members = group->members;

    *n = group->nmembers;
    group->members = NULL;
    group->nmembers = 0;
    return members;
}
