/* Transfers in progress, and requests of peers: the engine's client. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "reduce/reduce.h"
#include "window/queue.h"
#include "window/window.h"
#include "window/handle.h"
#include "window/peer.h"
#include "window/put.h"
#include "window/request.h"
#include "window/transfer.h"
#include "wire/registry.h"

/* ---- callbacks of the engine ----------------------------------------------------------------- */

/* Wakes waiters whose condition is true: they may sleep while another thread makes progress. */
static bool wake_ready_waiters(struct tt_windows *home)
{
    bool any = false;

    for (struct tt_window_waiter *w = home->waiters; w; w = w->next) {
        const bool ready = w->is_ready(w);

        any |= ready && !w->told;
        w->told = ready;
    }
    if (any)
        tt_engine_client_wake(home->engine);
    return any;
}

/* ---- queued puts ---- */

/* Steps the oldest put of the peer. PENDING: not over. A failure is stored where the rank's
 * quiet finds it; a failed communicator is reported by its own calls. */
static tutti_status step_first(struct tt_window_peer *peer)
{
    struct tt_window_put *p = tt_window_queue_first(peer);
    struct tt_window *w = p->attempt.window;
    tutti_status st = tt_context_status(w->comm->context, NULL, 0);

    if (!st)
        st = tt_window_put_go_on(p);
    if (st == TUTTI_PENDING)
        return st;
    if (!st && p->rma.counter)
        tt_window_count(p->rma.counter);
    else if (st && !tt_context_status(w->comm->context, NULL, 0))
        w->ways[p->attempt.rank].failed = st;
    if (st && p->transfer)
        p->transfer->counter = NULL;
    tt_window_queue_remove_first(peer);
    return TUTTI_OK;
}

static bool run_queues(struct tt_windows *home)
{
    bool any = false;

    for (struct tt_window_peer *p = home->queued, *next; p; p = next) {
        next = p->next_queued;
        while (p->queue && step_first(p) == TUTTI_OK)
            any = true;
    }
    if (any)
        tt_engine_client_wake(home->engine);
    return any;
}

static bool home_run(void *arg)
{
    struct tt_windows *home = arg;
    bool any = wake_ready_waiters(home);

    any |= run_queues(home);
    any |= tt_window_send_replies(home);
    return any;
}

static bool has_news(void *arg)
{
    const struct tt_windows *home = arg;

    for (const struct tt_window_waiter *w = home->waiters; w; w = w->next)
        if (!w->told && w->is_ready(w))
            return true;
    return false;
}

static bool is_stuck(void *arg)
{
    const struct tt_windows *home = arg;

    return home->nattempts > 0 || home->nanswers > 0 || home->queued;
}

static bool home_receive(void *arg, uint32_t from, const void *payload, uint32_t bytes)
{
    return tt_window_receive(arg, from, payload, bytes);
}

static void home_handle_completion(void *arg, const struct tt_done *d)
{
    if (d->cookie & TT_COOKIE_MARK)
        tt_window_mark_done(arg, d);
    else
        tt_transfer_done(arg, d);
}

static bool uses(void *arg, const void *mem, size_t bytes)
{
    return tt_windows_use(arg, mem, bytes);
}

static void window_end(struct tt_window *w)
{
    if (w->ndevices > 0)
        tt_log(TT_LOG_ERROR, "a window, or its communicator, was destroyed while a device uses it "
                             "(call tutti_device_destroy first)");
    tt_assert(w->ndevices == 0);
    tt_window_invalidate(w);
    tt_window_queue_drop(w);
    tt_transfers_drop(w);
    tt_window_destroy(w);
}

/* A communicator was destroyed before its windows: destroys them as well. */
static bool close_context(void *arg, const struct tt_context *c)
{
    struct tt_windows *home = arg;
    struct tt_window **at = &home->first;
    bool any = false;

    while (*at) {
        struct tt_window *w = *at;

        if (w->comm->context != c) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        tt_engine_client_expects(home->engine, false);
        window_end(w);
        any = true;
    }
    return any;
}

static void close_windows(void *arg)
{
    struct tt_windows *home = arg;

    while (home->first) {
        struct tt_window *w = home->first;

        home->first = w->next;
        window_end(w);
    }
    for (uint32_t r = 0; r < home->nranks; r++)
        free(home->peers[r]);
    free(home->peers);
    free(home->transfers);
    free(home);
}

tutti_status tt_windows_of(struct tt_world *world, struct tt_windows **out)
{
    const struct tt_engine_client *there = tt_engine_client_of(world->engine);
    struct tt_windows *home;

    if (there) {
        *out = there->arg;
        return TUTTI_OK;
    }
    if (world->nranks > TT_MARK_MASK)
        return tt_fail(
            TUTTI_ERR_UNSUPPORTED,
            "tutti_window_create: a job of %u ranks is too large: windows support at most %u",
            world->nranks, TT_MARK_MASK);
    home = calloc(1, sizeof *home);
    if (home)
        home->peers = calloc(world->nranks, sizeof(struct tt_window_peer *));
    if (!home || !home->peers) {
        free(home);
        return tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for a job of %u ranks",
                       world->nranks);
    }
    home->engine = world->engine;
    home->rank = world->rank;
    home->nranks = world->nranks;
    home->client = (struct tt_engine_client){
        .arg = home,
        .run = home_run,
        .has_news = has_news,
        .is_stuck = is_stuck,
        .mail = home_receive,
        .done = home_handle_completion,
        .uses = uses,
        .close_context = close_context,
        .close = close_windows,
    };
    there = tt_engine_register_client(world->engine, &home->client);
    if (there != &home->client) {    /* another thread was faster */
        free(home->peers);
        free(home);
    }
    *out = there->arg;
    return TUTTI_OK;
}

