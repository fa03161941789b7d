#include "host.h"

#include "capture.h"
#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(PAGE - 1);
}

/* Maps memory and describes it as a range of this kind. */
static CUresult map(int device, size_t bytes, enum tt_emu_memory kind, unsigned flags, void **out)
{
    const size_t reserved = whole_pages(bytes);
    CUresult st;
    void *p;

    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (reserved < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    st = tt_emu_capture_unsafe();
    if (st)
        return st;
    p = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    st = tt_emu_memory_add((struct tt_emu_range){ .base = (uintptr_t)p, .bytes = bytes,
                                                  .device = device, .kind = kind, .flags = flags,
                                                  .reserved = reserved });
    if (st) {
        munmap(p, reserved);
        return st;
    }
    *out = p;
    return CUDA_SUCCESS;
}

static CUresult unmap(uintptr_t base, enum tt_emu_memory kind)
{
    struct tt_emu_range r;
    const CUresult st = tt_emu_memory_remove(base, kind, &r);

    if (!st)
        munmap((void *)r.base, r.reserved);
    return st;
}

CUresult tt_emu_host_alloc(int device, size_t bytes, unsigned flags, void **out)
{
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;

    if (flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    return map(device, bytes, TT_EMU_PINNED_MEMORY, flags, out);
}

CUresult tt_emu_host_free(void *p)
{
    return unmap((uintptr_t)p, TT_EMU_PINNED_MEMORY);
}

/* Whether all pages of a range are mapped. */
static bool mapped(uintptr_t at, size_t bytes)
{
    const uintptr_t start = at & ~(uintptr_t)(PAGE - 1);
    const size_t pages = (at + bytes - start + PAGE - 1) / PAGE;
    unsigned char *resident = malloc(pages);
    bool all;

    all = resident && mincore((void *)start, pages * PAGE, resident) == 0;
    free(resident);
    return all;
}

CUresult tt_emu_host_register(int device, void *p, size_t bytes, unsigned flags)
{
    const unsigned known =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;

    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!p || !bytes || flags & ~known || (uintptr_t)p + bytes < (uintptr_t)p)
        return CUDA_ERROR_INVALID_VALUE;
    if (!mapped((uintptr_t)p, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return tt_emu_memory_add((struct tt_emu_range){ .base = (uintptr_t)p, .bytes = bytes,
                                                    .device = device,
                                                    .kind = TT_EMU_REGISTERED_MEMORY,
                                                    .flags = flags });
}

CUresult tt_emu_host_unregister(void *p)
{
    struct tt_emu_range r;

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    return tt_emu_memory_remove((uintptr_t)p, TT_EMU_REGISTERED_MEMORY, &r)
               ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
               : CUDA_SUCCESS;
}

CUresult tt_emu_managed_alloc(int device, size_t bytes, unsigned flags, CUdeviceptr *out)
{
    CUresult st;
    void *p;

    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    st = map(device, bytes, TT_EMU_MANAGED_MEMORY, flags, &p);
    if (!st)
        *out = (CUdeviceptr)p;
    return st;
}

CUresult tt_emu_managed_free(CUdeviceptr p)
{
    return unmap(p, TT_EMU_MANAGED_MEMORY);
}

static bool on_host(void *p, struct tt_emu_range *r)
{
    return tt_emu_memory_find((uintptr_t)p, r) &&
           (r->kind == TT_EMU_PINNED_MEMORY || r->kind == TT_EMU_REGISTERED_MEMORY);
}

CUresult tt_emu_host_device_pointer(void *p, CUdeviceptr *out)
{
    struct tt_emu_range r;

    if (!on_host(p, &r))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)p;
    return CUDA_SUCCESS;
}

CUresult tt_emu_host_flags(void *p, unsigned *flags)
{
    struct tt_emu_range r;

    if (!on_host(p, &r))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = r.flags;
    return CUDA_SUCCESS;
}
