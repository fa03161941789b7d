#include "drv.h"

#include "machine.h"
#include "vmm.h"

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *p, size_t bytes, size_t align, CUdeviceptr hint,
                                     unsigned long long flags)
{
    const CUresult st = tt_emu_drv_ready();

    if (st || flags)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    return tt_emu_vmm_reserve(bytes, align, hint, p);
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
    const CUresult st = tt_emu_drv_ready();

    return st ? st : tt_emu_vmm_unreserve(p, bytes);
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                             const CUmemAllocationProp *prop, unsigned long long flags)
{
    const CUresult st = tt_emu_drv_ready();

    if (st || flags)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    return tt_emu_vmm_create(bytes, prop, handle);
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return tt_emu_vmm_release(handle);
}

CUresult CUDAAPI cuMemMap(CUdeviceptr p, size_t bytes, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : tt_emu_vmm_map(p, bytes, offset, handle);
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr p, size_t bytes)
{
    return tt_emu_vmm_unmap(p, bytes);
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access,
                                size_t n)
{
    return tt_emu_vmm_set_access(p, bytes, access, n);
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *where,
                                CUdeviceptr p)
{
    return tt_emu_vmm_get_access(p, where, flags);
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *p)
{
    return handle ? tt_emu_vmm_retain((CUdeviceptr)p, handle) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                        CUmemGenericAllocationHandle handle)
{
    return tt_emu_vmm_properties(handle, prop);
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option)
{
    const CUresult st = tt_emu_drv_ready();

    (void)option;
    if (st || !bytes || !prop)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->location.id < 0 || prop->location.id >= tt_emu_machine()->ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = TT_EMU_VMM_GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags)
{
    if (flags || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return tt_emu_vmm_export(handle, out);
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                void *os_handle, CUmemAllocationHandleType type)
{
    const CUresult st = tt_emu_drv_ready();

    if (st)
        return st;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return tt_emu_vmm_import((int)(intptr_t)os_handle, handle);
}

/* There is no kernel driver that could make a dma-buf of a memory file: CU_DEVICE_ATTRIBUTE_
 * DMA_BUF_SUPPORTED is 0. */
CUresult CUDAAPI cuMemGetHandleForAddressRange(void *out, CUdeviceptr p, size_t bytes,
                                               CUmemRangeHandleType type, unsigned long long flags)
{
    (void)out;
    (void)p;
    (void)bytes;
    (void)type;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}
