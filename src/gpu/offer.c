#include "gpu/offer.h"

#include <stdlib.h>

#include "base/host.h"
#include "base/log.h"

#define VERDICT_MAGIC 0x7463696472657674ull

enum verdict { COPIED, STAGED, FAR, MISMATCH, NVERDICTS };

static bool receives(const struct tt_gpu_offer *o)
{
    return o->op->kind == TUTTI_GPU_RECV;
}

static uint64_t bytes_of(const tutti_gpu_op *op)
{
    return (uint64_t)op->count * tutti_dtype_bytes(op->type);
}

static bool *far_of(const tutti_gpu *gpu, const tutti_gpu_op *op)
{
    return &gpu->far[2 * op->root + (op->kind == TUTTI_GPU_RECV)];
}

bool tt_gpu_offer_is_useless(const tutti_gpu *gpu, const tutti_gpu_op *op)
{
    return *far_of(gpu, op);
}

/* ---- messages ---- */

static tutti_status post_card(struct tt_gpu_offer *o, int64_t timeout_ms)
{
    const tutti_gpu_op *op = o->op;
    const tutti_call call = {
        .size = sizeof call, .request = &o->request, .tag = op->tag, .timeout_ms = timeout_ms
    };

    return receives(o)
               ? tutti_recv(&o->card, sizeof o->card, TUTTI_U8, op->root, op->gpu->comm, &call)
               : tutti_send(&o->card, sizeof o->card, TUTTI_U8, op->root, op->gpu->comm, &call);
}

/* The receiver sends the verdict. */
static tutti_status post_verdict(struct tt_gpu_offer *o, int64_t timeout_ms)
{
    const tutti_gpu_op *op = o->op;
    const tutti_call call = { .size = sizeof call,
                              .request = &o->request,
                              .tag = TT_GPU_VERDICT_TAG,
                              .timeout_ms = timeout_ms };

    o->state = TT_GPU_OFFER_VERDICT;
    return receives(o) ? tutti_send(&o->verdict, sizeof o->verdict, TUTTI_U8, op->root,
                                    op->gpu->comm, &call)
                       : tutti_recv(&o->verdict, sizeof o->verdict, TUTTI_U8, op->root,
                                    op->gpu->comm, &call);
}

static tutti_status conclude(struct tt_gpu_offer *o, enum verdict v, int64_t timeout_ms)
{
    o->verdict = (struct tt_gpu_verdict){ VERDICT_MAGIC, bytes_of(o->op), v };
    return post_verdict(o, timeout_ms);
}

/* ---- steps ---- */

/* Returns whether no memory of the sender can be opened, given that this memory cannot. False if it
 * has no handle, or if too many allocations are open: other memory may then be usable. */
static bool is_far(const struct tt_gpu_offer *o)
{
    return o->card.host != tt_host_hash() ||
           (o->card.reach == TT_GPU_REACH_HOST && !tt_gpu_peer_is_full(o->op->gpu));
}

/* Handles the card at the receiver: starts the copy, or sends a verdict. */
static tutti_status take_card(struct tt_gpu_offer *o, int64_t timeout_ms)
{
    const tutti_gpu_op *op = o->op;
    const struct tt_cuda *cu = op->gpu->cu;
    tt_cuda_address src;
    tt_cuda_result error;

    if (!tt_gpu_card_is_valid(&o->card))
        return tt_fail(TUTTI_ERR_MISMATCH,
                       "gpu: calls do not match: rank %d sent %zu bytes of data, but this rank "
                       "receives %llu bytes",
                       op->root, sizeof o->card, (unsigned long long)bytes_of(op));
    if (o->card.bytes != bytes_of(op))
        return conclude(o, MISMATCH, timeout_ms);
    src = tt_gpu_card_open(op->gpu, &o->card);
    if (!src)
        return conclude(o, is_far(o) ? FAR : STAGED, timeout_ms);
    error = cu->copy(tt_cuda_address_of(op->dst), src, o->card.bytes, op->gpu->out);
    if (!error)
        error = cu->event_record(o->copied, op->gpu->out);
    o->state = TT_GPU_OFFER_COPY;
    return error ? tt_cuda_fail(cu, error,
                                "gpu: cannot copy from another device to device %d",
                                op->gpu->device)
                 : TUTTI_OK;
}

static tutti_status step_copy(struct tt_gpu_offer *o, int64_t timeout_ms, bool *moved)
{
    const struct tt_cuda *cu = o->op->gpu->cu;
    const tt_cuda_result error = cu->event_query(o->copied);

    if (error == TT_CUDA_NOT_READY)
        return TUTTI_OK;
    *moved = true;
    if (error)
        return tt_cuda_fail(cu, error, "gpu: cannot copy from another device to device %d",
                            o->op->gpu->device);
    return conclude(o, COPIED, timeout_ms);
}

/* Ends the offer, on both ranks, by the verdict. */
static tutti_status end(struct tt_gpu_offer *o, enum tt_gpu_offer_result *result)
{
    const tutti_gpu_op *op = o->op;
    const struct tt_gpu_verdict *v = &o->verdict;

    o->op = NULL;
    if (v->magic != VERDICT_MAGIC || v->verdict >= NVERDICTS)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: rank %d sent an invalid reply to a copy offer", op->root);
    if (v->verdict == MISMATCH)
        return tt_fail(TUTTI_ERR_MISMATCH,
                       "gpu: calls do not match: the sender has %llu bytes, but the receiver "
                       "expects %llu (%s is rank %d)",
                       (unsigned long long)o->card.bytes, (unsigned long long)v->bytes,
                       op->kind == TUTTI_GPU_RECV ? "the sender" : "the receiver", op->root);
    if (v->verdict == FAR) {
        *far_of(op->gpu, op) = true;
        tt_log(TT_LOG_INFO, "gpu: messages %s rank %d are staged through host memory",
               op->kind == TUTTI_GPU_RECV ? "from" : "to", op->root);
    }
    op->gpu->npulled += v->verdict == COPIED;
    *result = v->verdict == COPIED ? TT_GPU_OFFER_COPIED : TT_GPU_OFFER_STAGED;
    return TUTTI_OK;
}

/* Continues after the card was sent or received. */
static tutti_status step_card(struct tt_gpu_offer *o, int64_t timeout_ms)
{
    return receives(o) ? take_card(o, timeout_ms) : post_verdict(o, timeout_ms);
}

tutti_status tt_gpu_offer_begin(struct tt_gpu_offer *o, const tutti_gpu_op *op,
                                tt_cuda_event copied, int64_t timeout_ms)
{
    o->op = op;
    o->state = TT_GPU_OFFER_CARD;
    o->copied = copied;
    if (!receives(o))
        tt_gpu_card_make(&o->card, op, op->src, bytes_of(op));
    return post_card(o, timeout_ms);
}

tutti_status tt_gpu_offer_step(struct tt_gpu_offer *o, int64_t timeout_ms,
                               enum tt_gpu_offer_result *result, bool *moved)
{
    tutti_status st;

    *result = TT_GPU_OFFER_BUSY;
    if (o->state == TT_GPU_OFFER_COPY)
        return step_copy(o, timeout_ms, moved);
    if (o->request && tutti_test(o->request) == TUTTI_PENDING)
        return TUTTI_OK;
    *moved = true;
    st = o->request ? tutti_wait(o->request) : TUTTI_OK;
    o->request = NULL;
    if (st)
        return st;
    return o->state == TT_GPU_OFFER_CARD ? step_card(o, timeout_ms) : end(o, result);
}
