/* Protection domains and memory regions. Registration populates the pages, as a device would pin
 * them, and fails for addresses without the requested access. */
#include "process.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define ACCESS_KNOWN                                                                  \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |      \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_OPTIONAL_RANGE)

/* ---- protection domains ---- */

RDMA_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct rdma_pd *pd = calloc(1, sizeof *pd);

    if (!pd)
        return NULL;
    pthread_mutex_lock(&rdma.lock);
    pd->number = ++rdma.pd_next;
    rdma_context_of(context)->objects++;
    pthread_mutex_unlock(&rdma.lock);
    pd->public = (struct ibv_pd){ .context = context, .handle = pd->number };
    return &pd->public;
}

RDMA_EXPORT int ibv_dealloc_pd(struct ibv_pd *public)
{
    struct rdma_pd *pd = (struct rdma_pd *)public;
    bool busy;

    pthread_mutex_lock(&rdma.lock);
    busy = pd->users > 0;
    if (!busy)
        rdma_context_of(public->context)->objects--;
    pthread_mutex_unlock(&rdma.lock);
    if (busy) {
        errno = EBUSY;
        return EBUSY;
    }
    free(pd);
    return 0;
}

/* ---- regions ---- */

/* Returns an errno value: EFAULT if some of the bytes cannot be accessed. */
static int populate(void *mem, size_t bytes, bool write)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)mem / page * page;
    const uintptr_t to = ((uintptr_t)mem + bytes + page - 1) / page * page;
    static char own;

    if ((uintptr_t)mem + bytes < (uintptr_t)mem)
        return EINVAL;
    while (madvise((void *)from, to - from, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) !=
           0) {
        if (errno == EINTR || errno == EAGAIN)
            continue;
        if (errno == EINVAL &&
            madvise((void *)((uintptr_t)&own / page * page), page, MADV_POPULATE_READ) != 0)
            return 0;       /* Linux before 5.14 */
        return EFAULT;
    }
    return 0;
}

/* Returns the address by which the host can access memory of an emulated GPU (tutti_emu.h), as a
 * module for peer memory would provide its pages; NULL: other memory. */
static uint8_t *gpu_memory(const uint8_t *mem, size_t bytes)
{
    void *(*alias)(const void *) = NULL;
    uint8_t *first;
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *found;

    found = cuda ? dlsym(cuda, "tutti_emu_host_alias") : NULL;
    memcpy(&alias, &found, sizeof alias);
    first = alias ? alias(mem) : NULL;
    if (first && alias(mem + bytes - 1) != first + bytes - 1)
        first = NULL;
    if (cuda)
        dlclose(cuda);
    return first;
}

/* Returns whether the bytes are in a single shared mapping. */
static bool is_one_shared_mapping(uintptr_t from, uintptr_t to)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512], flags[5];
    unsigned long begin, end;
    bool good = false;

    while (f && !good && fgets(line, sizeof line, f))
        good = sscanf(line, "%lx-%lx %4s", &begin, &end, flags) == 3 && begin <= from &&
               to <= end && flags[3] == 's';
    if (f)
        fclose(f);
    return good;
}

/* Maps shared memory a second time: like the pages that a device pins, this mapping remains
 * accessible when the program protects or unmaps the first one. Private memory cannot be mapped
 * twice, and is accessed by the addresses of the program. */
static void alias_create(struct rdma_mr *mr)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)mr->public.addr / page * page;
    const uintptr_t to = ((uintptr_t)mr->public.addr + mr->public.length + page - 1) / page * page;
    void *at = mremap((void *)from, 0, to - from, MREMAP_MAYMOVE);

    if (at == MAP_FAILED)
        return;
    if (!is_one_shared_mapping(from, to)) {
        munmap(at, to - from);
        return;
    }
    madvise(at, to - from, MADV_DONTFORK);
    mr->alias = at;
    mr->alias_bytes = to - from;
}

static void alias_end(struct rdma_mr *mr)
{
    if (mr->alias)
        munmap(mr->alias, mr->alias_bytes);
}

/* Allocates an index of the table; 0: none is free. */
static uint32_t index_take(void)
{
    for (uint32_t i = 0; i < RDMA_MRS - 1; i++) {
        const uint32_t index = 1 + (rdma.mr_next + i) % (RDMA_MRS - 1);

        if (rdma.mr_used[index])
            continue;
        rdma.mr_used[index] = true;
        rdma.mr_next = index;
        return index;
    }
    return 0;
}

