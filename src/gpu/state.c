/* State that a tutti_gpu's caller and worker share: the first error, the context, pinned memory. */
#include <stdio.h>
#include <stdlib.h>

#include "gpu/captured.h"

#define ARENA_BYTES_MIN (64u << 10)

void tt_gpu_release_captured(tutti_gpu *gpu)
{
    for (const struct tt_gpu_captured *c = gpu->captured; c; c = c->next)
        if (!c->is_running)
            tt_gpu_captured_set_ended(c, true);
}

void tt_gpu_wake(tutti_gpu *gpu)
{
    atomic_fetch_add(&gpu->changes, 1);
    pthread_cond_broadcast(&gpu->changed);
}

void tt_gpu_unit_free(struct tt_gpu_unit *u)
{
    for (size_t i = 0; i < u->nitems; i++)
        free(u->items[i].dynamic);
    free(u->items);
    free(u);
}

void tt_gpu_set_failed(tutti_gpu *gpu, tutti_status status)
{
    pthread_mutex_lock(&gpu->lock);
    if (!atomic_load_explicit(&gpu->status, memory_order_relaxed)) {
        snprintf(gpu->why, sizeof gpu->why, "%s", tutti_last_error());
        atomic_store_explicit(&gpu->status, status, memory_order_release);
        tt_gpu_release_captured(gpu);
    }
    pthread_mutex_unlock(&gpu->lock);
}

tutti_status tt_gpu_failure(const tutti_gpu *gpu)
{
    const tutti_status st = atomic_load_explicit(&gpu->status, memory_order_acquire);

    return st ? tt_fail_again(st, gpu->why) : TUTTI_OK;
}

tutti_status tt_gpu_enter(const tutti_gpu *gpu)
{
    const tt_cuda_result error = gpu->cu->context_push(gpu->context);

    return error ? tt_cuda_fail(gpu->cu, error, "gpu: cannot use device %d", gpu->device)
                 : TUTTI_OK;
}

void tt_gpu_leave(const tutti_gpu *gpu)
{
    tt_cuda_context was;

    gpu->cu->context_pop(&was);
}

static size_t arena_size(size_t bytes)
{
    size_t size = ARENA_BYTES_MIN;

    while (size < bytes && size <= SIZE_MAX / 2)
        size *= 2;
    return size;
}

tutti_status tt_gpu_reserve(tutti_gpu *gpu, size_t bytes)
{
    struct tt_gpu_arena *a, **at;
    tt_cuda_result error;
    bool enough;
    int mode;

    pthread_mutex_lock(&gpu->lock);
    enough = gpu->arenas && gpu->arenas->bytes >= bytes;
    pthread_mutex_unlock(&gpu->lock);
    if (enough || !bytes)
        return TUTTI_OK;
    a = calloc(1, sizeof *a);
    if (!a)
        return tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
    a->bytes = arena_size(bytes);
    mode = tt_cuda_capture_relax(gpu->cu);
    error = gpu->cu->host_alloc((void **)&a->mem, a->bytes, TT_CUDA_HOST_PORTABLE);
    tt_cuda_capture_restore(gpu->cu, mode);
    if (error) {
        const size_t size = a->bytes;

        free(a);
        return tt_cuda_fail(gpu->cu, error, "gpu: cannot allocate %zu bytes of pinned memory",
                            size);
    }
    pthread_mutex_lock(&gpu->lock);
    at = &gpu->arenas;          /* another thread may have added a larger one in between */
    while (*at && (*at)->bytes >= a->bytes)
        at = &(*at)->next;
    a->next = *at;
    *at = a;
    pthread_mutex_unlock(&gpu->lock);
    return TUTTI_OK;
}

char *tt_gpu_arena(tutti_gpu *gpu)
{
    char *mem;

    pthread_mutex_lock(&gpu->lock);
    mem = gpu->arenas ? gpu->arenas->mem : NULL;
    pthread_mutex_unlock(&gpu->lock);
    return mem;
}
