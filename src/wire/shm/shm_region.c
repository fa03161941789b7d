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

static void write_key(struct tt_shm_shared *s)
{
    struct tt_writer wr;

    tt_writer_init(&wr, s->region.key.data, TT_KEY_BYTES);
    tt_write_u32(&wr, TT_SHM_MAGIC);
    tt_write_u64(&wr, s->id);
    tt_write_u64(&wr, s->region.bytes);
    s->region.key.bytes = (uint16_t)tt_writer_bytes(&wr);
}

/* ---- memory of our caller ---- */

#define ID_OF_CALLER (1ull << 32)   /* ids from here on: generation << 32 | slot */

/* Returns a record with a new slot, or with a slot whose last generation is gone. */
static struct tt_shm_shared *own_get(struct tt_shm *w)
{
    struct tt_shm_shared *s = w->free_own;

    if (s) {
        w->free_own = s->next_free;
        return s;
    }
    if (w->nown == w->own_cap) {
        const uint32_t cap = w->own_cap ? 2 * w->own_cap : 16;
        struct tt_shm_shared **more = realloc(w->own, cap * sizeof *more);

        if (!more)
            return NULL;
        w->own = more;
        w->own_cap = cap;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->id = ID_OF_CALLER | w->nown;
    w->own[w->nown++] = s;
    return s;
}

static tutti_status reg_own(struct tt_shm *w, void *mem, size_t bytes, struct tt_region **out)
{
    struct tt_shm_shared *s;

    if (!(w->base.caps & TT_WIRE_CAP_ANYMEM))
        return TUTTI_ERR_UNSUPPORTED;
    s = own_get(w);
    if (!s)
        return tt_fail(TUTTI_ERR_NOMEM, "shm: out of memory for a region");
    s->used = true;
    s->region = (struct tt_region){ .wire = &w->base, .mem = mem, .bytes = bytes };
    write_key(s);
    *out = &s->region;
    return TUTTI_OK;
}

/* ---- all kinds ---- */

static void announce_change(struct tt_shm *w, struct tt_shm_shared *s)
{
    s->change = ++w->changes;
    for (uint32_t i = 0; i < w->nlinks; i++)
        tt_shm_send_changes(w, w->links[i]);
}

tutti_status tt_shm_reg(struct tt_wire *base, void *mem, size_t bytes, struct tt_region **out)
{
    struct tt_shm *w = tt_shm_of(base);
    struct tt_shm_shared *s;
    tutti_status st;

    if (mem)
        return reg_own(w, mem, bytes, out);
    s = w->free_shared ? w->free_shared : &w->shared[w->nshared];
    if (s == &w->shared[TT_SHM_SEGMENTS_MAX] || w->newest + 1 == ID_OF_CALLER)
        return tt_fail(TUTTI_ERR_NOMEM, "shm: too many segments: the maximum is %u",
                       TT_SHM_SEGMENTS_MAX);
    st = tt_segment_create(&s->seg, bytes, TT_PAGES_NOW);
    if (st)
        return st;
    if (s == w->free_shared)
        w->free_shared = s->next_free;
    else
        w->nshared++;
    s->id = ++w->newest;        /* never an id that a peer has seen */
    s->used = true;
    s->region = (struct tt_region){ .wire = base, .mem = s->seg.base, .bytes = bytes };
    write_key(s);
    announce_change(w, s);
    *out = &s->region;
    return TUTTI_OK;
}

/* Peers may have a segment mapped, and a late writer may still write to it. The memory then belongs
 * to them alone: our mapping is removed, so our memory cannot change. Memory of our caller is
 * written by this process, and by a peer only while it is shared (shm_share.c) or permitted
 * (shm_push.c). */
void tt_shm_dereg(struct tt_region *region)
{
    struct tt_shm *w = tt_shm_of(region->wire);
    struct tt_shm_shared *s = tt_shm_shared_of(region);

    s->used = false;
    tt_shm_revoke_source(w, region->mem, region->bytes);
    tt_shm_share_close_of(w, s->id);
    if (s->permitted)
        tt_shm_permits_close_of(w, s->id);
    s->permitted = false;
    if (!s->seg.base) {
        s->id += ID_OF_CALLER;  /* late pull requests do not find it */
        s->next_free = w->free_own;
        w->free_own = s;
        return;
    }
    announce_change(w, s);
    tt_segment_fini(&s->seg);
    free(s->private);
    s->private = NULL;
    s->next_free = w->free_shared;
    w->free_shared = s;
}

/* A private mapping of the same file shows the same bytes until a page is written. An atomic write
 * that changes nothing, and so loses no concurrent write of another thread, makes each page
 * private. Done only once: a private page exists nowhere else. */
static bool take_pages(struct tt_shm_shared *s, size_t from, size_t n, size_t page)
{
    char *const at = (char *)s->seg.base + from * page;

    if (mmap(at, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, s->seg.fd,
             (off_t)(from * page)) == MAP_FAILED)
        return false;
    for (size_t i = 0; i < n; i++) {
        __atomic_fetch_or(at + i * page, 0, __ATOMIC_RELAXED);
        s->private[(from + i) / 64] |= 1ull << (from + i) % 64;
    }
    return true;
}

static bool is_private(const struct tt_shm_shared *s, size_t i)
{
    return s->private[i / 64] >> i % 64 & 1;
}

tutti_status tt_shm_withdraw(struct tt_region *region, uint64_t offset, uint64_t bytes)
{
    struct tt_shm_shared *s = tt_shm_shared_of(region);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), end = (offset + bytes + page - 1) / page;

