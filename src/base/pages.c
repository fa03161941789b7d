#include "base/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25                /* since Linux 6.1 */
#endif

/* Arguments of PAGEMAP_SCAN (Linux 6.7), which finds the pages of a range that are of certain
 * kinds. */
struct scan {
    uint64_t size, flags, start, end, walk_end, found, nfound, most, inverted, all_of, any_of,
        returned;
};
struct found {
    uint64_t start, end, kinds;
};
#define PAGEMAP_SCAN_HERE _IOWR('f', 16, struct scan)
#define KIND_HUGE (1u << 6)
_Static_assert(sizeof(struct scan) == 96 && sizeof(struct found) == 24, "the kernel's structs");

#define HUGE_BYTES (2u << 20)
#define HOT_BYTES_MIN (4u << 20)        /* minimum buffer size */
/* minimum bytes moved per call: about 20 ms on a busy machine */
#define PIECE_BYTES (8u << 20)
/* long buffers move by this fraction per call, as their calls take longer */
#define PIECES 8u
/* uses before the first move, whose cost is recovered after some dozens; doubled after each early
 * remapping */
#define USES_MIN 4u
#define USES_LONG 32u                   /* uses after which a remapping no longer counts as early */
#define OTHERS_MAX 6u                   /* maximum number of doublings */
#define TRIES 4u    /* attempts per piece: some may fail while a peer reads its pages */
/* uses between retries if the kernel cannot report remapped memory */
#define LOOK_AGAIN 64u

void tt_pages_huge(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    first = ((uintptr_t)memory + page - 1) / page * page,
                    end = ((uintptr_t)memory + bytes) / page * page;

    if (memory && bytes >= HUGE_BYTES && end > first)
        madvise((void *)first, end - first, MADV_HUGEPAGE); /* no effect on kernels without huge
                                                               pages */
}

void *tt_pages_map_aligned(size_t bytes, int flags, int fd)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded = (bytes + page - 1) / page * page;
    size_t alignment = page, span, before;
    char *all, *at;

    while (alignment <= bytes / 2)
        alignment *= 2;
    if (alignment == page || __builtin_add_overflow(rounded, alignment - page, &span))
        return mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    all = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    before = -(uintptr_t)all & (alignment - 1);
    at = mmap(all + before, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    if (at == MAP_FAILED) {
        const int err = errno;

        munmap(all, span);
        errno = err;
        return MAP_FAILED;
    }
    if (before)
        munmap(all, before);
    if (span > before + rounded)
        munmap(at + rounded, span - before - rounded);
    return at;
}

/* ---- repeatedly used buffers ---- */

static bool read_sys_line(const char *path, char *line, int cap)
{
    FILE *f = fopen(path, "re");
    const bool read = f && fgets(line, cap, f);

    if (f)
        fclose(f);
    return read;
}

/* Returns the size of a huge page, or 0 if the kernel's policy is not madvise. */
static size_t page_bytes(void)
{
    char line[64];
    size_t bytes = 0;

    if (!read_sys_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line) ||
        !strstr(line, "[madvise]"))
        return 0;
    if (!read_sys_line("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", line, sizeof line) ||
        sscanf(line, "%zu", &bytes) != 1 || bytes & (bytes - 1))
        return 0;
    return bytes;
}

void tt_pages_hot_init(struct tt_pages_hot *h)
{
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    h->page_bytes = page_bytes();
    h->pagemap = h->page_bytes ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -1;
}

void tt_pages_hot_fini(struct tt_pages_hot *h)
{
    if (h->pagemap >= 0)
        close(h->pagemap);
    pthread_mutex_destroy(&h->lock);
}

static struct tt_pages_range *find_hot_range(struct tt_pages_hot *h, uintptr_t first, uintptr_t end)
{
    struct tt_pages_range *r;

    for (uint32_t i = 0; i < TT_PAGES_RANGES; i++)
        if (h->ranges[i].first <= first && end <= h->ranges[i].end)
            return &h->ranges[i];
    r = &h->ranges[h->next++ % TT_PAGES_RANGES];
    *r = (struct tt_pages_range){ .first = first, .end = end, .done = first };
    return r;
}

/* Returns whether the first moved page is not huge, i.e. the memory was remapped. False if the
 * kernel cannot report it. */
static bool is_other(struct tt_pages_hot *h, const struct tt_pages_range *r)
{
    struct found found;
    struct scan scan = {
        .size = sizeof scan,
        .start = r->first,
        .end = r->first + h->page_bytes,
        .found = (uintptr_t)&found,
        .nfound = 1,
        .all_of = KIND_HUGE,
        .returned = KIND_HUGE,
    };
    int n;

    if (h->pagemap < 0)
        return false;
    n = ioctl(h->pagemap, PAGEMAP_SCAN_HERE, &scan);
    if (n < 0) {
        close(h->pagemap);
        h->pagemap = -1;
    }
    return n == 0;
}

/* Pages that cannot be moved stay unchanged. */
static void move_piece(struct tt_pages_range *r, size_t page)
{
    const size_t part = (r->end - r->first) / PIECES / page * page,
                 piece = part > PIECE_BYTES ? part : PIECE_BYTES, left = r->end - r->done,
                 bytes = left < piece ? left : piece;

    if (r->done == r->first)
        /* future page faults allocate huge pages */
        madvise((void *)r->first, r->end - r->first, MADV_HUGEPAGE);
    if (madvise((void *)r->done, bytes, MADV_COLLAPSE) != 0) {
        if (errno == EINVAL)
            r->done = r->end;   /* unsupported kind of memory, or an older kernel */
        else if (++r->tries < TRIES)
            return;
        r->failed = true;
    }
    r->tries = 0;
    if (r->done < r->end)
        r->done += bytes;
}

void tt_pages_hot_use(struct tt_pages_hot *h, const void *memory, size_t bytes)
{
    const size_t page = h->page_bytes;
    struct tt_pages_range *r;
    uintptr_t first, end;
    uint32_t needed;

    if (!page || !memory || bytes < HOT_BYTES_MIN || bytes < 2 * page)
        return;
    first = ((uintptr_t)memory + page - 1) / page * page;
    end = ((uintptr_t)memory + bytes) / page * page;
    if (pthread_mutex_trylock(&h->lock) != 0)
        return;     /* another thread is moving pages: skip this use */
    r = find_hot_range(h, first, end);
    needed = USES_MIN << r->others;
    if (++r->uses % LOOK_AGAIN == 0 && (r->failed || h->pagemap < 0)) {
        r->done = r->first;
        r->failed = false;
    }
    if (r->done > r->first && !r->failed && is_other(h, r)) {
        r->others = r->uses >= needed + USES_LONG ? 0
                    : r->others < OTHERS_MAX      ? r->others + 1
                                                  : OTHERS_MAX;
        r->done = r->first;
        r->uses = 1;
    }
    if (r->uses >= needed && r->done < r->end)
        move_piece(r, page);
    pthread_mutex_unlock(&h->lock);
}
