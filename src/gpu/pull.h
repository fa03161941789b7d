/* Long collectives without a reduction, among ranks of one host: each rank copies its blocks from
 * the device memory of the other ranks. The data does not pass through host memory.
 *
 * This costs an allgather of cards, and an all-reduce of 8 bytes after which the sources are
 * reusable. Operations of one chunk are not pulled: their copies may be in a graph. */
#ifndef TT_GPU_PULL_H
#define TT_GPU_PULL_H

#include "gpu/gpu.h"

/* Runs op if all ranks can. On success *done is set if all ranks copied; otherwise all ranks must
 * stage the operation. Called by the worker, with the context current. After an error nothing of
 * the operation is in progress any more. */
tutti_status tt_gpu_pull_run(tutti_gpu *gpu, const tutti_gpu_op *op, bool *done);

#endif
