#include "vmm.h"

#include "fail.h"
#include "handles.h"
#include "machine.h"
#include "memory.h"
#include "space.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct physical {
    unsigned refs;              /* handles and mappings, under the lock */
    unsigned handles;
    int fd, device;
    size_t bytes;
    bool imported;              /* counted by the device of the exporting process */
    CUmemAllocationProp prop;
};

struct mapped {
    struct mapped *next;
    CUdeviceptr at;
    size_t bytes;
    struct physical *physical;
    unsigned long long access[TT_EMU_DEVICES_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapped *mappings;

static bool aligned(uint64_t value)
{
    return value % TT_EMU_VMM_GRANULARITY == 0;
}

/* ---- addresses ---- */

CUresult tt_emu_vmm_reserve(size_t bytes, size_t align, CUdeviceptr hint, CUdeviceptr *out)
{
    uintptr_t base;
    CUresult st;

    if (!bytes || !aligned(bytes) || (align & (align - 1)) || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (align < TT_EMU_VMM_GRANULARITY)
        align = TT_EMU_VMM_GRANULARITY;
    st = tt_emu_space_reserve(bytes, align, hint, &base);
    if (!st)
        *out = base;
    return st;
}

/* Whether a mapping overlaps a range; with the lock held. */
static bool in_use(CUdeviceptr p, size_t bytes)
{
    for (struct mapped *m = mappings; m; m = m->next)
        if (m->at < p + bytes && p < m->at + m->bytes)
            return true;
    return false;
}

CUresult tt_emu_vmm_unreserve(CUdeviceptr p, size_t bytes)
{
    struct tt_emu_range r;
    CUresult st = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&lock);
    if (!in_use(p, bytes) && !tt_emu_memory_find(p, &r))
        st = tt_emu_space_release(p, bytes);
    pthread_mutex_unlock(&lock);
    return st;
}

/* ---- physical memory ---- */

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    struct physical *p = (struct physical *)(uintptr_t)handle;

    return tt_emu_handle_is(p, TT_EMU_PHYSICAL) ? p : NULL;
}

/* With the lock held. */
static void put(struct physical *p)
{
    if (--p->refs)
        return;
    close(p->fd);
    if (!p->imported)
        tt_emu_memory_give(p->device, p->bytes);
    free(p);
}

static struct physical *add(int fd, int device, size_t bytes, bool imported)
{
    struct physical *p = tt_emu_alloc(sizeof(*p));

