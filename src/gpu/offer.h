/* A long message to a rank of the same host: the receiver copies it from the sender's device
 * memory.
 *
 *     sender                                  receiver
 *     card of the source ------------------>
 *                                             copy, device to device
 *     <-------------------------------------  verdict: copied, or staged
 *
 * If the receiver cannot open the memory, the message is staged afterwards. Two ranks that cannot
 * access each other's memory detect this at their first long message, and offer no further ones.
 *
 * Messages of one piece are never offered: both ranks determine this from the size alone. Called by
 * the worker, with the context current. */
#ifndef TT_GPU_OFFER_H
#define TT_GPU_OFFER_H

#include "gpu/peer.h"

/* Tag of verdicts, which sends and receives of programs cannot have. */
#define TT_GPU_VERDICT_TAG (UINT32_MAX - 1)

struct tt_gpu_verdict {
    uint64_t magic;
    uint64_t bytes;             /* expected by the receiver */
    uint64_t verdict;
};

/* A message being offered, in one direction to or from one peer. */
struct tt_gpu_offer {
    const tutti_gpu_op *op;     /* NULL: none is being offered */
    enum { TT_GPU_OFFER_CARD, TT_GPU_OFFER_COPY, TT_GPU_OFFER_VERDICT } state;
    struct tt_gpu_card card;
    struct tt_gpu_verdict verdict;
    tutti_request *request;     /* NULL: none is pending */
    tt_cuda_event copied;       /* owned by the caller */
};

enum tt_gpu_offer_result { TT_GPU_OFFER_BUSY, TT_GPU_OFFER_COPIED, TT_GPU_OFFER_STAGED };

/* Whether messages in this direction to or from the peer of op are not offered any more. */
bool tt_gpu_offer_is_useless(const tutti_gpu *gpu, const tutti_gpu_op *op);
/* Starts the offer of op, which uses `copied` until it has ended. timeout_ms as in tutti_call. */
tutti_status tt_gpu_offer_begin(struct tt_gpu_offer *o, const tutti_gpu_op *op,
                                tt_cuda_event copied, int64_t timeout_ms);
/* Continues without blocking. *result is set, and *moved if the state has changed. When the result
 * is not BUSY, the offer has ended. */
tutti_status tt_gpu_offer_step(struct tt_gpu_offer *o, int64_t timeout_ms,
                               enum tt_gpu_offer_result *result, bool *moved);

#endif
