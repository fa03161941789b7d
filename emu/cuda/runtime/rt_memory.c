#include "rt.h"

#include "capture.h"
#include "context.h"
#include "host.h"
#include "machine.h"
#include "memory.h"
#include "pool.h"
#include "stream.h"

#include <string.h>

cudaError_t CUDARTAPI cudaMalloc(void **p, size_t bytes)
{
    CUdeviceptr at = 0;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && !p)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st && bytes)
        st = tt_emu_memory_alloc(device, bytes, TT_EMU_DEVICE_MEMORY, NULL, &at);
    if (!st)
        *p = (void *)at;
    return tt_emu_rt_done(st);
}

/* Waits for all work of the device, as the real call does. */
cudaError_t CUDARTAPI cudaFree(void *p)
{
    struct tt_emu_range r;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (st || !p)
        return tt_emu_rt_done(st);
    if (!tt_emu_memory_find((uintptr_t)p, &r) || r.base != (uintptr_t)p)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    st = tt_emu_device_synchronize(r.device);
    if (!st && r.kind == TT_EMU_MANAGED_MEMORY)
        st = tt_emu_managed_free(r.base);
    else if (!st)
        st = tt_emu_memory_free(r.base);
    if (!st && r.kind == TT_EMU_POOL_MEMORY)
        tt_emu_pool_uncount(r.pool, r.bytes);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height)
{
    const size_t row = (width + 511) & ~(size_t)511;
    cudaError_t st;

    if (!p || !pitch || row < width || (row && height > SIZE_MAX / row))
        return tt_emu_rt_error(cudaErrorInvalidValue);
    st = cudaMalloc(p, row * height);
    if (!st)
        *pitch = row;
    return st;
}

cudaError_t CUDARTAPI cudaMalloc3D(struct cudaPitchedPtr *out, struct cudaExtent extent)
{
    size_t pitch = 0;
    void *p = NULL;
    cudaError_t st;

    if (!out || (extent.depth && extent.height > SIZE_MAX / extent.depth))
        return tt_emu_rt_error(cudaErrorInvalidValue);
    st = cudaMallocPitch(&p, &pitch, extent.width, extent.height * extent.depth);
    if (!st)
        *out = (struct cudaPitchedPtr){ p, pitch, extent.width, extent.height };
    return st;
}

cudaError_t CUDARTAPI cudaMallocManaged(void **p, size_t bytes, unsigned int flags)
{
    CUdeviceptr at;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && !p)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_managed_alloc(device, bytes, flags, &at);
    if (!st)
        *p = (void *)at;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaHostAlloc(void **p, size_t bytes, unsigned int flags)
{
    void *at = NULL;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && !p)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st && bytes)
        st = tt_emu_host_alloc(device, bytes, flags, &at);
    if (!st)
        *p = at;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaMallocHost(void **p, size_t bytes)
{
    return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

cudaError_t CUDARTAPI cudaFreeHost(void *p)
{
    struct tt_emu_range r;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (st || !p)
        return tt_emu_rt_done(st);
    if (!tt_emu_memory_find((uintptr_t)p, &r) || r.kind != TT_EMU_PINNED_MEMORY)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    st = tt_emu_device_synchronize(r.device);
    if (!st)
        st = tt_emu_host_free(p);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaHostRegister(void *p, size_t bytes, unsigned int flags)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st)
        st = tt_emu_host_register(device, p, bytes, flags);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaHostUnregister(void *p)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st)
        st = tt_emu_host_unregister(p);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **out, void *p, unsigned int flags)
{
    CUdeviceptr at;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && (flags || !out))
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_host_device_pointer(p, &at);
    if (!st)
        *out = (void *)at;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int *flags, void *p)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st)
        st = tt_emu_host_flags(p, flags);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    size_t f, t;
    int device;
    const CUresult st = tt_emu_context_device(&device);

    if (!st) {
        tt_emu_memory_info(device, &f, &t);
        if (free_bytes)
            *free_bytes = f;
        if (total)
            *total = t;
    }
    return tt_emu_rt_done(st);
}

/* Memory that CUDA has not allocated is a valid argument: its type is unregistered. */
cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p)
{
    struct tt_emu_range r;
    int device;
    const CUresult st = tt_emu_context_device(&device);

    if (st || !out)
        return tt_emu_rt_done(st ? st : CUDA_ERROR_INVALID_VALUE);
    memset(out, 0, sizeof(*out));
    out->device = -2;
    out->hostPointer = (void *)(uintptr_t)p;
    if (!tt_emu_memory_find((uintptr_t)p, &r))
        return cudaSuccess;
    out->device = r.device;
    out->devicePointer = (void *)(uintptr_t)p;
    if (tt_emu_memory_on_device(r.kind)) {
        out->type = cudaMemoryTypeDevice;
        out->hostPointer = NULL;
    } else {
        out->type = r.kind == TT_EMU_MANAGED_MEMORY ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
    }
    return cudaSuccess;
}
