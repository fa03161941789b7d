#include "gpu/service.h"

#include "gpu/answer.h"
#include "gpu/pieces.h"

#include <stdlib.h>

#include "reduce/float_env.h"

static uint64_t *word(const struct tt_gpu_rma *r, size_t offset)
{
    return (uint64_t *)(void *)(r->mem + offset);
}

/* Returns the number of pieces that `rank` has written and this rank has not consumed. */
static uint64_t pending_of(const struct tt_gpu_rma *r, uint32_t rank)
{
    const uint64_t *head = word(r, r->layout.heads + rank * sizeof *head);

    return __atomic_load_n(head, __ATOMIC_ACQUIRE) - r->taken[rank];
}

/* Predicate for tutti_window_wait_until. */
static int has_work(const void *arg)
{
    const struct tt_gpu_rma *r = arg;
    uint64_t any = atomic_load(&r->stop);

    for (uint32_t i = 0; i < r->layout.nranks && !any; i++)
        any = pending_of(r, i);
    return any != 0;
}

void tt_gpu_service_wake(struct tt_gpu_rma *r)
{
    if (!tutti_comm_status(r->comm))
        tutti_window_signal(r->window, (int)r->rank, r->layout.wake, TUTTI_SIGNAL_ADD, 1);
}

/* Copies the data of a put to the device. */
static tutti_status copy_put(const struct tt_gpu_rma *r, uint32_t rank, tt_cuda_address to,
                             const char *data, size_t bytes)
{
    const struct tt_cuda *cu = r->gpu->cu;
    tt_cuda_result error = bytes ? cu->copy(to, tt_cuda_address_of(data), bytes, r->stream) : 0;

    if (!error && bytes)
        error = cu->stream_synchronize(r->stream);
    return error ? tt_cuda_fail(cu, error, "gpu: cannot copy a put of rank %u to device %d", rank,
                                r->gpu->device)
                 : TUTTI_OK;
}

/* Checks that the memory of the window is still allocated. w may be NULL if nothing is accessed. */
static tutti_status check_memory(const struct tt_gpu_rma *r, uint32_t rank,
                                 const struct tt_gpu_piece *p, const struct tutti_gpu_window *w)
{
    const size_t bytes = p->kind == TT_GPU_PIECE_PUT ? p->bytes : p->length;

    if (!bytes || tt_gpu_pieces_are_same(w->pieces, r->gpu->cu,
                                         tt_cuda_address_of(w->mem) + p->offset, bytes))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "gpu: rank %u accessed %zu bytes at offset %llu of a window whose memory was "
                   "freed or mapped again (free the window first)",
                   rank, bytes, (unsigned long long)p->offset);
}

/* Accesses the window as the piece requests. The lock prevents removal of the window. */
static tutti_status access_window(struct tt_gpu_rma *r, uint32_t rank, const struct tt_gpu_piece *p,
                                  const char *data)
{
    const struct tutti_gpu_window *w;
    tt_cuda_address mem;
    tutti_status st = tt_gpu_answer_prepare(r, rank, p);

    if (st)
        return st;
    pthread_mutex_lock(&r->lock);
    w = r->windows;
    while (w && w->id != p->window)
        w = w->next;
    st = tt_gpu_piece_check(&r->layout, p, rank, w != NULL, w ? w->bytes[r->rank] : 0);
    if (!st)
        st = check_memory(r, rank, p, w);
    mem = w ? tt_cuda_address_of(w->mem) + p->offset : 0;
    if (!st)
        st = p->kind == TT_GPU_PIECE_PUT ? copy_put(r, rank, mem, data, p->bytes)
                                         : tt_gpu_answer_run(r, rank, p, mem);
    pthread_mutex_unlock(&r->lock);
    return st;
}

/* Notifies the origin that its slot is free. */
static void acknowledge(struct tt_gpu_rma *r, uint32_t rank)
{
    if (!tutti_comm_status(r->comm))
        tutti_window_signal(r->window, (int)rank, r->layout.tails + r->rank * sizeof(uint64_t),
                            TUTTI_SIGNAL_ADD, 1);
}