    tt_assert(s->seg.base && offset <= region->bytes && bytes <= region->bytes - offset);
    if (!s->private)
        s->private = calloc(s->seg.bytes / page / 64 + 1, sizeof *s->private);
    if (!s->private)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "shm: out of memory for the revocation of %llu bytes that peers have mapped",
                       (unsigned long long)bytes);
    for (size_t from = offset / page, to; from < end; from = to) {
        to = from + 1;
        while (to < end && is_private(s, to) == is_private(s, from))
            to++;
        if (!is_private(s, from) && !take_pages(s, from, to - from, page))
            return tt_fail_errno(errno, "shm: cannot revoke %zu bytes that peers have mapped",
                                 (to - from) * page);
    }
    return TUTTI_OK;
}

static struct tt_region *region_of(struct tt_shm *w, uint64_t id)
{
    struct tt_shm_shared *s =
        id >= ID_OF_CALLER && (uint32_t)id < w->nown ? w->own[(uint32_t)id] : NULL;

    for (uint32_t i = 0; id < ID_OF_CALLER && !s && i < w->nshared; i++)
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

/* Imports a key of memory that the peer's wire did not allocate. */
static tutti_status import_own(struct tt_shm *w, uint32_t rank, uint64_t id, uint64_t bytes,
                               struct tt_rkey *out)
{
    const struct tt_shm_peer *peer = tt_shm_peer_of(w, rank);

    if (!peer || peer->state != TT_SHM_UP)
        return TUTTI_ERR_PEER_LOST;
    if (!atomic_load_explicit(&tt_shm_pulls_in(w, &peer->theirs)->readable, memory_order_acquire))
        return TUTTI_ERR_UNSUPPORTED;
    *out = (struct tt_rkey){ .wire = &w->base, .peer = rank, .bytes = bytes, .handle = { id } };
    return TUTTI_OK;
}

tutti_status tt_shm_import(struct tt_wire *base, uint32_t rank, const struct tt_blob *key,
                           struct tt_rkey *out)
{
    struct tt_shm *w = tt_shm_of(base);
    struct tt_shm_peer *peer = tt_shm_peer_of(w, rank);
    struct tt_reader r;
    uint64_t id, bytes;

    tt_reader_init(&r, key->data, key->bytes);
    if (tt_read_u32(&r) != TT_SHM_MAGIC)
        r.bad = true;
    id = tt_read_u64(&r);
    bytes = tt_read_u64(&r);
    if (r.bad || id == 0)
        return tt_fail(TUTTI_ERR_PROTOCOL, "shm: protocol error: rank %u sent an invalid key",
                       rank);
    if (id >= ID_OF_CALLER)
        return import_own(w, rank, id, bytes, out);
    if (!peer)
        return TUTTI_ERR_PEER_LOST;
    for (int tries = 0; tries < 2; tries++) {
        for (uint32_t i = 0; i < peer->nsegments; i++)
            if (peer->segments[i].seg.base && peer->segments[i].id == id) {
                if (bytes > peer->segments[i].seg.bytes)
                    return tt_fail(TUTTI_ERR_PROTOCOL,
                                   "shm: protocol error: the key of rank %u exceeds its segment",
                                   rank);
                *out = (struct tt_rkey){
                    .wire = base, .peer = rank, .mapped = peer->segments[i].seg.base,
                    .past_cache = &peer->stores.best, .bytes = bytes, .handle = { id },
                };
                return TUTTI_OK;
            }
        tt_shm_receive_packets(w, peer);
    }
    return peer->state == TT_SHM_UP ? TUTTI_PENDING : TUTTI_ERR_PEER_LOST;
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
