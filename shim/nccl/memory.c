/* Memory and its registration. */
#include <stdint.h>
#include <stdlib.h>

#include "comm.h"
#include "error.h"

/* Memory of ncclMemAlloc that begins behind the start of its allocation, so that it can be a
 * window. */
struct moved {
    struct moved *next;
    char *mem;
    void *allocated;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct moved *first;             /* protected by lock */

static bool is_aligned(const void *mem)
{
    return (uintptr_t)mem % NCCL_WIN_ALIGNMENT == 0;
}

/* Allocates aligned memory from a longer allocation. */
static ncclResult_t allocate_moved(void **out, size_t bytes)
{
    struct moved *m = malloc(sizeof *m);
    ncclResult_t result;

    if (!m || bytes > SIZE_MAX - NCCL_WIN_ALIGNMENT) {
        free(m);
        return nccl_fail(ncclSystemError, "ncclMemAlloc: out of memory");
    }
    result = nccl_result(tutti_gpu_mem_alloc(bytes + NCCL_WIN_ALIGNMENT, &m->allocated));
    if (result) {
        free(m);
        return result;
    }
    m->mem =
        (char *)m->allocated + (NCCL_WIN_ALIGNMENT - (uintptr_t)m->allocated % NCCL_WIN_ALIGNMENT);
    pthread_mutex_lock(&lock);
    m->next = first;
    first = m;
    pthread_mutex_unlock(&lock);
    *out = m->mem;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclMemAlloc, void **out, size_t bytes)
{
    void *mem = NULL;
    ncclResult_t result;

    if (!out)
        return nccl_fail(ncclInvalidArgument, "ncclMemAlloc: NULL argument");
    result = nccl_result(tutti_gpu_mem_alloc(bytes, &mem));
    if (result)
        return result;
    if (!is_aligned(mem)) {
        tutti_gpu_mem_free(mem);
        return allocate_moved(out, bytes);
    }
    *out = mem;
    return ncclSuccess;
}

/* Returns the allocation of mem. */
static void *take_allocation(void *mem)
{
    struct moved **at = &first, *m;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->mem != mem)
        at = &(*at)->next;
    m = *at;
    if (m)
        *at = m->next;
    pthread_mutex_unlock(&lock);
    if (m)
        mem = m->allocated;
    free(m);
    return mem;
}

NCCL_API(ncclResult_t, ncclMemFree, void *mem)
{
    return nccl_result(tutti_gpu_mem_free(take_allocation(mem)));
}

/* Registration has no effect yet: transfers are staged through pinned memory. The handle only
 * detects a wrong ncclCommDeregister. */
struct registration {
    uint32_t magic;
};

NCCL_API(ncclResult_t, ncclCommRegister, ncclComm_t comm, void *buf, size_t bytes, void **handle)
{
    ncclResult_t result = nccl_comm_check(comm, "ncclCommRegister");
    struct registration *r;

    if (!result && (!buf || !bytes || !handle))
        result = nccl_fail(ncclInvalidArgument, "ncclCommRegister: NULL argument, or size is 0");
    if (result)
        return result;
    r = malloc(sizeof *r);
    if (!r)
        return nccl_fail(ncclSystemError, "ncclCommRegister: out of memory");
    r->magic = NCCL_COMM_MAGIC;
    *handle = r;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommDeregister, ncclComm_t comm, void *handle)
{
    struct registration *r = handle;
    const ncclResult_t result = nccl_comm_check(comm, "ncclCommDeregister");

    if (result || !r)
        return result;
    if (r->magic != NCCL_COMM_MAGIC)
        return nccl_fail(ncclInvalidArgument, "ncclCommDeregister: invalid handle");
    r->magic = 0;
    free(r);
    return ncclSuccess;
}
