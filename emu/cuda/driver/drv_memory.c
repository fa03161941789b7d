#include "drv.h"

#include "copy.h"
#include "host.h"
#include "ipc.h"
#include "machine.h"
#include "memory.h"
#include "pool.h"
#include "stream.h"

#include <string.h>

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_memory_alloc(device, bytes, TT_EMU_DEVICE_MEMORY, NULL, p);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr p)
{
    struct tt_emu_range r;
    int device;
    CUresult st = tt_emu_drv_device(&device);

    if (st || !p)
        return st;
    if (!tt_emu_memory_find(p, &r) || r.base != p)
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_device_synchronize(r.device);
    if (st)
        return st;
    st = r.kind == TT_EMU_MANAGED_MEMORY ? tt_emu_managed_free(p) : tt_emu_memory_free(p);
    if (!st && r.kind == TT_EMU_POOL_MEMORY)
        tt_emu_pool_uncount(r.pool, r.bytes);
    return st;
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr *p, size_t *pitch, size_t width, size_t height,
                                 unsigned int element)
{
    const size_t row = (width + 511) & ~(size_t)511;
    CUresult st;

    if ((element != 4 && element != 8 && element != 16) || row < width || !row ||
        height > SIZE_MAX / row)
        return CUDA_ERROR_INVALID_VALUE;
    st = cuMemAlloc(p, row * height);
    if (!st)
        *pitch = row;
    return st;
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned int flags)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_managed_alloc(device, bytes, flags, p);
}

CUresult CUDAAPI cuMemHostAlloc(void **p, size_t bytes, unsigned int flags)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_host_alloc(device, bytes, flags, p);
}

CUresult CUDAAPI cuMemAllocHost(void **p, size_t bytes)
{
    return cuMemHostAlloc(p, bytes, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
    struct tt_emu_range r;
    int device;
    CUresult st = tt_emu_drv_device(&device);

    if (st || !p)
        return st;
    if (!tt_emu_memory_find((uintptr_t)p, &r) || r.kind != TT_EMU_PINNED_MEMORY)
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_device_synchronize(r.device);
    return st ? st : tt_emu_host_free(p);
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_host_register(device, p, bytes, flags);
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_host_unregister(p);
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned int flags)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (st || flags)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    return tt_emu_host_device_pointer(p, out);
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *flags, void *p)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_host_flags(p, flags);
}

CUresult CUDAAPI cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (!st)
        tt_emu_memory_info(device, free_bytes, total);
    return st;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr p)
{
    struct tt_emu_range r;
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (st)
        return st;
    if (!tt_emu_memory_find(p, &r))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = r.base;
    if (bytes)
        *bytes = r.bytes;
    return CUDA_SUCCESS;
}

/* ---- other processes ---- */

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr p)
{
    struct tt_emu_ipc h;
    int device;
    CUresult st = tt_emu_drv_device(&device);

    if (!st)
        st = tt_emu_ipc_memory_export(p, &h);
    if (!st) {
        memset(handle, 0, sizeof(*handle));
        memcpy(handle, &h, sizeof(h));
    }
    return st;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *p, CUipcMemHandle handle, unsigned int flags)
{
    struct tt_emu_ipc h;
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (st || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    memcpy(&h, &handle, sizeof(h));
    return tt_emu_ipc_memory_open(device, &h, p);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr p)
{
    int device;
    CUresult st = tt_emu_drv_device(&device);

    if (!st)
        st = tt_emu_device_synchronize(device);     /* as the real driver does */
    return st ? st : tt_emu_ipc_memory_close(p);
}

/* ---- copies ---- */

static CUresult copy(uintptr_t to, uintptr_t from, size_t bytes, enum tt_emu_side to_side,
                     enum tt_emu_side from_side, CUstream handle, bool async)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(handle, &s);

    return st ? st : tt_emu_copy_bytes(to, from, bytes, to_side, from_side, s, async);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return copy(dst, src, bytes, TT_EMU_SIDE_ANY, TT_EMU_SIDE_ANY, NULL, false);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return copy(dst, src, bytes, TT_EMU_SIDE_ANY, TT_EMU_SIDE_ANY, stream, true);
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes)
{
    return copy(dst, (uintptr_t)src, bytes, TT_EMU_SIDE_DEVICE, TT_EMU_SIDE_HOST, NULL, false);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    return copy(dst, (uintptr_t)src, bytes, TT_EMU_SIDE_DEVICE, TT_EMU_SIDE_HOST, stream, true);
}

CUresult CUDAAPI cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes)
{
    return copy((uintptr_t)dst, src, bytes, TT_EMU_SIDE_HOST, TT_EMU_SIDE_DEVICE, NULL, false);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return copy((uintptr_t)dst, src, bytes, TT_EMU_SIDE_HOST, TT_EMU_SIDE_DEVICE, stream, true);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return copy(dst, src, bytes, TT_EMU_SIDE_DEVICE, TT_EMU_SIDE_DEVICE, NULL, false);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return copy(dst, src, bytes, TT_EMU_SIDE_DEVICE, TT_EMU_SIDE_DEVICE, stream, true);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                              size_t bytes)
{
    if (!to || !from)
        return CUDA_ERROR_INVALID_CONTEXT;
    return cuMemcpyDtoD(dst, src, bytes);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                                   size_t bytes, CUstream stream)
{
    if (!to || !from)
        return CUDA_ERROR_INVALID_CONTEXT;
    return cuMemcpyDtoDAsync(dst, src, bytes, stream);
}

/* ---- fills ---- */

static CUresult fill(CUdeviceptr p, size_t pitch, unsigned value, unsigned element, size_t width,
                     size_t height, CUstream handle, bool async)
{
    const struct tt_emu_fill f = { p, pitch, width, height, value, element };
    CUstream s;
    const CUresult st = tt_emu_drv_stream(handle, &s);

    return st ? st : tt_emu_fill(f, s, async);
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr p, unsigned char value, size_t n)
{
    return fill(p, n, value, 1, n, 1, NULL, false);
}

CUresult CUDAAPI cuMemsetD16(CUdeviceptr p, unsigned short value, size_t n)
{
    return fill(p, 2 * n, value, 2, n, 1, NULL, false);
}

CUresult CUDAAPI cuMemsetD32(CUdeviceptr p, unsigned int value, size_t n)
{
    return fill(p, 4 * n, value, 4, n, 1, NULL, false);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t n, CUstream stream)
{
    return fill(p, n, value, 1, n, 1, stream, true);
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr p, unsigned short value, size_t n, CUstream stream)
{
    return fill(p, 2 * n, value, 2, n, 1, stream, true);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr p, unsigned int value, size_t n, CUstream stream)
{
    return fill(p, 4 * n, value, 4, n, 1, stream, true);
}
