#include "ipc.h"

#include "fail.h"
#include "machine.h"
#include "memory.h"
#include "peer.h"
#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x7474656d75697063)
#define MEMORY 1u
#define PAGE ((size_t)4096)

_Static_assert(sizeof(struct tt_emu_ipc) <= CU_IPC_HANDLE_SIZE, "handles have 64 bytes");

CUresult tt_emu_ipc_export(uint32_t kind, int fd, int device, size_t offset, size_t bytes,
                           struct tt_emu_ipc *out)
{
    struct stat st;

    if (fstat(fd, &st))
        return CUDA_ERROR_OPERATING_SYSTEM;
    *out = (struct tt_emu_ipc){ .magic = MAGIC, .kind = kind, .pid = getpid(), .fd = fd,
                                .device = tt_emu_machine()->device[device].physical,
                                .inode = st.st_ino,
                                .offset = offset,
                                .bytes = bytes };
    return CUDA_SUCCESS;
}

CUresult tt_emu_ipc_import(uint32_t kind, const struct tt_emu_ipc *h, int *fd)
{
    char path[64];
    struct stat st;
    int file;

    if (h->magic != MAGIC || h->kind != kind)
        return CUDA_ERROR_INVALID_VALUE;
    if (h->pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", h->pid, h->fd);
    if (tt_emu_path_device(path) < 0) {
        tt_emu_note("memory of process %d: no such file (has it ended?)", h->pid);
        return CUDA_ERROR_MAP_FAILED;
    }
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        tt_emu_note("open memory of process %d: %s", h->pid, strerror(errno));
        return CUDA_ERROR_MAP_FAILED;
    }
    if (fstat(file, &st) || st.st_ino != h->inode || tt_emu_file_device(file) < 0 ||
        h->offset > (uint64_t)st.st_size || h->bytes > (uint64_t)st.st_size - h->offset) {
        close(file);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *fd = file;
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

struct opened {
    struct opened *next;
    struct tt_emu_ipc handle;
    unsigned count;
    uintptr_t base;             /* of the space */
    size_t bytes;
    CUdeviceptr at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *opened;

CUresult tt_emu_ipc_memory_export(CUdeviceptr p, struct tt_emu_ipc *out)
{
    struct tt_emu_range r;
    size_t offset;
    CUresult st;
    int fd;

    if (!tt_emu_memory_find(p, &r) || r.kind != TT_EMU_DEVICE_MEMORY)
        return CUDA_ERROR_INVALID_VALUE;
    st = tt_emu_memory_file(r.device, r.base, &fd, &offset);
    return st ? st : tt_emu_ipc_export(MEMORY, fd, r.device, offset, r.bytes, out);
}

/* Maps the pages that contain the memory of `handle`. */
static CUresult map_pages(const struct tt_emu_ipc *handle, int fd, struct opened *o)
{
    const size_t start = handle->offset & ~(PAGE - 1);
    const size_t end = (handle->offset + handle->bytes + PAGE - 1) & ~(PAGE - 1);
    const struct tt_emu_backing backing = { fd, start, end - start };
    const int device = tt_emu_device_of_physical(handle->device);
    CUresult st;

    o->handle = *handle;
    o->count = 1;
    o->bytes = end - start;
    st = tt_emu_space_reserve(o->bytes, PAGE, 0, &o->base);
    if (st)
        return st;
    st = tt_emu_space_map(o->base, &backing, o->bytes);
    if (st)
        goto release;
    o->at = o->base + (handle->offset - start);
    st = tt_emu_memory_add((struct tt_emu_range){
        .base = o->at, .bytes = handle->bytes, .device = device, .kind = TT_EMU_OPENED_MEMORY });
    if (!st)
        return CUDA_SUCCESS;
release:
    tt_emu_space_release(o->base, o->bytes);
    return st;
}

CUresult tt_emu_ipc_memory_open(int device, const struct tt_emu_ipc *handle, CUdeviceptr *out)
{
    const int owner = tt_emu_device_of_physical(handle->device);
    struct opened *o;
    CUresult st = CUDA_SUCCESS;
    int fd;

    if (!handle->bytes || owner < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (owner != device && !tt_emu_peer_possible(device, owner))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    pthread_mutex_lock(&lock);
    for (o = opened; o && memcmp(&o->handle, handle, sizeof(*handle)); o = o->next)
        ;
    if (o) {
        o->count++;
        goto unlock;
    }
    st = tt_emu_ipc_import(MEMORY, handle, &fd);
    if (st)
        goto unlock;
    o = tt_emu_alloc(sizeof(*o));
    st = map_pages(handle, fd, o);
    close(fd);
    if (st) {
        free(o);
        goto unlock;
    }
    o->next = opened;
    opened = o;
unlock:
    if (!st)
        *out = o->at;
    pthread_mutex_unlock(&lock);
    return st;
}

CUresult tt_emu_ipc_memory_close(CUdeviceptr p)
{
    struct tt_emu_range r;
    struct opened **link, *o;
    bool found;

    pthread_mutex_lock(&lock);
    for (link = &opened; (o = *link) && o->at != p; link = &o->next)
        ;
    found = o != NULL;
    if (found && --o->count == 0) {
        *link = o->next;
        tt_emu_memory_remove(o->at, TT_EMU_OPENED_MEMORY, &r);
        tt_emu_space_release(o->base, o->bytes);
        free(o);
    }
    pthread_mutex_unlock(&lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
