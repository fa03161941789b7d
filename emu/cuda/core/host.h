/* Memory of the host that devices can access: pinned, registered and managed. */
#ifndef TT_EMU_HOST_H
#define TT_EMU_HOST_H

#include <cuda.h>
#include <stddef.h>

/* Pinned memory; `flags` are CU_MEMHOSTALLOC_*. */
CUresult tt_emu_host_alloc(int device, size_t bytes, unsigned flags, void **out);
CUresult tt_emu_host_free(void *p);

/* Registers memory of the program. CUDA_ERROR_INVALID_VALUE if part of it is not mapped. */
CUresult tt_emu_host_register(int device, void *p, size_t bytes, unsigned flags);
CUresult tt_emu_host_unregister(void *p);

CUresult tt_emu_managed_alloc(int device, size_t bytes, unsigned flags, CUdeviceptr *out);
CUresult tt_emu_managed_free(CUdeviceptr p);

/* The device address of pinned or registered memory, which equals its host address. */
CUresult tt_emu_host_device_pointer(void *p, CUdeviceptr *out);
CUresult tt_emu_host_flags(void *p, unsigned *flags);

#endif
