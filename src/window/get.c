/* Gets and atomics: by the processor if the memory is mapped, by the wire if it supports them,
 * else by message. */
#include <string.h>

#include "base/checked.h"
#include "base/status.h"
#include "reduce/reduce.h"
#include "window/window.h"
#include "window/fence.h"
#include "window/handle.h"
#include "window/peer.h"
#include "window/request.h"
#include "window/transfer.h"
#include "wire/registry.h"

/* ---- fences ---------------------------------------------------------------------------------- */

/* The last fence before the call. Later fences, of other threads, do not delay it. */
struct behind {
    bool known;                 /* fence_tick is set */
    uint64_t fence_tick;        /* 0: none, or everything before it has landed */
};

/* Returns the rank's peer, with all fences recorded. PENDING in *st also while queued puts to it
 * precede a fence before the call. */
static struct tt_window_peer *reach_fenced(struct tt_window *w, uint32_t rank,
                                           struct behind *behind, struct tt_window_way **way,
                                           struct tt_engine_client_link *link, tutti_status *st)
{
    struct tt_window_peer *p;

    *st = tt_window_reach(w, rank, way, link);
    if (*st)
        return NULL;
    p = tt_window_peer_of(w->home, tt_window_job_rank(w, rank));
    if (!p) {
        *st = TUTTI_ERR_NOMEM;
        return NULL;
    }
    tt_window_check_fences(w->home, p);
    if (!behind->known)
        *behind = (struct behind){ .known = true, .fence_tick = p->fence_tick };
    if (tt_window_is_queued(p, behind->fence_tick))
        *st = TUTTI_PENDING;
    return p;
}

/* ---- gets ---- */

struct get {
    struct tt_call_check attempt;
    struct behind behind;
    tutti_rma rma;
    uint64_t offset, bytes, at;     /* at: the first `at` bytes have been requested */
    uint8_t *dst;
    struct tt_window_peer *peer;
    struct tt_window_way *way;
    struct tt_engine_client_link link;
    struct tt_window_transfer *transfer;
    bool begun, by_wire;
};

/* Begins a get. OK: complete, since the memory is mapped. PENDING: begun, or not possible yet. */
static tutti_status get_begin(struct get *g)
{
    struct tt_window *w = g->attempt.window;
    tutti_status st;

    g->peer = reach_fenced(w, g->attempt.rank, &g->behind, &g->way, &g->link, &st);
    if (st)
        return st;
    if (!g->way->by_mail && g->way->key.mapped) {
        if (!tt_window_may_load(w->home, g->peer, &g->link, g->behind.fence_tick))
            return TUTTI_PENDING;
        tt_copy(g->dst, NULL, (uint8_t *)g->way->key.mapped + g->offset, g->bytes, 0);
        return TUTTI_OK;
    }
    g->transfer =
        tt_transfer_begin(w, g->peer, &g->way->failed, g->rma.counter, w->home->tick, &st);
    if (!g->transfer)
        return st;
    g->by_wire = !g->way->by_mail && g->link.wire->caps & TT_WIRE_CAP_GET && !g->peer->mail_fenced;
    if (g->by_wire)
        st = tt_transfer_register(g->transfer, g->link.wire, g->dst, g->bytes);
    g->begun = true;
    return st ? st : TUTTI_PENDING;
}

/* Posts the get, after a fence if required. False: no room. */
static bool get_post(struct get *g, const struct tt_desc *get)
{
    const bool fence = g->peer->fenced && !(g->link.wire->caps & TT_WIRE_CAP_ORDERED);
    const struct tt_desc d[2] = { { .kind = TT_DESC_FENCE, .peer = g->peer->rank }, *get };

    if (g->link.wire->ops->post(g->link.wire, fence ? d : get, 1 + fence) != 1 + fence)
        return false;
    g->peer->fenced = false;
    g->transfer->left++;
    return true;
}