/* Handles the next piece of `rank`. The header is read once: its rank may overwrite it. */
static tutti_status take_piece(struct tt_gpu_rma *r, uint32_t rank)
{
    const char *slot = r->mem + tt_gpu_layout_slot(&r->layout, rank, r->taken[rank]);
    const struct tt_gpu_piece piece = *(const struct tt_gpu_piece *)(const void *)slot;
    tutti_status st = access_window(r, rank, &piece, slot + sizeof piece);

    if (!st && piece.kind != TT_GPU_PIECE_PUT)
        st = tt_gpu_answer_send(r, rank, &piece);
    if (st)
        return st;
    r->taken[rank]++;
    if (piece.is_last) {
        uint64_t *count = word(r, tt_gpu_layout_count(&r->layout, rank, piece.signal));

        __atomic_fetch_add(count, 1, __ATOMIC_RELEASE);
        tt_gpu_service_wake(r);
    }
    acknowledge(r, rank);
    return TUTTI_OK;
}

/* Handles all pieces that have arrived. */
static tutti_status take_all(struct tt_gpu_rma *r)
{
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < r->layout.nranks && !st; i++) {
        if (pending_of(r, i) > TT_GPU_RING_DEPTH)
            return tt_fail(TUTTI_ERR_PROTOCOL,
                           "protocol error: rank %u put %llu pieces, but its ring has %u slots", i,
                           (unsigned long long)pending_of(r, i), TT_GPU_RING_DEPTH);
        while (!st && pending_of(r, i))
            st = take_piece(r, i);
    }
    return st;
}

/* Returns an error of this rank. A failed communicator is no error here: the worker detects it. */
static tutti_status serve(struct tt_gpu_rma *r)
{
    tutti_status st = TUTTI_OK;

    while (!st) {
        st = take_all(r);
        if (st || atomic_load(&r->stop))
            return st;
        if (tutti_window_wait_until(r->window, has_work, r, -1))
            return take_all(r);
    }
    return st;
}

/* ---- teardown ---- */

/* The ranks of this process that use puts of the same communicators. */
struct group {
    struct group *next;
    uint64_t id;
    size_t closed, freed;           /* numbers of ranks */
};
static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t group_changed = PTHREAD_COND_INITIALIZER;
static struct group *groups;        /* protected by groups_lock */

/* Returns the group, created if needed, or NULL without memory. With the lock held. */
static struct group *group_of(uint64_t id)
{
    struct group *g = groups;

    while (g && g->id != id)
        g = g->next;
    if (g)
        return g;
    g = calloc(1, sizeof *g);
    if (g) {
        *g = (struct group){ .next = groups, .id = id };
        groups = g;
    }
    return g;
}

static void remove_group(const struct group *g)
{
    struct group **at = &groups;

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
}

void tt_gpu_service_free(struct tt_gpu_rma *r)
{
    if (r->comm && !r->all_left && !tutti_comm_status(r->comm))
        tutti_comm_abort(r->comm);
    tutti_window_free(r->window);
    tutti_comm_destroy(r->comm);
    tt_gpu_answer_free(r);
    pthread_cond_destroy(&r->ended);
    pthread_mutex_destroy(&r->lock);
    free(r->sent);
    free(r->taken);
    free(r->waited);
    free(r->members);
    free(r);
}

void tt_gpu_service_close(struct tt_gpu_rma *r)
{
    const uint64_t id = r->group;
    const size_t nlocal = r->nlocal;
    const pthread_t thread = r->service;
    bool failed;
    struct group *g;

    pthread_mutex_lock(&r->lock);
    while (!r->has_ended)
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
    pthread_mutex_lock(&groups_lock);
    g = group_of(id);
    failed = tutti_comm_status(r->comm) != TUTTI_OK;
    pthread_mutex_lock(&r->lock);
    r->is_closed = true;
    pthread_cond_broadcast(&r->ended);
    pthread_mutex_unlock(&r->lock);         /* the thread now owns r */
    if (g && ++g->closed == nlocal) {
        while (g->freed < nlocal)
            pthread_cond_wait(&group_changed, &groups_lock);
        remove_group(g);
        free(g);
    }
    pthread_mutex_unlock(&groups_lock);
    /* failed puts may still use the caller's pinned memory until the window is freed */
    if (failed)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
}

static int have_all_left(const void *arg)
{
    const struct tt_gpu_rma *r = arg;
    bool any = __atomic_load_n(word(r, r->layout.left), __ATOMIC_ACQUIRE) == r->layout.nranks;

    for (uint32_t i = 0; i < r->layout.nranks && !any; i++)
        any = pending_of(r, i) != 0;
    return any;
}

