/* The worker: waits until all streams of a unit have reached it, runs its operations, and releases
 * the streams. */
#include "gpu/worker.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "gpu/request.h"
#include "gpu/scalar.h"
#include "gpu/staged.h"

/* Polls of the start words: first without a pause, then sleeps that get longer. */
#define YIELDS 200
#define SLEEP_NS_MIN 20000ull
#define SLEEP_NS_MAX (1 * TT_MS)

static bool has_started(const tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    for (uint32_t i = 0; i < u->nstreams; i++)
        if (!tt_gpu_flags_started(gpu->flags, u->start[i], u->sequence))
            return false;
    return true;
}

/* Sleeps, at most ns; an abort ends it. */
static void sleep_until_change(tutti_gpu *gpu, uint64_t ns)
{
    const uint64_t until = tt_now_ns() + ns;
    const struct timespec ts = { .tv_sec = (time_t)(until / TT_SECOND),
                                 .tv_nsec = (long)(until % TT_SECOND) };

    pthread_mutex_lock(&gpu->lock);
    if (!atomic_load(&gpu->aborted))
        pthread_cond_timedwait(&gpu->changed, &gpu->lock, &ts);
    pthread_mutex_unlock(&gpu->lock);
}

/* Waits for the streams. Returns an error if the communicator fails first. */
static tutti_status await_start(tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    uint64_t ns = SLEEP_NS_MIN;

    for (uint32_t polls = 0; !has_started(gpu, u); polls++) {
        if (atomic_load(&gpu->aborted))
            return tt_fail(TUTTI_ERR_ABORTED, "gpu: the communicator was aborted before the stream "
                                              "reached the operation");
        if (polls < YIELDS) {
            sched_yield();
            continue;
        }
        if (tutti_comm_status(gpu->comm))
            return tt_fail(tutti_comm_status(gpu->comm),
                           "gpu: the communicator failed before the stream reached the operation: "
                           "%.800s",
                           tutti_last_error());
        sleep_until_change(gpu, ns);
        ns = ns * 2 < SLEEP_NS_MAX ? ns * 2 : SLEEP_NS_MAX;
    }
    return TUTTI_OK;
}

static tutti_status run_items(tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    char *arena = tt_gpu_arena(gpu);
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < u->nitems && !st; i++) {
        tutti_gpu_op op = u->items[i].op;

        if (op.kind == TUTTI_GPU_SEND || op.kind == TUTTI_GPU_RECV)
            continue;
        op.algo = u->items[i].algo[0] ? u->items[i].algo : NULL;
        st = tt_gpu_scalar_read(gpu, &op);
        if (!st)
            st = tt_gpu_staged_run(gpu, &op, arena, op.scale);
    }
    return st ? st : tt_gpu_p2p_run(gpu, u->items, u->nitems, arena);
}

static void complete_requests(struct tt_gpu_unit *u, tutti_status st)
{
    for (size_t i = 0; i < u->nitems; i++)
        if (u->items[i].request)
            tt_gpu_request_complete(u->items[i].request, st);
    if (u->job_request)
        tt_gpu_request_complete(u->job_request, st);
}

/* An error of an operation ends gpu; an error of a job is the job's only. */
static void run_unit(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    tutti_status st = tt_gpu_failure(gpu);

    if (!st)
        st = await_start(gpu, u);
    if (!st && !u->job)
        st = run_items(gpu, u);
    if (st)
        tt_gpu_set_failed(gpu, st);
    else if (u->job)
        st = u->job->job(gpu->comm, u->job->arg);
    tt_gpu_flags_end(gpu->flags, u->sequence);
    complete_requests(u, st);
}

/* Returns the next unit, which stays in the queue, or NULL at the end. */
static struct tt_gpu_unit *next_unit(tutti_gpu *gpu)
{
    struct tt_gpu_unit *u;

    pthread_mutex_lock(&gpu->lock);
    while (!gpu->first && !gpu->stop)
        pthread_cond_wait(&gpu->changed, &gpu->lock);
    u = gpu->first;
    pthread_mutex_unlock(&gpu->lock);
    return u;
}

static void remove_unit(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    pthread_mutex_lock(&gpu->lock);
    gpu->first = u->next;
    if (!gpu->first)
        gpu->last = &gpu->first;
    gpu->ended = u->sequence;
    gpu->flags->starts_free += u->nstreams;
    pthread_cond_broadcast(&gpu->changed);
    pthread_mutex_unlock(&gpu->lock);
    free(u->items);
    free(u);
}

void *tt_gpu_worker(void *arg)
{
    tutti_gpu *gpu = arg;
    struct tt_gpu_unit *u;
    const tutti_status st = tt_gpu_enter(gpu);

    if (st)
        tt_gpu_set_failed(gpu, st);
    while ((u = next_unit(gpu))) {
        run_unit(gpu, u);
        remove_unit(gpu, u);
    }
    if (!st)
        tt_gpu_leave(gpu);
    return NULL;
}
