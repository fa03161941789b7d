/* Virtual memory management: addresses, physical memory, and mappings between them. */
#ifndef TT_EMU_VMM_H
#define TT_EMU_VMM_H

#include <cuda.h>

#define TT_EMU_VMM_GRANULARITY ((size_t)2 << 20)

CUresult tt_emu_vmm_reserve(size_t bytes, size_t align, CUdeviceptr hint, CUdeviceptr *out);
CUresult tt_emu_vmm_unreserve(CUdeviceptr p, size_t bytes);

CUresult tt_emu_vmm_create(size_t bytes, const CUmemAllocationProp *prop,
                           CUmemGenericAllocationHandle *out);
CUresult tt_emu_vmm_release(CUmemGenericAllocationHandle handle);

/* The handle of the memory that is mapped at an address, with one more reference. */
CUresult tt_emu_vmm_retain(CUdeviceptr p, CUmemGenericAllocationHandle *out);
CUresult tt_emu_vmm_properties(CUmemGenericAllocationHandle handle, CUmemAllocationProp *out);

CUresult tt_emu_vmm_map(CUdeviceptr p, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle);
CUresult tt_emu_vmm_unmap(CUdeviceptr p, size_t bytes);

/* Both ends of the range must be ends of mappings. */
CUresult tt_emu_vmm_set_access(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access,
                               size_t n);
CUresult tt_emu_vmm_get_access(CUdeviceptr p, const CUmemLocation *where, unsigned long long *out);

/* Create a file descriptor for memory that was created for sharing, or a handle from one. */
CUresult tt_emu_vmm_export(CUmemGenericAllocationHandle handle, int *fd);
CUresult tt_emu_vmm_import(int fd, CUmemGenericAllocationHandle *out);

#endif