    p->refs = p->handles = 1;
    p->fd = fd;
    p->device = device;
    p->bytes = bytes;
    p->imported = imported;
    p->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p->prop.location.id = device;
    p->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    tt_emu_handle_add(p, TT_EMU_PHYSICAL);
    return p;
}

CUresult tt_emu_vmm_create(size_t bytes, const CUmemAllocationProp *prop,
                           CUmemGenericAllocationHandle *out)
{
    struct physical *p;
    CUresult st;
    int fd;

    if (!prop || !out || !bytes || !aligned(bytes) || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->location.id < 0 || prop->location.id >= tt_emu_machine()->ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    st = tt_emu_memory_take(prop->location.id, bytes);
    if (st)
        return st;
    st = tt_emu_file_create(prop->location.id, bytes, &fd);
    if (st) {
        tt_emu_memory_give(prop->location.id, bytes);
        return st;
    }
    p = add(fd, prop->location.id, bytes, false);
    p->prop = *prop;
    *out = (uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult tt_emu_vmm_release(CUmemGenericAllocationHandle handle)
{
    struct physical *p = physical_of(handle);

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (!--p->handles)
        tt_emu_handle_remove(p, TT_EMU_PHYSICAL);
    put(p);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult tt_emu_vmm_retain(CUdeviceptr at, CUmemGenericAllocationHandle *out)
{
    struct mapped *m;

    pthread_mutex_lock(&lock);
    for (m = mappings; m && at - m->at >= m->bytes; m = m->next)
        ;
    if (m) {
        m->physical->refs++;
        if (!m->physical->handles++)
            tt_emu_handle_add(m->physical, TT_EMU_PHYSICAL);
        *out = (uintptr_t)m->physical;
    }
    pthread_mutex_unlock(&lock);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tt_emu_vmm_properties(CUmemGenericAllocationHandle handle, CUmemAllocationProp *out)
{
    struct physical *p = physical_of(handle);

    if (!p || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = p->prop;
    return CUDA_SUCCESS;
}

/* ---- mappings ---- */

CUresult tt_emu_vmm_map(CUdeviceptr at, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle)
{
    struct physical *p = physical_of(handle);
    struct tt_emu_backing backing;
    struct mapped *m;
    CUresult st;

    if (!p || !bytes || !aligned(at) || !aligned(bytes) || !aligned(offset) || offset > p->bytes ||
        bytes > p->bytes - offset)
        return CUDA_ERROR_INVALID_VALUE;
    backing = (struct tt_emu_backing){ p->fd, offset, bytes };
    pthread_mutex_lock(&lock);
    st = in_use(at, bytes) ? CUDA_ERROR_INVALID_VALUE : tt_emu_space_map(at, &backing, bytes);
    if (!st) {
        m = tt_emu_alloc(sizeof(*m));
        m->next = mappings;
        m->at = at;
        m->bytes = bytes;
        m->physical = p;
        mappings = m;
        p->refs++;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

/* With the lock held: whether mappings fill the range, and none extends beyond it. */
static bool filled(CUdeviceptr at, size_t bytes)
{
    size_t sum = 0;

    for (struct mapped *m = mappings; m; m = m->next) {
        if (m->at >= at && m->at + m->bytes <= at + bytes)
            sum += m->bytes;
        else if (m->at < at + bytes && at < m->at + m->bytes)
            return false;
    }
    return sum == bytes;
}

CUresult tt_emu_vmm_unmap(CUdeviceptr at, size_t bytes)
{
    struct mapped **link = &mappings, *m;
    struct tt_emu_range r;

    pthread_mutex_lock(&lock);
    if (!bytes || !filled(at, bytes)) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    while ((m = *link)) {
        if (m->at < at || m->at >= at + bytes) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        tt_emu_memory_remove(m->at, TT_EMU_MAPPED_MEMORY, &r);
        tt_emu_space_map(m->at, NULL, m->bytes);
        put(m->physical);
        free(m);
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Calls can use a mapping as soon as a device has access to it. */
static void give_access(struct mapped *m, int device, CUmemAccess_flags flags)
{
    struct tt_emu_range r;
    bool any = false;

    m->access[device] = flags;
    for (int d = 0; d < TT_EMU_DEVICES_MAX; d++)
        any |= m->access[d] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (any && !tt_emu_memory_find(m->at, &r))
        tt_emu_memory_add((struct tt_emu_range){ .base = m->at, .bytes = m->bytes,
                                                 .device = m->physical->device,
                                                 .kind = TT_EMU_MAPPED_MEMORY });
    else if (!any)
        tt_emu_memory_remove(m->at, TT_EMU_MAPPED_MEMORY, &r);
}

CUresult tt_emu_vmm_set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access,
                               size_t n)
{
    const int ndevices = tt_emu_machine()->ndevices;
    CUresult st = CUDA_SUCCESS;

    if (!bytes || !n || !access)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED;        /* the host cannot access device memory */
        if (access[i].location.id < 0 || access[i].location.id >= ndevices)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&lock);
    if (!filled(at, bytes))
        st = CUDA_ERROR_INVALID_VALUE;
    for (struct mapped *m = mappings; m && !st; m = m->next)
        for (size_t i = 0; i < n && m->at >= at && m->at < at + bytes; i++)
            give_access(m, access[i].location.id, access[i].flags);
    pthread_mutex_unlock(&lock);
    return st;
}

CUresult tt_emu_vmm_get_access(CUdeviceptr at, const CUmemLocation *where, unsigned long long *out)
{
    struct mapped *m;

    if (!where || !out || where->type != CU_MEM_LOCATION_TYPE_DEVICE || where->id < 0 ||
        where->id >= tt_emu_machine()->ndevices)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (m = mappings; m && at - m->at >= m->bytes; m = m->next)
        ;
    if (m)
        *out = m->access[where->id];
    pthread_mutex_unlock(&lock);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- other processes ---- */

CUresult tt_emu_vmm_export(CUmemGenericAllocationHandle handle, int *fd)
{
    struct physical *p = physical_of(handle);
    int copy;

    if (!p || !fd || !(p->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return CUDA_ERROR_INVALID_VALUE;
    copy = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *fd = copy;
    return CUDA_SUCCESS;
}

CUresult tt_emu_vmm_import(int fd, CUmemGenericAllocationHandle *out)
{
    const int device = tt_emu_file_device(fd);
    struct stat st;
    int copy;

    if (!out || device < 0 || fstat(fd, &st) || st.st_size <= 0 || !aligned((uint64_t)st.st_size))
        return CUDA_ERROR_INVALID_VALUE;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *out = (uintptr_t)add(copy, device, (size_t)st.st_size, true);
    return CUDA_SUCCESS;
}
