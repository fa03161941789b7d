#include "rt.h"

#include "context.h"
#include "kernel.h"
#include "stream.h"

#include <string.h>

/* Launches the function of a host symbol, or a CUfunction of cudaGetFuncBySymbol. */
static CUresult launch(const void *key, dim3 grid, dim3 block, void **arguments, size_t shared,
                       cudaStream_t handle)
{
    const unsigned g[3] = { grid.x, grid.y, grid.z }, b[3] = { block.x, block.y, block.z };
    struct tt_emu_work work;
    CUfunction f;
    CUstream s;
    CUresult st = tt_emu_rt_stream(handle, &s);

    if (st)
        return st;
    f = tt_emu_kernel_find(key);
    if (!f)
        return (CUresult)cudaErrorInvalidDeviceFunction;
    if (shared > UINT32_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_kernel_work(f, g, b, (unsigned)shared, arguments, &work);
    return st ? st : tt_emu_stream_push(s, &work);
}

/* For invalid dimensions or sizes, the runtime and the driver have different error codes. */
static cudaError_t launched(CUresult st)
{
    if (st == CUDA_ERROR_INVALID_VALUE)
        return tt_emu_rt_error(cudaErrorInvalidConfiguration);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                       size_t sharedMem, cudaStream_t stream)
{
    return launched(launch(func, gridDim, blockDim, args, sharedMem, stream));
}

cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim,
                                                  void **args, size_t sharedMem,
                                                  cudaStream_t stream)
{
    return launched(launch(func, gridDim, blockDim, args, sharedMem, stream));
}

cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func,
                                          void **args)
{
    if (!config)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    return launched(launch(func, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                           config->stream));
}

cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *func)
{
    int device;
    const CUresult st = tt_emu_context_device(&device);
    CUfunction f = tt_emu_kernel_find(func);

    if (st || !f)
        return tt_emu_rt_error(st ? (cudaError_t)st : cudaErrorInvalidDeviceFunction);
    memset(out, 0, sizeof(*out));
    out->maxThreadsPerBlock = f->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    out->numRegs = f->attribute[CU_FUNC_ATTRIBUTE_NUM_REGS];
    out->ptxVersion = f->attribute[CU_FUNC_ATTRIBUTE_PTX_VERSION];
    out->binaryVersion = f->attribute[CU_FUNC_ATTRIBUTE_BINARY_VERSION];
    out->maxDynamicSharedSizeBytes = f->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    out->preferredShmemCarveout = f->attribute[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT];
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute which,
                                           int value)
{
    int device;
    CUresult st = tt_emu_context_device(&device);
    CUfunction f = tt_emu_kernel_find(func);

    if (st || !f)
        return tt_emu_rt_error(st ? (cudaError_t)st : cudaErrorInvalidDeviceFunction);
    return tt_emu_rt_done(tt_emu_kernel_set(f, (CUfunction_attribute)which, value));
}

cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    (void)config;           /* a preference; there is no cache */
    return tt_emu_kernel_find(func) ? cudaSuccess : tt_emu_rt_error(cudaErrorInvalidDeviceFunction);
}

cudaError_t CUDARTAPI cudaFuncGetName(const char **name, const void *func)
{
    CUfunction f = tt_emu_kernel_find(func);

    if (!f || !name)
        return tt_emu_rt_error(name ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
    *name = f->name;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t *out, const void *symbol)
{
    CUfunction f = tt_emu_kernel_find(symbol);

    if (!f || !out)
        return tt_emu_rt_error(out ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
    *out = f;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *func, int block_threads, size_t shared, unsigned int flags)
{
    CUfunction f = tt_emu_kernel_find(func);

    if (!f || !blocks)
        return tt_emu_rt_error(blocks ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
    if (flags & ~(unsigned)cudaOccupancyDisableCachingOverride || block_threads <= 0)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    *blocks = tt_emu_kernel_occupancy(block_threads, shared);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func,
                                                                    int block_threads,
                                                                    size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, block_threads,
                                                                  shared, 0);
}
