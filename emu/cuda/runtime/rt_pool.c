/* Memory pools, and access of devices to each other. */
#include "rt.h"

#include "context.h"
#include "machine.h"
#include "peer.h"
#include "pool.h"

cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device)
{
    const CUresult st = tt_emu_device_exists(device);

    if (!st)
        *out = tt_emu_pool_default(device);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t *out, int device)
{
    const CUresult st = tt_emu_device_exists(device);

    if (!st)
        *out = tt_emu_pool_current(device);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    const CUresult st = tt_emu_device_exists(device);

    return tt_emu_rt_done(st ? st : tt_emu_pool_set_current(device, pool));
}

cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *out, const struct cudaMemPoolProps *props)
{
    CUmemPoolProps p = { 0 };

    if (!props)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    p.allocType = (CUmemAllocationType)props->allocType;
    p.handleTypes = (CUmemAllocationHandleType)props->handleTypes;
    p.location.type = (CUmemLocationType)props->location.type;
    p.location.id = props->location.id;
    return tt_emu_rt_done(tt_emu_pool_create(&p, out));
}

cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t pool)
{
    return tt_emu_rt_done(tt_emu_pool_destroy(pool));
}

cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    uint64_t used;

    (void)keep;             /* pools keep no unused memory */
    return tt_emu_rt_done(tt_emu_pool_get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
}

cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which,
                                              void *value)
{
    return tt_emu_rt_done(tt_emu_pool_get(pool, (CUmemPool_attribute)which, value));
}

cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which,
                                              void *value)
{
    return tt_emu_rt_done(tt_emu_pool_set(pool, (CUmemPool_attribute)which, value));
}

cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t pool,
                                           const struct cudaMemAccessDesc *access, size_t n)
{
    CUresult st = n && !access ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

    for (size_t i = 0; i < n && !st; i++) {
        CUmemAccessDesc d = { .flags = (CUmemAccess_flags)access[i].flags };

        d.location.type = (CUmemLocationType)access[i].location.type;
        d.location.id = access[i].location.id;
        st = tt_emu_pool_set_access(pool, &d, 1);
    }
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaMemPoolGetAccess(enum cudaMemAccessFlags *out, cudaMemPool_t pool,
                                           struct cudaMemLocation *where)
{
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUmemLocation l = { 0 };
    CUresult st;

    if (!where || !out)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    l.type = (CUmemLocationType)where->type;
    l.id = where->id;
    st = tt_emu_pool_get_access(pool, &l, &flags);
    if (!st)
        *out = (enum cudaMemAccessFlags)flags;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool,
                                              cudaStream_t stream)
{
    CUdeviceptr at = 0;
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    if (!st && !p)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st && bytes)
        st = tt_emu_pool_alloc(pool, bytes, s, &at);
    if (!st)
        *p = (void *)at;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream)
{
    int device;
    const CUresult st = tt_emu_context_device(&device);

    if (st)
        return tt_emu_rt_done(st);
    return cudaMallocFromPoolAsync(p, bytes, tt_emu_pool_current(device), stream);
}

cudaError_t CUDARTAPI cudaFreeAsync(void *p, cudaStream_t stream)
{
    CUstream s;
    const CUresult st = tt_emu_rt_stream(stream, &s);

    return tt_emu_rt_done(st ? st : tt_emu_pool_free((CUdeviceptr)p, s));
}

/* ---- peers ---- */

static CUresult both_exist(int a, int b)
{
    const CUresult st = tt_emu_device_exists(a);

    return st ? st : tt_emu_device_exists(b);
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *out, int device, int peer)
{
    const CUresult st = both_exist(device, peer);

    if (!st)
        *out = tt_emu_peer_possible(device, peer);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int *out, enum cudaDeviceP2PAttr which, int device,
                                                int peer)
{
    const CUresult st = both_exist(device, peer);

    return tt_emu_rt_done(
        st ? st : tt_emu_peer_attribute((CUdevice_P2PAttribute)which, device, peer, out));
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && flags)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_device_exists(peer);
    return tt_emu_rt_done(st ? st : tt_emu_peer_enable(device, peer));
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st)
        st = tt_emu_device_exists(peer);
    return tt_emu_rt_done(st ? st : tt_emu_peer_disable(device, peer));
}
