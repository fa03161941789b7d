/* Registered memory of the shm transport, and the mapped segments of peers. */
#include "wire/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

/* Records an address range to unmap when the wire closes; merges adjacent ranges. */
static void keep_range(struct tt_shm *w, const struct tt_segment *seg)
{
    char *const begin = seg->base;

    for (uint32_t i = 0; i < w->ngone; i++) {
        struct tt_segment *g = &w->gone[i];

        if (begin + seg->bytes != (char *)g->base && (char *)g->base + g->bytes != begin)
            continue;
        if (begin < (char *)g->base)
            g->base = begin;
        g->bytes += seg->bytes;
        return;
    }
    if (w->ngone == w->gone_cap) {
        const uint32_t cap = w->gone_cap ? 2 * w->gone_cap : 8;
        struct tt_segment *more = realloc(w->gone, cap * sizeof *more);

        tt_assert(more);
        w->gone = more;
        w->gone_cap = cap;
    }
    w->gone[w->ngone++] = (struct tt_segment){ .fd = -1, .base = begin, .bytes = seg->bytes };
}

/* Imported keys may still be in use, and puts through them must have no effect. Therefore the
 * addresses stay reserved. */
static void segment_gone(struct tt_shm *w, struct tt_shm_shared *s)
{
    tt_segment_detach(&s->seg);
    keep_range(w, &s->seg);
    *s = (struct tt_shm_shared){ .seg.fd = -1 };
}

tutti_status tt_shm_segment_add(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t id,
                                uint32_t slot, int fd, uint64_t bytes)
{
    struct tt_segment seg;
    tutti_status st;

    if (slot >= TT_SHM_SEGMENTS_MAX) {
        close(fd);
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "shm: protocol error: too many segments of rank %u: the maximum is %u",
                       peer->rank, TT_SHM_SEGMENTS_MAX);
    }
    st = tt_segment_attach(&seg, fd, bytes);
    if (st)
        return st;
    if (slot >= peer->nsegments) {
        const uint32_t n = slot < 8 ? 8 : 2 * slot;
        struct tt_shm_shared *more = realloc(peer->segments, n * sizeof *more);

        if (!more) {
            tt_segment_fini(&seg);
            return tt_fail(TUTTI_ERR_NOMEM, "shm: out of memory for the segments of rank %u",
                           peer->rank);
        }
        memset(more + peer->nsegments, 0, (n - peer->nsegments) * sizeof *more);
        peer->segments = more;
        peer->nsegments = n;
    }
    if (peer->segments[slot].seg.base)
        segment_gone(w, &peer->segments[slot]);
    peer->segments[slot] = (struct tt_shm_shared){ .seg = seg, .id = id };
    return TUTTI_OK;
}

void tt_shm_segment_remove(struct tt_shm *w, struct tt_shm_peer *peer, uint32_t slot)
{
    if (slot < peer->nsegments && peer->segments[slot].seg.base)
        segment_gone(w, &peer->segments[slot]);
}

static struct tt_region *region_of(struct tt_shm *w, uint64_t id)
{
    struct tt_shm_shared *s =
        id >= TT_SHM_ID_OF_CALLER && (uint32_t)id < w->nown ? w->own[(uint32_t)id] : NULL;

    for (uint32_t i = 0; id < TT_SHM_ID_OF_CALLER && !s && i < w->nshared; i++)
        if (w->shared[i].id == id)
            s = &w->shared[i];
    return s && s->used && s->id == id ? &s->region : NULL;
}

uint8_t *tt_shm_memory_of(struct tt_shm *w, const struct tt_shm_peer *peer, uint64_t id,
                          uint64_t offset, uint64_t bytes)
{
    const struct tt_region link = { .mem = peer->mine.base, .bytes = w->conf.link_bytes };
    const struct tt_region *r = id ? region_of(w, id) : &link;

    if (!r || offset > r->bytes || bytes > r->bytes - offset)
        return NULL;
    return (uint8_t *)r->mem + offset;
}

static bool region_holds(const struct tt_shm_shared *s, const void *mem, uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)mem, first = (uintptr_t)s->region.mem;

    return s->used && begin >= first && begin + bytes <= first + s->region.bytes;
}

bool tt_shm_is_registered(const struct tt_shm *w, const void *mem, uint64_t bytes)
{
    for (uint32_t i = 0; i < w->nown; i++)
        if (region_holds(w->own[i], mem, bytes))
            return true;
    for (uint32_t i = 0; i < w->nshared; i++)
        if (region_holds(&w->shared[i], mem, bytes))
            return true;
    return false;
}

void tt_shm_regions_close(struct tt_shm *w)
{
    struct tt_shm_peer *peer;
    uint32_t at = 0;

    while ((peer = tt_sparse_next(&w->peers, &at))) {
        for (uint32_t i = 0; i < peer->nsegments; i++)
            if (peer->segments[i].seg.base)
                tt_segment_fini(&peer->segments[i].seg);
        free(peer->segments);
    }
    for (uint32_t i = 0; i < w->ngone; i++)
        munmap(w->gone[i].base, w->gone[i].bytes);
    free(w->gone);
    for (uint32_t i = 0; i < w->nshared; i++)
        if (w->shared[i].used) {
            tt_segment_fini(&w->shared[i].seg);
            free(w->shared[i].private);
        }
    for (uint32_t i = 0; i < w->nown; i++)
        free(w->own[i]);
    free(w->own);
}
