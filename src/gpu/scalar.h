/* Factors of premultiplied sums in memory (tutti_gpu_op.scale_from). */
#ifndef TT_GPU_SCALAR_H
#define TT_GPU_SCALAR_H

#include "gpu/gpu.h"

/* Sets op->scale from host memory, and then clears op->scale_from. */
void tt_gpu_scalar_take(tutti_gpu_op *op);
/* Sets op->scale from device memory, if op->scale_from is set. Called by the worker, when the
 * operation starts. */
tutti_status tt_gpu_scalar_read(tutti_gpu *gpu, tutti_gpu_op *op);

#endif
