#include "engine/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "engine/context_teardown.h"
#include "engine/op.h"
#include "engine/op_trace.h"
#include "engine/progress.h"
#include "engine/requests.h"
#include "trace/comms.h"

#define STEP_NS 50000   /* polling interval while another thread is inside the context */

struct tt_context *tt_context_find(struct tt_engine *e, uint32_t id)
{
    struct tt_context *c = e->contexts;

    while (c && c->id != id)
        c = c->next;
    return c;
}

struct tt_context_peer *tt_context_peer_of(struct tt_context *c, uint32_t rank)
{
    struct tt_context_peer *cp = tt_sparse_get(&c->peers, rank);

    if (cp)
        return cp;
    cp = calloc(1, sizeof *cp);
    if (!cp)
        return NULL;
    cp->peer = tt_peer_of(c->engine, rank);
    cp->context = c;
    cp->index = UINT32_MAX;
    if (!cp->peer || !tt_sparse_set(&c->peers, rank, cp)) {
        free(cp);
        return NULL;
    }
    return cp;
}

uint32_t tt_context_index_of(const struct tt_context *c, struct tt_context_peer *cp)
{
    for (uint32_t i = 0; cp->index == UINT32_MAX && i < c->nranks; i++)
        if (c->ranks[i] == cp->peer->rank)
            cp->index = i;
    return cp->index;
}

/* Returns the slot of this counter in a hash table: its own, or the free one where it belongs. */
static struct tt_tag_counter *counter_slot(struct tt_tag_counter *tags, uint32_t cap, uint32_t tag,
                                           bool is_recv)
{
    uint32_t i =
        (uint32_t)(((uint64_t)tag << 1 | is_recv) * 0x9e3779b97f4a7c15ull >> 32) & (cap - 1);

    while (tags[i].used && (tags[i].tag != tag || tags[i].is_recv != is_recv))
        i = (i + 1) & (cap - 1);
    return &tags[i];
}

static bool grow_tags(struct tt_context_peer *cp)
{
    const uint32_t cap = cp->tags_cap ? 2 * cp->tags_cap : 8;
    struct tt_tag_counter *more = cap ? calloc(cap, sizeof *more) : NULL;

    if (!more)
        return false;
    for (uint32_t i = 0; i < cp->tags_cap; i++)
        if (cp->tags[i].used)
            *counter_slot(more, cap, cp->tags[i].tag, cp->tags[i].is_recv) = cp->tags[i];
    free(cp->tags);
    cp->tags = more;
    cp->tags_cap = cap;
    return true;
}

const struct tt_tag_counter *tt_context_counter_find(const struct tt_context_peer *cp, uint32_t tag,
                                                     bool is_recv)
{
    const struct tt_tag_counter *t =
        cp->tags_cap ? counter_slot(cp->tags, cp->tags_cap, tag, is_recv) : NULL;

    return t && t->used ? t : NULL;
}

struct tt_tag_counter *tt_context_counter(struct tt_context_peer *cp, uint32_t tag, bool is_recv)
{
    struct tt_tag_counter *t =
        cp->tags_cap ? counter_slot(cp->tags, cp->tags_cap, tag, is_recv) : NULL;

    if (t && t->used)
        return t;
    if (2 * (cp->ntags + 1) > cp->tags_cap) {
        if (!grow_tags(cp)) {
            tt_fail(TUTTI_ERR_NOMEM, "out of memory for the counters of tag %u", tag);
            return NULL;
        }
        t = counter_slot(cp->tags, cp->tags_cap, tag, is_recv);
    }
    cp->ntags++;
    *t = (struct tt_tag_counter){ .tag = tag, .is_recv = is_recv, .used = true };
    return t;
}

/* ---- unexpected messages --------------------------------------------------------------------- */

/* Returns a block from the engine's list, or a new one. NULL: out of memory. */
static struct tt_unexpected_block *take_block(struct tt_engine *e)
{
    struct tt_unexpected_block *block = e->free_unexpected;

    if (!block)
        return calloc(1, sizeof *block);
    e->free_unexpected = block->next;
    block->next = NULL;
    return block;
}

/* Returns a block to the engine. Its buffers are kept for later messages. */
static void give_block(struct tt_context_peer *cp, uint32_t i)
{
    struct tt_engine *e = cp->context->engine;

    cp->early[i]->next = e->free_unexpected;
    e->free_unexpected = cp->early[i];
    cp->early[i] = NULL;
}

void tt_unexpected_free_all(struct tt_engine *e)
{
    while (e->free_unexpected) {
        struct tt_unexpected_block *block = e->free_unexpected;

        e->free_unexpected = block->next;
        for (uint32_t i = 0; i < TT_UNEXPECTED_BLOCK; i++)
            free(block->record[i].payload);
        free(block);
    }
}

/* Returns the record of a free bit of `kept`, or NULL: out of memory. */
static struct tt_unexpected *free_record(struct tt_context_peer *cp)
{
    const uint32_t at = (uint32_t)__builtin_ctzll(~cp->kept);
    struct tt_unexpected_block **block = &cp->early[at / TT_UNEXPECTED_BLOCK];
    struct tt_unexpected *m;

