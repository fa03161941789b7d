/* Calls that code compiled by nvcc makes before main. Its kernels and variables are for a GPU only.
 * They are registered by name, so that a launch returns the right error. */
#include "rt.h"

#include "kernel.h"

#include <stdlib.h>

/* Prototypes of the compiler's interface; no header for C declares them. */
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, void *tid, void *bid, dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                              int external, size_t bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *func);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *binary)
{
    void **handle = malloc(sizeof(*handle));

    if (!handle)
        abort();
    *handle = binary;
    return handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    free(handle);
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int threads, void *tid, void *bid, dim3 *block, dim3 *grid, int *warp)
{
    (void)handle, (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid,
        (void)warp;
    tt_emu_kernel_add_foreign(host, name);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t bytes, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)bytes, (void)constant,
        (void)global;
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                              int external, size_t bytes, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)bytes, (void)constant,
        (void)global;
}

/* ---- kernel<<<grid, block, shared, stream>>>(...) ---- */

struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

static _Thread_local struct configuration pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    pushed = (struct configuration){ grid, block, shared, stream };
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    *(cudaStream_t *)stream = pushed.stream;
    return cudaSuccess;
}

/* A kernel handle is the host symbol. */
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *func)
{
    if (!tt_emu_kernel_find(func))
        return tt_emu_rt_error(cudaErrorInvalidDeviceFunction);
    *out = (cudaKernel_t)(uintptr_t)func;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t *out, const void *func)
{
    return out ? __cudaGetKernel(out, func) : tt_emu_rt_error(cudaErrorInvalidValue);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream)
{
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}
