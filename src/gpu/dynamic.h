/* All-to-all with sizes in device memory (TUTTI_GPU_ALLTOALLV_DYNAMIC).
 *
 * When the stream has reached the operation, the worker reads the lists, copies the pieces that are
 * listed to pinned memory, and runs tutti_alltoallv_dynamic there. A rank does not know which
 * pieces the others list for it. They send this in a second, small all-to-all, so that only
 * received pieces are copied to the device. */
#ifndef TT_GPU_DYNAMIC_H
#define TT_GPU_DYNAMIC_H

#include "gpu/gpu.h"

/* Checks op->dynamic and copies it to item->dynamic, with its array of receive buffers. The context
 * of the tutti_gpu is current. */
tutti_status tt_gpu_dynamic_take(struct tt_gpu_item *item, const tutti_gpu_op *op);

/* Pinned memory that the item needs. */
size_t tt_gpu_dynamic_bytes(const struct tt_gpu_item *item);

/* Runs the item in the pinned memory `arena`. Called by the worker. If the lists of a rank are
 * invalid, all ranks return the same status; after any other error the communicator was aborted. */
tutti_status tt_gpu_dynamic_run(const struct tt_gpu_item *item, char *arena);

#endif
