/* Gets from the device memory of other ranks, and atomics on it. The worker of the origin puts a
 * request into its ring at the target (gpu/rma.h). The service thread of the target accesses its
 * device in the order of the ring, and puts the data into the replies of the origin, whose worker
 * copies it to the device. A get has up to two pieces in flight. */
#ifndef TT_GPU_FETCH_H
#define TT_GPU_FETCH_H

#include "gpu/rma.h"

/* Run a TUTTI_GPU_GET and a TUTTI_GPU_ATOMIC on the window with this ID. Called by the worker. A
 * failure fails gpu. */
tutti_status tt_gpu_rma_get(tutti_gpu *gpu, const tutti_gpu_op *op, uint32_t window);
tutti_status tt_gpu_rma_atomic(tutti_gpu *gpu, const tutti_gpu_op *op, uint32_t window);

#endif
