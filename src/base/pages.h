/* Huge pages, for memory of ours that is visited at random, and for long buffers of the program that come again. */
#ifndef TT_BASE_PAGES_H
#define TT_BASE_PAGES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Asks the kernel for huge pages where memory [bytes], which the caller has allocated or mapped, has room for some. What it is for does not depend on
 * them: they save the walks through page tables that most visits to a table of many megabytes begin with. Best before it is touched. */
void tt_pages_huge(void *memory, size_t bytes);

/* mmap of bytes > 0 for reading and writing, at an address that is a multiple of the largest power of two not above `bytes` (at
 * least of a page), so that offsets into it are aligned as addresses are. Only page aligned where the address space has no room
 * for that. `flags` and `fd` as mmap has them. MAP_FAILED and errno as of mmap. The caller ends it with munmap. */
void *tt_pages_map_aligned(size_t bytes, int flags, int fd);

#define TT_PAGES_RANGES 16u

/* Memory that a program has passed to calls. */
struct tt_pages_range {
    uintptr_t first, end;       /* whole huge pages; end 0: none */
    uintptr_t done;             /* up to where it has been put on huge pages */
    uint32_t uses, tries;       /* tries: of the next piece, that failed */
    uint32_t others;            /* times in a row that other memory came to lie there soon */
    bool failed;                /* a piece stays as it was */
};

/* Where the system gives huge pages only to who asks for them, plain malloc has small ones. A process that reads another one's memory pins each of its pages, and one
 * that streams through its own walks the page tables for each: both take less with huge ones. So what has been passed a few times is moved to
 * huge pages, a piece with each call, as that copies it, and takes long; and anew where other memory has come to lie there. All of these are in the buffer, so it has as many bytes as before. Any thread. */
struct tt_pages_hot {
    pthread_mutex_t lock;
    int pagemap;                /* of this process, which tells what is on huge pages; -1: it does not (before Linux 6.7) */
    struct tt_pages_range ranges[TT_PAGES_RANGES];
    uint32_t next;              /* the one whose place is taken next */
    size_t page_bytes;          /* 0: nothing is done: nobody wants it, who sets it so, or the system gives huge pages to all, or to none */
};

void tt_pages_hot_init(struct tt_pages_hot *h);
void tt_pages_hot_fini(struct tt_pages_hot *h);
/* A call uses memory [bytes] of the program's, which is neither a device's nor anybody else's in between. Short ones, and NULL, are ignored. */
void tt_pages_hot_use(struct tt_pages_hot *h, const void *memory, size_t bytes);

#endif
