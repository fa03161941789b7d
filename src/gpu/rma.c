/* The worker's part of puts and waits; creation and destruction of the shared state. The service
 * thread is in gpu/service.c. */
#include "gpu/rma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/peer.h"
#include "gpu/service.h"
#include "gpu/staged.h"

/* ---- creation and destruction ---- */

static void free_rma(struct tt_gpu_rma *r)
{
    tt_gpu_service_cancel(r);
    if (r->stream)
        r->gpu->cu->stream_destroy(r->stream);
    tt_gpu_service_free(r);
}

static struct tt_gpu_rma *new_rma(tutti_gpu *gpu)
{
    const uint32_t nranks = (uint32_t)tutti_comm_size(gpu->comm);
    struct tt_gpu_rma *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->gpu = gpu;
    r->rank = (uint32_t)tutti_comm_rank(gpu->comm);
    r->layout = tt_gpu_layout_of(nranks);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ended, NULL);
    r->sent = calloc(nranks, sizeof *r->sent);
    r->taken = calloc(nranks, sizeof *r->taken);
    r->waited = calloc((size_t)nranks * TUTTI_GPU_SIGNALS, sizeof *r->waited);
    r->members = calloc(nranks, sizeof *r->members);
    r->answers = calloc(nranks, sizeof(struct tt_gpu_answers *));
    if (r->sent && r->taken && r->waited && r->members && r->answers)
        return r;
    free_rma(r);
    return NULL;
}

/* Counts the ranks of this process, and sets their group to a number of rank 0. Collective. */
static tutti_status find_group(struct tt_gpu_rma *r)
{
    const struct tt_gpu_member mine = { tt_gpu_process(),
                                        tt_now_ns() ^ (uint64_t)(uintptr_t)r << 20 };
    const tutti_status st =
        tutti_allgather(&mine, r->members, sizeof mine, TUTTI_U8, r->comm, NULL);

    for (uint32_t i = 0; i < r->layout.nranks; i++)
        r->nlocal += r->members[i].process == mine.process;
    r->group = r->members[0].number;
    return st;
}

/* Creates the local part: the stream and the service thread. Later steps fail only if the
 * communicator does. */
static tutti_status prepare_rma(tutti_gpu *gpu, struct tt_gpu_rma **out)
{
    struct tt_gpu_rma *r = new_rma(gpu);
    tt_cuda_result error;
    tutti_status st;

    if (!r)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_gpu_window_create: out of memory");
    error = gpu->cu->stream_create(&r->stream, TT_CUDA_STREAM_NON_BLOCKING);
    st = error ? tt_cuda_fail(gpu->cu, error, "tutti_gpu_window_create: cannot create a stream")
               : tt_gpu_service_start(r);
    if (st) {
        free_rma(r);
        return st;
    }
    *out = r;
    return TUTTI_OK;
}

/* Returns an error on all ranks if any rank has failed (`mine` is the status of this rank).
 * Allocates nothing. Collective. */
static tutti_status agree(tutti_gpu *gpu, tutti_status mine)
{
    const uint64_t outcome = (uint64_t)mine << 32 | (uint32_t)tutti_comm_rank(gpu->comm);
    char why[TT_ERROR_BYTES];
    uint64_t worst = 0;
    tutti_status st;

    snprintf(why, sizeof why, "%s", tutti_last_error());
    st = tutti_allreduce(&outcome, &worst, 1, TUTTI_U64, TUTTI_MAX, gpu->comm, NULL);
    if (mine)
        return tt_fail_again(mine, why);
    if (st || !(worst >> 32))
        return st;
    return tt_fail((tutti_status)(worst >> 32),
                   "tutti_gpu_window_create: rank %u failed to create its part (see the error of "
                   "that rank)",
                   (uint32_t)worst);
}

/* Creates the communicator and its window, and makes the service thread use them. Collective. */
static tutti_status open_rma(struct tt_gpu_rma *r)
{
    tutti_status st = tutti_comm_dup(r->gpu->comm, &r->comm);
    void *mem = NULL;

    if (!st)
        st = tutti_window_create(r->comm, NULL, r->layout.bytes, &r->window);
    if (!st)
        st = tutti_window_memory(r->window, &mem, NULL);
    r->mem = mem;
    if (!st)
        st = find_group(r);
    if (st)
        return st;
    pthread_mutex_lock(&r->gpu->lock);
    r->gpu->rma = r;
    pthread_mutex_unlock(&r->gpu->lock);
    tt_gpu_service_begin(r);
    return TUTTI_OK;
}

/* Lists the window, and exchanges the sizes. A rank returns, and can put, only after all ranks have
 * listed the window. Collective. */
