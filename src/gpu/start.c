/* Units in streams. */
#include "gpu/start.h"

#include "gpu/direct.h"

/* Held while units are added, so that they have the same order in all streams and queues. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

static bool has_words(tutti_gpu *gpu, uint32_t n)
{
    bool has;

    pthread_mutex_lock(&gpu->lock);
    has = gpu->flags->starts_free >= n;
    pthread_mutex_unlock(&gpu->lock);
    return has;
}

static void wait_for_words(tutti_gpu *gpu, uint32_t n)
{
    pthread_mutex_lock(&gpu->lock);
    while (gpu->flags->starts_free < n)
        pthread_cond_wait(&gpu->changed, &gpu->lock);
    pthread_mutex_unlock(&gpu->lock);
}

/* Locks `order` when there are start words for all units. The lock is not held during a wait: the
 * units that must end first may depend on units that another thread starts. */
static void lock_order(struct tt_gpu_unit **unit, tutti_gpu **gpu, size_t n)
{
    for (size_t i = 0; i < n;) {
        pthread_mutex_lock(&order);
        for (i = 0; i < n && has_words(gpu[i], unit[i]->nstreams);)
            i++;
        if (i == n)
            return;
        pthread_mutex_unlock(&order);
        wait_for_words(gpu[i], unit[i]->nstreams);
        i = 0;
    }
}

/* Assigns a unit its sequence number and its start words. */
static void number_unit(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    struct tt_gpu_flags *f = gpu->flags;

    pthread_mutex_lock(&gpu->lock);
    f->starts_free -= u->nstreams;
    u->sequence = ++f->sequence;
    for (uint32_t i = 0; i < u->nstreams; i++)
        u->start[i] = f->next_start++ % TT_GPU_STARTS;
    if (u->slot) {
        f->slots[u->slot - 1].sequence = u->sequence;
        f->slots[u->slot - 1].taken = false;
    }
    pthread_mutex_unlock(&gpu->lock);
}

static void queue_unit(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    pthread_mutex_lock(&gpu->lock);
    gpu->added = u->sequence;
    *gpu->last = u;
    gpu->last = &u->next;
    tt_gpu_wake(gpu);
    pthread_mutex_unlock(&gpu->lock);
}

/* Adds the copies of a unit if it is direct. */
static tt_cuda_result add_copies(const tutti_gpu *gpu, const struct tt_gpu_unit *u, bool end)
{
    tt_cuda_result error;

    if (!u->slot)
        return 0;
    error = tt_gpu_direct_copy(gpu, u, tt_gpu_direct_memory(gpu, u), end);
    if (!error && end)
        error = tt_gpu_flags_add_free(gpu->flags, gpu->cu, u->streams[0], u->slot - 1, u->sequence);
    return error;
}

static tt_cuda_result add_to_streams(const tutti_gpu *gpu, const struct tt_gpu_unit *u, bool end)
{
    tt_cuda_result error = end ? 0 : add_copies(gpu, u, false);

    for (uint32_t i = 0; i < u->nstreams && !error; i++)
        error = end ? tt_gpu_flags_add_end(gpu->flags, gpu->cu, u->streams[i], u->sequence)
                    : tt_gpu_flags_add_start(gpu->flags, gpu->cu, u->streams[i], u->start[i],
                                             u->sequence);
    return error || !end ? error : add_copies(gpu, u, true);
}

/* Adds the starts of all units to their streams, or the ends. */
static tutti_status add_all(struct tt_gpu_unit **unit, tutti_gpu **gpu, size_t n, bool end)
{
    for (size_t i = 0; i < n; i++) {
        tutti_status st = tt_gpu_enter(gpu[i]);
        tt_cuda_result error;

        if (st)
            return st;
        error = add_to_streams(gpu[i], unit[i], end);
        tt_gpu_leave(gpu[i]);
        if (error)
            return tt_cuda_fail(gpu[i]->cu, error,
                                "gpu: cannot enqueue work on a stream of device %d",
                                gpu[i]->device);
    }
    return TUTTI_OK;
}

tutti_status tt_gpu_start(struct tt_gpu_unit **unit, tutti_gpu **gpu, size_t n)
{
    tutti_status st;

    lock_order(unit, gpu, n);
    for (size_t i = 0; i < n; i++)
        number_unit(gpu[i], unit[i]);
    st = add_all(unit, gpu, n, false);
    if (!st)
        st = add_all(unit, gpu, n, true);
    for (size_t i = 0; i < n; i++) {
        if (st)
            tutti_gpu_abort(gpu[i]);
        queue_unit(gpu[i], unit[i]);
    }
    pthread_mutex_unlock(&order);
    return st;
}
