/* Operations on the pinned memory of a unit: for each item first the source, then the
 * destination. */
#include "gpu/direct.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/pinned.h"
#include "gpu/post.h"
#include "gpu/staged.h"

#define ITEMS_MAX 256u          /* of a direct unit: each has a request at the same time */
#define CHUNKS 4u               /* maximum memory of a direct unit, in chunks */
#define ALIGN 64u
#define SLOT_BYTES_MAX \
    (512u << 10) /* longer units are staged: their copies take longer than
                                           the switches between streams */

struct place {
    size_t src_bytes, dst_bytes;    /* of the item */
    size_t src, dst;                /* offsets in the memory */
    size_t end;
};

/* Returns the place of an item; the previous item ends at `end`. */
static struct place place_after(const tutti_gpu *gpu, const struct tt_gpu_item *item, size_t end)
{
    const tutti_gpu_op *op = &item->op;
    const struct tt_gpu_blocks blocks =
        tt_gpu_blocks_of(op, tutti_comm_rank(gpu->comm), tutti_comm_size(gpu->comm));
    const size_t bytes = op->count * tutti_dtype_bytes(op->type);
    struct place p = { .src_bytes = blocks.nsrc * bytes, .dst_bytes = blocks.ndst * bytes };

    p.src = end;
    p.dst = p.src + (p.src_bytes + ALIGN - 1) / ALIGN * ALIGN;
    p.end = p.dst + (p.dst_bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static bool is_p2p(const tutti_gpu_op *op)
{
    return op->kind == TUTTI_GPU_SEND || op->kind == TUTTI_GPU_RECV;
}

size_t tt_gpu_direct_bytes(const tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    const size_t max = gpu->conf.chunk_bytes * CHUNKS;
    size_t end = 0;

    if (u->nitems > ITEMS_MAX || u->nstreams != 1)
        return 0;
    for (size_t i = 0; i < u->nitems; i++) {
        const tutti_gpu_op *op = &u->items[i].op;

        if (op->kind > TUTTI_GPU_RECV || op->scale_from || op->error_feedback ||
            !(is_p2p(op) ? tt_gpu_p2p_is_single(gpu, op) : tt_gpu_staged_is_single(gpu, op)))
            return 0;
        end = place_after(gpu, &u->items[i], end).end;
        if (end > max)
            return 0;
    }
    return end ? end : 1;
}

tt_cuda_result tt_gpu_direct_copy(const tutti_gpu *gpu, const struct tt_gpu_unit *u, char *mem,
                                  bool to_device)
{
    const struct tt_cuda *cu = gpu->cu;
    tt_cuda_stream stream = u->streams[0];
    tt_cuda_result error = 0;
    struct place p = { 0 };

    for (size_t i = 0; i < u->nitems && !error; i++) {
        const tutti_gpu_op *op = &u->items[i].op;

        p = place_after(gpu, &u->items[i], p.end);
        if (to_device && p.dst_bytes)
            error = cu->copy(tt_cuda_address_of(op->dst), tt_cuda_address_of(mem + p.dst),
                             p.dst_bytes, stream);
        else if (!to_device && p.src_bytes)
            error = cu->copy(tt_cuda_address_of(mem + p.src), tt_cuda_address_of(op->src),
                             p.src_bytes, stream);
    }
    return error;
}

/* Runs the collectives, or with p2p posts the sends and receives, in list order. requests[i]
 * receives the request of item i. */
static tutti_status post_all(tutti_gpu *gpu, const struct tt_gpu_unit *u, char *mem, bool p2p,
                             tutti_request **requests)
{
    const uint64_t began_ns = tt_now_ns();
    tutti_status st = TUTTI_OK;
    struct place p = { 0 };

    for (size_t i = 0; i < u->nitems && !st; i++) {
        tutti_gpu_op op = u->items[i].op;
        const tutti_call call = { .size = sizeof call, .request = p2p ? &requests[i] : NULL,
                                  .timeout_ms = tt_gpu_timeout_left(gpu, began_ns) };

        p = place_after(gpu, &u->items[i], p.end);
        op.algo = u->items[i].algo[0] ? u->items[i].algo : NULL;
        if (is_p2p(&op) == p2p)
            st = tt_gpu_post(&op, mem + p.src, mem + p.dst, op.count, &call);
    }
    return st;
}

/* Waits for all requests. Returns the first error, with its message as the last error. After an
 * error the communicator is aborted, so that no rank waits. */
static tutti_status wait_all(tutti_gpu *gpu, tutti_request **requests, size_t n, tutti_status first)
{
    char why[TT_ERROR_BYTES];

    snprintf(why, sizeof why, "%s", tutti_last_error());
    for (size_t i = 0; i < n; i++) {
        tutti_status st;

        if (first && !tutti_comm_status(gpu->comm))
            tutti_comm_abort(gpu->comm);
        st = requests[i] ? tutti_wait(requests[i]) : TUTTI_OK;
        if (st && !first)
            snprintf(why, sizeof why, "%s", tutti_last_error());
        first = first ? first : st;
    }
    return first ? tt_fail_again(first, why) : TUTTI_OK;
}

/* Returns a free slot, preferably one whose memory is large enough. With gpu->lock held. */
static uint32_t find_slot(const struct tt_gpu_flags *f, size_t bytes)
{
    uint32_t found = TT_GPU_SLOTS;

    for (uint32_t i = 0; i < TT_GPU_SLOTS; i++) {
        if (!tt_gpu_flags_slot_is_free(f, i))
            continue;
        found = i;
        if (f->slots[i].memory && f->slots[i].memory->bytes >= bytes)
            break;
    }
    return found;
}

tutti_status tt_gpu_direct_take(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    struct tt_gpu_slot *slot = NULL;
    tutti_status st;
    uint32_t number;
    int mode;

    u->slot = 0;
    if (!u->direct_bytes || u->direct_bytes > SLOT_BYTES_MAX)
        return TUTTI_OK;
    pthread_mutex_lock(&gpu->lock);
    number = find_slot(gpu->flags, u->direct_bytes);
    if (number < TT_GPU_SLOTS) {
        slot = &gpu->flags->slots[number];
        slot->taken = true;
        u->slot = number + 1;
    }
    pthread_mutex_unlock(&gpu->lock);
    if (!slot || (slot->memory && slot->memory->bytes >= u->direct_bytes))
        return TUTTI_OK;
    tt_gpu_pinned_put(slot->memory);
    slot->memory = NULL;
    mode = tt_cuda_capture_relax(gpu->cu);
    st = tt_gpu_pinned_take(&slot->memory, gpu->cu, gpu->context, u->direct_bytes);
    tt_cuda_capture_restore(gpu->cu, mode);
    if (st)
        tt_gpu_direct_untake(gpu, u);
    return st;
}

void tt_gpu_direct_take_captured(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    bool fits;
    int mode;

    if (!u->direct_bytes)
        return;
    pthread_mutex_lock(&gpu->lock);
    fits = gpu->captured_bytes + u->direct_bytes <= TT_GPU_CAPTURED_BYTES_MAX;
    pthread_mutex_unlock(&gpu->lock);
    if (!fits)
        return;
    mode = tt_cuda_capture_relax(gpu->cu);
    u->memory = tt_gpu_pinned_try(gpu->cu, gpu->context, u->direct_bytes);
    tt_cuda_capture_restore(gpu->cu, mode);
}

void tt_gpu_direct_untake(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    tt_gpu_pinned_put(u->memory);
    u->memory = NULL;
    if (!u->slot)
        return;
    pthread_mutex_lock(&gpu->lock);
    gpu->flags->slots[u->slot - 1].taken = false;
    pthread_mutex_unlock(&gpu->lock);
    u->slot = 0;
}

char *tt_gpu_direct_memory(const tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    return gpu->flags->slots[u->slot - 1].memory->mem;
}

void tt_gpu_direct_place(const tutti_gpu *gpu, const struct tt_gpu_unit *u, char **src, char **dst)
{
    const struct place p = place_after(gpu, &u->items[0], 0);

    *src = u->memory->mem + p.src;
    *dst = u->memory->mem + p.dst;
}

tutti_status tt_gpu_direct_run(tutti_gpu *gpu, const struct tt_gpu_unit *u, char *mem)
{
    tutti_request *requests[ITEMS_MAX] = { 0 };
    tutti_status st = post_all(gpu, u, mem, false, requests);

    if (!st)
        st = post_all(gpu, u, mem, true, requests);
    return wait_all(gpu, requests, u->nitems, st);
}
