#include "engine/group.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/context.h"
#include "engine/op.h"
#include "engine/progress.h"
#include "engine/requests.h"

/* All members are over. The group gets the status of the first failed member, by index. */
static void group_end(struct tt_op *group)
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
        group_end(group);
}

struct tt_op **tt_group_take_members(struct tt_op *group, size_t *n)
{
    struct tt_op **members = group->members;

    *n = group->nmembers;
    group->members = NULL;
    group->nmembers = 0;
    return members;
}

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
        group_end(group);
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
