#include "window/window.h"
#include "window/handle.h"
#include "window/queue.h"
#include "window/request.h"
#include "window/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/comm_trace.h"
#include "trace/comms.h"
#include "wire/registry.h"

/* ---- creation and destruction ---------------------------------------------------------------- */

/* Uses the peers' existing mapping of memory of tutti_mem_alloc, if its wire maps memory. */
static bool borrow_region(struct tt_window *w, const struct tt_wire *wire, const void *mem)
{
    const bool can = mem && w->bytes && (wire->caps & TT_WIRE_CAP_MAPPED);

    w->borrowed =
        can ? tt_engine_client_allocated(w->home->engine, mem, w->bytes, &w->borrowed_offset)
            : NULL;
    return w->borrowed;
}

/* Registers this rank's part with every wire that supports it. Allocates it with the preferred
 * wire if the caller has no memory. The caller holds the progress lock. */
static tutti_status expose_own(struct tt_window *w, void *mem)
{
    struct tt_wire *wire;
    bool any = false;

    for (uint32_t i = 0; (wire = tt_engine_client_wire(w->home->engine, i)); i++) {
        const bool allocates = !mem;
        tutti_status st;

        if (w->device && !(wire->caps & TT_WIRE_CAP_DEVICE))
            continue;
        if (i == 0 && borrow_region(w, wire, mem))
            continue;
        if (!allocates && (w->bytes == 0 || !(wire->caps & TT_WIRE_CAP_ANYMEM)))
            continue;
        st = wire->ops->reg(wire, mem, w->bytes ? w->bytes : 1, &w->regions[i]);
        if (st && (allocates || (st != TUTTI_ERR_UNSUPPORTED && st != TUTTI_ERR_NOMEM)))
            /* memory that a wire must not pin, or cannot access, is reached by message */
            return st;
        if (allocates)
            mem = w->regions[i]->mem;
        any |= !st;
    }
    if (w->device && !any)
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "tutti_window_create: no transport could register %llu bytes of device "
                       "memory at %p",
                       (unsigned long long)w->bytes, mem);
    w->mem = mem;
    return TUTTI_OK;
}

static void fill_card(struct tt_window *w, tutti_status st, struct tt_window_card *card)
{
    *card = (struct tt_window_card){
        .bytes = w->bytes,
        .status = (uint32_t)st,
        .id = tt_engine_new_context(w->home->engine),
        .aligned = (uintptr_t)w->mem % 8 == 0,
        .device = w->device,
        .offset = w->borrowed ? w->borrowed_offset : 0,
    };
    for (uint32_t i = 0; i < TT_ENGINE_WIRES_MAX && !st; i++) {
        const struct tt_region *r = i == 0 && w->borrowed ? w->borrowed : w->regions[i];

        if (!r)
            continue;
        snprintf(card->keys[i].wire, sizeof card->keys[i].wire, "%s", r->wire->ops->name);
        card->keys[i].bytes = (uint8_t)r->key.bytes;
        memcpy(card->keys[i].data, r->key.data, r->key.bytes);
    }
}

/* Checks whether all ranks have created their parts; st is this rank's status. Cards come from
 * peers: their keys are checked before use. */
static tutti_status check_cards(struct tt_window *w, tutti_status st)
{
    for (uint32_t r = 0; r < w->comm->nranks; r++) {
        const struct tt_window_card *c = &w->cards[r];

        if (st == TUTTI_OK && c->status)
            st = tt_fail(
                c->status < TUTTI_STATUS_COUNT ? (tutti_status)c->status : TUTTI_ERR_PROTOCOL,
                "tutti_window_create: rank %u failed to create its part (see the log of that rank)",
                r);
        for (uint32_t i = 0; i < TT_ENGINE_WIRES_MAX; i++)
            if (st == TUTTI_OK && c->keys[i].bytes > TT_KEY_BYTES)
                st = tt_fail(TUTTI_ERR_PROTOCOL,
                             "protocol error: rank %u sent a window key of %u bytes", r,
                             c->keys[i].bytes);
    }
    w->id = w->cards[0].id;
    if (st == TUTTI_OK && !w->id)
        st = tt_fail(TUTTI_ERR_NOMEM, "tutti_window_create: window ids are exhausted");
    return st;
}

tutti_status tt_window_exchange_keys(struct tt_window *w)
{
    const struct tt_window_card mine = w->cards[w->comm->rank];
    tutti_status st = tutti_allgather(&mine, w->cards, sizeof mine, TUTTI_U8, w->comm, NULL);

    if (!st)
        st = check_cards(w, TUTTI_OK);
    tt_engine_client_enter(w->home->engine);
    for (uint32_t r = 0; r < w->comm->nranks; r++)
        w->ways[r].known = false;
    tt_engine_client_leave(w->home->engine);
    return st;
}

