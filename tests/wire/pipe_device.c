/* See pipe_device.h. */
#include "pipe_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/status.h"

/* A registration. */
struct held {
    int pipe[2];
    uint64_t begin;
    size_t bytes;
};

static int open_pipe(int pipe[2], size_t bytes)
{
    if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return errno;
    if (fcntl(pipe[0], F_SETPIPE_SZ, (int)bytes) >= (int)bytes)
        return 0;
    close(pipe[0]);
    close(pipe[1]);
    return ENOMEM;
}

static int device_pin(void *arg, void *mem, size_t bytes, const struct tt_device_memory *device,
                      void **handle, bool *writable)
{
    struct pipe_device *d = arg;
    struct held *h = malloc(sizeof *h);
    struct iovec v = { .iov_base = mem, .iov_len = bytes };
    int err = ENOMEM;

    tt_assert(h && bytes <= PIPE_DEVICE_BYTES_MAX);
    if (device && d->hosts_only) {
        err = EOPNOTSUPP;
        goto free;
    }
    if (device) {
        d->device_pins++;
        d->device = *device;
    }
    atomic_fetch_add(&d->pins, 1);
    if (d->bytes_max && atomic_load(&d->bytes) + bytes > d->bytes_max)
        goto free;
    err = open_pipe(h->pipe, bytes);
    if (err)
        goto free;
    h->begin = (uintptr_t)mem;
    h->bytes = bytes;
    if (vmsplice(h->pipe[1], &v, 1, 0) != (ssize_t)bytes) {
        err = EFAULT;
        goto close;
    }
    atomic_fetch_add(&d->bytes, bytes);
    *handle = h;
    *writable = !d->readonly;
    return 0;

close:
    close(h->pipe[0]);
    close(h->pipe[1]);
free:
    free(h);
    return err;
}

static void device_unpin(void *arg, void *handle)
{
    struct pipe_device *d = arg;
    struct held *h = handle;

    atomic_fetch_add(&d->unpinning, 1);
    while (d->pins < d->unpin_after)
        usleep(1000);
    if (d->unpin_after)
        usleep(20000);
    close(h->pipe[0]);
    close(h->pipe[1]);
    atomic_fetch_sub(&d->bytes, h->bytes);
    atomic_fetch_add(&d->unpins, 1);
    atomic_fetch_sub(&d->unpinning, 1);
    free(h);
}

bool pipe_device_open(struct pipe_device *d)
{
    const struct tt_registrar registrar = {
        .name = "pipe", .arg = d, .pin = device_pin, .unpin = device_unpin
    };

    atomic_init(&d->pins, 0);
    atomic_init(&d->unpins, 0);
    atomic_init(&d->bytes, 0);
    atomic_init(&d->unpinning, 0);
    return tt_registry_join(&d->domain, &registrar) == TUTTI_OK;
}

void pipe_device_close(struct pipe_device *d)
{
    tt_registry_leave(d->domain);
}

void pipe_device_read(const struct tt_reg *r, const void *mem, size_t bytes, void *out)
{
    const struct held *h = r->handle;
    uint8_t *all = malloc(h->bytes);
    int copy[2];

    tt_assert(all && (uintptr_t)mem >= h->begin && (uintptr_t)mem + bytes <= h->begin + h->bytes);
    tt_assert(open_pipe(copy, h->bytes) == 0);
    tt_assert(tee(h->pipe[0], copy[1], h->bytes, 0) == (ssize_t)h->bytes);
    for (size_t at = 0; at < h->bytes;) {
        const ssize_t n = read(copy[0], all + at, h->bytes - at);

        tt_assert(n > 0);
        at += (size_t)n;
    }
    memcpy(out, all + ((uintptr_t)mem - h->begin), bytes);
    close(copy[0]);
    close(copy[1]);
    free(all);
}

/* ---- memory that changes ---- */

#define PAGE 4096u
#define BYTES (16 * PAGE)
#define PLAIN (PROT_READ | PROT_WRITE), (MAP_PRIVATE | MAP_ANONYMOUS)

