/* Creation and destruction of a tutti_gpu, and calls on it that start no operation. */
#include "gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/param.h"
#include "base/options.h"
#include "comm/comm.h"
#include "gpu/captured.h"
#include "gpu/exchange.h"
#include "gpu/peer.h"
#include "gpu/rma.h"
#include "gpu/worker.h"

#define CHUNK_BYTES_DEFAULT (4u << 20)
#define CHUNK_BYTES_MIN 4096u
#define CHUNK_BYTES_MAX (1u << 30)
#define CHUNKS_DEFAULT 4

static tutti_status take_conf(tutti_gpu_conf *mine, const tutti_gpu_conf *conf)
{
    const char *call = "tutti_gpu_create";
    tutti_status st;

    *mine = (tutti_gpu_conf){ .size = sizeof *mine };
    if (conf) {
        st =
            tt_options_take(mine, sizeof *mine, sizeof *mine, conf, call, "conf", "tutti_gpu_conf");
        if (!st)
            st = tt_options_flag(call, "conf.has_device", mine->has_device);
        if (st)
            return st;
    }
    if (!mine->chunk_bytes)
        mine->chunk_bytes = CHUNK_BYTES_DEFAULT;
    if (!mine->chunks)
        mine->chunks = CHUNKS_DEFAULT;
    if (mine->chunk_bytes < CHUNK_BYTES_MIN || mine->chunk_bytes > CHUNK_BYTES_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "%s: conf.chunk_bytes is %llu: must be %u to %u", call,
                       (unsigned long long)mine->chunk_bytes, CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
    if (mine->chunks < 1 || mine->chunks > (int32_t)TT_GPU_CHUNKS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "%s: conf.chunks is %d: must be 1 to %u", call,
                       (int)mine->chunks, TT_GPU_CHUNKS_MAX);
    return TUTTI_OK;
}

/* Sets the device: the configured one, otherwise that of the current context, otherwise 0. */
static tutti_status choose_device(tutti_gpu *gpu)
{
    tt_cuda_context current = NULL;
    int count = 0, device = 0;
    tt_cuda_result error = gpu->cu->device_count(&count);

    if (!error && !gpu->conf.has_device && !gpu->cu->context_current(&current) && current)
        error = gpu->cu->context_device(&device);
    gpu->device = gpu->conf.has_device ? gpu->conf.device : device;
    if (!error && (gpu->device < 0 || gpu->device >= count))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_gpu_create: conf.device is %d: must be 0 to %d (there %s %d "
                       "device%s)",
                       gpu->device, count - 1, count == 1 ? "is" : "are", count, TT_PLURAL(count));
    if (!error)
        error = gpu->cu->device_get(&device, gpu->device);
    if (!error)
        error = gpu->cu->primary_retain(&gpu->context, device);
    return error
               ? tt_cuda_fail(gpu->cu, error, "tutti_gpu_create: cannot use device %d", gpu->device)
               : TUTTI_OK;
}

/* Checks, on a stream of the library, that streams can wait for words. */
static tutti_status try_flags(tutti_gpu *gpu)
{
    const uint32_t sequence = ++gpu->flags->sequence;
    tt_cuda_result error;

    tt_gpu_flags_end(gpu->flags, sequence);
    error = tt_gpu_flags_add_start(gpu->flags, gpu->cu, gpu->in, 0, sequence);
    if (!error)
        error = tt_gpu_flags_add_end(gpu->flags, gpu->cu, gpu->in, sequence);
    if (!error)
        error = gpu->cu->stream_synchronize(gpu->in);
    if (error || !tt_gpu_flags_started(gpu->flags, 0, sequence)) {
        tt_cuda_fail(gpu->cu, error, "tutti_gpu_create: cannot wait for a value in memory");
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "tutti_gpu_create: the driver of device %d has no stream memory operations "
                       "(CUDA 12 or newer is needed)",
                       gpu->device);
    }
    gpu->added = gpu->ended = sequence;
    return TUTTI_OK;
}

static tutti_status open_streams(tutti_gpu *gpu)
{
    const struct tt_cuda *cu = gpu->cu;
    const unsigned flags = TT_CUDA_EVENT_BLOCKING_SYNC | TT_CUDA_EVENT_NO_TIMING;
    tt_cuda_result error = cu->stream_create(&gpu->in, TT_CUDA_STREAM_NON_BLOCKING);

    if (!error)
        error = cu->stream_create(&gpu->out, TT_CUDA_STREAM_NON_BLOCKING);
    for (int32_t i = 0; i < gpu->conf.chunks && !error; i++) {
        error = cu->event_create(&gpu->in_done[i], flags);
        if (!error)
            error = cu->event_create(&gpu->out_done[i], flags);
    }
    return error ? tt_cuda_fail(cu, error, "tutti_gpu_create: cannot create streams and events")
                 : TUTTI_OK;
}

/* Frees what was opened in the context, which is current. */
static void close_streams(tutti_gpu *gpu)
{
    const struct tt_cuda *cu = gpu->cu;
    struct tt_gpu_arena *next;

    tt_gpu_pinned_trim(cu, gpu->context);
    for (struct tt_gpu_arena *a = gpu->arenas; a; a = next) {
        next = a->next;
        cu->host_free(a->mem);
        free(a);
    }
    for (uint32_t i = 0; i < TT_GPU_CHUNKS_MAX; i++) {
        if (gpu->in_done[i])
            cu->event_destroy(gpu->in_done[i]);
        if (gpu->out_done[i])
            cu->event_destroy(gpu->out_done[i]);
    }
    tt_gpu_peer_close(gpu);
    if (gpu->in)
        cu->stream_destroy(gpu->in);
    if (gpu->out)
        cu->stream_destroy(gpu->out);
}

