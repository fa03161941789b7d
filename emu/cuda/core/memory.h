/* All memory that CUDA calls have handed out: of devices, pinned and registered memory of the host,
 * managed memory, and what other processes opened. */
#ifndef TT_EMU_MEMORY_H
#define TT_EMU_MEMORY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tt_emu_memory {
    TT_EMU_DEVICE_MEMORY = 1,
    TT_EMU_POOL_MEMORY,         /* of a device, stream-ordered */
    TT_EMU_MAPPED_MEMORY,       /* of a device, by cuMemMap */
    TT_EMU_OPENED_MEMORY,       /* of a device, of another process */
    TT_EMU_PINNED_MEMORY,
    TT_EMU_REGISTERED_MEMORY,
    TT_EMU_MANAGED_MEMORY,
};

struct tt_emu_range {
    uintptr_t base;
    size_t    bytes;
    int       device;           /* owner, or current device at the allocation of host memory */
    enum tt_emu_memory kind;
    unsigned  flags;            /* CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_* or CU_MEM_ATTACH_* */
    uint64_t  id;               /* never reused: CU_POINTER_ATTRIBUTE_BUFFER_ID */
    CUmemoryPool pool;
    size_t    reserved;         /* bytes that the allocator took */
    bool      sync_memops;
    bool      freed;            /* by a stream that has not executed the free yet */
};

/* Allocates memory of a device; `kind` DEVICE or POOL. */
CUresult tt_emu_memory_alloc(int device, size_t bytes, enum tt_emu_memory kind, CUmemoryPool pool,
                             CUdeviceptr *out);

/* Removes the allocation that starts at `base`, and releases its memory to its device. The caller
 * has waited for the work that uses it. */
CUresult tt_emu_memory_free(uintptr_t base);

/* Marks stream-ordered or other device memory that starts at `base` as freed; a second call
 * fails. */
CUresult tt_emu_memory_mark_freed(uintptr_t base, struct tt_emu_range *out);

/* Describes memory that exists, of all kinds but DEVICE and POOL. Fails with
 * CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED if it overlaps another range. */
CUresult tt_emu_memory_add(struct tt_emu_range range);

/* Removes the range of this kind that starts at `base`. */
CUresult tt_emu_memory_remove(uintptr_t base, enum tt_emu_memory kind, struct tt_emu_range *out);

/* The range that contains `address`. */
bool tt_emu_memory_find(uintptr_t address, struct tt_emu_range *out);

/* Sets the SYNC_MEMOPS attribute of the range that contains `address`. */
CUresult tt_emu_memory_sync_memops(uintptr_t address, bool on);

/* Whether loads of the host fault on memory of this kind. */
bool tt_emu_memory_on_device(enum tt_emu_memory kind);

/* Free and total bytes of a device. */
void tt_emu_memory_info(int device, size_t *free_bytes, size_t *total);

/* The part of the device's memory file that contains [address, address + bytes). */
CUresult tt_emu_memory_file(int device, uintptr_t address, int *fd, size_t *offset);

/* Reserves `bytes` (a multiple of the granularity) of a device's memory without an address, or
 * releases them, for the accounting of physical memory. */
CUresult tt_emu_memory_take(int device, size_t bytes);
void tt_emu_memory_give(int device, size_t bytes);

/* Frees the memory of a device, and the pinned and managed memory that was allocated with it; ends
 * registrations of host memory that were made with it. */
void tt_emu_memory_reset(int device);

#endif
