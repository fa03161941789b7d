/* Life cycle of contexts: open, enter, seal, close. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/context.h"
#include "engine/context_end.h"
#include "engine/op.h"
#include "engine/op_trace.h"
#include "engine/progress_lock.h"
#include "engine/requests.h"
#include "trace/comms.h"

#define STEP_NS 50000   /* polling interval while another thread is inside the context */

uint32_t tt_engine_new_context(struct tt_engine *e)
{
    const uint64_t serial = atomic_fetch_add(&e->serial, 1) + 1, id = serial * e->nranks + e->rank;

    return id >= TT_ENGINE_CONTEXTS_OWN ? 0 : (uint32_t)id;
}

static struct tt_context *context_make(struct tt_engine *e, const uint32_t *ranks, uint32_t nranks)
{
    struct tt_context *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->ranks = malloc(nranks * sizeof *c->ranks);
    if (!c->ranks) {
        free(c);
        return NULL;
    }
    memcpy(c->ranks, ranks, nranks * sizeof *ranks);
    c->nranks = nranks;
    c->engine = e;
    c->active_end = &c->active;
    c->awake_end = &c->awake;
    c->waiting_end = &c->waiting;
    c->failed_by = UINT32_MAX;
    return c;
}

tutti_status tt_context_open(struct tt_engine *e, uint32_t id, const uint32_t *ranks,
                             uint32_t nranks, uint32_t rank, struct tt_context **out)
{
    struct tt_context *made = context_make(e, ranks, nranks);
    uint32_t n = 0;

    if (!made)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a communicator of %u ranks", nranks);
    made->id = id;
    made->rank = rank;
    tt_progress_lock(e);
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        n++;
    if (n < TT_CONTEXTS_MAX) {
        made->next = e->contexts;
        e->contexts = made;
    }
    tt_progress_unlock(e);
    if (n == TT_CONTEXTS_MAX) {
        free(made->ranks);
        free(made);
        return tt_fail(TUTTI_ERR_NOMEM, "too many communicators: the maximum is %u", n);
    }
    tt_context_trace_open(made);
    *out = made;
    return TUTTI_OK;
}

uint16_t tt_context_trace(const struct tt_context *c)
{
    return c->trace;
}

uint64_t tt_context_next_seq(const struct tt_context *c)
{
    return c->next_seq;
}

const uint32_t *tt_context_ranks(const struct tt_context *c)
{
    return c->ranks;
}

void tt_context_free(struct tt_context *c)
{
    struct tt_engine *e = c->engine;
    struct tt_context **at = &e->contexts;
    struct tt_context_peer *cp;
    uint32_t i = 0;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    tt_comms_close(c->trace);
    while ((cp = tt_sparse_next(&c->peers, &i)))
        tt_context_free_peer(cp);
    tt_sparse_fini(&c->peers);
    free(c->copies);
    free(c->history);
    free(c->ranks);
    free(c->why);
    free(c);
}

bool tt_context_is_busy(struct tt_context *c)
{
    bool busy;

    tt_progress_lock(c->engine);
    busy = c->active || c->waiting;
    tt_progress_unlock(c->engine);
    return busy;
}

void tt_context_set_operation(struct tt_context *c, enum tt_op_mode mode, uint32_t tag, uint64_t n)
{
    c->mode = mode;
    c->tag = tag;
    c->n = n;
}

/* ---- threads inside a context ---------------------------------------------------------------- */

void tt_context_guard(struct tt_context *c)
{
    c->guarded = true;
}

tutti_status tt_context_enter(struct tt_context *c, const char *call)
{
    tutti_status st;

    if (!(atomic_fetch_add(&c->inside, 1) & TT_CONTEXT_SEALED))
        return TUTTI_OK;
    /* read before leaving: c may be freed afterwards */
    st = (tutti_status)atomic_load(&c->status);
    st = st ? tt_fail_again(st, tt_context_why(c))
            : tt_fail(TUTTI_ERR_INVALID,
                      "%s: a call that changes the communicator's view is already in progress",
                      call);
    tt_context_leave(c);
    return st;
}

void tt_context_leave(struct tt_context *c)
{
    atomic_fetch_sub(&c->inside, 1);
}

void tt_context_unseal(struct tt_context *c)
{
    atomic_fetch_and(&c->inside, ~TT_CONTEXT_SEALED);
}

bool tt_context_seal(struct tt_context *c)
{
    unsigned nobody = 0;
    bool over = true;

    if (!atomic_compare_exchange_strong(&c->inside, &nobody, TT_CONTEXT_SEALED))
        return false;
    tt_progress_lock(c->engine);
    for (const struct tt_op *op = c->requests; op && over; op = op->next_request)
        over = tt_op_is_over(op);
    tt_progress_unlock(c->engine);
    if (!over)
        tt_context_unseal(c);
    return over;
}

void tt_context_clear(struct tt_context *c)
{
    atomic_fetch_or(&c->inside, TT_CONTEXT_SEALED);
    if (tt_context_is_used(c))
        tt_context_fail(c, TUTTI_ERR_ABORTED, "the communicator was closed during a call");
    while (tt_context_is_used(c))
        nanosleep(&(struct timespec){ .tv_nsec = STEP_NS }, NULL);
}

/* Detaches the requests from the context. Retries while another thread uses one of them. */
static void detach_requests(struct tt_context *c)
{
    while (!tt_ops_orphan(c)) {
        tt_progress_unlock(c->engine);
        nanosleep(&(struct timespec){ .tv_nsec = STEP_NS }, NULL);
        tt_progress_lock(c->engine);
    }
}

void tt_context_close(struct tt_context *c)
{
    struct tt_engine *e = c->engine;

    tt_progress_lock(e);
    if (e->guest && e->guest->close_context(e->guest->arg, c)) {
        char why[96];

        snprintf(why, sizeof why, "rank %u destroyed a communicator before freeing its windows",
                 e->rank);
        tt_context_fail_here(c, TUTTI_ERR_PEER_LOST, why, true);
    }
    if (c->active || c->waiting)
        tt_context_fail_here(c, TUTTI_ERR_ABORTED,
                             "the communicator was destroyed during the operation", true);
    tt_context_ended(c);
    detach_requests(c);
    tt_context_free(c);
    tt_progress_unlock(e);
}
