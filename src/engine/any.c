#include "engine/any.h"

#include <stdio.h>

#include "engine/context.h"
#include "engine/exec_actions.h"

/* ---- messages that were started -------------------------------------------------------------- */

/* Returns the number of messages with this tag that the peer has started, and that are not matched
 * yet. */
static uint32_t count_untaken(const struct tt_context *c, const struct tt_context_peer *cp,
                              uint32_t tag)
{
    const struct tt_tag_counter *in = tt_context_counter_find(cp, tag, true), *out;

    if (cp->peer->rank != c->engine->rank)
        return in ? in->untaken : 0;
    out = tt_context_counter_find(cp, tag, false);
    return out && (int32_t)(out->next - (in ? in->next : 0)) > 0;
}

/* Messages of a tag are started in numerical order; therefore all messages up to this one were
 * started. */
tutti_status tt_any_record_started(struct tt_context_peer *cp, uint64_t opseq)
{
    struct tt_tag_counter *t = tt_context_counter(cp, (uint32_t)(opseq >> 32), true);
    int32_t n;

    if (!t)
        return TUTTI_ERR_NOMEM;
    n = (int32_t)((uint32_t)opseq + 1 - t->next);
    if (n > t->untaken)
        t->untaken = n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
    return TUTTI_OK;
}

/* Returns the first rank after the source of the last match that has a message of this tag
 * (round robin). */
static struct tt_context_peer *next_source(struct tt_context *c, uint32_t tag)
{
    struct tt_context_peer *best = NULL, *cp;
    uint32_t at = 0, best_far = UINT32_MAX;

    while ((cp = tt_sparse_next(&c->peers, &at))) {
        const uint32_t index = tt_context_index_of(c, cp);
        uint32_t far;

        if (index == UINT32_MAX || !count_untaken(c, cp, tag))
            continue;
        far = index >= c->next_source ? index - c->next_source : index + c->nranks - c->next_source;
        if (far < best_far) {
            best_far = far;
            best = cp;
        }
    }
    return best;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* Returns the oldest unmatched receive with this tag, or NULL. */
static struct tt_op *oldest_unmatched(const struct tt_context *c, uint32_t tag)
{
    struct tt_op *op = c->nunmatched ? c->active : NULL;

    while (op && !(op->unmatched && op->conf.tag == tag))
        op = op->next;
    return op;
}

bool tt_any_awaits(const struct tt_context *c, uint32_t tag)
{
    return oldest_unmatched(c, tag) != NULL;
}

struct tt_op *tt_any_next(struct tt_context *c, uint32_t tag, struct tt_context_peer *from,
                          uint32_t *rank)
{
    struct tt_op *op = oldest_unmatched(c, tag);

    if (!op)
        return NULL;
    if (!tt_op_is_from_any(op)) {           /* no receive from any rank precedes it now */
        *rank = op->conf.coll.root;
        return op;
    }
    if (!from)
        from = next_source(c, tag);
    else if (!count_untaken(c, from, tag))
        from = NULL;
    if (!from)
        return NULL;
    *rank = tt_context_index_of(c, from);
    c->next_source = (*rank + 1) % c->nranks;
    return op;
}

/* ---- announcements --------------------------------------------------------------------------- */

/* Returns whether the receiver of a send has opened a flow for it. If so, no announcement is
 * needed. */
static bool is_opened(const struct tt_op *send)
{
    return send->exec.npeers && send->flow[0].cp && send->flow[0].ready;
}

static struct tt_context_peer *receiver_of(const struct tt_op *send)
{
    const struct tt_context *c = send->context;

    return tt_sparse_get(&c->peers, c->ranks[send->conf.coll.root]);
}

static bool send_started(struct tt_op *op)
{
    struct tt_flow *f = op->exec.npeers ? tt_op_flow(op, 0) : NULL;

    if (!f || f->cp->peer->state != TT_PEER_UP)
        return true;            /* no connected peer to notify */
    return tt_op_send_cell(op, f, TT_CELL_STARTED, 0, NULL, 0);
}

/* Announces the waiting send now. If the mailbox is full, tt_any_send_due retries. */
static void send_announce(struct tt_op *op)
{
    op->unannounced = !is_opened(op) && !send_started(op);
    op->context->engine->any_due |= op->unannounced;
}

static bool is_send_to(const struct tt_op *op, uint32_t index)
{
    return op->p2p && op->desc.kind == TT_SEND && op->conf.coll.root == index && !op->oneself;
}

void tt_any_announce(struct tt_op *send)
{
    const struct tt_context_peer *cp = receiver_of(send);

    if (cp && cp->receives_any && !send->oneself)
        send_announce(send);
}

void tt_any_peer_receives(struct tt_context *c, struct tt_context_peer *cp)
{
    const uint32_t index = tt_context_index_of(c, cp);

    if (cp->receives_any || index == UINT32_MAX)
        return;
    cp->receives_any = true;
    for (struct tt_op *op = c->active; op; op = op->next)
        if (is_send_to(op, index))
            send_announce(op);
}

/* Notifies the connected ranks that this one receives from any rank. */
static void send_receives_any(struct tt_context *c)
{
    for (uint32_t i = 0; i < c->nranks; i++) {
        struct tt_peer *p = tt_peer_get(c->engine, c->ranks[i]);
        struct tt_context_peer *cp =
            p && p->state == TT_PEER_UP ? tt_context_peer_of(c, p->rank) : NULL;
        struct tt_cell cell = { .context = c->id };

        if (!cp || cp->receives_any_sent)
            continue;
        cp->receives_any_sent = tt_mail_send(&p->mail, &cell, TT_CELL_RECEIVES_ANY, 0, NULL, 0);
        c->engine->any_due |= !cp->receives_any_sent;
    }
}

tutti_status tt_any_begin(struct tt_context *c)
{
    struct tt_context_peer *cp;
    uint32_t at = 0;
    tutti_status st = TUTTI_OK;

    if (c->receives_any)
        return TUTTI_OK;
    while (!st && (cp = tt_sparse_next(&c->peers, &at)))
        for (uint64_t left = cp->kept; left && !st; left &= left - 1) {
            const struct tt_unexpected *m = tt_unexpected_at(cp, (uint32_t)__builtin_ctzll(left));

            if (m->desc.kind == TT_SEND)
                st = tt_any_record_started(cp, m->opseq);
        }
    if (st)
        return st;
    c->receives_any = true;
    send_receives_any(c);
    return TUTTI_OK;
}

void tt_any_connected(struct tt_engine *e)
{
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        e->any_due |= c->receives_any;
}

void tt_any_send_due(struct tt_engine *e)
{
    e->any_due = false;
    for (struct tt_context *c = e->contexts; c; c = c->next) {
        if (c->receives_any && !atomic_load(&c->status))
            send_receives_any(c);
        for (struct tt_op *op = c->active; op; op = op->next)
            if (op->unannounced)
                send_announce(op);
    }
}
