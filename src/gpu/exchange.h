/* Captured operations by which each rank sends data to all, and whose ranks are all in this
 * process: all-to-all, allgather and barrier. After the first launch, no worker runs them.
 *
 * At the first launch the workers run the operation, and the ranks join an exchange. At each later
 * launch, the thread of a rank's stream copies its blocks to the receive buffers of all ranks, and
 * increments the buffers' counts. The rank whose increment completes a buffer releases the stream
 * of the buffer's owner, which copies the blocks out.
 *
 * Each rank has two receive buffers, used in turn, so no barrier is needed: a rank that starts
 * launch k + 2 has the blocks of launch k + 1 of all ranks. These ranks sent them after they had
 * consumed the blocks of launch k.
 *
 * The ranks of an exchange are those that run the same operation of the communicator at their first
 * launch. A rank joins before it sends anything, and an operation completes after all ranks have
 * sent. Therefore all ranks find the same number of members when the operation is complete, and no
 * message is needed to agree. The communicator numbers its collectives. A later collective never
 * reuses the number of an exchange, even if a tutti_gpu is created again. */
#ifndef TT_GPU_EXCHANGE_H
#define TT_GPU_EXCHANGE_H

#include "gpu/gpu.h"

struct tt_gpu_exchange;

/* Add gpu to the list of the process, and remove it. */
void tt_gpu_exchange_enter(tutti_gpu *gpu);
void tt_gpu_exchange_exit(tutti_gpu *gpu);

/* Returns whether a captured unit may join an exchange, as far as this rank knows. */
bool tt_gpu_exchange_fits(const tutti_gpu *gpu, const struct tt_gpu_unit *u);

/* Joins the exchange of the communicator's next collective, which is the first run of op. Called by
 * the worker. `handle` identifies the unit of this rank. Returns NULL if there is no memory; else
 * the caller has a reference, which tt_gpu_exchange_leave drops. */
struct tt_gpu_exchange *tt_gpu_exchange_join(const tutti_gpu *gpu, const tutti_gpu_op *op,
                                             void *handle);
/* Whether all ranks have joined. The same on all ranks once the operation is complete. */
bool tt_gpu_exchange_is_complete(const struct tt_gpu_exchange *x);
/* Marks the rank as left: it takes no part in further launches. */
void tt_gpu_exchange_leave(struct tt_gpu_exchange *x, uint32_t rank);

struct tt_gpu_exchange *tt_gpu_exchange_get(struct tt_gpu_exchange *x);
void tt_gpu_exchange_put(struct tt_gpu_exchange *x);

/* Sends the blocks of a launch of this rank: src[nranks][block] of an all-to-all, or src[block].
 * Returns the set of ranks that now have the blocks of all ranks. */
uint64_t tt_gpu_exchange_send(struct tt_gpu_exchange *x, uint32_t rank, const char *src);
/* Copies the blocks of the launch to dst[nranks][block]; this rank was in a set that
 * tt_gpu_exchange_send returned. */
void tt_gpu_exchange_receive(struct tt_gpu_exchange *x, uint32_t rank, char *dst);

void *tt_gpu_exchange_handle(const struct tt_gpu_exchange *x, uint32_t rank);
/* Returns a rank for whose blocks this rank waits, preferably one that has left (*has_left).
 * Returns nranks if there is none. */
uint32_t tt_gpu_exchange_missing(const struct tt_gpu_exchange *x, uint32_t rank, bool *has_left);

#endif
