#include "drv.h"

#include "machine.h"
#include "pool.h"

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (!st)
        *out = tt_emu_pool_default(device);
    return st;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (!st)
        *out = tt_emu_pool_current(device);
    return st;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    return st ? st : tt_emu_pool_set_current(device, pool);
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    const CUresult st = tt_emu_drv_ready();

    return st ? st : tt_emu_pool_create(props, out);
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
    return tt_emu_pool_destroy(pool);
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
    return tt_emu_pool_get(pool, which, value);
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
    return tt_emu_pool_set(pool, which, value);
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n)
{
    return tt_emu_pool_set_access(pool, access, n);
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *out, CUmemoryPool pool, CUmemLocation *where)
{
    return tt_emu_pool_get_access(pool, where, out);
}

/* Pools keep no unused memory. */
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    uint64_t used;

    (void)keep;
    return tt_emu_pool_get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t bytes, CUmemoryPool pool,
                                         CUstream stream)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_pool_alloc(pool, bytes, s, p);
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *p, size_t bytes, CUstream stream)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : cuMemAllocFromPoolAsync(p, bytes, tt_emu_pool_current(device), stream);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr p, CUstream stream)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_pool_free(p, s);
}
