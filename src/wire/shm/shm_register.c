/* Registration of memory by the shm transport, and import of peers' keys. */
#include "wire/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

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
    s->id = TT_SHM_ID_OF_CALLER | w->nown;
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
    if (s == &w->shared[TT_SHM_SEGMENTS_MAX] || w->newest + 1 == TT_SHM_ID_OF_CALLER)
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
        s->id += TT_SHM_ID_OF_CALLER;  /* late pull requests do not find it */
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
 * of the same value makes each page private, without losing a concurrent write of another thread.
 * Not repeated for a private page, whose contents are no longer in the file. */
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
    if (id >= TT_SHM_ID_OF_CALLER)
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
