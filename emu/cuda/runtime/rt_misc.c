#include "rt.h"

#include "context.h"
#include "copy.h"
#include "machine.h"
#include "memory.h"
#include "pool.h"

#include <cuda_profiler_api.h>
#include <string.h>

/* ---- hints, which have no effect on emulated memory ---- */

/* Checks that a hint is for managed memory of a single allocation. */
static CUresult managed(const void *p, size_t bytes)
{
    struct tt_emu_range r;
    int device;
    const CUresult st = tt_emu_context_device(&device);

    if (st)
        return st;
    if (!bytes || !tt_emu_memory_find((uintptr_t)p, &r) || r.kind != TT_EMU_MANAGED_MEMORY ||
        bytes > r.base + r.bytes - (uintptr_t)p)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void *p, size_t bytes,
                                           struct cudaMemLocation where, unsigned int flags,
                                           cudaStream_t stream)
{
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    (void)where;
    if (!st && flags)
        st = CUDA_ERROR_INVALID_VALUE;
    return tt_emu_rt_done(st ? st : managed(p, bytes));
}

cudaError_t CUDARTAPI cudaMemAdvise(const void *p, size_t bytes, enum cudaMemoryAdvise advice,
                                    struct cudaMemLocation where)
{
    (void)advice;
    (void)where;
    return tt_emu_rt_done(managed(p, bytes));
}

cudaError_t CUDARTAPI cudaProfilerStart(void)
{
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaProfilerStop(void)
{
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaCtxResetPersistingL2Cache(void)
{
    int device;

    return tt_emu_rt_done(tt_emu_context_device(&device));
}

cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    int device = 0;
    const CUresult st = tt_emu_context_device(&device);

    if (!st)
        tt_emu_machine()->device[device].cache = (int)config;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    int device = 0;
    const CUresult st = tt_emu_context_device(&device);

    if (!st)
        *config = (enum cudaFuncCache)tt_emu_machine()->device[device].cache;
    return tt_emu_rt_done(st);
}

/* ---- limits ---- */

cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && (!value || (unsigned)limit >= CU_LIMIT_MAX))
        st = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!st)
        *value = tt_emu_machine()->device[device].limits[limit];
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && (unsigned)limit >= CU_LIMIT_MAX)
        st = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!st)
        tt_emu_machine()->device[device].limits[limit] = value;
    return tt_emu_rt_done(st);
}

/* ---- memory of graphs: there is none, because graphs cannot allocate ---- */

cudaError_t CUDARTAPI cudaDeviceGetGraphMemAttribute(int device,
                                                     enum cudaGraphMemAttributeType which,
                                                     void *value)
{
    const CUresult st = tt_emu_device_ready(device);

    if (st || !value || (unsigned)which > cudaGraphMemAttrReservedMemHigh)
        return tt_emu_rt_done(st ? st : CUDA_ERROR_INVALID_VALUE);
    *(uint64_t *)value = 0;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceSetGraphMemAttribute(int device,
                                                     enum cudaGraphMemAttributeType which,
                                                     void *value)
{
    uint64_t now;

    return value ? cudaDeviceGetGraphMemAttribute(device, which, &now)
                 : tt_emu_rt_error(cudaErrorInvalidValue);
}

cudaError_t CUDARTAPI cudaDeviceGraphMemTrim(int device)
{
    return tt_emu_rt_done(tt_emu_device_ready(device));
}

/* ---- variables of device code do not exist ---- */

cudaError_t CUDARTAPI cudaGetSymbolAddress(void **p, const void *symbol)
{
    (void)p;
    (void)symbol;
    return tt_emu_rt_error(cudaErrorInvalidSymbol);
}

cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    (void)bytes;
    (void)symbol;
    return tt_emu_rt_error(cudaErrorInvalidSymbol);
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count,
                                         size_t offset, enum cudaMemcpyKind kind)
{
    (void)symbol, (void)src, (void)count, (void)offset, (void)kind;
    return tt_emu_rt_error(cudaErrorInvalidSymbol);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count,
                                           size_t offset, enum cudaMemcpyKind kind)
{
    (void)dst, (void)symbol, (void)count, (void)offset, (void)kind;
    return tt_emu_rt_error(cudaErrorInvalidSymbol);
}

/* ---- entry points of the driver ---- */

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *symbol, void **out,
                                                       unsigned int version,
                                                       unsigned long long flags,
                                                       enum cudaDriverEntryPointQueryResult *result)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult st;

    if (!symbol || !out)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    st = cuGetProcAddress(symbol, out, (int)version, flags, &found);
    if (result)
        *result = found == CU_GET_PROC_ADDRESS_SUCCESS ? cudaDriverEntryPointSuccess
                                                       : cudaDriverEntryPointSymbolNotFound;
    if (!st && !result && !*out)
        st = CUDA_ERROR_NOT_FOUND;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char *symbol, void **out,
                                              unsigned long long flags,
                                              enum cudaDriverEntryPointQueryResult *result)
{
    return cudaGetDriverEntryPointByVersion(symbol, out, CUDART_VERSION, flags, result);
}

/* ---- attributes of streams ---- */

/* Only the priority and the synchronization policy have a value here. */
cudaError_t CUDARTAPI cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID which,
                                             cudaStreamAttrValue *value)
{
    CUstream s;
    const CUresult st = tt_emu_rt_stream(stream, &s);

    if (st || !value)
        return tt_emu_rt_done(st ? st : CUDA_ERROR_INVALID_VALUE);
    memset(value, 0, sizeof(*value));
    if (which == cudaLaunchAttributePriority)
        return cudaStreamGetPriority(stream, &value->priority);
    if (which == cudaLaunchAttributeSynchronizationPolicy) {
        value->syncPolicy = cudaSyncPolicyAuto;
        return cudaSuccess;
    }
    return tt_emu_rt_error(cudaErrorNotSupported);
}

struct cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
                                                             enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){ x, y, z, w, kind };
}
