#include "drv.h"

#include "handles.h"
#include "kernel.h"
#include "stream.h"

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridX, unsigned int gridY,
                                unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                                unsigned int blockZ, unsigned int shared, CUstream stream,
                                void **arguments, void **extra)
{
    const unsigned grid[3] = { gridX, gridY, gridZ }, block[3] = { blockX, blockY, blockZ };
    struct tt_emu_work work;
    CUstream s;
    CUresult st = tt_emu_drv_stream(stream, &s);

    if (st)
        return st;
    if (!tt_emu_handle_is(f, TT_EMU_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (extra)
        return arguments ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    st = tt_emu_kernel_work(f, grid, block, shared, arguments, &work);
    return st ? st : tt_emu_stream_push(s, &work);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gridX, unsigned int gridY,
                                           unsigned int gridZ, unsigned int blockX,
                                           unsigned int blockY, unsigned int blockZ,
                                           unsigned int shared, CUstream stream, void **arguments)
{
    return cuLaunchKernel(f, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, stream, arguments,
                          NULL);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **arguments,
                                  void **extra)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
                          c->blockDimZ, c->sharedMemBytes, c->hStream, arguments, extra);
}

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction f)
{
    if (!tt_emu_handle_is(f, TT_EMU_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!value || (int)which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = f->attribute[which];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value)
{
    if (!tt_emu_handle_is(f, TT_EMU_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    return tt_emu_kernel_set(f, which, value);
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config)
{
    (void)config;           /* a preference; there is no cache */
    return tt_emu_handle_is(f, TT_EMU_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction f)
{
    if (!tt_emu_handle_is(f, TT_EMU_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    *name = f->name;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f,
                                                             int block_threads, size_t shared)
{
    if (!tt_emu_handle_is(f, TT_EMU_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!blocks || block_threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = tt_emu_kernel_occupancy(block_threads, shared);
    return CUDA_SUCCESS;
}