/* Refuses the next piece of `rank` if it requests a reply: this rank can no longer send one. */
static void refuse_reply(const struct tt_gpu_rma *r, uint32_t rank)
{
    const char *slot = r->mem + tt_gpu_layout_slot(&r->layout, rank, r->taken[rank]);

    if (((const struct tt_gpu_piece *)(const void *)slot)->reply && !tutti_comm_status(r->comm))
        tutti_window_signal(r->window, (int)rank, r->layout.replied, TUTTI_SIGNAL_ADD,
                            TT_GPU_REFUSED);
}

/* Discards pieces, and refuses requests, until all ranks have left, or the communicator has
 * failed. */
static void leave(struct tt_gpu_rma *r)
{
    for (uint32_t i = 0; i < r->layout.nranks && !tutti_comm_status(r->comm); i++)
        tutti_window_signal(r->window, (int)i, r->layout.left, TUTTI_SIGNAL_ADD, 1);
    while (!r->all_left && !tutti_comm_status(r->comm)) {
        if (tutti_window_wait_until(r->window, have_all_left, r, -1))
            return;
        for (uint32_t i = 0; i < r->layout.nranks; i++) {
            if (pending_of(r, i) > TT_GPU_RING_DEPTH)
                return;             /* protocol error: tt_gpu_service_free aborts */
            for (; pending_of(r, i); r->taken[i]++) {
                refuse_reply(r, i);
                acknowledge(r, i);
            }
        }
        r->all_left =
            __atomic_load_n(word(r, r->layout.left), __ATOMIC_ACQUIRE) == r->layout.nranks;
    }
}

static void end(struct tt_gpu_rma *r)
{
    const uint64_t id = r->group;
    struct group *g;

    pthread_mutex_lock(&r->lock);
    r->has_ended = true;
    pthread_cond_broadcast(&r->ended);
    while (!r->is_closed)
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
    leave(r);
    tt_gpu_service_free(r);
    pthread_mutex_lock(&groups_lock);
    g = group_of(id);
    if (g)
        g->freed++;
    pthread_cond_broadcast(&group_changed);
    pthread_mutex_unlock(&groups_lock);
}

/* ---- the thread ---- */

/* Returns false if the creation has failed. */
static bool await_begin(struct tt_gpu_rma *r)
{
    bool has_begun;

    pthread_mutex_lock(&r->lock);
    while (!r->has_begun && !atomic_load(&r->stop))
        pthread_cond_wait(&r->ended, &r->lock);
    has_begun = r->has_begun;
    pthread_mutex_unlock(&r->lock);
    return has_begun;
}

static void *run_service(void *arg)
{
    struct tt_gpu_rma *r = arg;
    tutti_status st;

    (void)tt_float_env_enter();     /* not the environment of the creating thread */
    if (!await_begin(r))
        return NULL;
    st = tt_gpu_enter(r->gpu);
    tt_cuda_capture_relax(r->gpu->cu);
    if (!st) {
        st = serve(r);
        tt_gpu_leave(r->gpu);
    }
    if (st) {
        tt_gpu_set_failed(r->gpu, st);
        if (!tutti_comm_status(r->gpu->comm))
            tutti_comm_abort(r->gpu->comm);
        if (!tutti_comm_status(r->comm))
            tutti_comm_abort(r->comm);
    }
    end(r);
    return NULL;
}

tutti_status tt_gpu_service_start(struct tt_gpu_rma *r)
{
    const int err = pthread_create(&r->service, NULL, run_service, r);

    r->has_thread = !err;
    return err ? tt_fail_errno(err, "tutti_gpu_window_create: cannot start a thread") : TUTTI_OK;
}

void tt_gpu_service_begin(struct tt_gpu_rma *r)
{
    pthread_mutex_lock(&r->lock);
    r->has_begun = true;
    pthread_cond_broadcast(&r->ended);
    pthread_mutex_unlock(&r->lock);
}

void tt_gpu_service_cancel(struct tt_gpu_rma *r)
{
    if (!r->has_thread)
        return;
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->stop, true);
    pthread_cond_broadcast(&r->ended);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->service, NULL);
    r->has_thread = false;
}
