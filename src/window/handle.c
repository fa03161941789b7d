#include "window/handle.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/status.h"
#include "window/peer.h"

/* A handle is not an address, so that a freed window is detected: it consists of the generation
 * of a slot, the slot, and a bit. */
#define SLOT_BITS 10
_Static_assert(TT_WINDOWS_MAX == 1u << SLOT_BITS, "a slot number has SLOT_BITS bits");

static struct slot {
    _Atomic uint64_t handle;    /* 0: free */
    struct tt_window *window;
} slots[TT_WINDOWS_MAX];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t generation;     /* protected by slots_lock */

static uint64_t number_of(const tutti_window *handle) { return (uint64_t)(uintptr_t)handle; }

tutti_status tt_window_assign_handle(struct tt_window *w)
{
    tutti_status st = TUTTI_ERR_NOMEM;

    pthread_mutex_lock(&slots_lock);
    for (uint32_t i = 0; i < TT_WINDOWS_MAX && st; i++)
        if (atomic_load(&slots[i].handle) == 0) {
            const uint64_t number = (++generation << SLOT_BITS | i) << 1 | 1;

            w->handle = (tutti_window *)(uintptr_t)number;
            slots[i].window = w;
            atomic_store(&slots[i].handle, number);
            st = TUTTI_OK;
        }
    pthread_mutex_unlock(&slots_lock);
    return st ? tt_fail(st, "tutti_window_create: too many windows: the maximum is %u per process",
                        TT_WINDOWS_MAX)
              : TUTTI_OK;
}

void tt_window_invalidate(struct tt_window *w)
{
    if (w->handle)
        atomic_store(&slots[number_of(w->handle) >> 1 & (TT_WINDOWS_MAX - 1)].handle, 0);
    w->handle = NULL;
}

tutti_status tt_window_find_handle(tutti_window *handle, const char *call, struct tt_window **out)
{
    struct slot *s = &slots[number_of(handle) >> 1 & (TT_WINDOWS_MAX - 1)];

    if (!handle)
        return tt_fail(TUTTI_ERR_INVALID, "%s: window is NULL", call);
    if (atomic_load(&s->handle) != number_of(handle))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: invalid window handle: already freed, or not from tutti_window_create",
                       call);
    *out = s->window;
    return tt_comm_check(s->window->comm, call);
}

tutti_status tt_window_status(const struct tt_window *w)
{
    char why[TT_ERROR_BYTES];
    const tutti_status st = tt_context_status(w->comm->context, NULL, 0);

    if (st == TUTTI_OK)
        return st;
    tt_context_status(w->comm->context, why, sizeof why);
    return tt_fail_again(st, why);
}

tutti_status tt_window_take(tutti_window *handle, const char *call, struct tt_window **out)
{
    struct tt_window *w = NULL;
    tutti_status st = tt_window_find_handle(handle, call, &w);

    if (!st)
        st = tt_window_status(w);
    if (!st)
        *out = w;
    return st;
}

tutti_status tt_window_take_rank(tutti_window *handle, int rank, const char *call,
                                 struct tt_window **out)
{
    struct tt_window *w = NULL;
    const tutti_status st = tt_window_take(handle, call, &w);

    if (st)
        return st;
    if (rank < 0 || (uint32_t)rank >= w->comm->nranks)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: rank %d is out of range: the communicator has %u ranks", call, rank,
                       w->comm->nranks);
    *out = w;
    return TUTTI_OK;
}

/* ---- bounds ---- */

tutti_status tt_window_check(const struct tt_window *w, uint32_t rank, uint64_t offset,
                             uint64_t bytes, const char *call)
{
    if (tt_window_holds(w->cards[rank].bytes, offset, bytes))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "%s: %llu bytes at offset %llu are outside the window of rank %u (%llu bytes)",
                   call, (unsigned long long)bytes, (unsigned long long)offset, rank,
                   (unsigned long long)w->cards[rank].bytes);
}

tutti_status tt_window_check_own(const void *mem, uint64_t bytes, const char *what)
{
    if (tt_memory_can_be(mem, bytes))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID, "%s: %llu bytes at %p do not fit in the address space", what,
                   (unsigned long long)bytes, mem);
}

