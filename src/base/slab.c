#include "base/slab.h"

#include <stdlib.h>
#include "base/status.h"

struct tt_slab_page {
    struct tt_slab_page *next;
    max_align_t things[];
};

static size_t thing_bytes(const struct tt_slab *s)
{
    return (s->bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

static uint32_t things_of_page(const struct tt_slab *s)
{
    return (uint32_t)((TT_SLAB_PAGE_BYTES - offsetof(struct tt_slab_page, things)) /
                      thing_bytes(s));
}

void *tt_slab_take(struct tt_slab *s)
{
    tt_assert(s->bytes > 0 && things_of_page(s) > 0);
    if (s->nfree == 0) {
        struct tt_slab_page *page = calloc(1, TT_SLAB_PAGE_BYTES);

        if (!page)
            return NULL;
        page->next = s->pages;
        s->pages = page;
        s->npages++;
        s->nfree = things_of_page(s);
    }
    return (char *)s->pages->things + --s->nfree * thing_bytes(s);
}

void tt_slab_fini(struct tt_slab *s)
{
    while (s->pages) {
        struct tt_slab_page *next = s->pages->next;

        free(s->pages);
        s->pages = next;
    }
    *s = (struct tt_slab){ .bytes = s->bytes };
}
