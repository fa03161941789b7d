/* Buffers in pinned memory that belong to no tutti_gpu, because graphs and streams may outlive it.
 * Unused buffers are kept for later use: unpinning may wait for the device.
 *
 * The library allocates the memory, and registers it with CUDA. Therefore a device reset
 * (cudaDeviceReset) only ends the registration: the memory stays mapped. Before each further use,
 * tt_gpu_pinned_check registers it again. */
#ifndef TT_GPU_PINNED_H
#define TT_GPU_PINNED_H

#include "gpu/cuda.h"

struct tt_gpu_pinned {
    struct tt_gpu_pinned *next;
    char *mem;                      /* zeroed at its creation */
    size_t bytes;
    tt_cuda_address address;        /* of mem, for streams */
    tt_cuda_context context;        /* in which it was registered */
};

/* Takes a buffer of at least `bytes` bytes of the current context `context`. Any thread. */
tutti_status tt_gpu_pinned_take(struct tt_gpu_pinned **out, const struct tt_cuda *cu,
                                tt_cuda_context context, size_t bytes);
/* The same, but without memory it returns NULL and sets no error. */
struct tt_gpu_pinned *tt_gpu_pinned_try(const struct tt_cuda *cu, tt_cuda_context context,
                                        size_t bytes);
/* Returns the buffer for reuse. No stream may use it. Calls no function of CUDA. p may be NULL. */
void tt_gpu_pinned_put(struct tt_gpu_pinned *p);
/* Registers the buffer again if a device reset has ended the registration, and then sets *again.
 * Its context is current. */
tutti_status tt_gpu_pinned_check(struct tt_gpu_pinned *p, const struct tt_cuda *cu, bool *again);
/* Frees the unused buffers of the current context `context`. */
void tt_gpu_pinned_trim(const struct tt_cuda *cu, tt_cuda_context context);

#endif