tutti_status tt_window_check_word(const struct tt_window *w, uint32_t rank, uint64_t offset,
                                  uint64_t width, const char *call)
{
    const tutti_status st = tt_window_check(w, rank, offset, width, call);

    if (st)
        return st;
    if (w->cards[rank].device)
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "%s: the window of rank %u is device memory, which signals and atomics do "
                       "not support (use a window of host memory: "
                       "tutti_rma.signal_window)",
                       call, rank);
    if (offset % width)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: offset %llu is misaligned: must be a multiple of %llu", call,
                       (unsigned long long)offset, (unsigned long long)width);
    if (!w->cards[rank].aligned)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: the memory of rank %u is misaligned for signals and atomics: it must "
                       "be 8-byte aligned",
                       call, rank);
    return TUTTI_OK;
}

/* ---- ways to reach ranks --------------------------------------------------------------------- */

static const struct tt_window_key *key_for(const struct tt_window_card *card,
                                           const struct tt_wire *wire)
{
    for (uint32_t i = 0; i < TT_ENGINE_WIRES_MAX; i++)
        if (card->keys[i].bytes &&
            strncmp(card->keys[i].wire, wire->ops->name, sizeof card->keys[i].wire) == 0)
            return &card->keys[i];
    return NULL;
}

/* Narrows the key of a region to the window's bytes, which begin at `offset` in it. Returns false
 * if they exceed the region, or if it is not mapped. */
static bool enter_region(struct tt_rkey *key, uint64_t offset, uint64_t bytes)
{
    if (offset > key->bytes || bytes > key->bytes - offset || (offset && !key->mapped))
        return false;
    if (offset)
        key->mapped = (uint8_t *)key->mapped + offset;
    key->bytes -= offset;
    return true;
}

/* Determines the way to the part of a rank, once the link is up. */
static tutti_status find_way(struct tt_window *w, uint32_t rank, struct tt_wire *wire,
                             struct tt_window_way *way)
{
    struct tt_window_peer *p = tt_window_peer_of(w->home, tt_window_job_rank(w, rank));
    const struct tt_window_key *key = key_for(&w->cards[rank], wire);
    struct tt_blob blob = { 0 };
    tutti_status st;

    if (!p)
        return TUTTI_ERR_NOMEM;
    if (!key) {
        way->by_mail = way->known = true;
        return TUTTI_OK;
    }
    blob.bytes = key->bytes;
    memcpy(blob.data, key->data, key->bytes);
    st = p->no_direct ? TUTTI_ERR_UNSUPPORTED : wire->ops->import(wire, p->rank, &blob, &way->key);
    if (st == TUTTI_OK &&
        !enter_region(&way->key, key == w->cards[rank].keys ? w->cards[rank].offset : 0,
                      w->cards[rank].bytes))
        return tt_fail(
            TUTTI_ERR_PROTOCOL,
            "protocol error: rank %u sent a key of %llu bytes for a window of %llu at offset %llu",
            rank, (unsigned long long)way->key.bytes, (unsigned long long)w->cards[rank].bytes,
            (unsigned long long)w->cards[rank].offset);
    if (st && st != TUTTI_ERR_UNSUPPORTED)
        return st;
    p->no_direct = way->by_mail = st == TUTTI_ERR_UNSUPPORTED;
    way->known = true;
    return TUTTI_OK;
}

tutti_status tt_window_reach(struct tt_window *w, uint32_t rank, struct tt_window_way **way,
                             struct tt_engine_client_link *link)
{
    tutti_status st = tt_engine_client_reach(w->home->engine, tt_window_job_rank(w, rank), link);

    *way = &w->ways[rank];
    if (st || (*way)->known)
        return st;
    st = find_way(w, rank, link->wire, *way);
    /* the wire has already detected the loss; the next poll reports it, after reading the reason */
    return st == TUTTI_ERR_PEER_LOST ? TUTTI_PENDING : st;
}

void tt_window_destroy(struct tt_window *w)
{
    /* in reverse order, since the first one may own the memory */
    for (uint32_t i = TT_ENGINE_WIRES_MAX; i-- > 0;)
        if (w->regions[i])
            w->regions[i]->wire->ops->dereg(w->regions[i]);
    free(w->cards);
    free(w->ways);
    free(w);
}
