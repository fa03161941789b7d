/* Runs operations on host memory. */
#ifndef TT_GPU_POST_H
#define TT_GPU_POST_H

#include "gpu/gpu.h"

/* Calls the operation `op` of the communicator with n elements per block in host memory. The caller
 * sets the request (NULL: the call blocks) and the timeout in `call`; the rest is set here. */
tutti_status tt_gpu_post(const tutti_gpu_op *op, const void *src, void *dst, size_t n,
                         const tutti_call *call);

#endif