static tutti_status list_window(struct tt_gpu_rma *r, struct tutti_gpu_window *w)
{
    const uint64_t mine = w->bytes[r->rank];
    tutti_status st;

    pthread_mutex_lock(&r->lock);
    w->id = r->next_id++;
    w->next = r->windows;
    r->windows = w;
    pthread_mutex_unlock(&r->lock);
    st = tutti_allgather(&mine, w->bytes, 1, TUTTI_U64, r->comm, NULL);
    if (st)
        tt_gpu_rma_remove(w);
    return st;
}

tutti_status tt_gpu_rma_add(tutti_gpu *gpu, struct tutti_gpu_window *w, tutti_status status)
{
    struct tt_gpu_rma *created = NULL;
    tutti_status st = status;

    if (!st && !gpu->rma)
        st = prepare_rma(gpu, &created);
    st = agree(gpu, st);
    if (!st && created)
        st = open_rma(created);
    if (!st)
        return list_window(gpu->rma, w);
    if (created)
        free_rma(created);
    return st;
}

void tt_gpu_rma_remove(struct tutti_gpu_window *w)
{
    struct tt_gpu_rma *r = w->gpu->rma;
    struct tutti_gpu_window **at = &r->windows;

    pthread_mutex_lock(&r->lock);
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
    pthread_mutex_unlock(&r->lock);
}

void tt_gpu_rma_abort(tutti_gpu *gpu)
{
    struct tt_gpu_rma *r;

    pthread_mutex_lock(&gpu->lock);
    r = gpu->rma;
    pthread_mutex_unlock(&gpu->lock);
    if (r && !tutti_comm_status(r->comm))
        tutti_comm_abort(r->comm);
}

void tt_gpu_rma_close(tutti_gpu *gpu, bool has_context)
{
    struct tt_gpu_rma *r = gpu->rma;
    tt_cuda_stream stream;

    if (!r)
        return;
    stream = r->stream;
    if (atomic_load(&gpu->status) ||
        (!tutti_comm_status(r->comm) && tutti_window_quiet(r->window, TUTTI_ALL_RANKS, 0)))
        tt_gpu_rma_abort(gpu);
    atomic_store(&r->stop, true);
    tt_gpu_service_wake(r);
    gpu->rma = NULL;
    tt_gpu_service_close(r);
    if (has_context)
        gpu->cu->stream_destroy(stream);
}

/* ---- puts ---- */

size_t tt_gpu_rma_bytes(const tutti_gpu *gpu)
{
    const struct tt_gpu_layout l = tt_gpu_layout_of((uint32_t)tutti_comm_size(gpu->comm));

    return 2 * l.slot_bytes;
}

/* Waits until the slot of the next piece is free at the target. */
static tutti_status await_slot(struct tt_gpu_rma *r, uint32_t target, int64_t timeout_ms)
{
    const uint64_t taken = r->sent[target] + 1 - TT_GPU_RING_DEPTH;

    if (r->sent[target] < TT_GPU_RING_DEPTH)
        return TUTTI_OK;
    return tutti_window_wait(r->window, r->layout.tails + target * sizeof(uint64_t), TUTTI_AT_LEAST,
                             taken, timeout_ms, NULL);
}

/* The fence orders the head after all earlier pieces. */
tutti_status tt_gpu_rma_post(struct tt_gpu_rma *r, uint32_t target,
                             const struct tt_gpu_piece *piece, int64_t timeout_ms)
{
    const tutti_rma rma = { .size = sizeof rma,
                            .signal_op = TUTTI_SIGNAL_ADD,
                            .signal_value = 1,
                            .signal_offset = r->layout.heads + r->rank * sizeof(uint64_t),
                            .timeout_ms = timeout_ms };
    const size_t slot = tt_gpu_layout_slot(&r->layout, r->rank, r->sent[target]);
    tutti_status st = await_slot(r, target, timeout_ms);

    if (!st)
        st = tutti_window_fence(r->window, (int)target);
    if (!st)
        st = tutti_window_put(r->window, (int)target, slot, piece, sizeof *piece + piece->bytes,
                              &rma);
    r->sent[target] += !st;
    return st;
}

/* Starts the copy of the piece that begins at `first`, after its header. */
static tutti_status copy_piece(const tutti_gpu *gpu, const tutti_gpu_op *op, size_t first,
                               struct tt_gpu_piece *piece)
{
    tt_cuda_result error = 0;

    if (piece->bytes)
        error = gpu->cu->copy(tt_cuda_address_of(piece + 1), tt_cuda_address_of(op->src) + first,
                              piece->bytes, gpu->in);
    if (!error)
        error = gpu->cu->event_record(gpu->in_done[0], gpu->in);
    return error ? tt_cuda_fail(gpu->cu, error, "tutti_gpu_put_signal: cannot copy from device %d",
                                gpu->device)
                 : TUTTI_OK;
}

