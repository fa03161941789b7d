#include "space.h"

#include "fail.h"
#include "machine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct space {
    uintptr_t base;
    size_t    bytes;
    char     *alias;
};

/* One mapping of memory in a space. Only mapped parts are made accessible for kernels. */
struct mapping {
    uintptr_t base;
    size_t    bytes;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct space *spaces;            /* sorted by base */
static size_t nspaces, spaces_max;
static struct mapping *mappings;
static size_t nmappings, mappings_max;
static unsigned opened;                 /* kernels that run now */

/* The index of the last space that starts at or below `address`, or -1. */
static long index_below(uintptr_t address)
{
    long low = 0, high = (long)nspaces;

    while (low < high) {
        const long mid = (low + high) / 2;

        if (spaces[mid].base <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low - 1;
}

static struct space *space_of(uintptr_t address)
{
    const long i = index_below(address);

    if (i < 0 || address - spaces[i].base >= spaces[i].bytes)
        return NULL;
    return &spaces[i];
}

/* Makes room for one more element; `array` points to the pointer. */
static void *room(void *array, size_t n, size_t *max, size_t bytes)
{
    void *bigger;

    if (n < *max)
        return array;
    *max = *max ? 2 * *max : 16;
    bigger = realloc(array, *max * bytes);
    if (!bigger)
        abort();
    return bigger;
}

static void space_add(struct space s)
{
    long i;

    spaces = room(spaces, nspaces, &spaces_max, sizeof(*spaces));
    i = index_below(s.base) + 1;
    memmove(&spaces[i + 1], &spaces[i], (nspaces - (size_t)i) * sizeof(*spaces));
    spaces[i] = s;
    nspaces++;
}

/* Reserves addresses at a multiple of `align`, and releases the addresses around them. */
static void *reserve_aligned(size_t bytes, size_t align, uintptr_t hint)
{
    const size_t whole = bytes + align;
    char *p =
        mmap((void *)hint, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uintptr_t start;
    size_t before;

    if (p == MAP_FAILED)
        return NULL;
    start = ((uintptr_t)p + align - 1) & ~(uintptr_t)(align - 1);
    before = start - (uintptr_t)p;
    if (before)
        munmap(p, before);
    if (align - before)
        munmap((void *)(start + bytes), align - before);
    return (void *)start;
}

CUresult tt_emu_space_reserve(size_t bytes, size_t align, uintptr_t hint, uintptr_t *base)
{
    char *address, *alias;

    if (bytes + align < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    address = reserve_aligned(bytes, align, hint);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    alias = reserve_aligned(bytes, align, 0);
    if (!alias) {
        munmap(address, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_rwlock_wrlock(&lock);
    space_add((struct space){ (uintptr_t)address, bytes, alias });
    pthread_rwlock_unlock(&lock);
    *base = (uintptr_t)address;
    return CUDA_SUCCESS;
}

/* Removes the records of the mappings in a range. */
static void mappings_remove(uintptr_t at, size_t bytes)
{
    for (size_t i = nmappings; i-- > 0;)
        if (mappings[i].base >= at && mappings[i].base < at + bytes)
            mappings[i] = mappings[--nmappings];
}

CUresult tt_emu_space_release(uintptr_t base, size_t bytes)
{
    CUresult st = CUDA_ERROR_INVALID_VALUE;
    struct space *s;

    pthread_rwlock_wrlock(&lock);
    s = space_of(base);
    if (s && s->base == base && s->bytes == bytes) {
        mappings_remove(base, bytes);
        munmap((void *)base, bytes);
        munmap(s->alias, bytes);
        nspaces--;
        memmove(s, s + 1, (nspaces - (size_t)(s - spaces)) * sizeof(*s));
        st = CUDA_SUCCESS;
    }
    pthread_rwlock_unlock(&lock);
    return st;
}

static bool accessible(void)
{
    return opened || tt_emu_machine()->host_access;
}

static bool map_file(void *at, const struct tt_emu_backing *b, size_t bytes, int protection)
{
    return mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, b->fd,
                (off_t)b->offset) != MAP_FAILED;
}

static bool map_nothing(void *at, size_t bytes)
{
    return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                0) != MAP_FAILED;
}

CUresult tt_emu_space_map(uintptr_t at, const struct tt_emu_backing *backing, size_t bytes)
{
    const int both = PROT_READ | PROT_WRITE;
    CUresult st = CUDA_ERROR_INVALID_VALUE;
    struct space *s;
    char *alias;
    bool done;

    pthread_rwlock_wrlock(&lock);
    s = space_of(at);
    if (!s || at + bytes > s->base + s->bytes)
        goto unlock;
    alias = s->alias + (at - s->base);
    if (!backing) {
        mappings_remove(at, bytes);
        done = map_nothing((void *)at, bytes) && map_nothing(alias, bytes);
    } else {
        done = map_file((void *)at, backing, bytes, accessible() ? both : PROT_NONE) &&
               map_file(alias, backing, bytes, both);
        if (done) {
            mappings = room(mappings, nmappings, &mappings_max, sizeof(*mappings));
            mappings[nmappings++] = (struct mapping){ at, bytes };
        }
    }
    st = done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
unlock:
    pthread_rwlock_unlock(&lock);
    return st;
}

void *tt_emu_space_alias(uintptr_t address)
{
    char *alias = NULL;
    struct space *s;

    pthread_rwlock_rdlock(&lock);
    s = space_of(address);
    if (s)
        alias = s->alias + (address - s->base);
    pthread_rwlock_unlock(&lock);
    return alias;
}

static void protect_all(int protection)
{
    for (size_t i = 0; i < nmappings; i++)
        if (mprotect((void *)mappings[i].base, mappings[i].bytes, protection)) {
            tt_emu_note("mprotect of %zu bytes: %s", mappings[i].bytes, strerror(errno));
            abort();
        }
}

void tt_emu_space_open(void)
{
    pthread_rwlock_wrlock(&lock);
    if (!opened++ && !tt_emu_machine()->host_access)
        protect_all(PROT_READ | PROT_WRITE);
    pthread_rwlock_unlock(&lock);
}

void tt_emu_space_close(void)
{
    pthread_rwlock_wrlock(&lock);
    if (!--opened && !tt_emu_machine()->host_access)
        protect_all(PROT_NONE);
    pthread_rwlock_unlock(&lock);
}

CUresult tt_emu_file_create(int device, size_t bytes, int *fd)
{
    char name[32];
    int file;

    snprintf(name, sizeof(name), "tutti-emu-%d", tt_emu_machine()->device[device].physical);
    file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (ftruncate(file, (off_t)bytes)) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *fd = file;
    return CUDA_SUCCESS;
}

int tt_emu_path_device(const char *path)
{
    char target[64];
    int device = -1;
    const ssize_t n = readlink(path, target, sizeof(target) - 1);

    if (n <= 0)
        return -1;
    target[n] = '\0';
    if (sscanf(target, "/memfd:tutti-emu-%d", &device) != 1)
        return -1;
    return tt_emu_device_of_physical(device);
}

int tt_emu_file_device(int fd)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return tt_emu_path_device(path);
}
