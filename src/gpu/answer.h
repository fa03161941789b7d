/* Gets and atomics of other ranks on this rank's device memory. Called by the service thread. */
#ifndef TT_GPU_ANSWER_H
#define TT_GPU_ANSWER_H

#include "gpu/service.h"

/* Waits until the reply that p requests, if any, can be written. p need not be checked yet. A
 * failed communicator is no error. NOMEM: no memory for replies to this rank. */
tutti_status tt_gpu_answer_prepare(struct tt_gpu_rma *r, uint32_t rank,
                                   const struct tt_gpu_piece *p);
/* Performs the checked get or atomic of `rank` on the memory at `mem`, and stores its reply, after
 * tt_gpu_answer_prepare. The stream is idle afterwards. */
tutti_status tt_gpu_answer_run(struct tt_gpu_rma *r, uint32_t rank, const struct tt_gpu_piece *p,
                               tt_cuda_address mem);
/* Sends the stored reply, if p requests one. Does not wait for its rank. */
tutti_status tt_gpu_answer_send(struct tt_gpu_rma *r, uint32_t rank, const struct tt_gpu_piece *p);

/* Frees the replies. */
void tt_gpu_answer_free(struct tt_gpu_rma *r);

#endif
