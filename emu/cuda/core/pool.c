#include "pool.h"

#include "capture.h"
#include "fail.h"
#include "handles.h"
#include "machine.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>

struct CUmemPoolHandle_st {
    int  device;
    bool is_default;
    _Atomic uint64_t threshold, used, used_high;
    _Atomic int reuse[3];               /* FOLLOW_EVENT_DEPENDENCIES and the next two attributes */
    _Atomic uint64_t access;            /* bit d: device d may access it */
};

static CUmemoryPool create(int device, bool is_default)
{
    CUmemoryPool pool = tt_emu_alloc(sizeof(*pool));

    pool->device = device;
    pool->is_default = is_default;
    atomic_store(&pool->access, UINT64_C(1) << device);
    for (int i = 0; i < 3; i++)
        atomic_store(&pool->reuse[i], 1);
    tt_emu_handle_add(pool, TT_EMU_POOL);
    return pool;
}

CUmemoryPool tt_emu_pool_default(int device)
{
    struct tt_emu_machine *m = tt_emu_machine();
    CUmemoryPool pool;

    pthread_mutex_lock(&m->lock);
    if (!m->device[device].pool)
        m->device[device].pool = create(device, true);
    pool = m->device[device].pool;
    pthread_mutex_unlock(&m->lock);
    return pool;
}

CUmemoryPool tt_emu_pool_current(int device)
{
    struct tt_emu_machine *m = tt_emu_machine();
    CUmemoryPool pool;

    pthread_mutex_lock(&m->lock);
    pool = m->device[device].current_pool;
    pthread_mutex_unlock(&m->lock);
    return pool ? pool : tt_emu_pool_default(device);
}

static bool valid(CUmemoryPool pool)
{
    return tt_emu_handle_is(pool, TT_EMU_POOL);
}

CUresult tt_emu_pool_set_current(int device, CUmemoryPool pool)
{
    if (!valid(pool) || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&tt_emu_machine()->lock);
    tt_emu_machine()->device[device].current_pool = pool;
    pthread_mutex_unlock(&tt_emu_machine()->lock);
    return CUDA_SUCCESS;
}

CUresult tt_emu_pool_create(const CUmemPoolProps *props, CUmemoryPool *out)
{
    if (!props || !out || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->handleTypes)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (props->location.id < 0 || props->location.id >= tt_emu_machine()->ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = create(props->location.id, false);
    return CUDA_SUCCESS;
}

/* Allocations of the pool stay valid until they are freed. */
CUresult tt_emu_pool_destroy(CUmemoryPool pool)
{
    struct tt_emu_machine *m = tt_emu_machine();

    if (!valid(pool) || pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    if (!tt_emu_handle_remove(pool, TT_EMU_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&m->lock);
    if (m->device[pool->device].current_pool == pool)
        m->device[pool->device].current_pool = NULL;
    pthread_mutex_unlock(&m->lock);
    free(pool);
    return CUDA_SUCCESS;
}

static void count(CUmemoryPool pool, uint64_t bytes)
{
    const uint64_t now = atomic_fetch_add(&pool->used, bytes) + bytes;
    uint64_t high = atomic_load(&pool->used_high);

    while (now > high && !atomic_compare_exchange_weak(&pool->used_high, &high, now))
        ;
}

CUresult tt_emu_pool_alloc(CUmemoryPool pool, size_t bytes, CUstream stream, CUdeviceptr *out)
{
    CUresult st;

    if (!valid(pool) || !out)
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_capture_unsupported(stream);
    if (!st)
        st = tt_emu_device_ready(stream->device);
    if (st)
        return st;
    st = tt_emu_memory_alloc(pool->device, bytes, TT_EMU_POOL_MEMORY, pool, out);
    if (st == CUDA_ERROR_OUT_OF_MEMORY && !tt_emu_stream_synchronize(stream))
        st = tt_emu_memory_alloc(pool->device, bytes, TT_EMU_POOL_MEMORY, pool, out);
    if (!st)
        count(pool, bytes);
    return st;
}

CUresult tt_emu_pool_free(CUdeviceptr p, CUstream stream)
{
    struct tt_emu_work work = { .kind = TT_EMU_FREE, .freed = p };
    struct tt_emu_range r;
    CUresult st = tt_emu_capture_unsupported(stream);

    if (st || !p)
        return st;
    st = tt_emu_memory_mark_freed(p, &r);
    if (st)
        return st;
    tt_emu_pool_uncount(r.pool, r.bytes);
    return tt_emu_stream_push(stream, &work);
}

void tt_emu_pool_uncount(CUmemoryPool pool, size_t bytes)
{
    if (valid(pool))
        atomic_fetch_sub(&pool->used, bytes);
}

CUresult tt_emu_pool_get(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
    if (!valid(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value =
            atomic_load(&pool->reuse[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES]);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(uint64_t *)value = atomic_load(&pool->threshold);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(uint64_t *)value = atomic_load(&pool->used);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(uint64_t *)value = atomic_load(&pool->used_high);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult tt_emu_pool_set(CUmemoryPool pool, CUmemPool_attribute which, const void *value)
{
    if (!valid(pool) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        atomic_store(&pool->reuse[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES],
                     *(const int *)value);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        atomic_store(&pool->threshold, *(const uint64_t *)value);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const uint64_t *)value)
            return CUDA_ERROR_INVALID_VALUE;        /* it can only be reset */
        atomic_store(&pool->used_high, atomic_load(&pool->used));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static bool device_of(const CUmemLocation *where, int *device)
{
    *device = where->id;
    return where->type == CU_MEM_LOCATION_TYPE_DEVICE && where->id >= 0 &&
           where->id < tt_emu_machine()->ndevices;
}

CUresult tt_emu_pool_set_access(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n)
{
    int device;

    if (!valid(pool) || (n && !access))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        if (!device_of(&access[i].location, &device))
            return CUDA_ERROR_INVALID_DEVICE;
        if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
            if (device == pool->device)
                return CUDA_ERROR_INVALID_VALUE;
            atomic_fetch_and(&pool->access, ~(UINT64_C(1) << device));
        } else {
            if (device != pool->device && !tt_emu_machine()->peers)
                return CUDA_ERROR_INVALID_DEVICE;
            atomic_fetch_or(&pool->access, UINT64_C(1) << device);
        }
    }
    return CUDA_SUCCESS;
}

CUresult tt_emu_pool_get_access(CUmemoryPool pool, CUmemLocation *where, CUmemAccess_flags *out)
{
    int device;

    if (!valid(pool) || !where || !out || !device_of(where, &device))
        return CUDA_ERROR_INVALID_VALUE;
    *out = atomic_load(&pool->access) >> device & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
