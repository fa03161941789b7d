/* Memory pools: stream-ordered memory of a device. An allocation has its address at once. Freed
 * memory returns to the device when the stream executes the free. Pools keep no unused memory. */
#ifndef TT_EMU_POOL_H
#define TT_EMU_POOL_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* The default pool of a device, and the one that cuMemAllocAsync uses. The device must exist. */
CUmemoryPool tt_emu_pool_default(int device);
CUmemoryPool tt_emu_pool_current(int device);

/* Makes a pool the current one of its device. */
CUresult tt_emu_pool_set_current(int device, CUmemoryPool pool);

CUresult tt_emu_pool_create(const CUmemPoolProps *props, CUmemoryPool *out);
CUresult tt_emu_pool_destroy(CUmemoryPool pool);

/* Allocates and frees in the order of a stream. Refused in a stream that is being captured. */
CUresult tt_emu_pool_alloc(CUmemoryPool pool, size_t bytes, CUstream stream, CUdeviceptr *out);
CUresult tt_emu_pool_free(CUdeviceptr p, CUstream stream);

/* Called after cudaFree or cuMemFree has freed memory of a pool. */
void tt_emu_pool_uncount(CUmemoryPool pool, size_t bytes);

CUresult tt_emu_pool_get(CUmemoryPool pool, CUmemPool_attribute which, void *value);
CUresult tt_emu_pool_set(CUmemoryPool pool, CUmemPool_attribute which, const void *value);
CUresult tt_emu_pool_set_access(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n);
CUresult tt_emu_pool_get_access(CUmemoryPool pool, CUmemLocation *where, CUmemAccess_flags *out);

#endif
