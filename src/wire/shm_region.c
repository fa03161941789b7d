/* Registered memory of the shm wire, and the peers' segments that are mapped here. */
#include "wire/shm.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"

tutti_status tt_shm_segment_add(struct tt_shm_peer *peer, uint32_t rank, uint64_t id, int fd, uint64_t bytes)
{
    struct tt_segment seg;
    tutti_status st;

    if (peer->nsegments >= TT_SHM_SEGMENTS_MAX) {
        close(fd);
        return tt_fail(TUTTI_ERR_PROTOCOL, "shm: rank %u shares more than %u segments", rank, TT_SHM_SEGMENTS_MAX);
    }
    st = tt_segment_attach(&seg, fd, bytes);
    if (st)
        return st;
    if (peer->nsegments == peer->segments_cap) {
        const uint32_t cap = peer->segments_cap ? 2 * peer->segments_cap : 8;
        struct tt_shm_shared *more = realloc(peer->segments, cap * sizeof *more);

        tt_assert(more);
        peer->segments = more;
        peer->segments_cap = cap;
    }
    peer->segments[peer->nsegments++] = (struct tt_shm_shared){ .seg = seg, .id = id, .used = true };
    return TUTTI_OK;
}

/* Keys that were imported may still be in use: what is put through them must land nowhere. */
void tt_shm_segment_forget(struct tt_shm_peer *peer, uint64_t id)
{
    for (uint32_t i = 0; i < peer->nsegments; i++)
        if (peer->segments[i].id == id) {
            tt_segment_detach(&peer->segments[i].seg);
            peer->segments[i].id = 0;
            return;
        }
}

tutti_status tt_shm_reg(struct tt_wire *base, void *mem, size_t bytes, struct tt_region **out)
{
    struct tt_shm *w = tt_shm_of(base);
    struct tt_writer wr;
    struct tt_shm_shared *s;
    tutti_status st;

    if (mem)
        return TUTTI_ERR_UNSUPPORTED;
    if (w->nshared == TT_SHM_SEGMENTS_MAX)
        return tt_fail(TUTTI_ERR_NOMEM, "shm: more than %u segments", TT_SHM_SEGMENTS_MAX);
    s = &w->shared[w->nshared];
    st = tt_segment_create(&s->seg, bytes);
    if (st)
        return st;
    s->id = w->nshared + 1;
    s->used = true;
    s->region = (struct tt_region){ .wire = base, .mem = s->seg.base, .bytes = bytes };
    tt_writer_init(&wr, s->region.key.data, TT_KEY_BYTES);
    tt_write_u32(&wr, TT_SHM_MAGIC);
    tt_write_u64(&wr, s->id);
    tt_write_u64(&wr, bytes);
    s->region.key.bytes = (uint16_t)tt_writer_bytes(&wr);
    w->nshared++;
    for (uint32_t r = 0; r < w->conf.nranks; r++)
        tt_shm_send_segments(w, &w->peers[r]);
    *out = &s->region;
    return TUTTI_OK;
}

/* Peers may have it mapped and a late writer may still write there; the memory is theirs then, no longer ours: our mapping
 * goes, so nothing of ours can change. */
void tt_shm_dereg(struct tt_region *region)
{
    struct tt_shm *w = tt_shm_of(region->wire);
    struct tt_shm_shared *s = (struct tt_shm_shared *)((char *)region - offsetof(struct tt_shm_shared, region));

    for (uint32_t r = 0; r < w->conf.nranks; r++)
        tt_shm_send_forget(w, &w->peers[r], s->id);
    tt_segment_fini(&s->seg);
    s->used = false;
}

tutti_status tt_shm_import(struct tt_wire *base, uint32_t rank, const struct tt_blob *key, struct tt_rkey *out)
{
    struct tt_shm *w = tt_shm_of(base);
    struct tt_shm_peer *peer = &w->peers[rank];
    struct tt_reader r;
    uint64_t id, bytes;

    tt_reader_init(&r, key->data, key->bytes);
    if (tt_read_u32(&r) != TT_SHM_MAGIC)
        r.bad = true;
    id = tt_read_u64(&r);
    bytes = tt_read_u64(&r);
    if (r.bad || id == 0)
        return tt_fail(TUTTI_ERR_PROTOCOL, "shm: rank %u sent a key that is none of shared memory", rank);
    for (int tries = 0; tries < 2; tries++) {
        for (uint32_t i = 0; i < peer->nsegments; i++)
            if (peer->segments[i].id == id) {
                if (bytes > peer->segments[i].seg.bytes)
                    return tt_fail(TUTTI_ERR_PROTOCOL, "shm: rank %u claims more of a segment than there is", rank);
                *out = (struct tt_rkey){
                    .wire = base, .peer = rank, .mapped = peer->segments[i].seg.base, .bytes = bytes
                };
                return TUTTI_OK;
            }
        tt_shm_hear(w, rank);
    }
    return peer->state == TT_SHM_UP ? TUTTI_PENDING : TUTTI_ERR_PEER_LOST;
}

void tt_shm_regions_close(struct tt_shm *w)
{
    for (uint32_t r = 0; w->peers && r < w->conf.nranks; r++) {
        struct tt_shm_peer *peer = &w->peers[r];

        for (uint32_t i = 0; i < peer->nsegments; i++)
            tt_segment_fini(&peer->segments[i].seg);
        free(peer->segments);
    }
    for (uint32_t i = 0; i < w->nshared; i++)
        if (w->shared[i].used)
            tt_segment_fini(&w->shared[i].seg);
}
