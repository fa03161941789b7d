/* Buffers in pinned memory that belong to no tutti_gpu, because graphs may outlive it. Unused
 * buffers are kept for later use: freeing pinned memory may wait for the device. */
#ifndef TT_GPU_PINNED_H
#define TT_GPU_PINNED_H

#include "gpu/cuda.h"

struct tt_gpu_pinned {
    struct tt_gpu_pinned *next;
    char *mem;
    size_t bytes;
    tt_cuda_context context;        /* in which it was allocated */
};

/* Takes a buffer of at least `bytes` bytes of the current context `context`. Any thread. */
tutti_status tt_gpu_pinned_take(struct tt_gpu_pinned **out, const struct tt_cuda *cu,
                                tt_cuda_context context, size_t bytes);
/* Gives it back, when no stream uses it. Calls no function of CUDA. p may be NULL. */
void tt_gpu_pinned_put(struct tt_gpu_pinned *p);
/* Frees the unused buffers of the current context `context`. */
void tt_gpu_pinned_trim(const struct tt_cuda *cu, tt_cuda_context context);

#endif