/* Adds the window to those that trace records may refer to. In an elastic run its members are
 * omitted: they are those of its communicator. */
static void window_trace_open(struct tt_window *w)
{
    const uint64_t of_window = 1ull << 32,
                   hash = tt_mix64(tt_engine_trace_id(w->home->engine) + of_window + w->id);
    const tutti_comm *c = w->comm;

    w->trace = tt_comms_add(&(struct tt_comms_info){ .hash = hash ? hash : 1,
                                                     .of = TT_COMMS_WINDOW,
                                                     .rank = c->rank,
                                                     .nranks = c->nranks,
                                                     .ranks = c->ranks });
}

/* Adds the window to the list, or removes it: peers may use it only while it is listed. */
static void list_window(struct tt_window *w)
{
    window_trace_open(w);
    tt_engine_client_enter(w->home->engine);
    w->next = w->home->first;
    w->home->first = w;
    tt_engine_client_expects(w->home->engine, true);
    tt_engine_client_leave(w->home->engine);
}

static void unlist_and_destroy(struct tt_window *w)
{
    struct tt_engine *e = w->home->engine;
    struct tt_window **at = &w->home->first;

    tt_engine_client_enter(e);
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at) {
        *at = w->next;
        tt_engine_client_expects(e, false);
    }
    tt_window_queue_drop(w);
    tt_transfers_drop(w);
    tt_comms_close(w->trace);
    tt_window_destroy(w);
    tt_engine_client_leave(e);
}

static struct tt_window *window_make(struct tt_windows *home, tutti_comm *comm, size_t bytes)
{
    struct tt_window *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    *w = (struct tt_window){ .home = home, .comm = comm, .bytes = bytes };
    w->cards = calloc(comm->nranks, sizeof *w->cards);
    w->ways = calloc(comm->nranks, sizeof *w->ways);
    if (w->cards && w->ways)
        return w;
    tt_window_destroy(w);
    return NULL;
}

/* Prepares this rank's part, as far as possible without other ranks. */
static tutti_status prepare_own(struct tt_window *w, void *mem)
{
    tutti_status st = tt_window_assign_handle(w);

    if (st)
        return st;
    if (!tt_memory_can_be(mem, w->bytes))
        return tt_fail(mem ? TUTTI_ERR_INVALID : TUTTI_ERR_NOMEM,
                       "tutti_window_create: %llu bytes do not fit in the address space",
                       (unsigned long long)w->bytes);
    w->device = tt_registry_is_device(mem, w->bytes);
    tt_engine_client_enter(w->home->engine);
    st = expose_own(w, mem);
    tt_engine_client_leave(w->home->engine);
    return st;
}

static tutti_status window_create(tutti_comm *comm, void *mem, size_t bytes, tutti_window **out)
{
    struct tt_window_card mine;
    struct tt_windows *home = NULL;
    struct tt_window *w = NULL;
    tutti_status st = tt_comm_check(comm, "tutti_window_create");

    if (!st && !out)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_window_create: out is NULL");
    if (!st)
        st = tt_windows_of(comm->world, &home);
    if (st)
        return st;
    w = window_make(home, comm, bytes);
    if (!w)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "tutti_window_create: out of memory for a window of %u ranks", comm->nranks);
    st = prepare_own(w, mem);
    fill_card(w, st, &mine);
    if (tutti_allgather(&mine, w->cards, sizeof mine, TUTTI_U8, comm, NULL) == TUTTI_OK)
        st = check_cards(w, st);
    else if (!st)
        st = tutti_comm_status(comm);
    if (!st) {
        list_window(w);
        st = tutti_barrier(comm, NULL);     /* no rank may use it before all have it */
    }
    if (st) {
        tt_window_invalidate(w);
        unlist_and_destroy(w);
        return st;
    }
    *out = w->handle;
    return TUTTI_OK;
}

tutti_status tutti_window_create(tutti_comm *comm, void *mem, size_t bytes, tutti_window **out)
{
    tutti_status st = tt_comm_enter(comm, "tutti_window_create");
    uint64_t record;

    if (st)
        return st;
    record = comm ? tt_comm_trace_begin(TT_OPLOG_WINDOW_CREATE, comm, 0) : 0;
    st = window_create(comm, mem, bytes, out);
    tt_oplog_end(record, st);
    tt_comm_leave(comm);
    return st;
}

struct leave {
    struct tt_call_check attempt;
    uint32_t at;                /* the ranks before this index were notified */
};

