/* Slab allocator for small objects of one size: zeroed when allocated, all freed at once. One
 * thread at a time. */
#ifndef TT_BASE_SLAB_H
#define TT_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define TT_SLAB_PAGE_BYTES 4096u

struct tt_slab_page;

/* Empty if `bytes`, the size of an object (at most that of a page), is set and all else is zero. */
struct tt_slab {
    size_t bytes;
    struct tt_slab_page *pages; /* newest first */
    uint32_t npages, nfree;     /* nfree: free objects in the newest page */
};

/* Returns NULL if out of memory. */
void *tt_slab_take(struct tt_slab *s);
/* Frees all objects. */
void tt_slab_fini(struct tt_slab *s);

#endif
