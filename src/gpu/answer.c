#include "gpu/answer.h"

#include <stdlib.h>
#include <string.h>

/* Replies to a rank. A buffer is free when the rank has consumed the reply, because it then sends
 * the next request with this index. The counter shows that the transport no longer reads it. */
struct tt_gpu_answers {
    uint64_t sent[TT_GPU_REPLIES];
    uint64_t completed[TT_GPU_REPLIES];     /* changed by the window (tutti_rma.counter) */
    char data[];                            /* [TT_GPU_REPLIES][piece_bytes] */
};

static char *buffer_of(const struct tt_gpu_rma *r, uint32_t rank, const struct tt_gpu_piece *p)
{
    return r->answers[rank]->data + (size_t)(p->reply - 1) * r->layout.piece_bytes;
}

/* On the first request of `rank`, allocates its buffers. */
tutti_status tt_gpu_answer_prepare(struct tt_gpu_rma *r, uint32_t rank,
                                   const struct tt_gpu_piece *p)
{
    struct tt_gpu_answers *a = r->answers[rank];
    tutti_status st;

    if (p->kind == TT_GPU_PIECE_PUT || !p->reply || p->reply > TT_GPU_REPLIES)
        return TUTTI_OK;
    if (!a) {
        a = calloc(1, sizeof *a + TT_GPU_REPLIES * r->layout.piece_bytes);
        if (!a)
            return tt_fail(TUTTI_ERR_NOMEM, "gpu: no memory for replies to rank %u", rank);
        r->answers[rank] = a;
    }
    st =
        tutti_window_wait_counter(r->window, &a->completed[p->reply - 1], a->sent[p->reply - 1], 0);
    return tutti_comm_status(r->comm) ? TUTTI_OK : st;      /* the worker notices its end */
}

static uint64_t apply(const struct tt_gpu_piece *p, uint64_t old)
{
    switch ((tutti_atomic_op)p->op) {
    case TUTTI_ATOMIC_ADD:
        return old + p->operand;
    case TUTTI_ATOMIC_SWAP:
        return p->operand;
    case TUTTI_ATOMIC_COMPARE_SWAP:
        return old == p->compare ? p->operand : old;
    case TUTTI_ATOMIC_AND:
        return old & p->operand;
    case TUTTI_ATOMIC_OR:
        return old | p->operand;
    case TUTTI_ATOMIC_XOR:
        break;
    }
    return old ^ p->operand;
}

static tt_cuda_result copy(const struct tt_gpu_rma *r, tt_cuda_address to, tt_cuda_address from,
                           size_t bytes)
{
    const struct tt_cuda *cu = r->gpu->cu;
    tt_cuda_result error = bytes ? cu->copy(to, from, bytes, r->stream) : 0;

    return error || !bytes ? error : cu->stream_synchronize(r->stream);
}

/* Updates the word at mem; *old receives its previous value in its low bytes. */
static tt_cuda_result update(const struct tt_gpu_rma *r, const struct tt_gpu_piece *p,
                             tt_cuda_address mem, uint64_t *old)
{
    const uint64_t mask = p->length == 4 ? UINT32_MAX : UINT64_MAX;
    struct tt_gpu_piece request = *p;
    tt_cuda_result error;
    uint64_t value;

    *old = 0;
    error = copy(r, tt_cuda_address_of(old), mem, p->length);
    request.compare &= mask;
    value = apply(&request, *old);
    if (!error)
        error = copy(r, mem, tt_cuda_address_of(&value), p->length);
    return error;
}

tutti_status tt_gpu_answer_run(struct tt_gpu_rma *r, uint32_t rank, const struct tt_gpu_piece *p,
                               tt_cuda_address mem)
{
    tt_cuda_result error;
    uint64_t old;

    if (p->kind == TT_GPU_PIECE_GET) {
        error = copy(r, tt_cuda_address_of(buffer_of(r, rank, p)), mem, p->length);
    } else {
        error = update(r, p, mem, &old);
        if (p->reply)
            memcpy(buffer_of(r, rank, p), &old, p->length);
    }
    return error ? tt_cuda_fail(r->gpu->cu, error,
                                "gpu: cannot access memory of device %d for rank %u",
                                r->gpu->device, rank)
                 : TUTTI_OK;
}

/* The fence keeps the count behind the replies before this one. */
tutti_status tt_gpu_answer_send(struct tt_gpu_rma *r, uint32_t rank, const struct tt_gpu_piece *p)
{
    tutti_rma rma = { .size = sizeof rma,
                      .signal_op = TUTTI_SIGNAL_ADD,
                      .signal_value = 1,
                      .signal_offset = r->layout.replied };
    tutti_status st;

    if (!p->reply)
        return TUTTI_OK;
    rma.counter = &r->answers[rank]->completed[p->reply - 1];
    st = tutti_window_fence(r->window, (int)rank);
    if (!st)
        st = tutti_window_put(r->window, (int)rank, tt_gpu_layout_reply(&r->layout, p->reply - 1),
                              buffer_of(r, rank, p), p->length, &rma);
    r->answers[rank]->sent[p->reply - 1] += !st;
    return tutti_comm_status(r->comm) ? TUTTI_OK : st;      /* the worker notices its end */
}

void tt_gpu_answer_free(struct tt_gpu_rma *r)
{
    for (uint32_t i = 0; r->answers && i < r->layout.nranks; i++)
        free(r->answers[i]);
    free(r->answers);
}
