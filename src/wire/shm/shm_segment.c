#include "wire/shm/shm_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/room.h"
#include "base/status.h"

#define ASK_BYTES (64u << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Allocates the pages of a new file by writing a byte to each: lack of memory is an error here, but
 * SIGBUS at a later access. */
static int write_pages(int fd, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t at = 0; at < bytes; at += page)
        if (pwrite(fd, "", 1, (off_t)at) != 1)
            return errno;
    return 0;
}

/* Allocates the memory. Populating respects the advice for huge pages. If the kernel (before 5.14)
 * or a sandbox refuses it, with any error, the pages are allocated through the file, and the file's
 * error is returned. Lack of memory is reported at once. */
static int reserve_pages(int fd, void *base, size_t bytes)
{
    int err;

    tt_pages_huge(base, bytes);
    if (madvise(base, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno == ENOMEM)
        return errno;
    err = posix_fallocate(fd, 0, (off_t)bytes);
    return err && err != ENOSPC && err != ENOMEM ? write_pages(fd, bytes) : err;
}

/* Returns whether the kernel never overcommits memory (vm.overcommit_memory=2). Then a page that
 * cannot be allocated at its first access kills the process with SIGBUS. */
static bool is_strict_system(void)
{
    FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
    const int mode = f ? fgetc(f) : 0;

    if (f)
        fclose(f);
    return mode == '2';
}

/* Populating takes all memory of the machine before it fails, minutes later. Therefore the
 * available memory is checked first. Small segments are not checked. */
static tutti_status check_available_memory(size_t bytes)
{
    const uint64_t available = bytes >= ASK_BYTES ? tt_available_memory("") : UINT64_MAX;

    if (bytes > available)
        return tt_fail(
            TUTTI_ERR_NOMEM,
            "shm: cannot create a segment of %zu bytes: %llu bytes of memory are available", bytes,
            (unsigned long long)available);
    return TUTTI_OK;
}

/* Above this limit the kernel kills the process with SIGXFSZ. */
static tutti_status check_file_size(size_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        bytes <= limit.rlim_cur)
        return TUTTI_OK;
    return tt_fail(
        TUTTI_ERR_UNSUPPORTED,
        "shm: cannot create a segment of %zu bytes: RLIMIT_FSIZE is %llu bytes (raise it with ulimit -f)",
        bytes, (unsigned long long)limit.rlim_cur);
}

static size_t page_rounded(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

tutti_status tt_segment_create(struct tt_segment *seg, size_t bytes, enum tt_segment_pages pages)
{
    tutti_status st;
    void *base;
    int fd, err;

    bytes = page_rounded(bytes ? bytes : 1);
    st = check_file_size(bytes);
    if (!st)
        st = check_available_memory(bytes);
    if (st)
        return st;
    fd = memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return tt_fail_call(errno, "shm: cannot create a segment", "memfd_create");
    if (ftruncate(fd, (off_t)bytes) < 0) {
        st = tt_fail_errno(errno, "shm: cannot set the size of a segment to %zu bytes", bytes);
        goto close;
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);      /* a peer must not be able to shrink memory that
                                                   we have mapped */
    base = tt_pages_map_aligned(bytes, MAP_SHARED, fd);
    if (base == MAP_FAILED) {
        st = tt_fail_errno(errno, "shm: cannot map a segment of %zu bytes", bytes);
        goto close;
    }
    err = pages == TT_PAGES_NOW || is_strict_system() ? reserve_pages(fd, base, bytes) : 0;
    if (err) {
        st = tt_fail_errno(err, "shm: cannot reserve %zu bytes", bytes);
        goto unmap;
    }
    *seg = (struct tt_segment){ .fd = fd, .base = base, .bytes = bytes };
    return TUTTI_OK;

unmap:
    munmap(base, bytes);
close:
    close(fd);
    return st;
}

tutti_status tt_segment_attach(struct tt_segment *seg, int fd, size_t bytes)
{
    struct stat sb;
    tutti_status st;
    void *base;
    int seals;

    if (fstat(fd, &sb) < 0) {
        st = tt_fail_errno(errno, "shm: cannot get the size of a peer's segment");
        goto close;
    }
    if (bytes == 0 || (uint64_t)sb.st_size < bytes) {
        st = tt_fail(TUTTI_ERR_PROTOCOL,
                     "shm: protocol error: a peer's segment has %lld bytes, not %zu",
                     (long long)sb.st_size, bytes);
        goto close;
    }
    seals = fcntl(fd, F_GET_SEALS);     /* -1: not a memfd */
    if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
        st = tt_fail(TUTTI_ERR_PROTOCOL,
                     "shm: protocol error: a peer's segment of %zu bytes is not sealed "
                     "against truncation",
                     bytes);
        goto close;
    }
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        st = tt_fail_errno(errno, "shm: cannot map the segment of a peer, %zu bytes", bytes);
        goto close;
    }
    tt_pages_huge(base, bytes);
    *seg = (struct tt_segment){ .fd = fd, .base = base, .bytes = bytes };
    return TUTTI_OK;

close:
    close(fd);
    return st;
}

void tt_segment_detach(struct tt_segment *seg)
{
    void *base = mmap(seg->base, seg->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

    tt_assert(base == seg->base);
    close(seg->fd);
    seg->fd = -1;
}

void tt_segment_fini(struct tt_segment *seg)
{
    munmap(seg->base, seg->bytes);
    if (seg->fd >= 0)
        close(seg->fd);
    *seg = (struct tt_segment){ .fd = -1 };
}
