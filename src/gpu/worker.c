/* The worker: waits until all streams of a unit have reached it, runs its operations, and releases
 * the streams. */
#include "gpu/worker.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "gpu/captured.h"
#include "gpu/direct.h"
#include "gpu/dynamic.h"
#include "gpu/exchange.h"
#include "gpu/fetch.h"
#include "gpu/pinned.h"
#include "gpu/pull.h"
#include "gpu/request.h"
#include "gpu/rma.h"
#include "gpu/scalar.h"
#include "gpu/staged.h"
#include "reduce/float_env.h"

/* Polls of the start words: first with yields only, then with sleeps that get longer. */
#define YIELDS 200
#define DEVICE_POLLS 100u           /* between two checks of the device: about 100 ms of sleeps */
#define SLEEP_NS_MIN 20000ull
#define SLEEP_NS_MAX (1 * TT_MS)
#define SPIN_NS 50000ull            /* before the worker sleeps: a wake-up takes several us */
#define STOP_POLL_NS (1 * TT_MS)    /* at destruction, between checks for launches in progress */

static bool has_started(const tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    for (uint32_t i = 0; i < u->nstreams; i++)
        if (!tt_gpu_flags_started(gpu->flags, u->start[i], u->sequence))
            return false;
    return true;
}

/* Sleeps for at most ns; an abort ends the sleep. */
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

static tutti_status run_collectives(tutti_gpu *gpu, const struct tt_gpu_unit *u, char *arena)
{
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < u->nitems && !st; i++) {
        tutti_gpu_op op = u->items[i].op;
        bool pulled;

        if (!tt_gpu_is_collective(op.kind))
            continue;
        if (op.kind == TUTTI_GPU_ALLTOALLV_DYNAMIC) {
            st = tt_gpu_dynamic_run(&u->items[i], arena);
            continue;
        }
        op.algo = u->items[i].algo[0] ? u->items[i].algo : NULL;
        st = tt_gpu_scalar_read(gpu, &op);
        if (!st)
            st = tt_gpu_pull_run(gpu, &op, &pulled);
        if (!st && !pulled)
            st = tt_gpu_staged_run(gpu, &op, arena, op.scale);
    }
    return st;
}

static tutti_status run_access(tutti_gpu *gpu, const struct tt_gpu_item *item, char *arena)
{
    switch (item->op.kind) {
    case TUTTI_GPU_PUT_SIGNAL:
        return tt_gpu_rma_put(gpu, &item->op, item->window, arena);
    case TUTTI_GPU_GET:
        return tt_gpu_rma_get(gpu, &item->op, item->window);
    case TUTTI_GPU_ATOMIC:
        return tt_gpu_rma_atomic(gpu, &item->op, item->window);
    default:
        return TUTTI_OK;
    }
}

/* Waits come last: other ranks may wait for this rank's puts and sends. */
static tutti_status run_items(tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    char *arena = tt_gpu_arena(gpu);
    tutti_status st = run_collectives(gpu, u, arena);

    for (size_t i = 0; i < u->nitems && !st; i++)
        st = run_access(gpu, &u->items[i], arena);
    if (!st)
        st = tt_gpu_p2p_run(gpu, u->items, u->nitems, arena);
    for (size_t i = 0; i < u->nitems && !st; i++)
        if (u->items[i].op.kind == TUTTI_GPU_WAIT_SIGNAL)
            st = tt_gpu_rma_wait(gpu, &u->items[i].op);
    return st;
}

/* Records an error of gpu; ranks that wait for its signals fail, too. */
static void fail(tutti_gpu *gpu, tutti_status st)
{
    tt_gpu_set_failed(gpu, st);
    tt_gpu_rma_abort(gpu);
}

/* Returns an error if gpu has failed or was aborted. */
static tutti_status check_usable(const tutti_gpu *gpu)
{
    const tutti_status st = tt_gpu_failure(gpu);

    if (!st && atomic_load(&gpu->aborted))
        return tt_fail(TUTTI_ERR_ABORTED, "gpu: the communicator was aborted before the stream "
                                          "reached the operation");
    return st;
}

