/* Push, for puts whose bytes the sender has just written, so that they are in its cache. It is
 * faster if the sender writes them to the destination than if the receiver fetches each line from
 * that cache. The sender may do so if the receiver permits it, for one region of its caller's
 * memory, until that is deregistered. The permit is a line in the receiver's link segment. There
 * the sender announces its write, checks that the permit is still valid, and writes (shm_writer.c
 * makes that safe). The signal follows as a pull request without bytes (shm_cma.c), so signals stay
 * in order. Data that could not be written becomes an ordinary pull request. */
#include "wire/shm/shm.h"

static struct tt_shm_permit *permits_in(const struct tt_shm *w, const struct tt_segment *link)
{
    return tt_shm_pulls_in(w, link)->permit;
}

/* ---- receiver ---- */

bool tt_shm_admit(struct tt_region *region, uint32_t rank)
{
    struct tt_shm *w = tt_shm_of(region->wire);
    struct tt_shm_shared *s = tt_shm_shared_of(region);
    struct tt_shm_peer *peer = tt_shm_peer_of(w, rank);
    struct tt_shm_permit *p;

    if (s->seg.base || !peer || peer->state != TT_SHM_UP || !peer->readable ||
        !peer->threads_seen ||
        !atomic_load_explicit(&tt_shm_pulls_in(w, &peer->theirs)->readable, memory_order_acquire))
        return false;           /* a peer that cannot read this process cannot write it */
    p = permits_in(w, &peer->mine);
    for (uint32_t i = 0; i < TT_SHM_PERMITS; i++)
        if (peer->permitted[i] == s->id)
            return true;
    for (uint32_t i = 0; i < TT_SHM_PERMITS; i++) {
        if (peer->permitted[i])
            continue;
        peer->permitted[i] = s->id;
        s->permitted = true;
        atomic_store_explicit(&p[i].to, (uintptr_t)region->mem, memory_order_relaxed);
        atomic_store_explicit(&p[i].region, s->id, memory_order_release);
        return true;
    }
    return false;
}

static void close_permit(struct tt_shm *w, struct tt_shm_peer *peer, uint32_t i)
{
    struct tt_shm_permit *p = &permits_in(w, &peer->mine)[i];
    struct tt_shm_writing wait = { 0 };

    atomic_store(&p->region, 0);
    tt_shm_writer_stop(&p->writer);
    while (atomic_load(&p->writing) == peer->permitted[i] &&
           tt_shm_writer_may_be_in(&p->writer, peer, &wait))
        ;
    peer->permitted[i] = 0;
}

void tt_shm_permits_close(struct tt_shm *w, struct tt_shm_peer *peer)
{
    for (uint32_t i = 0; i < TT_SHM_PERMITS; i++)
        if (peer->permitted[i])
            close_permit(w, peer, i);
}

void tt_shm_permits_close_of(struct tt_shm *w, uint64_t region)
{
    for (uint32_t at = 0; at < w->nlinks; at++)
        for (uint32_t i = 0; i < TT_SHM_PERMITS; i++)
            if (w->links[at]->permitted[i] == region)
                close_permit(w, w->links[at], i);
}

/* ---- sender ---- */

static struct tt_shm_permit *permit_for(const struct tt_shm *w, const struct tt_shm_peer *peer,
                                        uint64_t region)
{
    struct tt_shm_permit *p = permits_in(w, &peer->theirs);

    for (uint32_t i = 0; i < TT_SHM_PERMITS; i++)
        if (atomic_load_explicit(&p[i].region, memory_order_acquire) == region)
            return &p[i];
    return NULL;
}

bool tt_shm_push(struct tt_shm *w, struct tt_shm_peer *peer, const struct tt_desc *d)
{
    const uint64_t region = d->key->handle[0];
    struct tt_shm_permit *p =
        peer->readable && !peer->unwritable ? permit_for(w, peer, region) : NULL;
    bool given, written = false;

    if (!p)
        return false;
    tt_shm_writer_aim(&p->writer, peer,
                      atomic_load_explicit(&p->to, memory_order_relaxed) + d->offset, d->bytes);
    atomic_store(&p->writing, region);
    if (atomic_load(&p->region) == region)
        written = tt_shm_writer_go(&p->writer, w, peer, d->local, d->bytes);
    given = atomic_load(&p->region) == region;
    atomic_store_explicit(&p->writing, 0, memory_order_release);
    if (!written && given)      /* not because the receiver revoked the permit */
        peer->unwritable = true;
    return written;
}
