#include "engine/context_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/context.h"
#include "engine/op_trace.h"
#include "engine/peers.h"
#include "engine/progress_lock.h"

#define ENDINGS_NAP_MS_MAX 50

/* ---- memory of failed operations ------------------------------------------------------------- */

void tt_flow_free(struct tt_engine *e, struct tt_peer *p, int handle, const struct tt_bounce *l)
{
    tt_peer_free_handle(p, handle);
    tt_bounce_put(e->pool[tt_op_wire_index(e, p->wire)], l);
}

void tt_flow_abandon(struct tt_context *c, struct tt_flow *f)
{
    struct tt_peer *p = f->cp->peer;

    if (f->cp->ended || p->state == TT_PEER_LEFT) {
        tt_flow_free(c->engine, p, f->in_handle, &f->landing);
        return;
    }
    if (!p->abandoned)
        p->abandoned = calloc(TT_HANDLES, sizeof *p->abandoned);
    if (!p->abandoned)
        return;                 /* the handle and memory are never reused */
    p->abandoned[f->in_handle] =
        (struct tt_abandoned){ .used = true, .context = c->id, .landing = f->landing };
    p->nabandoned++;
}

/* Reclaims the handles and memory that failed operations of context `id` (any: of all contexts)
 * have abandoned to p. */
static void reclaim_abandoned(struct tt_engine *e, struct tt_peer *p, bool any, uint32_t id)
{
    for (uint32_t i = 0; i < TT_HANDLES && p->nabandoned; i++) {
        struct tt_abandoned *a = &p->abandoned[i];

        if (!a->used || (!any && a->context != id))
            continue;
        tt_flow_free(e, p, (int)i, &a->landing);
        a->used = false;
        p->nabandoned--;
    }
}

void tt_peer_context_ended(struct tt_engine *e, struct tt_peer *p, uint32_t id)
{
    const struct tt_context *c = tt_context_find(e, id);
    struct tt_context_peer *cp = c ? tt_sparse_get(&c->peers, p->rank) : NULL;

    if (cp)
        cp->ended = true;
    reclaim_abandoned(e, p, false, id);
}

void tt_peer_has_left(struct tt_engine *e, struct tt_peer *p)
{
    reclaim_abandoned(e, p, true, 0);
}

void tt_peer_free_ended(struct tt_peer *p)
{
    free(p->handles);
    free(p->abandoned);
    free(p->endings);
}

/* ---- notification of peers ------------------------------------------------------------------- */

static bool send_ended(struct tt_peer *p, uint32_t id)
{
    struct tt_cell cell = { .context = id };

    return tt_mail_send(&p->mail, &cell, TT_CELL_ENDED, 0, NULL, 0);
}

/* Queues the notification for p. False: out of memory. */
static bool queue_ended(struct tt_peer *p, uint32_t id)
{
    for (uint32_t i = 0; i < p->nendings; i++)
        if (p->endings[i] == id)
            return true;
    if (p->nendings == p->endings_cap) {
        const uint32_t cap = p->endings_cap ? 2 * p->endings_cap : 8;
        uint32_t *more = cap > TT_ENDINGS_MAX ? NULL : realloc(p->endings, cap * sizeof *more);

        if (!more)
            return false;
        p->endings = more;
        p->endings_cap = cap;
    }
    p->endings[p->nendings++] = id;
    return true;
}

void tt_context_notify_ended(struct tt_engine *e, struct tt_peer *p, uint32_t id)
{
    if (p->state != TT_PEER_UP || (p->nendings == 0 && send_ended(p, id)))
        return;
    if (queue_ended(p, id)) {
        e->endings_due = true;
        e->endings_nap_ms = 1;
    } else {
        tt_log(TT_LOG_WARN,
               "out of memory for a notification: rank %u keeps memory of an ended communicator",
               p->rank);
    }
}

void tt_context_retry_ended(struct tt_engine *e)
{
    e->endings_due = false;
    if (e->endings_nap_ms < ENDINGS_NAP_MS_MAX)
        e->endings_nap_ms++;
    for (struct tt_peer *p = e->up; p; p = p->next_up) {
        if (p->state != TT_PEER_UP)
            p->nendings = 0;
        while (p->nendings && send_ended(p, p->endings[p->nendings - 1]))
            p->nendings--;
        e->endings_due |= p->nendings > 0;
    }
}

void tt_context_ended(struct tt_context *c)
{
    for (struct tt_peer *p = c->engine->up; p; p = p->next_up) {
        struct tt_context_peer *cp = tt_sparse_get(&c->peers, p->rank);

        if (!cp || !cp->must_notify_end)
            continue;
        cp->must_notify_end = false;
        tt_context_notify_ended(c->engine, p, c->id);
    }
}

/* ---- failure --------------------------------------------------------------------------------- */

const char *tt_context_why(const struct tt_context *c)
{
    return c->why ? c->why : "out of memory for the message of this failure";
}

/* Logs the failure of a communicator. A loss that fails many communicators is logged once. In
 * elastic runs a loss is a warning, because each call returns its outcome. */
static void log_failure(struct tt_engine *e, tutti_status status, const char *sentence)
{
    if (status == TUTTI_ERR_ABORTED ||
        (status == TUTTI_ERR_PEER_LOST && strcmp(sentence, e->loss_logged) == 0))
        return;
    if (status == TUTTI_ERR_PEER_LOST)
        snprintf(e->loss_logged, sizeof e->loss_logged, "%s", sentence);
    tt_log(status == TUTTI_ERR_PEER_LOST && e->members ? TT_LOG_WARN : TT_LOG_ERROR, "%s: %s",
           tutti_status_name(status), sentence);
}

void tt_context_fail_here(struct tt_context *c, tutti_status status, const char *sentence,
                          bool notify)
{
    if (atomic_load(&c->status) == TUTTI_OK) {
        c->why = strdup(sentence);
        atomic_store(&c->status, (int)status);
        log_failure(c->engine, status, sentence);
        tt_context_trace_failure(c, status, sentence);
        if (notify && c->engine->hooks.failed)
            c->engine->hooks.failed(c->engine->hooks.arg, c->id, status, sentence);
    }
    c->engine->end_operations(c);
    tt_context_ended(c);
}

void tt_context_fail(struct tt_context *c, tutti_status status, const char *sentence)
{
    tt_progress_lock(c->engine);
    tt_context_fail_here(c, status, sentence, true);
    tt_progress_unlock(c->engine);
}

tutti_status tt_context_status(const struct tt_context *c, char *why, size_t why_bytes)
{
    const tutti_status st = (tutti_status)atomic_load(&((struct tt_context *)(uintptr_t)c)->status);

    if (why)
        snprintf(why, why_bytes, "%s", st ? tt_context_why(c) : "");
    return st;
}