static int region_enter(struct rdma_mr *mr, struct rdma_pd *pd, uint64_t iova, uint32_t access)
{
    struct shm_mr *shared;
    uint32_t key;
    int err;

    mr->index = index_take();
    if (mr->index == 0)
        return ENOMEM;
    shared = &rdma.own->mr[mr->index];
    err = rdma_keep(shared, sizeof *shared);
    if (err) {
        rdma.mr_used[mr->index] = false;
        return err;
    }
    key = mr->index << 8 | ++rdma.mr_tag[mr->index];
    shared->pd = pd->number;
    shared->access = access;
    shared->address = (uintptr_t)(mr->gpu ? mr->gpu : mr->public.addr);
    if (mr->alias)
        shared->address =
            (uintptr_t)mr->alias + (uintptr_t)mr->public.addr % (uintptr_t)sysconf(_SC_PAGESIZE);
    shared->iova = iova;
    shared->bytes = mr->public.length;
    __atomic_store_n(&shared->key, key, __ATOMIC_SEQ_CST);
    mr->public.lkey = mr->public.rkey = key;
    pd->users++;
    return 0;
}

static struct ibv_mr *region_register(struct ibv_pd *pd, void *mem, size_t bytes, uint64_t iova,
                                      uint32_t access)
{
    static uint64_t count;
    struct rdma_mr *mr;
    uint8_t *gpu;
    int err = 0;

    if (rdma_fault_is_due(RDMA_FAULT_REG, &count)) {
        const uint64_t us = rdma_fault(RDMA_FAULT_REG)->amount;

        nanosleep(&(struct timespec){ .tv_sec = (time_t)(us / 1000000),
                                      .tv_nsec = (long)(us % 1000000 * 1000) },
                  NULL);
    }
    if (bytes == 0 || (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
                       !(access & IBV_ACCESS_LOCAL_WRITE)))
        err = EINVAL;
    else if (access & ~(uint32_t)ACCESS_KNOWN)
        err = EOPNOTSUPP;
    gpu = err ? NULL : gpu_memory(mem, bytes);
    if (!err && !gpu)
        err = populate(mem, bytes, access & IBV_ACCESS_LOCAL_WRITE);
    mr = err ? NULL : calloc(1, sizeof *mr);
    if (!mr) {
        errno = err ? err : ENOMEM;
        return NULL;
    }
    mr->public = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = mem, .length = bytes };
    mr->gpu = gpu;
    if (!gpu)
        alias_create(mr);
    pthread_mutex_lock(&rdma.lock);
    err = region_enter(mr, (struct rdma_pd *)pd, iova, access);
    pthread_mutex_unlock(&rdma.lock);
    if (!err)
        return &mr->public;
    alias_end(mr);
    free(mr);
    errno = err;
    return NULL;
}

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
RDMA_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *mem, size_t bytes, int access)
{
    return region_register(pd, mem, bytes, (uintptr_t)mem, (uint32_t)access);
}

RDMA_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *mem, size_t bytes,
                                           uint64_t iova, int access)
{
    return region_register(pd, mem, bytes, iova, (uint32_t)access);
}

RDMA_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *mem, size_t bytes,
                                            uint64_t iova, unsigned access)
{
    return region_register(pd, mem, bytes, iova, access);
}

/* A request checks keys while it holds the locks of its queue pair and of the connected one. */
void rdma_quiesce(void)
{
    for (uint32_t i = 0; i < RDMA_QPS; i++) {
        struct rdma_qp *qp = rdma.qp[i];

        if (!qp)
            continue;
        pthread_mutex_lock(&qp->lock);
        rdma_lock(&qp->shared->lock);
        rdma_unlock(&qp->shared->lock);
        pthread_mutex_unlock(&qp->lock);
    }
}

RDMA_EXPORT int ibv_dereg_mr(struct ibv_mr *public)
{
    struct rdma_mr *mr = (struct rdma_mr *)public;

    pthread_mutex_lock(&rdma.lock);
    __atomic_store_n(&rdma.own->mr[mr->index].key, 0, __ATOMIC_SEQ_CST);
    rdma_quiesce();
    rdma.mr_used[mr->index] = false;
    ((struct rdma_pd *)public->pd)->users--;
    pthread_mutex_unlock(&rdma.lock);
    alias_end(mr);
    free(mr);
    return 0;
}
