#include "analyze/p2p.h"

#include <stdlib.h>

#include "base/prng.h"

static uint64_t p2p_hash(const struct tt_dumps_p2p *p)
{
    return tt_mix64(tt_mix64((uint64_t)p->rank << 32 | p->peer) ^ (uint64_t)p->tag * 3 ^
                    (uint64_t)p->comm << 1 ^ (uint64_t)p->is_send);
}

static struct tt_dumps_p2p *p2p_slot(const struct tt_dumps *d, const struct tt_dumps_p2p *key)
{
    uint64_t at = p2p_hash(key);

    for (;; at++) {
        struct tt_dumps_p2p *p = &d->p2p[at & (d->cap_p2p - 1)];

        if (!p->is_used || (p->rank == key->rank && p->comm == key->comm && p->peer == key->peer &&
                            p->tag == key->tag && p->is_send == key->is_send))
            return p;
    }
}

static bool p2p_grow(struct tt_dumps *d)
{
    struct tt_dumps bigger = { .cap_p2p = d->cap_p2p ? 2 * d->cap_p2p : 256 };

    bigger.p2p = calloc(bigger.cap_p2p, sizeof *bigger.p2p);
    if (!bigger.p2p)
        return false;
    for (size_t i = 0; i < d->cap_p2p; i++)
        if (d->p2p[i].is_used)
            *p2p_slot(&bigger, &d->p2p[i]) = d->p2p[i];
    free(d->p2p);
    d->p2p = bigger.p2p;
    d->cap_p2p = bigger.cap_p2p;
    return true;
}

bool tt_dumps_p2p_note(struct tt_dumps *d, const struct tt_dumps_p2p *key)
{
    struct tt_dumps_p2p *p;

    if (2 * d->np2p >= d->cap_p2p && !p2p_grow(d))
        return false;
    p = p2p_slot(d, key);
    if (!p->is_used) {
        *p = *key;
        p->is_used = true;
        d->np2p++;
    }
    if (key->ncalled > p->ncalled)
        p->ncalled = key->ncalled;
    return true;
}

uint64_t tt_dumps_p2p_called(const struct tt_dumps *d, uint32_t rank, uint32_t comm, uint32_t peer,
                             int64_t tag, bool is_send)
{
    const struct tt_dumps_p2p key = {
        .rank = rank, .comm = comm, .peer = peer, .tag = tag, .is_send = is_send
    };

    return d->cap_p2p ? p2p_slot(d, &key)->ncalled : 0;
}