/* Requests the next part. False: no room. */
static bool get_request(struct get *g)
{
    struct tt_window *w = g->attempt.window;
    const uint64_t left = g->bytes - g->at,
                   most = g->by_wire ? TT_WINDOW_SLICE_BYTES : TT_WINDOW_CHUNK_BYTES;
    const uint64_t bytes = left < most ? left : most;
    struct tt_window_message m = {
        .verb = TT_WINDOW_GET, .window = w->id, .offset = g->offset + g->at, .bytes = bytes,
    };
    const struct tt_desc d = {
        .kind = TT_DESC_GET,
        .peer = g->peer->rank,
        .local = g->dst + g->at,
        .bytes = bytes,
        .key = &g->way->key,
        .offset = g->offset + g->at,
        .cookie = tt_transfer_cookie(g->transfer),
    };

    if (g->by_wire ? !get_post(g, &d)
                   : !tt_window_hold_mail(w->home, g->peer) ||
                         !tt_window_send_request(w->home, g->peer, &m, NULL, g->dst + g->at,
                                                 g->transfer, &g->way->failed))
        return false;
    g->at += bytes;
    return true;
}

static bool get_uses(const struct tt_call_check *a, const void *mem, size_t bytes)
{
    const struct get *g = (const struct get *)a;

    return tt_overlap(g->dst, g->bytes, mem, bytes);
}

static tutti_status get_step(struct tt_call_check *a)
{
    struct get *g = (struct get *)a;
    tutti_status st = g->begun
                          ? tt_engine_client_reach(a->window->home->engine, g->peer->rank, &g->link)
                          : get_begin(g);

    if (st > TUTTI_PENDING || !g->begun)
        return st;
    while (g->at < g->bytes && get_request(g))
        ;
    if (g->at < g->bytes)
        return TUTTI_PENDING;
    if (g->transfer->open)
        tt_transfer_close(g->transfer);
    if (g->rma.counter) {       /* the transfer completes and increments the counter without the
                                   call */
        g->transfer = NULL;
        g->rma.counter = NULL;
        return TUTTI_OK;
    }
    return g->transfer->over ? g->transfer->status : TUTTI_PENDING;
}

tutti_status tutti_window_get(tutti_window *window, int rank, size_t offset, void *dst,
                              size_t bytes, const tutti_rma *rma)
{
    struct get g = {
        .attempt = { .call = "tutti_window_get",
                     .rank = (uint32_t)rank,
                     .step = get_step,
                     .uses = get_uses },
        .offset = offset,
        .bytes = bytes,
        .dst = dst,
    };
    const char *call = g.attempt.call;
    struct tt_window *w = NULL;
    tutti_status st = tt_window_take_rank(window, rank, call, &w);

    if (!st)
        st = tt_rma_take(rma, &g.rma, call);
    if (!st && (g.rma.signal_op != TUTTI_SIGNAL_NONE || g.rma.signal_window))
        st = tt_fail(TUTTI_ERR_INVALID,
                     "%s: rma.signal_op and rma.signal_window are not supported for a get", call);
    if (!st && !dst && bytes)
        st = tt_fail(TUTTI_ERR_INVALID, "%s: dst is NULL", call);
    if (!st)
        st = tt_window_check_own(dst, bytes, "tutti_window_get: dst");
    if (!st)
        st = tt_window_check(w, (uint32_t)rank, offset, bytes, call);
    if (!st && bytes && (w->cards[rank].device || tt_registry_is_device(dst, bytes)))
        st = tt_fail(
            TUTTI_ERR_UNSUPPORTED,
            "%s: device memory is not supported for a get, neither as source nor as destination",
            call);
    if (st)
        return st;
    g.attempt.window = w;
    g.attempt.timeout_ms = g.rma.timeout_ms;
    tt_call_check_trace(&g.attempt, TT_OPLOG_GET, bytes);
    if (bytes && (uint32_t)rank == w->comm->rank)
        memmove(dst, w->mem + offset, bytes);
    else if (bytes)
        st = tt_call_check_run_transfer(&g.attempt, &g.transfer);
    if (!st && g.rma.counter)
        tt_window_count(g.rma.counter);
    return st;
}

/* ---- atomics ---- */

