/* Attributes of pointers, and access of devices to each other. */
#include "drv.h"

#include "context.h"
#include "machine.h"
#include "memory.h"
#include "peer.h"

#include <string.h>

static unsigned memory_type(const struct tt_emu_range *r)
{
    return tt_emu_memory_on_device(r->kind) || r->kind == TT_EMU_MANAGED_MEMORY
               ? CU_MEMORYTYPE_DEVICE
               : CU_MEMORYTYPE_HOST;
}

/* Writes an attribute of memory that exists. */
static CUresult attribute_of(const struct tt_emu_range *r, CUdeviceptr p, CUpointer_attribute which,
                             void *out)
{
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out = tt_emu_context_primary(r->device);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = memory_type(r);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = p;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (tt_emu_memory_on_device(r->kind))
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)out = (void *)p;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)out = r->sync_memops;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)out = r->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)out = r->kind == TT_EMU_MANAGED_MEMORY;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = r->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)out = r->kind == TT_EMU_DEVICE_MEMORY;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = r->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = r->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)out = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)out =
            r->kind == TT_EMU_MAPPED_MEMORY ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned *)out = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = r->pool;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult CUDAAPI cuPointerGetAttribute(void *out, CUpointer_attribute which, CUdeviceptr p)
{
    const CUresult st = tt_emu_drv_ready();
    struct tt_emu_range r;

    if (st || !out)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    if (!tt_emu_memory_find(p, &r))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(&r, p, which, out);
}

/* The size of the value of an attribute, for memory that does not exist. */
static size_t size_of(CUpointer_attribute which)
{
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return 8;
    default:
        return 4;
    }
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int n, CUpointer_attribute *which, void **out,
                                        CUdeviceptr p)
{
    CUresult st = tt_emu_drv_ready();
    struct tt_emu_range r;
    bool found;

    if (st || !which || !out)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    found = tt_emu_memory_find(p, &r);
    for (unsigned i = 0; i < n && !st; i++) {
        memset(out[i], 0, size_of(which[i]));
        if (!found && which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)out[i] = -2;
        if (found && attribute_of(&r, p, which[i], out[i]) == CUDA_ERROR_NOT_SUPPORTED)
            st = CUDA_ERROR_NOT_SUPPORTED;
    }
    return st;
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute which, CUdeviceptr p)
{
    const CUresult st = tt_emu_drv_ready();

    if (st || !value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    return tt_emu_memory_sync_memops(p, *(const unsigned *)value != 0);
}

/* ---- peers ---- */

static CUresult both_exist(int a, int b)
{
    const CUresult st = tt_emu_drv_ready();
    const int n = tt_emu_machine()->ndevices;

    if (st)
        return st;
    return a < 0 || a >= n || b < 0 || b >= n ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *out, CUdevice device, CUdevice peer)
{
    const CUresult st = both_exist(device, peer);

    if (!st)
        *out = tt_emu_peer_possible(device, peer);
    return st;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *out, CUdevice_P2PAttribute which, CUdevice device,
                                         CUdevice peer)
{
    const CUresult st = both_exist(device, peer);

    return st ? st : tt_emu_peer_attribute(which, device, peer, out);
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (st || flags)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    return peer ? tt_emu_peer_enable(device, peer->device) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (st)
        return st;
    return peer ? tt_emu_peer_disable(device, peer->device) : CUDA_ERROR_INVALID_CONTEXT;
}