/* Returns whether the host has processors for the workers and callers of all its ranks. */
static bool has_processors(const tutti_comm *comm)
{
    const struct tt_world *w = comm->world;

    return w->nlocal && (uint32_t)CPU_COUNT(&w->cores_here) >= 2 * w->nlocal;
}

/* Opens streams and flags, and starts the worker. The context is current. */
static tutti_status open_gpu(tutti_gpu *gpu)
{
    const int mode = tt_cuda_capture_relax(gpu->cu);
    tutti_status st = open_streams(gpu);
    int err;

    if (!st)
        st = tt_gpu_flags_open(&gpu->flags, gpu->cu, gpu->context);
    if (!st)
        st = try_flags(gpu);
    tt_cuda_capture_restore(gpu->cu, mode);
    if (st)
        return st;
    err = pthread_create(&gpu->worker, NULL, tt_gpu_worker, gpu);
    return err ? tt_fail_errno(err, "tutti_gpu_create: cannot start a thread") : TUTTI_OK;
}

static void init_locks(tutti_gpu *gpu)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&gpu->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&gpu->changed, &attr);
    pthread_condattr_destroy(&attr);
    gpu->last = &gpu->first;
    gpu->last_arrived = &gpu->first_arrived;
}

/* Frees a gpu whose worker does not run. */
static void free_gpu(tutti_gpu *gpu)
{
    if (gpu->context && !tt_gpu_enter(gpu)) {
        close_streams(gpu);
        tt_gpu_leave(gpu);
    }
    if (gpu->flags)
        tt_gpu_flags_close(gpu->flags);
    if (gpu->context)
        gpu->cu->primary_release(gpu->device);
    pthread_cond_destroy(&gpu->changed);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu->far);
    free(gpu);
}

tutti_status tutti_gpu_create(tutti_gpu **out, tutti_comm *comm, const tutti_gpu_conf *conf)
{
    tutti_gpu_conf mine;
    const struct tt_cuda *cu;
    int64_t peer_copies = 0;
    tutti_gpu *gpu;
    tutti_status st;

    if (!out || !comm)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_create: %s is NULL", out ? "comm" : "out");
    st = take_conf(&mine, conf);
    if (!st)
        st = tt_param_get(TT_PARAM_GPU_PEER_COPIES, &peer_copies);
    if (!st)
        st = tt_cuda_load(&cu);
    if (st)
        return st;
    gpu = calloc(1, sizeof *gpu);
    if (gpu)
        gpu->far = calloc((size_t)tutti_comm_size(comm), 2 * sizeof *gpu->far);
    if (!gpu || !gpu->far) {
        free(gpu);
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_gpu_create: out of memory");
    }
    gpu->cu = cu;
    gpu->comm = comm;
    gpu->conf = mine;
    gpu->spins = has_processors(comm);
    gpu->no_pull = !peer_copies;
    memset(gpu->far, !peer_copies, (size_t)tutti_comm_size(comm) * 2 * sizeof *gpu->far);
    init_locks(gpu);
    st = choose_device(gpu);
    if (!st)
        st = tt_gpu_enter(gpu);
    if (!st) {
        st = open_gpu(gpu);
        tt_gpu_leave(gpu);
    }
    if (st) {
        free_gpu(gpu);
        return st;
    }
    tt_gpu_exchange_enter(gpu);
    *out = gpu;
    return TUTTI_OK;
}

void tutti_gpu_destroy(tutti_gpu *gpu)
{
    bool has_context;

    if (!gpu)
        return;
    tt_gpu_exchange_exit(gpu);
    pthread_mutex_lock(&gpu->lock);
    gpu->stop = true;
    tt_gpu_wake(gpu);
    pthread_mutex_unlock(&gpu->lock);
    pthread_join(gpu->worker, NULL);
    tt_gpu_captured_detach(gpu);
    has_context = !tt_gpu_enter(gpu);
    tt_gpu_rma_close(gpu, has_context);
    if (has_context)
        tt_gpu_leave(gpu);
    free_gpu(gpu);
}

int tutti_gpu_device(const tutti_gpu *gpu)
{
    return gpu ? gpu->device : -1;
}

tutti_status tutti_gpu_status(const tutti_gpu *gpu)
{
    return gpu ? tt_gpu_failure(gpu) : tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_status: gpu is NULL");
}

tutti_status tutti_gpu_abort(tutti_gpu *gpu)
{
    tutti_status st;

    if (!gpu)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_abort: gpu is NULL");
    st = tutti_comm_abort(gpu->comm);
    tt_gpu_rma_abort(gpu);
    pthread_mutex_lock(&gpu->lock);
    atomic_store(&gpu->aborted, true);
    tt_gpu_release_captured(gpu);
    tt_gpu_wake(gpu);
    pthread_mutex_unlock(&gpu->lock);
    return st;
}

tutti_status tutti_gpu_flush(tutti_gpu *gpu)
{
    uint32_t until;

    if (!gpu)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_flush: gpu is NULL");
    pthread_mutex_lock(&gpu->lock);
    until = gpu->added;
    while ((int32_t)(gpu->ended - until) < 0)
        pthread_cond_wait(&gpu->changed, &gpu->lock);
    pthread_mutex_unlock(&gpu->lock);
    return tt_gpu_failure(gpu);
}