/* An atomic that returns the old value. */
struct atomic {
    struct tt_call_check attempt;
    struct behind behind;
    struct tt_window_message m;
    bool asked;
    uint64_t old;
    struct tt_window_transfer *transfer;
};

static tutti_status atomic_step(struct tt_call_check *a)
{
    struct atomic *c = (struct atomic *)a;
    struct tt_window *w = a->window;
    struct tt_window_peer *p;
    struct tt_window_way *way;
    struct tt_engine_client_link link;
    tutti_status st;

    p = reach_fenced(w, a->rank, &c->behind, &way, &link, &st);
    if (st)
        return st;
    if (!way->by_mail && way->key.mapped) {
        if (!tt_window_may_load(w->home, p, &link, c->behind.fence_tick))
            return TUTTI_PENDING;
        c->old = tt_window_change_mapped(&c->m, way->key.mapped, &link);
        return TUTTI_OK;
    }
    if (!c->transfer) {
        c->transfer = tt_transfer_begin(w, p, &way->failed, NULL, w->home->tick, &st);
        if (!c->transfer)
            return st;
    }
    if (!c->asked &&
        (!tt_window_hold_mail(w->home, p) ||
         !tt_window_send_request(w->home, p, &c->m, NULL, NULL, c->transfer, &way->failed)))
        return TUTTI_PENDING;
    c->asked = true;
    if (c->transfer->open)
        tt_transfer_close(c->transfer);
    if (!c->transfer->over)
        return TUTTI_PENDING;
    c->old = c->transfer->old;
    return c->transfer->status;
}

static tutti_status run_atomic(struct atomic *c)
{
    struct tt_window *w = c->attempt.window;

    if (c->attempt.rank != w->comm->rank)
        return tt_call_check_run_transfer(&c->attempt, &c->transfer);
    c->old =
        tt_window_change(w->mem + c->m.offset, c->m.width, c->m.verb, c->m.operand, c->m.compare);
    atomic_store(&w->signals_itself, true);
    tt_engine_client_touch(w->home->engine);
    return TUTTI_OK;
}

tutti_status tutti_window_atomic(tutti_window *window, int rank, size_t offset, size_t bytes,
                                 tutti_atomic_op op, uint64_t operand, uint64_t compare,
                                 uint64_t *old)
{
    const char *call = "tutti_window_atomic";
    struct atomic c = {
        .attempt = { .call = call, .rank = (uint32_t)rank, .step = atomic_step },
        .m = {
            .verb = (uint8_t)(TT_WINDOW_ADD + op), .width = (uint8_t)bytes, .offset = offset, .operand = operand,
            .compare = compare,
        },
    };
    struct tt_window *w = NULL;
    tutti_status st = tt_window_take_rank(window, rank, call, &w);

    if (st)
        return st;
    if ((int)op < TUTTI_ATOMIC_ADD || op > TUTTI_ATOMIC_XOR)
        return tt_fail(TUTTI_ERR_INVALID, "%s: op is %d: must be %d to %d", call, (int)op,
                       TUTTI_ATOMIC_ADD, TUTTI_ATOMIC_XOR);
    if (bytes != 4 && bytes != 8)
        return tt_fail(TUTTI_ERR_INVALID, "%s: bytes is %zu: must be 4 or 8", call, bytes);
    st = tt_window_check_word(w, (uint32_t)rank, offset, bytes, call);
    if (st)
        return st;
    if (op == TUTTI_ATOMIC_ADD && bytes == 8 && !old)   /* supported by wires as a signal */
        return tt_window_signal(w, (uint32_t)rank, offset, TUTTI_SIGNAL_ADD, operand, call);
    c.attempt.window = w;
    c.m.window = w->id;
    if (!old && (uint32_t)rank != w->comm->rank)
        return tt_window_put_atomic(w, (uint32_t)rank, &c.m, call);
    tt_call_check_trace(&c.attempt, TT_OPLOG_ATOMIC, bytes);
    st = run_atomic(&c);
    if (!st && old)
        *old = c.old;
    return st;
}
