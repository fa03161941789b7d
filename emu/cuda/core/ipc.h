/* Handles by which another process opens memory or an event: it opens the memory file through
 * /proc/<pid>/fd while the exporting process lives. */
#ifndef TT_EMU_IPC_H
#define TT_EMU_IPC_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* The content of a CUipcMemHandle, of a CUipcEventHandle or of exported memory of a pool. */
struct tt_emu_ipc {
    uint64_t magic;
    uint32_t kind;              /* of the handle: memory or event */
    int32_t  pid, fd;
    int32_t  device;            /* index on the machine */
    uint64_t inode;             /* of the memory file: detects a descriptor that was reused */
    uint64_t offset, bytes;
};

/* Describes part of a memory file of this process. */
CUresult tt_emu_ipc_export(uint32_t kind, int fd, int device, size_t offset, size_t bytes,
                           struct tt_emu_ipc *out);

/* Opens the memory file. CUDA_ERROR_INVALID_VALUE if the bytes are not a handle of this kind;
 * CUDA_ERROR_INVALID_CONTEXT if this process exported it; CUDA_ERROR_MAP_FAILED if the process that
 * exported it has ended or is not accessible. The caller closes *fd. */
CUresult tt_emu_ipc_import(uint32_t kind, const struct tt_emu_ipc *handle, int *fd);

/* Memory of another process. Opening it again returns the same address and increments its count.
 * CUDA_ERROR_PEER_ACCESS_UNSUPPORTED if `device`, the current one, cannot access its device. */
CUresult tt_emu_ipc_memory_export(CUdeviceptr p, struct tt_emu_ipc *out);
CUresult tt_emu_ipc_memory_open(int device, const struct tt_emu_ipc *handle, CUdeviceptr *out);
CUresult tt_emu_ipc_memory_close(CUdeviceptr p);

#endif
