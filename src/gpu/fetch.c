/* The origin's part of gets and atomics. */
#include "gpu/fetch.h"

#include <stdio.h>

#include "base/clock.h"
#include "gpu/check.h"
#include "gpu/service.h"
#include "gpu/staged.h"

/* A get in progress; piece k uses reply k modulo TT_GPU_REPLIES. */
struct get {
    tutti_gpu *gpu;
    const tutti_gpu_op *op;
    uint32_t window;
    size_t bytes, requested, taken;
    uint32_t next_request, next_take;
    uint64_t began_ns;
};

static size_t piece_of(const struct get *g, size_t first)
{
    const size_t left = g->bytes - first, max = g->gpu->rma->layout.piece_bytes;

    return left < max ? left : max;
}

/* Sends the request of the next piece. */
static tutti_status request(struct get *g)
{
    const uint32_t length = (uint32_t)piece_of(g, g->requested);
    const struct tt_gpu_piece piece = { .offset = g->op->offset + g->requested,
                                        .window = g->window,
                                        .kind = TT_GPU_PIECE_GET,
                                        .length = length,
                                        .reply = 1 + g->next_request % TT_GPU_REPLIES };

    g->requested += length;
    g->next_request++;
    return tt_gpu_rma_post(g->gpu->rma, (uint32_t)g->op->root, &piece,
                           tt_gpu_timeout_left(g->gpu, g->began_ns));
}

/* Waits for one more reply to this rank. */
static tutti_status await_reply(tutti_gpu *gpu, const tutti_gpu_op *op, uint64_t began_ns)
{
    struct tt_gpu_rma *r = gpu->rma;
    const uint64_t *word = (const uint64_t *)(const void *)(r->mem + r->layout.replied);
    const uint64_t until = ++r->replies;
    char why[TT_ERROR_BYTES];
    tutti_status st = TUTTI_OK;
    uint64_t arrived;

    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) < until)
        st = tutti_window_wait(r->window, r->layout.replied, TUTTI_AT_LEAST, until,
                               tt_gpu_timeout_left(gpu, began_ns), NULL);
    arrived = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (arrived >= TT_GPU_REFUSED)
        return tt_fail(TUTTI_ERR_PEER_LOST, "%s: rank %d has called tutti_gpu_destroy",
                       tt_gpu_kind_name(op->kind), op->root);
    if (!st || arrived >= until)
        return TUTTI_OK;
    snprintf(why, sizeof why, "%s: no reply of rank %d: %.800s", tt_gpu_kind_name(op->kind),
             op->root, tutti_last_error());
    return tt_fail_again(st, why);
}

/* Copies a reply to dst[bytes] of the device. */
static tutti_status copy_reply(const tutti_gpu *gpu, const tutti_gpu_op *op, uint32_t index,
                               size_t first, size_t bytes)
{
    const struct tt_gpu_rma *r = gpu->rma;
    const char *reply = r->mem + tt_gpu_layout_reply(&r->layout, index);
    tt_cuda_result error = gpu->cu->copy(tt_cuda_address_of(op->dst) + first,
                                         tt_cuda_address_of(reply), bytes, gpu->out);

    if (!error)
        error = gpu->cu->stream_synchronize(gpu->out);
    return error ? tt_cuda_fail(gpu->cu, error, "%s: cannot copy to device %d",
                                tt_gpu_kind_name(op->kind), gpu->device)
                 : TUTTI_OK;
}

/* Consumes the next reply. */
static tutti_status take(struct get *g)
{
    const size_t first = g->taken, bytes = piece_of(g, first);
    const tutti_status st = await_reply(g->gpu, g->op, g->began_ns);

    g->taken += bytes;
    return st ? st : copy_reply(g->gpu, g->op, g->next_take++ % TT_GPU_REPLIES, first, bytes);
}

tutti_status tt_gpu_rma_get(tutti_gpu *gpu, const tutti_gpu_op *op, uint32_t window)
{
    struct get g = { .gpu = gpu,
                     .op = op,
                     .window = window,
                     .bytes = op->count * tutti_dtype_bytes(op->type),
                     .began_ns = tt_now_ns() };
    tutti_status st = TUTTI_OK;

    while (g.taken < g.bytes && !st) {
        while (g.requested < g.bytes && g.next_request - g.next_take < TT_GPU_REPLIES && !st)
            st = request(&g);
        if (!st)
            st = take(&g);
    }
    return st ? tt_gpu_rma_fail_all(gpu, st) : TUTTI_OK;
}

tutti_status tt_gpu_rma_atomic(tutti_gpu *gpu, const tutti_gpu_op *op, uint32_t window)
{
    const uint64_t began_ns = tt_now_ns();
    const uint32_t length = (uint32_t)tutti_dtype_bytes(op->type);
    const struct tt_gpu_piece piece = { .offset = op->offset,
                                        .window = window,
                                        .kind = TT_GPU_PIECE_ATOMIC,
                                        .length = length,
                                        .operand = op->operand,
                                        .compare = op->compare,
                                        .op = (uint32_t)op->atomic,
                                        .reply = op->dst != NULL };
    tutti_status st =
        tt_gpu_rma_post(gpu->rma, (uint32_t)op->root, &piece, tt_gpu_timeout_left(gpu, began_ns));

    if (!st && op->dst)
        st = await_reply(gpu, op, began_ns);
    if (!st && op->dst)
        st = copy_reply(gpu, op, 0, 0, length);
    return st ? tt_gpu_rma_fail_all(gpu, st) : TUTTI_OK;
}
