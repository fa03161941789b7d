#include "rt.h"

#include "context.h"
#include "event.h"
#include "ipc.h"
#include "stream.h"

#include <string.h>

/* Writes a handle of the program, dst[bytes]; the rest is zero. */
static void store(char *dst, size_t bytes, const struct tt_emu_ipc *h)
{
    memset(dst, 0, bytes);
    memcpy(dst, h, sizeof(*h));
}

cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p)
{
    struct tt_emu_ipc h;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && !handle)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_ipc_memory_export((CUdeviceptr)p, &h);
    if (!st)
        store(handle->reserved, sizeof(handle->reserved), &h);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned int flags)
{
    struct tt_emu_ipc h;
    CUdeviceptr at;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && (!p || flags != cudaIpcMemLazyEnablePeerAccess))
        st = CUDA_ERROR_INVALID_VALUE;
    memcpy(&h, &handle, sizeof(h));
    if (!st)
        st = tt_emu_ipc_memory_open(device, &h, &at);
    if (!st)
        *p = (void *)at;
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void *p)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st)
        st = tt_emu_device_synchronize(device);     /* as the real runtime does */
    if (!st)
        st = tt_emu_ipc_memory_close((CUdeviceptr)p);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    struct tt_emu_ipc h;
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && !handle)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_event_export(event, &h);
    if (!st)
        store(handle->reserved, sizeof(handle->reserved), &h);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    struct tt_emu_ipc h;
    int device;
    CUresult st = tt_emu_context_device(&device);

    memcpy(&h, &handle, sizeof(h));
    if (!st && !event)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_event_import(&h, event);
    return tt_emu_rt_done(st);
}
