#include "heap.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "pieces.h"

#define ALIGNMENT 64u           /* a cache line */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sh_pieces pieces; /* the first one is the head */
static size_t alignment_max;    /* maximum alignment for which aligned offsets are aligned
                                   addresses */
static bool was_full;           /* the first failed allocation was logged */

void sh_heap_init(size_t bytes, size_t alignment)
{
    sh_pieces_init(&pieces, bytes);
    if (sh_pieces_take(&pieces, SH_HEAD_BYTES, ALIGNMENT) != 0)
        sh_die("shmem_init", "cannot set up the symmetric heap: out of memory");
    alignment_max = alignment;
    was_full = false;
}

void sh_heap_fini(void)
{
    sh_pieces_fini(&pieces);
}

static char *address(size_t offset)
{
    return offset == SH_PIECES_NONE ? NULL : sh_job.heap.base + offset;
}

static size_t offset_of(const char *call, const void *ptr)
{
    const uintptr_t base = (uintptr_t)sh_job.heap.base;
    size_t bytes = 0;

    if ((uintptr_t)ptr >= base + SH_HEAD_BYTES) {
        pthread_mutex_lock(&lock);
        bytes = sh_pieces_bytes(&pieces, (uintptr_t)ptr - base);
        pthread_mutex_unlock(&lock);
    }
    if (!bytes)
        sh_die(call, "ptr = %p is not allocated in the symmetric heap, or was already freed", ptr);
    return (uintptr_t)ptr - base;
}

/* Completes all earlier puts and waits for all PEs. Exits unless all PEs pass the same value:
 * otherwise different sizes would corrupt data later. */
static void check_equal_on_all_pes(const char *call, const char *what, uint64_t value)
{
    uint64_t both[2] = { value, ~value };

    shmem_quiet();
    sh_check(call, tutti_allreduce(both, both, 2, TUTTI_U64, TUTTI_MAX, sh_job.comm, NULL));
    if (both[0] != ~both[1])
        sh_die(call,
               "%s differs between PEs: %llu on this PE, %llu to %llu on all PEs (all PEs must "
               "pass the same value)",
               what, (unsigned long long)value, (unsigned long long)~both[1],
               (unsigned long long)both[0]);
}

/* Size in MiB to recommend: twice the current heap plus `bytes`. */
static size_t recommended_mib(size_t bytes)
{
    const size_t mib = (sh_job.heap.bytes - SH_HEAD_BYTES) >> 20;

    return 2 * (mib + 1) + (bytes >> 20);
}

/* Logs the first failed allocation, on PE 0 only. */
static void log_full(const char *call, size_t bytes, size_t alignment)
{
    const char *log = getenv("TUTTI_LOG");
    size_t free_bytes, largest;
    bool again;

    if (bytes > SIZE_MAX / 4 || alignment > SIZE_MAX / 4)
        return;                 /* no heap can be this large */
    if (sh_job.me != 0 || (log && (!strcmp(log, "none") || !strcmp(log, "error"))))
        return;
    pthread_mutex_lock(&lock);
    free_bytes = sh_pieces_free(&pieces, &largest);
    again = was_full;
    was_full = true;
    pthread_mutex_unlock(&lock);
    if (again)
        return;
    fprintf(stderr,
            "shmem: PE 0: %s: the symmetric heap is full: %zu bytes aligned to %zu do not fit; %zu "
            "of %zu bytes are free, at "
            "most %zu in one piece (set SHMEM_SYMMETRIC_SIZE to a larger size on all PEs, for "
            "example %zuM)\n",
            call, bytes, alignment, free_bytes, sh_job.heap.bytes - SH_HEAD_BYTES, largest,
            recommended_mib(bytes + alignment));
}

/* Allocates locally; every PE gets the same offset. Returns NULL (logged once) if the heap is
 * full. */
static void *heap_take(const char *call, size_t bytes, size_t alignment)
{
    size_t offset = SH_PIECES_NONE;

    if (!bytes)
        return NULL;
    if (alignment <= alignment_max) {
        pthread_mutex_lock(&lock);
        offset = sh_pieces_take(&pieces, bytes, alignment);
        pthread_mutex_unlock(&lock);
    }
    if (offset == SH_PIECES_NONE)
        log_full(call, bytes, alignment);
    return address(offset);
}

static void heap_give(size_t offset)
{
    pthread_mutex_lock(&lock);
    sh_pieces_give(&pieces, offset);
    pthread_mutex_unlock(&lock);
}

void *shmem_malloc(size_t size)
{
    void *mem;

    sh_need(__func__);
    mem = heap_take(__func__, size, ALIGNMENT);
    check_equal_on_all_pes(__func__, "size", size);
    return mem;
}

void *shmem_malloc_with_hints(size_t size, long hints)
{
    (void)hints;
    return shmem_malloc(size);
}

void *shmem_calloc(size_t count, size_t size)
{
    size_t bytes;
    void *mem;

    sh_need(__func__);
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    mem = heap_take(__func__, bytes, ALIGNMENT);
    if (mem)
        memset(mem, 0, bytes);
    check_equal_on_all_pes(__func__, "size", bytes);
    return mem;
}

void *shmem_align(size_t alignment, size_t size)
{
    void *mem = NULL;

    sh_need(__func__);
    if (alignment >= sizeof(void *) && (alignment & (alignment - 1)) == 0)
        mem = heap_take(__func__, size, alignment);
    check_equal_on_all_pes(__func__, "size", size);
    return mem;
}

/* Resizes in place, or by copying to a new block. If there is no space, the old block stays valid
 * and unchanged. */
static void *resize(size_t offset, size_t size)
{
    bool fits;
    size_t had;
    char *mem;

    pthread_mutex_lock(&lock);
    had = sh_pieces_bytes(&pieces, offset);
    fits = sh_pieces_resize(&pieces, offset, size);
    pthread_mutex_unlock(&lock);
    if (fits)
        return address(offset);
    mem = heap_take("shmem_realloc", size, ALIGNMENT);
    if (!mem)
        return NULL;
    memcpy(mem, address(offset), had < size ? had : size);
    heap_give(offset);
    return mem;
}

void *shmem_realloc(void *ptr, size_t size)
{
    size_t offset;
    void *mem = NULL;

    sh_need(__func__);
    if (!ptr)
        return shmem_malloc(size);
    offset = offset_of(__func__, ptr);
    check_equal_on_all_pes(__func__, "the offset of ptr in the heap", offset);
    if (size)
        mem = resize(offset, size);
    else
        heap_give(offset);
    check_equal_on_all_pes(__func__, "size", size);
    return mem;
}

void shmem_free(void *ptr)
{
    size_t offset;

    sh_need(__func__);
    if (!ptr)
        return;
    offset = offset_of(__func__, ptr);
    check_equal_on_all_pes(__func__, "the offset of ptr in the heap", offset);
    heap_give(offset);
}