/* Joins the exchange of a unit that runs for the first time, if it can be part of one. */
static struct tt_gpu_exchange *join(const tutti_gpu *gpu, struct tt_gpu_captured *c)
{
    const bool first = c->unit->can_exchange && !c->was_run;

    c->was_run = true;
    return first ? tt_gpu_exchange_join(gpu, &c->unit->items[0].op, tt_gpu_captured_handle(c, 0))
                 : NULL;
}

/* Runs a unit of a launched graph. */
static void run_captured(tutti_gpu *gpu, struct tt_gpu_captured *c)
{
    struct tt_gpu_exchange *x = NULL;
    tutti_status st = check_usable(gpu);

    if (!st) {
        x = join(gpu, c);
        st = c->unit->memory ? tt_gpu_direct_run(gpu, c->unit, c->unit->memory->mem)
                             : run_items(gpu, c->unit);
    }
    if (st)
        fail(gpu, st);
    if (x && !st && tt_gpu_exchange_is_complete(x))
        tt_gpu_captured_exchange(c, x);
    else if (x)
        tt_gpu_exchange_leave(x, (uint32_t)tutti_comm_rank(gpu->comm));
    tt_gpu_captured_end(c);
}

/* Records an error that other ranks do not notice, and aborts them, so that they do not wait. */
static void fail_alone(tutti_gpu *gpu, tutti_status st)
{
    fail(gpu, st);
    if (!tutti_comm_status(gpu->comm))
        tutti_comm_abort(gpu->comm);
}

/* Returns an error of the device. After it, streams write no words and run no host functions, so
 * operations do not start, and launches do not end. */
static tutti_status check_device(const tutti_gpu *gpu, const char *when)
{
    const tt_cuda_result error = gpu->cu->stream_query(gpu->in);

    return error && error != TT_CUDA_NOT_READY
               ? tt_cuda_fail(gpu->cu, error, "gpu: device %d failed %s", gpu->device, when)
               : TUTTI_OK;
}

/* Fails gpu if launches without the worker cannot end: nothing else detects this. */
static void watch(tutti_gpu *gpu)
{
    bool is_due;
    tutti_status st;

    pthread_mutex_lock(&gpu->lock);
    is_due = gpu->is_watched && tt_now_ns() >= gpu->watch_ns;
    pthread_mutex_unlock(&gpu->lock);
    if (!is_due)
        return;
    st = tt_gpu_captured_watch(gpu);
    if (!st)
        st = check_device(gpu, "during the launch of a CUDA graph");
    if (!st && tutti_comm_status(gpu->comm))
        st = tt_fail(tutti_comm_status(gpu->comm),
                     "gpu: the communicator failed during the launch of a CUDA graph: %.800s",
                     tutti_last_error());
    if (!st || atomic_load(&gpu->status))
        return;
    fail_alone(gpu, st);
}

/* Runs units of launched graphs; returns whether there were any. The streams determine when they
 * run, not the order of the calls. */
static bool run_arrived(tutti_gpu *gpu)
{
    struct tt_gpu_captured *c;
    bool any = false;

    while (atomic_load(&gpu->has_arrived)) {
        pthread_mutex_lock(&gpu->lock);
        c = tt_gpu_captured_next(gpu);
        pthread_mutex_unlock(&gpu->lock);
        if (!c)
            break;
        run_captured(gpu, c);
        any = true;
    }
    return any;
}

/* Waits for the streams. Returns an error if the communicator or the device fails first. */
static tutti_status await_start(tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    uint64_t ns = SLEEP_NS_MIN;

    for (uint32_t polls = 0; !has_started(gpu, u); polls++) {
        if (atomic_load(&gpu->aborted))
            return check_usable(gpu);
        if (run_arrived(gpu)) {
            const tutti_status st = tt_gpu_failure(gpu);

            if (st)
                return st;
            polls = 0;
            ns = SLEEP_NS_MIN;
        }
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
        watch(gpu);
        if (polls % DEVICE_POLLS == DEVICE_POLLS - 1) {
            const tutti_status st = check_device(gpu, "before the stream reached the operation");

            if (st)
                fail_alone(gpu, st);
        }
        if (atomic_load(&gpu->status))
            return tt_gpu_failure(gpu);
    }
    return TUTTI_OK;
}

