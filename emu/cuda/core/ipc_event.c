#include "ipc_event.h"

#include "fail.h"
#include "machine.h"
#include "space.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES 4096u

struct shared {
    _Atomic uint64_t recorded, completed;
};

struct tt_emu_ipc_counters {
    _Atomic unsigned refs;
    int fd;
    struct shared *shared;
};

CUresult tt_emu_ipc_counters_open(int fd, struct tt_emu_ipc_counters **out)
{
    struct tt_emu_ipc_counters *c;
    struct stat st;
    void *p;

    if (fstat(fd, &st) || st.st_size != FILE_BYTES) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    p = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c = tt_emu_alloc(sizeof(*c));
    atomic_init(&c->refs, 1);
    c->fd = fd;
    c->shared = p;
    *out = c;
    return CUDA_SUCCESS;
}

CUresult tt_emu_ipc_counters_create(int device, struct tt_emu_ipc_counters **out)
{
    CUresult st;
    int fd;

    st = tt_emu_file_create(device, FILE_BYTES, &fd);
    return st ? st : tt_emu_ipc_counters_open(fd, out);
}

void tt_emu_ipc_counters_get(struct tt_emu_ipc_counters *c)
{
    atomic_fetch_add(&c->refs, 1);
}

void tt_emu_ipc_counters_put(struct tt_emu_ipc_counters *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    munmap(c->shared, FILE_BYTES);
    close(c->fd);
    free(c);
}

int tt_emu_ipc_counters_fd(const struct tt_emu_ipc_counters *c)
{
    return c->fd;
}

uint64_t tt_emu_ipc_counters_record(struct tt_emu_ipc_counters *c)
{
    return atomic_fetch_add(&c->shared->recorded, 1) + 1;
}

uint64_t tt_emu_ipc_counters_recorded(const struct tt_emu_ipc_counters *c)
{
    return atomic_load(&c->shared->recorded);
}

void tt_emu_ipc_counters_complete(struct tt_emu_ipc_counters *c, uint64_t count)
{
    uint64_t now = atomic_load(&c->shared->completed);

    while (now < count && !atomic_compare_exchange_weak(&c->shared->completed, &now, count))
        ;
}

bool tt_emu_ipc_counters_reached(const struct tt_emu_ipc_counters *c, uint64_t count)
{
    return atomic_load(&c->shared->completed) >= count;
}

void tt_emu_ipc_counters_wait(const struct tt_emu_ipc_counters *c, uint64_t count, int device)
{
    const struct timespec nap = { 0, 20000 };

    while (!tt_emu_ipc_counters_reached(c, count) && !tt_emu_device_ready(device))
        nanosleep(&nap, NULL);
}
