/* The allocations of a range of device memory, at the time of its registration.
 *
 * An allocator may free memory of a window, and allocate or map other memory at its address. The
 * driver assigns buffer IDs to allocations, also to those mapped in pieces (expandable segments),
 * and never reuses an ID. Therefore the IDs of a range are compared before each access. Changes
 * are not detected in memory without an ID, or if memory was only returned to a pool, which keeps
 * the allocation. Not verified on a GPU yet. */
#ifndef TT_GPU_PIECES_H
#define TT_GPU_PIECES_H

#include "gpu/cuda.h"

struct tt_gpu_pieces;

/* Lists the allocations of mem[bytes]. The context is current. The caller frees *out with free. */
tutti_status tt_gpu_pieces_create(struct tt_gpu_pieces **out, const struct tt_cuda *cu,
                                  const void *mem, size_t bytes);
/* Returns whether [at, at + bytes), a part of the range, still has the same allocations. The
 * context is current. */
bool tt_gpu_pieces_are_same(const struct tt_gpu_pieces *p, const struct tt_cuda *cu,
                            tt_cuda_address at, size_t bytes);

#endif