tutti_status tt_gpu_rma_fail_all(tutti_gpu *gpu, tutti_status st)
{
    char why[TT_ERROR_BYTES];

    snprintf(why, sizeof why, "%s", tutti_last_error());
    gpu->cu->stream_synchronize(gpu->in);
    if (!tutti_comm_status(gpu->comm))
        tutti_comm_abort(gpu->comm);
    tt_gpu_rma_abort(gpu);
    return tt_fail_again(st, why);
}

/* A put: its pieces are copied to two buffers in turn. */
struct put {
    const tutti_gpu_op *op;
    uint32_t window;
    size_t bytes, copied;
    struct tt_gpu_piece *piece[2];
};

static tutti_status copy_next(const struct tt_gpu_rma *r, struct put *p, unsigned buffer)
{
    const size_t left = p->bytes - p->copied, max = r->layout.piece_bytes;
    const uint32_t bytes = (uint32_t)(left < max ? left : max);
    const size_t first = p->copied;

    *p->piece[buffer] = (struct tt_gpu_piece){ .offset = p->op->offset + first,
                                               .window = p->window,
                                               .bytes = bytes,
                                               .signal = p->op->signal,
                                               .is_last = bytes == left };
    p->copied += bytes;
    return copy_piece(r->gpu, p->op, first, p->piece[buffer]);
}

tutti_status tt_gpu_rma_put(tutti_gpu *gpu, const tutti_gpu_op *op, uint32_t id, char *staging)
{
    struct tt_gpu_rma *r = gpu->rma;
    struct put p = { .op = op, .window = id, .bytes = op->count * tutti_dtype_bytes(op->type) };
    const uint64_t began_ns = tt_now_ns();
    bool more = true;
    tutti_status st;

    for (unsigned i = 0; i < 2; i++)
        p.piece[i] = (struct tt_gpu_piece *)(void *)(staging + i * r->layout.slot_bytes);
    st = copy_next(r, &p, 0);
    for (unsigned i = 0; more && !st; i = 1 - i) {
        const struct tt_gpu_piece *piece = p.piece[i];
        const tt_cuda_result error = gpu->cu->event_synchronize(gpu->in_done[0]);

        more = !piece->is_last;
        if (error)
            st = tt_cuda_fail(gpu->cu, error, "tutti_gpu_put_signal: cannot copy from device %d",
                              gpu->device);
        if (!st && more)
            st = copy_next(r, &p, 1 - i);
        if (!st)
            st = tt_gpu_rma_post(r, (uint32_t)op->root, piece, tt_gpu_timeout_left(gpu, began_ns));
    }
    return st ? tt_gpu_rma_fail_all(gpu, st) : TUTTI_OK;
}

/* ---- waits ---- */

static uint64_t count_of(const struct tt_gpu_rma *r, size_t offset)
{
    return __atomic_load_n((const uint64_t *)(const void *)(r->mem + offset), __ATOMIC_ACQUIRE);
}

/* Waits until the service thread has counted the arrived signals. A failed peer fails the
 * communicator, and thus also waits for signals that have already arrived. */
static void await_service(struct tt_gpu_rma *r)
{
    pthread_mutex_lock(&r->lock);
    while (!r->has_ended)
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

tutti_status tt_gpu_rma_wait(tutti_gpu *gpu, const tutti_gpu_op *op)
{
    struct tt_gpu_rma *r = gpu->rma;
    const size_t offset = tt_gpu_layout_count(&r->layout, (uint32_t)op->root, op->signal);
    uint64_t *waited = &r->waited[(size_t)op->root * TUTTI_GPU_SIGNALS + op->signal];
    char why[TT_ERROR_BYTES];
    tutti_status st = TUTTI_OK;

    *waited += op->count;
    if (count_of(r, offset) < *waited)
        st = tutti_window_wait(r->window, offset, TUTTI_AT_LEAST, *waited,
                               tt_gpu_timeout_left(gpu, tt_now_ns()), NULL);
    if (st && tutti_comm_status(r->comm)) {
        await_service(r);
        st = count_of(r, offset) < *waited ? st : TUTTI_OK;
    }
    if (!st)
        return TUTTI_OK;
    snprintf(why, sizeof why,
             "tutti_gpu_wait_signal: signal %u of rank %d: %llu of %llu arrived: %.700s",
             op->signal, op->root, (unsigned long long)count_of(r, offset),
             (unsigned long long)*waited, tutti_last_error());
    return tt_gpu_rma_fail_all(gpu, tt_fail_again(st, why));
}
