/* Operations on device memory through pinned chunks: a copy from the device, the operation on host
 * memory, a copy to the device. Several chunks are in flight, so copies and transfers overlap.
 *
 * All ranks cut an operation at the same elements: chunk k contains the elements [k * each,
 * (k + 1) * each) of every block of the buffers. Each chunk is one operation of the communicator.
 *
 * Called by the worker, with the context current. On error nothing of the operation is in
 * progress any more. */
#ifndef TT_GPU_STAGED_H
#define TT_GPU_STAGED_H

#include "gpu/gpu.h"

/* Blocks of the source and of the destination on this rank, [count] elements each. */
struct tt_gpu_blocks {
    size_t nsrc, ndst;
};
struct tt_gpu_blocks tt_gpu_blocks_of(const tutti_gpu_op *op, int rank, int nranks);

/* Returns whether a collective has one chunk; equal on all ranks. */
bool tt_gpu_staged_is_single(const tutti_gpu *gpu, const tutti_gpu_op *op);

/* Pinned memory that a collective needs. */
size_t tt_gpu_staged_bytes(const tutti_gpu *gpu, const tutti_gpu_op *op);
/* Runs a collective in the memory `arena`. `scale` is the scale of op, read from the device. */
tutti_status tt_gpu_staged_run(tutti_gpu *gpu, const tutti_gpu_op *op, char *arena, double scale);

/* The pinned memory and the transfers of the sends and receives of a unit; other items are skipped.
 * The memory depends only on the number of different pairs of peer and direction. */
size_t tt_gpu_p2p_bytes(const tutti_gpu *gpu, const struct tt_gpu_item *items, size_t n);
/* Returns whether a send or receive has one piece; equal on both ranks. */
bool tt_gpu_p2p_is_single(const tutti_gpu *gpu, const tutti_gpu_op *op);
tutti_status tt_gpu_p2p_run(tutti_gpu *gpu, const struct tt_gpu_item *items, size_t n, char *arena);

/* Returns the timeout (tutti_call.timeout_ms) of a transfer that is posted now, for an operation
 * that began at began_ns. */
int64_t tt_gpu_timeout_left(const tutti_gpu *gpu, uint64_t began_ns);

#endif
