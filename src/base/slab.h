/* Many small things of one size in a page: zeroed when they are taken, all freed at once. One thread at a time. */
#ifndef TT_BASE_SLAB_H
#define TT_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define TT_SLAB_PAGE_BYTES 4096u

struct tt_slab_page;

/* Empty with the size of a thing set, at most what a page holds, and all else zero. */
struct tt_slab {
    size_t bytes;
    struct tt_slab_page *pages; /* the newest first */
    uint32_t npages, nfree;     /* nfree: things that the newest has room for */
};

/* NULL: out of memory. */
void *tt_slab_take(struct tt_slab *s);
/* Frees all that was taken. */
void tt_slab_fini(struct tt_slab *s);

#endif
