#include "window/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "window/peer.h"
#include "wire/registry.h"

/* Cookies of transfers: index and generation. */
#define COOKIE_INDEX_BITS 18
#define COOKIE_GENERATION_BITS 32
#define TRANSFERS_FIRST 64u     /* initial size of the table, which doubles */
#define TRANSFERS_MAX (1u << COOKIE_INDEX_BITS)
_Static_assert(1ull << (COOKIE_INDEX_BITS + COOKIE_GENERATION_BITS) <= TT_COOKIE_MARK,
               "a cookie fits");

void tt_window_count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
}

static void list_transfer(struct tt_window_transfer *t)
{
    struct tt_window_peer *p = t->peer;
    struct tt_window_transfer *older = p->newest;

    while (older && older->tick > t->tick)      /* a put that was queued begins after newer ones */
        older = older->older;
    t->older = older;
    t->newer = older ? older->newer : p->oldest;
    *(older ? &older->newer : &p->oldest) = t;
    *(t->newer ? &t->newer->older : &p->newest) = t;
}

static void unlist_transfer(struct tt_window_transfer *t)
{
    struct tt_window_peer *p = t->peer;

    *(t->older ? &t->older->newer : &p->oldest) = t->newer;
    *(t->newer ? &t->newer->older : &p->newest) = t->older;
}

/* Returns a free entry of the table, which grows if necessary. UINT32_MAX: no room now, or out
 * of memory (NOMEM in *st, logged). */
static uint32_t free_entry(struct tt_windows *home, tutti_status *st)
{
    const uint32_t n = home->ntransfers, more = n ? 2 * n : TRANSFERS_FIRST;
    struct tt_window_transfer **grown;
    uint32_t i = home->next_transfer;

    if (home->transfers_busy < n) {
        while (home->transfers[i])
            i = (i + 1) % n;
        return i;
    }
    if (more > TRANSFERS_MAX)
        return UINT32_MAX;
    grown = realloc(home->transfers, more * sizeof(struct tt_window_transfer *));
    if (!grown) {
        *st = tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for %u transfers", more);
        return UINT32_MAX;
    }
    memset(grown + n, 0, (more - n) * sizeof(struct tt_window_transfer *));
    home->transfers = grown;
    home->ntransfers = more;
    return n;
}

struct tt_window_transfer *tt_transfer_begin(struct tt_window *w, struct tt_window_peer *peer,
                                             tutti_status *failed, uint64_t *counter, uint64_t tick,
                                             tutti_status *st)
{
    struct tt_windows *home = w->home;
    struct tt_window_transfer *t;
    uint32_t i;

    *st = TUTTI_PENDING;
    i = peer->ntransfers < TT_WINDOW_TRANSFERS ? free_entry(home, st) : UINT32_MAX;
    if (i == UINT32_MAX)
        return NULL;
    t = calloc(1, sizeof *t);
    if (!t) {
        *st = tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for a transfer");
        return NULL;
    }
    *t = (struct tt_window_transfer){
        .window = w,
        .peer = peer,
        .tick = tick,
        .index = i,
        .generation = home->generation++,
        .open = true,
        .waited = !counter,
        .counter = counter,
        .failed = failed,
    };
    home->transfers[i] = t;
    home->next_transfer = (i + 1) % home->ntransfers;
    home->transfers_busy++;
    peer->ntransfers++;
    list_transfer(t);
    *st = TUTTI_OK;
    return t;
}

tutti_status tt_transfer_register(struct tt_window_transfer *t, struct tt_wire *wire,
                                  const void *mem, uint64_t bytes)
{
    struct tt_region **more = realloc(t->regions, (t->nregions + 1) * sizeof(struct tt_region *));
    tutti_status st;

    if (!more)
        return tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for a transfer");
    t->regions = more;
    st = wire->caps & TT_WIRE_CAP_PINS ? tt_registry_check_use(mem, bytes) : TUTTI_OK;
    if (st == TUTTI_OK)
        st = tt_wire_source(wire, (void *)(uintptr_t)mem, bytes, &t->regions[t->nregions]);
    if (st == TUTTI_OK)
        t->nregions++;
    return st;
}

uint64_t tt_transfer_cookie(const struct tt_window_transfer *t)
{
    return TT_CLIENT_COOKIE | (uint64_t)t->generation << COOKIE_INDEX_BITS | t->index;
}

static void free_transfer(struct tt_window_transfer *t)
{
    t->window->home->transfers[t->index] = NULL;
    t->window->home->transfers_busy--;
    t->peer->ntransfers--;
    free(t);
}

/* Releases the caller's memory. */
static void release_memory(struct tt_window_transfer *t)
{
    for (uint32_t i = 0; i < t->nregions; i++)
        t->regions[i]->wire->ops->dereg(t->regions[i]);
    free(t->regions);
    t->regions = NULL;
    t->nregions = 0;
}

static void end_if_done(struct tt_window_transfer *t)
{
    if (t->open || t->left > 0)
        return;
    release_memory(t);
    t->over = true;
    unlist_transfer(t);
    if (t->status)
        *t->failed = t->status;
    else if (t->counter)
        tt_window_count(t->counter);
    if (!t->waited)
        free_transfer(t);
}

void tt_transfer_part(struct tt_window_transfer *t, tutti_status status)
{
    t->left--;
    if (status && !t->status)
        t->status = status;
    end_if_done(t);
}

void tt_transfer_close(struct tt_window_transfer *t)
{
    t->open = false;
    if (!t->waited && t->left > 0)
        tt_engine_client_left_unfinished(t->window->home->engine);
    end_if_done(t);
}

void tt_transfer_leave(struct tt_window_transfer *t)
{
    if (t->over) {
        free_transfer(t);
        return;
    }
    t->waited = false;
    if (t->open)
        tt_transfer_close(t);
}

void tt_transfers_drop(struct tt_window *w)
{
    struct tt_windows *home = w->home;

    for (uint32_t r = 0; r < home->nranks; r++)
        for (uint32_t i = 0; home->peers[r] && i < TT_WINDOW_REQUESTS_MAX; i++) {
            struct tt_window_pending *a = &home->peers[r]->asked[i];

            if (a->busy && a->window == w->id) {
                a->to = NULL;
                a->transfer = NULL;
                a->failed = NULL;
            }
        }
    for (uint32_t i = 0; i < home->ntransfers; i++) {
        struct tt_window_transfer *t = home->transfers[i];

        if (!t || t->window != w)
            continue;
        release_memory(t);
        if (!t->over)
            unlist_transfer(t);
        free_transfer(t);
    }
}

void tt_transfer_done(struct tt_windows *home, const struct tt_done *d)
{
    struct tt_window_transfer *t = d->cookie % TRANSFERS_MAX < home->ntransfers
                                       ? home->transfers[d->cookie % TRANSFERS_MAX]
                                       : NULL;

    if (t && d->kind == TT_DONE_LOCAL &&
        t->generation == (uint32_t)(d->cookie >> COOKIE_INDEX_BITS) && t->left)
        tt_transfer_part(t, d->status);
}
