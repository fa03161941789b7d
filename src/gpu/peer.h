/* Device memory of other ranks of the host, as the source of copies from device to device.
 *
 * A rank describes its memory in a card. A rank of the same process uses its address. Another
 * process opens the IPC handle of the allocation, and keeps the mapping for later calls. Buffer IDs
 * are never reused, so memory that was freed and allocated again is opened again.
 *
 * Called by the worker, with the context current. A failure is not an error: the data is staged.
 * Source: UCX, transport cuda_ipc (cache of opened handles). */
#ifndef TT_GPU_PEER_H
#define TT_GPU_PEER_H

#include "gpu/gpu.h"

/* The ranks that can copy from the memory of a card. */
enum tt_gpu_reach { TT_GPU_REACH_PROCESS, TT_GPU_REACH_HOST };

/* Memory of a rank; sent to other ranks. */
struct tt_gpu_card {
    uint64_t magic;
    uint64_t host, process;         /* tt_host_hash, tt_gpu_process */
    uint64_t address, bytes;        /* in this process */
    uint64_t base, allocation;      /* of the allocation: its address and buffer ID */
    uint64_t count;                 /* of the operation, like the following fields */
    uint32_t kind, type, root;
    uint32_t in_place;
    uint32_t reach;                 /* enum tt_gpu_reach */
    uint32_t unused;
    tt_cuda_ipc handle;             /* TT_GPU_REACH_HOST only */
};

/* Returns a number that differs between processes, also after a fork. Any thread. */
uint64_t tt_gpu_process(void);

/* Describes mem[bytes], which op uses. If bytes is 0, the reach is TT_GPU_REACH_HOST, because there
 * is nothing to open. */
void tt_gpu_card_make(struct tt_gpu_card *card, const tutti_gpu_op *op, const void *mem,
                      size_t bytes);
/* Validates a card of another rank. */
bool tt_gpu_card_is_valid(const struct tt_gpu_card *card);
/* Returns the address from which this rank copies, or 0: the memory cannot be opened, or too many
 * allocations are open. The address stays valid until tt_gpu_peer_close. */
tt_cuda_address tt_gpu_card_open(tutti_gpu *gpu, const struct tt_gpu_card *card);

/* Returns whether no further memory can be opened. Opened memory can still be used. */
bool tt_gpu_peer_is_full(const tutti_gpu *gpu);

/* Closes all mappings. No copy is in progress, and no stream waits for the worker. */
void tt_gpu_peer_close(tutti_gpu *gpu);

#endif
