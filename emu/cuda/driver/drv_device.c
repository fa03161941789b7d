#include "drv.h"

#include "attributes.h"
#include "context.h"
#include "errors.h"
#include "machine.h"
#include "stream.h"

#include <stdio.h>
#include <string.h>

CUresult tt_emu_drv_ready(void)
{
    const CUresult st = tt_emu_ready();

    if (st)
        return st;
    return atomic_load(&tt_emu_machine()->initialized) ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult tt_emu_drv_device_exists(CUdevice device)
{
    const CUresult st = tt_emu_drv_ready();

    return st ? st : tt_emu_device_exists(device);
}

CUresult tt_emu_drv_device(int *device)
{
    CUresult st = tt_emu_ready();

    if (!st && !tt_emu_context_current())
        st = tt_emu_drv_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_CONTEXT;
    return st ? st : tt_emu_context_device(device);
}

CUresult tt_emu_drv_stream(CUstream handle, CUstream *out)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_stream_of(handle, out);
}

CUresult CUDAAPI cuInit(unsigned int flags)
{
    CUresult st = tt_emu_ready();

    if (!st && flags)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        atomic_store(&tt_emu_machine()->initialized, true);
    return st;
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = TT_EMU_CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **out)
{
    return tt_emu_error_name(error, false, out);
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **out)
{
    return tt_emu_error_string(error, out);
}

/* ---- devices ---- */

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    const CUresult st = tt_emu_drv_ready();

    if (st || !count)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    *count = tt_emu_machine()->ndevices;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    const CUresult st = tt_emu_drv_device_exists(ordinal);

    if (!st)
        *device = ordinal;
    return st;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (st || !name || bytes <= 0)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)bytes, "%s", TT_EMU_DEVICE_NAME);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (!st)
        tt_emu_device_uuid(device, uuid->bytes);
    return st;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (!st)
        *bytes = tt_emu_machine()->device[device].bytes;
    return st;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    return st ? st : tt_emu_device_attribute(device, attribute, value);
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (st || !text || bytes < 13)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    tt_emu_device_pci(device, text, bytes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    const CUresult st = tt_emu_drv_ready();
    int found;

    if (st || !text)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    found = tt_emu_device_by_pci(text);
    if (found < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = found;
    return CUDA_SUCCESS;
}

/* ---- primary contexts ---- */

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (st)
        return st;
    *out = tt_emu_context_primary(device);
    pthread_mutex_lock(&tt_emu_machine()->lock);
    tt_emu_machine()->device[device].primary_refs++;
    pthread_mutex_unlock(&tt_emu_machine()->lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
    struct tt_emu_device *dev;
    CUresult st = tt_emu_drv_device_exists(device);

    if (st)
        return st;
    dev = &tt_emu_machine()->device[device];
    pthread_mutex_lock(&tt_emu_machine()->lock);
    if (!dev->primary_refs)
        st = CUDA_ERROR_INVALID_CONTEXT;
    else if (!--dev->primary_refs)
        dev->primary_active = false;
    pthread_mutex_unlock(&tt_emu_machine()->lock);
    return st;
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (!st)
        tt_emu_device_reset(device);
    return st;
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    struct tt_emu_device *dev;
    const CUresult st = tt_emu_drv_device_exists(device);

    if (st)
        return st;
    dev = &tt_emu_machine()->device[device];
    pthread_mutex_lock(&tt_emu_machine()->lock);
    *flags = dev->primary_flags;
    *active = dev->primary_active;
    pthread_mutex_unlock(&tt_emu_machine()->lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (st)
        return st;
    pthread_mutex_lock(&tt_emu_machine()->lock);
    tt_emu_machine()->device[device].primary_flags = flags;
    pthread_mutex_unlock(&tt_emu_machine()->lock);
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

CUresult CUDAAPI cuCtxCreate(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                             CUdevice device)
{
    const CUresult st = tt_emu_drv_device_exists(device);

    if (st)
        return st;
    if (params && (params->numExecAffinityParams || params->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return tt_emu_context_create(device, flags, out);
}

CUresult CUDAAPI cuCtxDestroy(CUcontext c)
{
    const CUresult st = tt_emu_drv_ready();

    return st ? st : tt_emu_context_destroy(c);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *out)
{
    const CUresult st = tt_emu_ready();

    if (!st)
        *out = tt_emu_context_current();
    return st;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext c)
{
    const CUresult st = tt_emu_drv_ready();

    return st ? st : tt_emu_context_set(c);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext c)
{
    const CUresult st = tt_emu_drv_ready();

    return st ? st : tt_emu_context_push(c);
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *out)
{
    const CUresult st = tt_emu_drv_ready();

    return st ? st : tt_emu_context_pop(out);
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    return tt_emu_drv_device(device);
}

/* The device of a context; NULL: of the current one. */
CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext c)
{
    const CUresult st = c ? tt_emu_drv_ready() : tt_emu_drv_device(device);

    if (!st && c)
        *device = c->device;
    return st;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (!st)
        *flags = tt_emu_context_current()->flags;
    return st;
}

CUresult CUDAAPI cuCtxGetId(CUcontext c, unsigned long long *id)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (!st)
        *id = (c ? c : tt_emu_context_current())->id;
    return st;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (!st && least)
        *least = TT_EMU_PRIORITY_LOWEST;
    if (!st && greatest)
        *greatest = TT_EMU_PRIORITY_HIGHEST;
    return st;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_device_synchronize(device);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext c)
{
    const CUresult st = tt_emu_drv_ready();

    if (!c)
        return cuCtxSynchronize();
    return st ? st : tt_emu_device_synchronize(c->device);
}

CUresult CUDAAPI cuCtxGetLimit(size_t *value, CUlimit limit)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (st || !value || (unsigned)limit >= CU_LIMIT_MAX)
        return st ? st : CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = tt_emu_machine()->device[device].limits[limit];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    if (st || (unsigned)limit >= CU_LIMIT_MAX)
        return st ? st : CUDA_ERROR_UNSUPPORTED_LIMIT;
    tt_emu_machine()->device[device].limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext c, unsigned int *version)
{
    (void)c;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = TT_EMU_CUDA_VERSION;
    return CUDA_SUCCESS;
}