static void complete_requests(struct tt_gpu_unit *u, tutti_status st)
{
    for (size_t i = 0; i < u->nitems; i++)
        if (u->items[i].request)
            tt_gpu_request_complete(u->items[i].request, st);
    if (u->job_request)
        tt_gpu_request_complete(u->job_request, st);
}

/* Runs a unit. An error of an operation fails gpu; an error of a job affects only the job. */
static void run_unit(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    tutti_status st = tt_gpu_failure(gpu);

    if (!st)
        st = await_start(gpu, u);
    if (!st && !u->job)
        st = u->slot ? tt_gpu_direct_run(gpu, u, tt_gpu_direct_memory(gpu, u)) : run_items(gpu, u);
    if (st)
        fail(gpu, st);
    else if (u->job)
        st = u->job->job(gpu->comm, u->job->arg);
    tt_gpu_flags_end(gpu->flags, u->sequence);
    complete_requests(u, st);
}

/* Returns whether no work is left: launches without the worker have ended, too. With gpu->lock
 * held. */
static bool can_stop(const tutti_gpu *gpu)
{
    return gpu->stop && !gpu->first && !tt_gpu_captured_is_next(gpu) &&
           (atomic_load(&gpu->status) || atomic_load(&gpu->aborted) ||
            !tt_gpu_captured_is_exchanging(gpu));
}

/* Waits for a change; while launches are watched, at most until the next check. With gpu->lock
 * held. */
static void wait_for_change(tutti_gpu *gpu)
{
    const uint64_t soon = tt_now_ns() + STOP_POLL_NS;
    const uint64_t until = gpu->stop && soon < gpu->watch_ns ? soon : gpu->watch_ns;
    const struct timespec ts = { .tv_sec = (time_t)(until / TT_SECOND),
                                 .tv_nsec = (long)(until % TT_SECOND) };

    if (gpu->is_watched)
        pthread_cond_timedwait(&gpu->changed, &gpu->lock, &ts);
    else
        pthread_cond_wait(&gpu->changed, &gpu->lock);
}

/* Waits for a short time for a change. With gpu->lock held, which is released meanwhile. */
static void spin(tutti_gpu *gpu)
{
    const unsigned changes = atomic_load(&gpu->changes);
    const uint64_t until_ns = tt_now_ns() + SPIN_NS;

    pthread_mutex_unlock(&gpu->lock);
    while (atomic_load(&gpu->changes) == changes && tt_now_ns() < until_ns)
        sched_yield();
    pthread_mutex_lock(&gpu->lock);
}

/* Waits for a unit. Returns the first one of the queue, without removing it. Returns NULL if a unit
 * of a launched graph can run, if launches must be checked, or at the end (*end). */
static struct tt_gpu_unit *next_unit(tutti_gpu *gpu, bool *end)
{
    bool has_spun = !gpu->spins;
    struct tt_gpu_unit *u;

    pthread_mutex_lock(&gpu->lock);
    while (!gpu->first && !tt_gpu_captured_is_next(gpu) && !can_stop(gpu) &&
           !(gpu->is_watched && tt_now_ns() >= gpu->watch_ns)) {
        if (has_spun)
            wait_for_change(gpu);
        else
            spin(gpu);
        has_spun = true;
    }
    u = gpu->first;
    *end = can_stop(gpu);
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
    tt_gpu_unit_free(u);
}

void *tt_gpu_worker(void *arg)
{
    tutti_gpu *gpu = arg;
    const tutti_status st = tt_gpu_enter(gpu);
    bool end = false;

    (void)tt_float_env_enter();     /* not the environment of the creating thread */
    tt_cuda_capture_relax(gpu->cu);
    if (st)
        tt_gpu_set_failed(gpu, st);
    while (!end) {
        struct tt_gpu_unit *u = next_unit(gpu, &end);

        if (u) {
            run_unit(gpu, u);
            remove_unit(gpu, u);
        }
        run_arrived(gpu);
        watch(gpu);
    }
    if (!st)
        tt_gpu_leave(gpu);
    return NULL;
}
