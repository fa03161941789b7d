/* Puts into the device memory of other ranks, and signals. The target of a put need not make any
 * call.
 *
 * Each rank has a window of host memory (tutti/rma.h) with a ring of slots per rank that writes to
 * it. A put is cut into pieces. The worker of the origin copies a piece from the device, and puts
 * it with a header into the next slot of its ring at the target. The service thread of the target
 * copies the piece to its device, in the order of the ring. After the last piece of a put it
 * increments the count of the signal. The worker of the target waits for this count.
 *
 *     origin: worker                         target: service thread           target: worker
 *     device -> staging -> slot, head + 1 -> slot -> device, count + 1 -> ... count is reached
 *     tail <------------------------------- tail + 1
 *
 * All of this is created with the first window of a tutti_gpu, on a communicator of its own. */
#ifndef TT_GPU_RMA_H
#define TT_GPU_RMA_H

#include "gpu/gpu.h"
#include "gpu/slots.h"

struct tt_gpu_rma;

/* Memory that a rank exposes. */
struct tutti_gpu_window {
    struct tutti_gpu_window *next;
    tutti_gpu *gpu;
    uint32_t id;                /* equal on all ranks */
    char *mem;                  /* of the device */
    struct tt_gpu_pieces *pieces;       /* its allocations */
    uint64_t *bytes;            /* [nranks] of each rank's window */
};

/* Adds a window of this rank. Collective; called by the worker. The caller sets w->mem and this
 * rank's element of w->bytes; this function sets the other elements and w->id. status: an error of
 * this rank, with its message as the last error; w is then unused. If any rank passes an error or
 * fails, all ranks return an error. */
tutti_status tt_gpu_rma_add(tutti_gpu *gpu, struct tutti_gpu_window *w, tutti_status status);
/* Removes the window: a later put of another rank to it is an error. Any thread. */
void tt_gpu_rma_remove(struct tutti_gpu_window *w);

/* Pinned memory that a put needs. */
size_t tt_gpu_rma_bytes(const tutti_gpu *gpu);
/* Run a TUTTI_GPU_PUT_SIGNAL to the window `id`, and a TUTTI_GPU_WAIT_SIGNAL. Called by the worker.
 * `staging` has tt_gpu_rma_bytes bytes. A failure fails gpu. */
tutti_status tt_gpu_rma_put(tutti_gpu *gpu, const tutti_gpu_op *op, uint32_t id, char *staging);
tutti_status tt_gpu_rma_wait(tutti_gpu *gpu, const tutti_gpu_op *op);

/* Puts a header with its data, piece->bytes, into the next slot of this rank at the target, ordered
 * after all earlier ones. Called by the worker. */
tutti_status tt_gpu_rma_post(struct tt_gpu_rma *r, uint32_t target,
                             const struct tt_gpu_piece *piece, int64_t timeout_ms);
/* Fails gpu on all ranks, so that none waits; st is the last error, and is returned. */
tutti_status tt_gpu_rma_fail_all(tutti_gpu *gpu, tutti_status st);

/* Aborts all waits, on all ranks. Any thread. No-op without windows. */
void tt_gpu_rma_abort(tutti_gpu *gpu);
/* Waits until this rank's puts have arrived. The service thread frees everything after all ranks
 * have left. The last rank of a process waits for that, and so does a rank whose communicator has
 * failed (a short wait). The worker has terminated. has_context: the context is current; without
 * it, the stream is not destroyed. */
void tt_gpu_rma_close(tutti_gpu *gpu, bool has_context);

#endif