    if (!*block)
        *block = take_block(cp->context->engine);
    if (!*block)
        return NULL;
    m = tt_unexpected_at(cp, at);
    m->at = (uint8_t)at;
    return m;
}

tutti_status tt_unexpected_keep(struct tt_context_peer *cp, const struct tt_mail *mail,
                                bool claimed)
{
    struct tt_unexpected *m;

    if (!~cp->kept)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: rank %u exceeded its credit for unexpected messages",
                       cp->peer->rank);
    m = free_record(cp);
    if (!m)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for unexpected messages of rank %u",
                       cp->peer->rank);
    if (mail->bytes > m->payload_cap) {
        /* once per size; the buffer is kept for later messages */
        uint8_t *more = realloc(m->payload, mail->bytes);

        if (!more)
            return tt_fail(TUTTI_ERR_NOMEM, "out of memory for an unexpected message of %u bytes",
                           mail->bytes);
        m->payload = more;
        m->payload_cap = mail->bytes;
    }
    if (mail->bytes)
        tt_copy(m->payload, NULL, mail->payload, mail->bytes, false);
    m->opseq = mail->cell.opseq;
    m->desc = mail->cell.desc;
    m->tag = mail->cell.tag;
    m->bytes = mail->bytes;
    m->type = mail->type;
    m->claimed = claimed;
    cp->kept |= 1ull << m->at;
    cp->context->nunexpected++;
    return TUTTI_OK;
}

struct tt_unexpected *tt_unexpected_find(struct tt_context_peer *cp, uint32_t *at, uint64_t opseq,
                                         bool p2p, uint8_t kind, uint8_t type)
{
    for (uint64_t left = *at < 64 ? cp->kept >> *at << *at : 0; left; left &= left - 1) {
        struct tt_unexpected *m = tt_unexpected_at(cp, (uint32_t)__builtin_ctzll(left));

        *at = m->at;
        if (m->type == type && m->opseq == opseq && tt_is_p2p(m->desc.kind) == p2p &&
            (!p2p || m->desc.kind != kind))
            return m;
    }
    return NULL;
}

void tt_unexpected_drop(struct tt_context_peer *cp, struct tt_unexpected *m)
{
    const uint32_t block = m->at / TT_UNEXPECTED_BLOCK;

    cp->kept &= ~(1ull << m->at);
    cp->context->nunexpected--;
    if (!(cp->kept >> block * TT_UNEXPECTED_BLOCK & ((1u << TT_UNEXPECTED_BLOCK) - 1)))
        give_block(cp, block);
}

void tt_context_add_credit(struct tt_context *c, struct tt_context_peer *cp)
{
    cp->credits_due++;
    if (cp->credits_due >= TT_EAGER_CREDIT / 2)
        c->engine->credit_due = true;
}

void tt_context_send_credits(struct tt_context *c, uint32_t least)
{
    for (struct tt_peer *p = c->engine->up; p; p = p->next_up) {
        struct tt_context_peer *cp = tt_sparse_get(&c->peers, p->rank);
        struct tt_cell cell = { .context = c->id };

        if (!cp || cp->credits_due < least)
            continue;
        if (tt_mail_send(&p->mail, &cell, TT_CELL_CREDIT, (uint8_t)cp->credits_due, NULL, 0))
            cp->credits_due = 0;
        else
            c->engine->credit_due = true;
    }
}

/* ---- open, close, fail ----------------------------------------------------------------------- */

uint32_t tt_engine_new_context(struct tt_engine *e)
{
    const uint64_t serial = atomic_fetch_add(&e->serial, 1) + 1, id = serial * e->nranks + e->rank;

    return id >= TT_ENGINE_CONTEXTS_OWN ? 0 : (uint32_t)id;
}

static struct tt_context *make(struct tt_engine *e, const uint32_t *ranks, uint32_t nranks)
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
    struct tt_context *made = make(e, ranks, nranks);
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

const char *tt_context_why(const struct tt_context *c)
{
    return c->why ? c->why : "out of memory for the message of this failure";
}

uint16_t tt_context_trace(const struct tt_context *c)
{
    return c->trace;
}

const uint32_t *tt_context_ranks(const struct tt_context *c)
{
    return c->ranks;
}

static void free_peer(struct tt_context_peer *cp)
{
    for (uint32_t i = 0; i < TT_UNEXPECTED_MAX / TT_UNEXPECTED_BLOCK; i++)
        if (cp->early[i])
            give_block(cp, i);
    free(cp->tags);
    free(cp);
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
        free_peer(cp);
    tt_sparse_fini(&c->peers);
    free(c->copies);
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
    /* read before leaving: tt_context_clear waits for this thread */
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

bool tt_context_is_used(const struct tt_context *c)
{
    return (atomic_load(&c->inside) & ~TT_CONTEXT_SEALED) != 0 || atomic_load(&c->pins) != 0;
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
    tt_ops_fail(c);
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
