/* The allocations of a range of device memory, at the time of its registration.
 *
 * An allocator may free memory of a window, and allocate or map other memory at its address. The
 * driver numbers allocations, also those that are mapped piece by piece (expandable segments), and
 * never uses a number again. The numbers of a range are therefore compared before each access.
 * Memory without a number is not distinguished, nor memory that was returned to a pool, which
 * keeps the allocation. Not verified on a GPU yet. */
#ifndef TT_GPU_PIECES_H
#define TT_GPU_PIECES_H

#include "gpu/cuda.h"

struct tt_gpu_pieces;

/* Lists the allocations of mem[bytes]. The context is current. The caller owns *out, and frees it
 * with free. */
tutti_status tt_gpu_pieces_create(struct tt_gpu_pieces **out, const struct tt_cuda *cu,
                                  const void *mem, size_t bytes);
/* Whether the same allocations are still at [at, at + bytes), which is part of the range. The
 * context is current. */
bool tt_gpu_pieces_are_same(const struct tt_gpu_pieces *p, const struct tt_cuda *cu,
                            tt_cuda_address at, size_t bytes);

#endif
