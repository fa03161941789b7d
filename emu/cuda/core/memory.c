#include "memory.h"

#include "capture.h"
#include "fail.h"
#include "machine.h"
#include "space.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGN 512u                      /* of every allocation, as in CUDA */
#define GRANULARITY ((size_t)2 << 20)   /* of the addresses of a device */

/* A free part of a device's addresses. Parts are sorted and never adjacent. */
struct hole {
    size_t offset, bytes;
};

struct heap {
    bool      ready;
    int       fd;
    uintptr_t base;
    struct hole *holes;
    size_t    nholes, holes_max;
    size_t    taken;                    /* bytes, including memory without an address */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct heap heaps[TT_EMU_DEVICES_MAX];
static struct tt_emu_range *ranges;     /* sorted by base, disjoint */
static size_t nranges, ranges_max;
static uint64_t next_id = 1;

/* ---- ranges ---- */

static size_t index_after(uintptr_t address)
{
    size_t low = 0, high = nranges;

    while (low < high) {
        const size_t mid = (low + high) / 2;

        if (ranges[mid].base <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct tt_emu_range *range_of(uintptr_t address)
{
    const size_t i = index_after(address);

    if (!i || address - ranges[i - 1].base >= ranges[i - 1].bytes)
        return NULL;
    return &ranges[i - 1];
}

static CUresult range_add(struct tt_emu_range r)
{
    const size_t i = index_after(r.base);

    if ((i && r.base - ranges[i - 1].base < ranges[i - 1].bytes) ||
        (i < nranges && ranges[i].base - r.base < r.bytes))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (nranges == ranges_max) {
        ranges_max = ranges_max ? 2 * ranges_max : 64;
        ranges = realloc(ranges, ranges_max * sizeof(*ranges));
        if (!ranges)
            abort();
    }
    memmove(&ranges[i + 1], &ranges[i], (nranges - i) * sizeof(*ranges));
    r.id = next_id++;
    ranges[i] = r;
    nranges++;
    return CUDA_SUCCESS;
}

static void range_remove(struct tt_emu_range *r)
{
    nranges--;
    memmove(r, r + 1, (nranges - (size_t)(r - ranges)) * sizeof(*r));
}

/* ---- addresses of a device ---- */

static void hole_insert(struct heap *h, size_t i, struct hole hole)
{
    if (h->nholes == h->holes_max) {
        h->holes_max = h->holes_max ? 2 * h->holes_max : 16;
        h->holes = realloc(h->holes, h->holes_max * sizeof(*h->holes));
        if (!h->holes)
            abort();
    }
    memmove(&h->holes[i + 1], &h->holes[i], (h->nholes - i) * sizeof(*h->holes));
    h->holes[i] = hole;
    h->nholes++;
}

static void hole_remove(struct heap *h, size_t i)
{
    h->nholes--;
    memmove(&h->holes[i], &h->holes[i + 1], (h->nholes - i) * sizeof(*h->holes));
}

/* Creates the memory of a device at its first use. */
static CUresult heap_start(struct heap *h, int device)
{
    const size_t bytes = tt_emu_machine()->device[device].bytes;
    struct tt_emu_backing whole = { .bytes = bytes };
    CUresult st;

    if (h->ready)
        return CUDA_SUCCESS;
    st = tt_emu_file_create(device, bytes, &h->fd);
    if (st)
        return st;
    st = tt_emu_space_reserve(bytes, GRANULARITY, 0, &h->base);
    if (st)
        goto close;
    whole.fd = h->fd;
    st = tt_emu_space_map(h->base, &whole, bytes);
    if (st)
        goto release;
    hole_insert(h, 0, (struct hole){ 0, bytes });
    h->ready = true;
    return CUDA_SUCCESS;

release:
    tt_emu_space_release(h->base, bytes);
close:
    close(h->fd);
    return st;
}

/* First fit: the offset of `bytes` free bytes, or SIZE_MAX. */
static size_t heap_take(struct heap *h, size_t bytes)
{
    size_t offset;

    for (size_t i = 0; i < h->nholes; i++) {
        if (h->holes[i].bytes < bytes)
            continue;
        offset = h->holes[i].offset;
        h->holes[i].offset += bytes;
        h->holes[i].bytes -= bytes;
        if (!h->holes[i].bytes)
            hole_remove(h, i);
        return offset;
    }
    return SIZE_MAX;
}

static void heap_give(struct heap *h, size_t offset, size_t bytes)
{
    size_t i = 0;

    while (i < h->nholes && h->holes[i].offset < offset)
        i++;
    if (i && h->holes[i - 1].offset + h->holes[i - 1].bytes == offset)
        h->holes[--i].bytes += bytes;
    else
        hole_insert(h, i, (struct hole){ offset, bytes });
    if (i + 1 < h->nholes && h->holes[i].offset + h->holes[i].bytes == h->holes[i + 1].offset) {
        h->holes[i].bytes += h->holes[i + 1].bytes;
        hole_remove(h, i + 1);
    }
}

/* Returns whole pages to the kernel; new allocations then read zeros from them. */
static void heap_discard(const struct heap *h, size_t offset, size_t bytes)
{
    const size_t page = 4096, start = (offset + page - 1) & ~(page - 1);
    const size_t end = (offset + bytes) & ~(page - 1);

    if (end > start)
        (void)fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
                        (off_t)(end - start));
}

/* ---- interface ---- */

CUresult tt_emu_memory_alloc(int device, size_t bytes, enum tt_emu_memory kind, CUmemoryPool pool,
                             CUdeviceptr *out)
{
    struct heap *h = &heaps[device];
    const size_t total = tt_emu_machine()->device[device].bytes;
    const size_t reserved = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    size_t offset;
    CUresult st;

    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (reserved < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    st = kind == TT_EMU_DEVICE_MEMORY ? tt_emu_capture_unsafe() : CUDA_SUCCESS;
    if (st)
        return st;
    pthread_mutex_lock(&lock);
    st = heap_start(h, device);
    if (st)
        goto unlock;
    st = CUDA_ERROR_OUT_OF_MEMORY;
    if (reserved > total - h->taken)
        goto unlock;
    offset = heap_take(h, reserved);
    if (offset == SIZE_MAX)
        goto unlock;
    h->taken += reserved;
    *out = h->base + offset;
    st = range_add((struct tt_emu_range){ .base = h->base + offset, .bytes = bytes,
                                          .device = device, .kind = kind, .pool = pool,
                                          .reserved = reserved });
unlock:
    pthread_mutex_unlock(&lock);
    return st;
}

/* With the lock held. */
static void release(struct tt_emu_range *r)
{
    struct heap *h = &heaps[r->device];
    const size_t offset = r->base - h->base;

    heap_discard(h, offset, r->reserved);
    heap_give(h, offset, r->reserved);
    h->taken -= r->reserved;
    range_remove(r);
}

CUresult tt_emu_memory_free(uintptr_t base)
{
    CUresult st = CUDA_ERROR_INVALID_VALUE;
    struct tt_emu_range *r;

    pthread_mutex_lock(&lock);
    r = range_of(base);
    if (r && r->base == base &&
        (r->kind == TT_EMU_DEVICE_MEMORY || r->kind == TT_EMU_POOL_MEMORY)) {
        release(r);
        st = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

CUresult tt_emu_memory_mark_freed(uintptr_t base, struct tt_emu_range *out)
{
    CUresult st = CUDA_ERROR_INVALID_VALUE;
    struct tt_emu_range *r;

    pthread_mutex_lock(&lock);
    r = range_of(base);
    if (r && r->base == base && !r->freed &&
        (r->kind == TT_EMU_DEVICE_MEMORY || r->kind == TT_EMU_POOL_MEMORY)) {
        r->freed = true;
        *out = *r;
        st = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

CUresult tt_emu_memory_add(struct tt_emu_range range)
{
    CUresult st;

    pthread_mutex_lock(&lock);
    st = range_add(range);
    pthread_mutex_unlock(&lock);
    return st;
}

CUresult tt_emu_memory_remove(uintptr_t base, enum tt_emu_memory kind, struct tt_emu_range *out)
{
    CUresult st = CUDA_ERROR_INVALID_VALUE;
    struct tt_emu_range *r;

    pthread_mutex_lock(&lock);
    r = range_of(base);
    if (r && r->base == base && r->kind == kind) {
        *out = *r;
        range_remove(r);
        st = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

bool tt_emu_memory_find(uintptr_t address, struct tt_emu_range *out)
{
    struct tt_emu_range *r;

    pthread_mutex_lock(&lock);
    r = range_of(address);
    if (r)
        *out = *r;
    pthread_mutex_unlock(&lock);
    return r != NULL;
}

CUresult tt_emu_memory_sync_memops(uintptr_t address, bool on)
{
    struct tt_emu_range *r;

    pthread_mutex_lock(&lock);
    r = range_of(address);
    if (r)
        r->sync_memops = on;
    pthread_mutex_unlock(&lock);
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool tt_emu_memory_on_device(enum tt_emu_memory kind)
{
    return kind >= TT_EMU_DEVICE_MEMORY && kind <= TT_EMU_OPENED_MEMORY;
}

void tt_emu_memory_info(int device, size_t *free_bytes, size_t *total)
{
    pthread_mutex_lock(&lock);
    *total = tt_emu_machine()->device[device].bytes;
    *free_bytes = *total - heaps[device].taken;
    pthread_mutex_unlock(&lock);
}

CUresult tt_emu_memory_file(int device, uintptr_t address, int *fd, size_t *offset)
{
    struct heap *h = &heaps[device];
    CUresult st;

    pthread_mutex_lock(&lock);
    st = heap_start(h, device);
    if (!st) {
        *fd = h->fd;
        *offset = address - h->base;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

CUresult tt_emu_memory_take(int device, size_t bytes)
{
    CUresult st = CUDA_ERROR_OUT_OF_MEMORY;

    pthread_mutex_lock(&lock);
    if (bytes <= tt_emu_machine()->device[device].bytes - heaps[device].taken) {
        heaps[device].taken += bytes;
        st = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

void tt_emu_memory_give(int device, size_t bytes)
{
    pthread_mutex_lock(&lock);
    heaps[device].taken -= bytes;
    pthread_mutex_unlock(&lock);
}

void tt_emu_memory_reset(int device)
{
    pthread_mutex_lock(&lock);
    for (size_t i = nranges; i-- > 0;) {
        struct tt_emu_range *r = &ranges[i];

        if (r->device != device)
            continue;
        if (r->kind == TT_EMU_DEVICE_MEMORY || r->kind == TT_EMU_POOL_MEMORY) {
            release(r);
        } else if (r->kind == TT_EMU_PINNED_MEMORY || r->kind == TT_EMU_MANAGED_MEMORY) {
            munmap((void *)r->base, r->reserved);
            range_remove(r);
        } else if (r->kind == TT_EMU_REGISTERED_MEMORY) {
            range_remove(r);
        }
    }
    pthread_mutex_unlock(&lock);
}
