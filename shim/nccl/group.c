/* Collects the calls of a group, and starts them. */
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "window.h"

struct pending {
    struct ncclComm *comm;
    tutti_gpu_op op;
    struct ncclWindow *window;  /* of a put, else NULL */
    bool has_value;
    unsigned char value[8];
};

/* A collective call that is no operation. */
struct job {
    struct ncclComm *comm;
    ncclResult_t (*run)(void *arg);
    void *arg;
};

static _Thread_local struct {
    int depth;
    struct pending *ops;
    size_t nops, room;
    struct nccl_start **starts;
    size_t nstarts;
    struct job *jobs;
    size_t njobs;
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

/* Sets Tutti's window of a put. */
static ncclResult_t set_window(tutti_gpu_op *op, struct ncclComm *c, const struct ncclWindow *w)
{
    op->window = w ? nccl_window_of(c, w) : NULL;
    return w && !op->window
               ? nccl_fail(ncclInvalidArgument,
                           "ncclPutSignal: the window is invalid or of another communicator")
               : ncclSuccess;
}

/* Starts an operation outside of groups. */
static ncclResult_t start_one(struct ncclComm *c, const tutti_gpu_op *op, const void *value,
                              const struct ncclWindow *w)
{
    tutti_gpu_op mine = *op;
    ncclResult_t result = nccl_comm_usable(c, "NCCL operation");

    if (!result)
        result = set_window(&mine, c, w);
    if (result)
        return result;
    mine.gpu = c->gpu;
    if (value)
        mine.scale_from = value;
    return nccl_result(tutti_gpu_group(&mine, 1));
}

static ncclResult_t add(struct ncclComm *c, const tutti_gpu_op *op, const void *value,
                        struct ncclWindow *w)
{
    struct pending *p;
    ncclResult_t result;

    if (!group.depth)
        return start_one(c, op, value, w);
    result = grow();
    if (result)
        return nccl_group_refuse(result);
    p = &group.ops[group.nops++];
    *p = (struct pending){ .comm = c, .op = *op, .window = w, .has_value = value != NULL };
    if (value)
        memcpy(p->value, value, sizeof p->value);
    return ncclSuccess;
}

ncclResult_t nccl_group_add(struct ncclComm *c, const tutti_gpu_op *op, const void *value)
{
    return add(c, op, value, NULL);
}

ncclResult_t nccl_group_add_put(struct ncclComm *c, const tutti_gpu_op *op, struct ncclWindow *w)
{
    return add(c, op, NULL, w);
}

ncclResult_t nccl_group_add_job(struct ncclComm *c, ncclResult_t (*run)(void *arg), void *arg)
{
    struct job *jobs = realloc(group.jobs, (group.njobs + 1) * sizeof *jobs);

    if (!jobs)
        return nccl_group_refuse(nccl_fail(ncclSystemError, "ncclGroupStart: out of memory"));
    group.jobs = jobs;
    jobs[group.njobs++] = (struct job){ .comm = c, .run = run, .arg = arg };
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

/* The jobs of one communicator, in a thread. */
struct runner {
    const struct job *jobs;
    size_t njobs;
    const struct ncclComm *comm;
    bool has_thread;
    ncclResult_t result;
    char why[NCCL_WHY_BYTES];
    pthread_t thread;
};

static void *run_jobs_of(void *arg)
{
    struct runner *r = arg;

    for (size_t i = 0; i < r->njobs && !r->result; i++)
        if (r->jobs[i].comm == r->comm)
            r->result = r->jobs[i].run(r->jobs[i].arg);
    if (r->result)
        snprintf(r->why, sizeof r->why, "%s", nccl_last_error());
    return NULL;
}

static bool is_first_of_comm(size_t job)
{
    size_t i = 0;

    while (group.jobs[i].comm != group.jobs[job].comm)
        i++;
    return i == job;
}

/* Runs the jobs of all communicators concurrently, because they wait for each other. */
static ncclResult_t run_jobs(void)
{
    struct runner *r = calloc(group.njobs, sizeof *r);
    ncclResult_t result = ncclSuccess;

    if (!r)
        return nccl_fail(ncclSystemError, "ncclGroupEnd: out of memory");
    for (size_t i = 0; i < group.njobs; i++) {
        if (!is_first_of_comm(i))
            continue;
        r[i] =
            (struct runner){ .jobs = group.jobs, .njobs = group.njobs, .comm = group.jobs[i].comm };
        r[i].has_thread = !pthread_create(&r[i].thread, NULL, run_jobs_of, &r[i]);
        if (!r[i].has_thread)
            result = nccl_fail(ncclSystemError, "ncclGroupEnd: cannot start a thread");
    }
    for (size_t i = 0; i < group.njobs; i++) {
        if (r[i].has_thread)
            pthread_join(r[i].thread, NULL);
        if (r[i].result && !result)
            result = nccl_fail(r[i].result, "%s", r[i].why);
    }
    free(r);
    return result;
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
        if (!result && p->window)
            result = set_window(&ops[i], p->comm, p->window);
        if (p->has_value)
            ops[i].scale_from = p->value;
    }
    if (!result)
        result = nccl_result(tutti_gpu_group(ops, group.nops));
    free(ops);
    return result;
}

/* Discards the group's calls. */
static void reset(void)
{
    free(group.ops);
    free(group.starts);
    free(group.jobs);
    memset(&group, 0, sizeof group);
}

void nccl_group_begin(void)
{
    group.depth++;
}

/* Also runs the jobs after an error, because other ranks wait for them. Returns the first error,
 * whose message is the last error. */
static ncclResult_t run_jobs_after(ncclResult_t first)
{
    char why[NCCL_WHY_BYTES];
    ncclResult_t result;

    snprintf(why, sizeof why, "%s", nccl_last_error());
    result = run_jobs();
    return first ? nccl_fail(first, "%s", why) : result;
}

ncclResult_t nccl_group_end(void)
{
    ncclResult_t result, started = ncclSuccess;

    if (!group.depth)
        return nccl_fail(ncclInvalidUsage, "ncclGroupEnd: there is no ncclGroupStart before it");
    if (--group.depth)
        return ncclSuccess;
    if (group.nstarts)
        started = run_starts();
    result = group.error ? group.error : started == ncclInProgress ? ncclSuccess : started;
    if (group.njobs)
        result = run_jobs_after(result);
    if (!result && group.nops)
        result = run_ops();
    reset();
    return result ? result : started;
}

NCCL_API(ncclResult_t, ncclGroupStart, void)
{
    nccl_group_begin();
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGroupEnd, void)
{
    return nccl_group_end();
}

/* Ends the group without starting its operations, as NCCL does. Predicts no time. */
NCCL_API(ncclResult_t, ncclGroupSimulateEnd, void *info)
{
    static const char why[] = "ncclGroupSimulateEnd is not supported by Tutti: the operations of "
                              "the group were discarded (times are predicted by tutti plan)";

    (void)info;
    if (!group.depth)
        return nccl_fail(ncclInvalidUsage,
                         "ncclGroupSimulateEnd: there is no ncclGroupStart before it");
    nccl_group_refuse(nccl_fail(ncclInvalidUsage, "%s", why));
    nccl_group_end();
    return nccl_fail(ncclInvalidUsage, "%s", why);
}
