/* Collection of a group's calls, and their start. */
#include "group.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

struct pending {
    struct ncclComm *comm;
    tutti_gpu_op op;
    bool has_value;
    unsigned char value[8];
};

static _Thread_local struct {
    int depth;
    struct pending *ops;
    size_t nops, room;
    struct nccl_start **starts;
    size_t nstarts;
    ncclResult_t error;         /* of a call in the group */
} group;

bool nccl_group_is_open(void)
{
    return group.depth > 0;
}

ncclResult_t nccl_group_refuse(ncclResult_t result)
{
    if (group.depth && !group.error)
        group.error = result;
    return result;
}

static ncclResult_t grow(void)
{
    const size_t room = group.room ? 2 * group.room : 16;
    struct pending *ops;

    if (group.nops < group.room)
        return ncclSuccess;
    ops = realloc(group.ops, room * sizeof *ops);
    if (!ops)
        return nccl_fail(ncclSystemError, "ncclGroupStart: out of memory");
    group.ops = ops;
    group.room = room;
    return ncclSuccess;
}

ncclResult_t nccl_group_add(struct ncclComm *c, const tutti_gpu_op *op, const void *value)
{
    tutti_gpu_op mine = *op;
    struct pending *p;
    ncclResult_t result;

    if (!group.depth) {
        result = nccl_comm_usable(c, "NCCL operation");
        if (result)
            return result;
        mine.gpu = c->gpu;
        if (value)
            mine.scale_from = value;
        return nccl_result(tutti_gpu_group(&mine, 1));
    }
    result = grow();
    if (result)
        return nccl_group_refuse(result);
    p = &group.ops[group.nops++];
    *p = (struct pending){ .comm = c, .op = mine, .has_value = value != NULL };
    if (value)
        memcpy(p->value, value, sizeof p->value);
    return ncclSuccess;
}

ncclResult_t nccl_group_add_start(struct nccl_start *s)
{
    struct nccl_start **starts =
        realloc(group.starts, (group.nstarts + 1) * sizeof(struct nccl_start *));

    if (!starts) {
        nccl_start_drop(s);
        return nccl_group_refuse(nccl_fail(ncclSystemError, "ncclGroupStart: out of memory"));
    }
    group.starts = starts;
    group.starts[group.nstarts++] = s;
    return ncclSuccess;
}

/* Starts all communicators of the group concurrently, and waits for the blocking ones. */
static ncclResult_t run_starts(void)
{
    struct ncclComm **comms = calloc(group.nstarts, sizeof(struct ncclComm *));
    ncclResult_t first = ncclSuccess;

    if (!comms)
        return nccl_fail(ncclSystemError, "ncclGroupEnd: out of memory");
    for (size_t i = 0; i < group.nstarts; i++) {
        comms[i] = group.starts[i]->comm;
        if (nccl_start_thread(group.starts[i]))
            first = ncclSystemError;
    }
    for (size_t i = 0; i < group.nstarts; i++) {
        const ncclResult_t result =
            comms[i]->blocking ? nccl_comm_ready(comms[i], "ncclGroupEnd") : ncclInProgress;

        if (!first || first == ncclInProgress)
            first = result ? result : first;
        if (comms[i]->none)
            nccl_comm_free(comms[i], false);
    }
    free(comms);
    return first;
}

static ncclResult_t run_ops(void)
{
    tutti_gpu_op *ops = calloc(group.nops, sizeof *ops);
    ncclResult_t result = ncclSuccess;

    if (!ops)
        return nccl_fail(ncclSystemError, "ncclGroupEnd: out of memory");
    for (size_t i = 0; i < group.nops && !result; i++) {
        struct pending *p = &group.ops[i];

        result = nccl_comm_usable(p->comm, "ncclGroupEnd");
        ops[i] = p->op;
        ops[i].gpu = p->comm->gpu;
        if (p->has_value)
            ops[i].scale_from = p->value;
    }
    if (!result)
        result = nccl_result(tutti_gpu_group(ops, group.nops));
    free(ops);
    return result;
}

/* Forgets the group's calls. */
static void reset(void)
{
    free(group.ops);
    free(group.starts);
    memset(&group, 0, sizeof group);
}

NCCL_API(ncclResult_t, ncclGroupStart, void)
{
    group.depth++;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGroupEnd, void)
{
    ncclResult_t result, started = ncclSuccess;

    if (!group.depth)
        return nccl_fail(ncclInvalidUsage, "ncclGroupEnd: there is no ncclGroupStart before it");
    if (--group.depth)
        return ncclSuccess;
    if (group.nstarts)
        started = run_starts();
    result = group.error ? group.error : started == ncclInProgress ? ncclSuccess : started;
    if (!result && group.nops)
        result = run_ops();
    reset();
    return result ? result : started;
}
