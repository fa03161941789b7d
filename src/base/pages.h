/* Huge pages, for internal memory with random access and for repeatedly used long buffers of the
 * program. */
#ifndef TT_BASE_PAGES_H
#define TT_BASE_PAGES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests huge pages for memory[bytes], which the caller has allocated or mapped. Huge pages save
 * page walks, which dominate random access to a table of many megabytes. Best called before the
 * memory is touched; failure has no effect. */
void tt_pages_huge(void *memory, size_t bytes);

/* mmap of bytes > 0 for reading and writing. The address is a multiple of the largest power of two
 * not above `bytes` (at least of a page), so offsets are aligned like addresses. If the address
 * space has no room for that, it is aligned to a page only. `flags`, `fd`, MAP_FAILED and errno are
 * those of mmap. The caller releases it with munmap. */
void *tt_pages_map_aligned(size_t bytes, int flags, int fd);

#define TT_PAGES_RANGES 16u

/* A buffer that the program has passed to calls. */
struct tt_pages_range {
    uintptr_t first, end;       /* whole huge pages; end 0: unused */
    uintptr_t done;             /* end of the part moved to huge pages */
    uint32_t uses, tries;       /* tries: failed attempts for the next piece */
    uint32_t others;            /* times in a row that the memory was remapped after few uses */
    bool failed;                /* at least one piece could not be moved */
};

/* Repeatedly used buffers. If the kernel provides huge pages only on request (madvise), malloc
 * returns small ones. A process that reads another process's memory pins each page, and one that
 * streams through its own walks the page tables for each. Both are faster with huge pages. After a
 * few uses a buffer is therefore moved to huge pages, one piece per call, since the move copies it.
 * It is moved again if the program has remapped its memory. Only whole huge pages within the buffer
 * are moved, so its size is unchanged. Any thread. */
struct tt_pages_hot {
    pthread_mutex_t lock;
    int pagemap;                /* /proc/self/pagemap, to query which pages are huge; -1: not
                                   supported (before Linux 6.7) */
    struct tt_pages_range ranges[TT_PAGES_RANGES];
    uint32_t next;              /* next entry to replace */
    size_t page_bytes;          /* size of a huge page; 0: disabled, by the user or because the
                                   kernel's policy is not madvise */
};

void tt_pages_hot_init(struct tt_pages_hot *h);
void tt_pages_hot_fini(struct tt_pages_hot *h);
/* Records a use of memory[bytes] of the program, which must be host memory not shared with other
 * owners. Ignores short buffers and NULL. */
void tt_pages_hot_use(struct tt_pages_hot *h, const void *memory, size_t bytes);

#endif
