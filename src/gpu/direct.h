/* Units of one stream whose operations fit in one chunk each. The stream copies their data from and
 * to pinned memory, which they own, and the worker runs the operations on it. */
#ifndef TT_GPU_DIRECT_H
#define TT_GPU_DIRECT_H

#include "gpu/gpu.h"

/* Returns the bytes of pinned memory that the unit needs (at least 1), or 0 if it cannot be run
 * directly. Ranks with equal operations get equal results where messages depend on them. */
size_t tt_gpu_direct_bytes(const tutti_gpu *gpu, const struct tt_gpu_unit *u);

/* Adds the copies of the operations to the stream of the unit. */
tt_cuda_result tt_gpu_direct_copy(const tutti_gpu *gpu, const struct tt_gpu_unit *u, char *mem,
                                  bool to_device);

/* Takes a slot with memory for u->direct_bytes, for a unit that is not captured. Without a free
 * slot, sets u->slot to 0: the unit is then not direct. */
tutti_status tt_gpu_direct_take(tutti_gpu *gpu, struct tt_gpu_unit *u);
/* Takes memory for a captured unit (u->memory). If gpu's limit is exceeded or there is no memory,
 * the unit is not direct. */
void tt_gpu_direct_take_captured(tutti_gpu *gpu, struct tt_gpu_unit *u);
/* Returns the slot or the memory of a unit that was not started. */
void tt_gpu_direct_untake(tutti_gpu *gpu, struct tt_gpu_unit *u);
/* The memory of the unit's slot. */
char *tt_gpu_direct_memory(const tutti_gpu *gpu, const struct tt_gpu_unit *u);

/* The places of the source and of the destination of a captured unit's only operation. */
void tt_gpu_direct_place(const tutti_gpu *gpu, const struct tt_gpu_unit *u, char **src, char **dst);

/* Runs the operations on mem. On error none of them is in progress any more. */
tutti_status tt_gpu_direct_run(tutti_gpu *gpu, const struct tt_gpu_unit *u, char *mem);

#endif
