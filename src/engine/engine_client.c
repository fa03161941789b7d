#include "engine/engine_client.h"

#include <sched.h>

#include "engine/connect.h"
#include "engine/op_trace.h"
#include "engine/peers.h"
#include "engine/progress.h"
#include "engine/failure.h"

#define CALLS_PER_PASS 16

_Static_assert(TT_CLIENT_COOKIE >> TT_CLIENT_COOKIE_BITS == TT_OPS_MAX,
               "no operation uses the slot of the client");
_Static_assert(TT_CLIENT_MAIL_BYTES <= TT_INLINE_BYTES, "a message is put inline");

const struct tt_engine_client *tt_engine_register_client(struct tt_engine *e,
                                                         const struct tt_engine_client *g)
{
    tt_progress_lock(e);
    if (!e->guest)
        e->guest = g;
    g = e->guest;
    tt_progress_unlock(e);
    return g;
}

const struct tt_engine_client *tt_engine_client_of(struct tt_engine *e)
{
    const struct tt_engine_client *g;

    tt_progress_lock(e);
    g = e->guest;
    tt_progress_unlock(e);
    return g;
}

void tt_engine_client_expects(struct tt_engine *e, bool begins)
{
    e->expected += begins ? 1u : -1u;
}

void tt_engine_client_enter(struct tt_engine *e)
{
    tt_progress_lock(e);
}

void tt_engine_client_leave(struct tt_engine *e)
{
    tt_progress_unlock(e);
}

/* Makes progress in every CALLS_PER_PASS-th call. The progress thread does not run while calls use
 * the progress lock, even if they make no progress. */
static void serve_peers(struct tt_engine *e)
{
    if (++e->guest_calls % CALLS_PER_PASS == 0)
        tt_engine_progress(e);
}

void tt_engine_client_touch(struct tt_engine *e)
{
    tt_progress_lock(e);
    serve_peers(e);
    tt_progress_unlock(e);
}

void tt_engine_client_until(struct tt_engine *e, bool (*attempt)(void *arg), void *arg)
{
    bool over = false;

    while (!over) {
        tt_progress_lock(e);
        serve_peers(e);
        over = tt_engine_work(e, attempt, arg);
        tt_progress_unlock(e);
        while (!over && atomic_load(&e->urgent))
            sched_yield();
    }
}

void tt_engine_client_wait(struct tt_engine *e, bool (*is_over)(void *arg), void *arg)
{
    tt_engine_wait(e, is_over, arg);
}

void tt_engine_client_due(struct tt_engine *e, uint64_t deadline_ns)
{
    uint64_t due_ns = atomic_load_explicit(&e->guest_due_ns, memory_order_relaxed);

    while (deadline_ns < due_ns &&
           !atomic_compare_exchange_weak(&e->guest_due_ns, &due_ns, deadline_ns))
        ;
}

void tt_engine_client_progress(struct tt_engine *e)
{
    if (!tt_progress_trylock(e))
        return;
    tt_engine_progress(e);
    tt_progress_unlock(e);
}

void tt_engine_client_left_unfinished(struct tt_engine *e)
{
    e->unfinished = true;
}

void tt_engine_client_wake(struct tt_engine *e)
{
    tt_engine_wake(e);
}

void tt_engine_client_gather(struct tt_engine *e, bool begins)
{
    for (uint32_t i = 0; i < e->nwires; i++)
        e->wire[i]->together = e->wire[i]->gathers = begins;
    for (uint32_t i = 0; i < e->nwires && !begins; i++)
        e->wire[i]->ops->post(e->wire[i], NULL, 0);
}

struct tt_oplog_writer *tt_engine_client_trace_writer(struct tt_engine *e)
{
    return &e->oplog;
}

uint32_t tt_engine_client_trace_rank(const struct tt_engine *e, uint32_t rank)
{
    return tt_engine_trace_rank(e, rank);
}

struct tt_wire *tt_engine_client_wire(struct tt_engine *e, uint32_t i)
{
    return i < e->nwires ? e->wire[i] : NULL;
}

const struct tt_region *tt_engine_client_allocated(const struct tt_engine *e, const void *mem,
                                                   uint64_t bytes, uint64_t *offset)
{
    for (uint32_t i = 0; i < e->nallocated; i++) {
        const struct tt_region *r = e->allocated[i];
        const uint64_t at = (uint64_t)((uintptr_t)mem - (uintptr_t)r->mem);

        if ((uintptr_t)mem < (uintptr_t)r->mem || at > r->bytes || bytes > r->bytes - at)
            continue;
        *offset = at;
        return r;
    }
    return NULL;
}

tutti_status tt_engine_client_reach(struct tt_engine *e, uint32_t rank,
                                    struct tt_engine_client_link *out)
{
    struct tt_peer *p = tt_peer_of(e, rank);

    if (!p)
        return TUTTI_ERR_NOMEM;
    if (p->state == TT_PEER_NONE)
        tt_peer_connect(e, p);
    if (p->state == TT_PEER_LOST || tt_peer_is_gone(e, p))
        return TUTTI_ERR_PEER_LOST;
    if (p->state != TT_PEER_UP)
        return TUTTI_PENDING;
    *out = (struct tt_engine_client_link){ .wire = p->wire,
                                           .theirs = &p->mail.theirs,
                                           .word = TT_LINK_HEAD };
    return TUTTI_OK;
}

bool tt_engine_client_is_linked(const struct tt_engine *e, uint32_t rank)
{
    const struct tt_peer *p = tt_peer_get(e, rank);

    return p && p->state == TT_PEER_UP;
}

bool tt_engine_client_send(struct tt_engine *e, uint32_t rank, const void *payload, uint32_t bytes)
{
    struct tt_peer *p = tt_peer_get(e, rank);
    struct tt_cell cell = { 0 };

    tt_assert(p && p->state == TT_PEER_UP && bytes <= TT_CLIENT_MAIL_BYTES);
    return tt_mail_send(&p->mail, &cell, TT_CELL_CLIENT, 0, payload, bytes);
}

bool tt_engine_client_fence(struct tt_engine *e, uint32_t rank)
{
    struct tt_peer *p = tt_peer_get(e, rank);
    struct tt_cell cell = { 0 };

    tt_assert(p && p->state == TT_PEER_UP);
    return tt_mail_send(&p->mail, &cell, TT_CELL_FENCE, 0, NULL, 0);
}