static tutti_status leave_step(struct tt_call_check *a)
{
    struct leave *l = (struct leave *)a;
    struct tt_window *w = a->window;
    const struct tt_window_message m = { .verb = TT_WINDOW_LEAVE, .window = w->id };

    for (; l->at < w->comm->nranks; l->at++) {
        const uint32_t rank = tt_window_job_rank(w, l->at);

        if (l->at != w->comm->rank && tt_engine_client_is_linked(w->home->engine, rank) &&
            !tt_window_send_message(w->home, rank, &m))
            return TUTTI_PENDING;
    }
    return TUTTI_OK;
}

/* Notifies the connected ranks that this rank sends no more signals. A rank that waits for one
 * would otherwise never free the window. */
static tutti_status window_leave(struct tt_window *w)
{
    struct leave l = {
        .attempt = { .window = w,
                     .call = "tutti_window_free",
                     .rank = UINT32_MAX,
                     .step = leave_step },
    };

    return tt_call_check_run(&l.attempt);
}

/* Fails the window on all ranks, because the others would wait for this one. */
static void fail_for_all(const struct tt_window *w, tutti_status st)
{
    char why[TT_ERROR_BYTES];

    if (tt_context_status(w->comm->context, NULL, 0))
        return;
    snprintf(why, sizeof why,
             "rank %u could not free a window together with the other ranks: %.300s", w->comm->rank,
             tutti_last_error());
    tt_context_fail(w->comm->context, st, why);
}

static tutti_status quiet_and_free(tutti_window *handle, struct tt_window *w)
{
    tutti_status st = tutti_window_quiet(handle, TUTTI_ALL_RANKS, 0), undone = TUTTI_OK;

    if (st == TUTTI_ERR_ABORTED && !tt_context_status(w->comm->context, NULL, 0)) {
        /* puts to a rank that had freed its window: reported, but the window is freed normally */
        undone = st;
        st = TUTTI_OK;
    }
    if (!st)
        st = window_leave(w);
    if (st)
        fail_for_all(w, st);
    else
        st = tutti_barrier(w->comm, NULL);
    tt_window_invalidate(w);
    unlist_and_destroy(w);
    return st ? st : undone;
}

tutti_status tutti_window_free(tutti_window *handle)
{
    struct tt_window *w = NULL;
    tutti_comm *comm;
    uint64_t record;
    tutti_status st;

    if (!handle)
        return TUTTI_OK;
    st = tt_window_find_handle(handle, "tutti_window_free", &w);
    if (!st && w->ndevices > 0)
        st = tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_window_free: the window is in use by %u device%s (call tutti_device_destroy "
            "first)",
            w->ndevices, TT_PLURAL(w->ndevices));
    comm = st ? NULL : w->comm;
    if (!st)
        st = tt_comm_enter(comm, "tutti_window_free");
    if (st)
        return st;
    record = tt_comm_trace_begin(TT_OPLOG_WINDOW_FREE, comm, 0);
    st = quiet_and_free(handle, w);
    tt_oplog_end(record, st);
    tt_comm_leave(comm);
    return st;
}

/* ---- accessors ------------------------------------------------------------------------------- */

tutti_status tutti_window_memory(tutti_window *handle, void **mem, size_t *bytes)
{
    struct tt_window *w = NULL;
    const tutti_status st = tt_window_find_handle(handle, "tutti_window_memory", &w);

    if (st)
        return st;
    if (mem)
        *mem = w->mem;
    if (bytes)
        *bytes = w->bytes;
    return TUTTI_OK;
}

tutti_status tutti_window_bytes(tutti_window *handle, int rank, size_t *bytes)
{
    struct tt_window *w = NULL;
    tutti_status st = tt_window_take_rank(handle, rank, "tutti_window_bytes", &w);

    if (!st && !bytes)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_window_bytes: bytes is NULL");
    if (!st)
        *bytes = w->cards[rank].bytes;
    return st;
}

struct reach {
    struct tt_call_check attempt;
    void *mapped;
};

static tutti_status reach_step(struct tt_call_check *a)
{
    struct reach *r = (struct reach *)a;
    struct tt_engine_client_link link;
    struct tt_window_way *way;
    const tutti_status st = tt_window_reach(a->window, a->rank, &way, &link);

    if (st == TUTTI_OK)
        r->mapped = way->by_mail ? NULL : way->key.mapped;
    return st;
}

tutti_status tutti_window_pointer(tutti_window *handle, int rank, void **out)
{
    struct reach r = {
        .attempt = { .call = "tutti_window_pointer", .rank = (uint32_t)rank, .step = reach_step }
    };
    struct tt_window *w = NULL;
    tutti_status st = tt_window_take_rank(handle, rank, r.attempt.call, &w);

    if (!st && !out)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_window_pointer: out is NULL");
    if (st)
        return st;
    r.attempt.window = w;
    if ((uint32_t)rank == w->comm->rank)
        r.mapped = w->mem;
    else
        st = tt_call_check_run(&r.attempt);
    if (!st)
        *out = r.mapped;
    return st;
}