enum way { UNMAPPED, MAPPED_OVER, GIVEN_BACK, MOVED, PARTLY, FREED, SHRUNK };

const char *const remap_ways[] = {
    [UNMAPPED] = "munmap, then mmap",
    [MAPPED_OVER] = "mmap over it",
    [GIVEN_BACK] = "madvise(MADV_DONTNEED)",
    [MOVED] = "mremap to elsewhere, then mmap",
    [PARTLY] = "munmap of a page in its middle, then mmap",
    [FREED] = "free, then malloc",
    [SHRUNK] = "sbrk down and up",
    NULL,
};

static uint8_t *memory_for(enum way way)
{
    void *p = way == FREED    ? malloc(64 * BYTES)      /* large enough for a separate mapping */
              : way == SHRUNK ? sbrk(BYTES + PAGE)
                              : mmap(NULL, BYTES, PLAIN, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Returns NULL if the address was assigned to another allocation. */
static uint8_t *change(enum way way, uint8_t *mem)
{
    void *again = mem;

    switch (way) {
    case UNMAPPED:
        munmap(mem, BYTES);
        again = mmap(mem, BYTES, PLAIN | MAP_FIXED_NOREPLACE, -1, 0);
        break;
    case MAPPED_OVER:
        again = mmap(mem, BYTES, PLAIN | MAP_FIXED, -1, 0);
        break;
    case GIVEN_BACK:
        madvise(mem, BYTES, MADV_DONTNEED);
        break;
    case MOVED:
        again = mremap(mem, BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
                       mmap(NULL, 2 * BYTES, PLAIN, -1, 0));
        if (again != MAP_FAILED)
            munmap(again, 2 * BYTES);
        again = mmap(mem, BYTES, PLAIN | MAP_FIXED_NOREPLACE, -1, 0);
        break;
    case PARTLY:
        munmap(mem + BYTES / 2, PAGE);
        again = mmap(mem + BYTES / 2, PAGE, PLAIN | MAP_FIXED_NOREPLACE, -1, 0);
        if (again != MAP_FAILED)
            again = mem;
        break;
    case FREED:
        free(mem);
        again = malloc(64 * BYTES);
        if (again != mem)
            free(again);
        break;
    case SHRUNK:
        if (sbrk(0) != mem + BYTES + PAGE || sbrk(-(intptr_t)(BYTES + PAGE)) == MAP_FAILED)
            return NULL;
        again = sbrk(BYTES + PAGE);
        break;
    }
    return again == mem ? again : NULL;
}

static bool reads_what_is_there(struct pipe_device *d, uint8_t *mem, uint8_t *out)
{
    struct tt_reg *r;

    tt_assert(tt_registry_get(d->domain, mem, BYTES, false, &r) == TUTTI_OK);
    pipe_device_read(r, mem, BYTES, out);
    tt_registry_put(d->domain, r, false);
    return memcmp(out, mem, BYTES) == 0;
}

const char *remap_between_uses(struct pipe_device *d, size_t way, bool *seen)
{
    static uint8_t out[BYTES];
    uint8_t *mem = memory_for((enum way)way), *again;
    const char *wrong = NULL;

    *seen = false;
    if (!mem)
        return "no memory";
    memset(mem, 0x11, BYTES);
    for (int i = 0; i < 2 && !wrong; i++)
        if (!reads_what_is_there(d, mem, out))
            wrong = "it reads other bytes than those that are there";
    again = change((enum way)way, mem);
    if (!again)
        return wrong;       /* the address was given to another allocation */
    *seen = true;
    memset(again, 0x22, BYTES);
    if (!wrong && !reads_what_is_there(d, again, out))
        wrong = "it reads the bytes that were there before";
    if (way == FREED)
        free(again);
    else if (way == SHRUNK)
        sbrk(-(intptr_t)(BYTES + PAGE));
    else
        munmap(again, BYTES);
    return wrong;
}
