/* Dispatch of arriving messages. */
#include "engine/rx_dispatch.h"

#include <stdio.h>

#include "base/status.h"
#include "engine/op_lists.h"
#include "engine/any.h"
#include "engine/context.h"
#include "engine/context_end.h"
#include "engine/describe.h"
#include "engine/mismatch.h"
#include "engine/op.h"
#include "engine/op_trace.h"
#include "engine/exec_actions.h"
#include "engine/receive.h"

/* Handles a message for a collective that is over on this rank: the message's descriptor must be
 * that of the collective. */
static void check_history(struct tt_context *c, uint32_t index, const struct tt_mail *mail)
{
    const struct tt_history *h =
        c->history_cap ? &c->history[mail->cell.opseq & (c->history_cap - 1)] : NULL;
    char which[TT_OP_NUMBER_BYTES];

    if (!h || !h->used || h->opseq != mail->cell.opseq || tt_same_desc(&mail->cell.desc, &h->desc))
        return;
    if (h->desc.mode == TT_MODE_NONE)
        snprintf(which, sizeof which, "operation %llu of the communicator",
                 (unsigned long long)h->opseq);
    else
        snprintf(which, sizeof which, "an operation of tag %u", c->tag);
    tt_context_mismatch(c, index, &mail->cell.desc, &h->desc, which, "");
}

static bool deliver_eager(struct tt_op *op, struct tt_context_peer *cp, uint32_t index,
                          const struct tt_mail *mail)
{
    const int i = tt_exec_peer_of(&op->exec, index);
    tutti_status st = TUTTI_ERR_INVALID;

    if (tt_op_is_whole_row(op, mail->cell.tag) && !tt_op_check_receive_size(op, index, mail->bytes))
        return true;
    if (i >= 0 && tt_op_flow(op, (uint16_t)i))
        st = tt_exec_eager(&op->exec, (uint16_t)i, mail->cell.tag, mail->bytes);
    if (st == TUTTI_ERR_MISMATCH) {
        tt_op_mismatch(op, index, &mail->cell.desc, ": their message sizes differ");
        return true;
    }
    if (st == TUTTI_OK) {
        if (!op->exec.straight)
            tt_op_trace_received(&op->flow[i], mail->bytes);
        op->now = mail;
        op->now_from = cp;
        tt_op_run(op);
        if (tt_op_is_over(op) || !op->now)
            return true;
        op->now = NULL;
    }
    return tt_unexpected_keep(cp, mail, st == TUTTI_OK) == TUTTI_OK;
}

static bool deliver_cts(struct tt_op *op, uint32_t index, struct tt_context_peer *cp,
                        const struct tt_mail *mail)
{
    const int i = tt_exec_peer_of(&op->exec, index);
    const tutti_status st =
        i < 0 ? TUTTI_PENDING : tt_op_handle_cts(op, (uint16_t)i, mail->payload, mail->bytes);

    if (st == TUTTI_PENDING) {
        if (i >= 0)
            tt_op_scan_again(op);
        return tt_unexpected_keep(cp, mail, false) == TUTTI_OK;
    }
    if (st)
        return false;
    if (!tt_op_is_over(op))
        tt_op_run(op);
    return true;
}

static void deliver_probe(struct tt_op *op, uint32_t index, const struct tt_mail *mail)
{
    const int i = tt_exec_peer_of(&op->exec, index);
    struct tt_flow *f;

    if (!tt_op_check_probe_sizes(op, index, mail->payload, mail->bytes))
        return;
    f = i < 0 ? NULL : tt_op_flow(op, (uint16_t)i);
    if (!f)
        return;
    tt_op_handle_probe(op, f);
    if (!tt_op_is_over(op))
        tt_op_run(op);
}

static bool has_second_part(const struct tt_op *op, uint64_t opseq)
{
    return op->conf.parts && !op->second && op->seq + 1 == opseq;
}

/* Returns whether the collective with this number was called and is not exposed yet, or is the
 * second part of one. */
static bool is_waiting(const struct tt_context *c, uint64_t opseq)
{
    for (const struct tt_op *op = c->waiting; op; op = op->next)
        if (!op->p2p && (op->seq == opseq || has_second_part(op, opseq)))
            return true;
    for (const struct tt_op *op = c->active; op; op = op->next)
        if (has_second_part(op, opseq))
            return true;
    return false;
}

/* Returns whether the probed send or receive has begun here. If no operation is found, it is
 * over: the probe and a short message crossed. */
static bool has_begun(const struct tt_context_peer *cp, const struct tt_mail *mail)
{
    const struct tt_tag_counter *t = tt_context_counter_find(cp, (uint32_t)(mail->cell.opseq >> 32),
                                                             mail->cell.desc.kind == TT_SEND);

    return t && mail->cell.opseq < tt_tag_key(t);
}

static bool is_of_operation(const struct tt_mail *mail)
{
    if (mail->type == TT_CELL_STARTED)
        return mail->cell.desc.kind == TT_SEND;
    return mail->type >= TT_CELL_EAGER && mail->type <= TT_CELL_PROBE &&
           mail->cell.desc.kind < TT_COLL_KINDS;
}

static bool deliver_to_context(struct tt_engine *e, struct tt_peer *p, const struct tt_mail *mail)
{
    struct tt_context *c = tt_context_find(e, mail->cell.context);
    struct tt_context_peer *cp = c ? tt_context_peer_of(c, p->rank) : NULL;
    const bool p2p = tt_is_p2p(mail->cell.desc.kind);
    struct tt_op *op;
    uint32_t index;

    if (mail->type == TT_CELL_ENDED) {
        tt_peer_context_ended(e, p, mail->cell.context);
        return true;
    }
    if (mail->type == TT_CELL_CTS && (!c || atomic_load(&c->status)))
        tt_context_notify_ended(e, p, mail->cell.context);
    if (!c)
        return true;            /* the context was closed here: drop the message */
    if (!cp) {
        tt_fail(TUTTI_ERR_NOMEM, "out of memory for messages from rank %u", p->rank);
        return false;
    }
    cp->eager_out -= mail->credits < cp->eager_out ? mail->credits : cp->eager_out;
    if (mail->type == TT_CELL_CREDIT || atomic_load(&c->status))
        return true;
    if (mail->type == TT_CELL_RECEIVES_ANY) {
        tt_any_peer_receives(c, cp);
        return true;
    }
    if (!is_of_operation(mail)) {
        tt_fail(TUTTI_ERR_PROTOCOL, "protocol error: rank %u sent a message of unknown type %u",
                p->rank, mail->type);
        return false;
    }
    cp->must_notify_end |= mail->type == TT_CELL_CTS;
    index = tt_context_index_of(c, cp);
    op = tt_op_find(c, index, mail->cell.opseq, p2p, mail->cell.desc.kind);
    if (!op && c->receives_any && index != UINT32_MAX && mail->cell.desc.kind == TT_SEND) {
        if (tt_any_record_started(cp, mail->cell.opseq))
            return false;
        tt_op_match_any(c, (uint32_t)(mail->cell.opseq >> 32), cp);
        if (atomic_load(&c->status))
            return true;
        op = tt_op_find(c, index, mail->cell.opseq, p2p, mail->cell.desc.kind);
    }
    if (op && index != UINT32_MAX) {
        if (!tt_same_desc(&mail->cell.desc, &op->desc))
            tt_op_mismatch(op, index, &mail->cell.desc, "");
        else if (mail->type == TT_CELL_EAGER)
            return deliver_eager(op, cp, index, mail);
        else if (mail->type == TT_CELL_CTS)
            return deliver_cts(op, index, cp, mail);
        else if (mail->type == TT_CELL_PROBE)
            deliver_probe(op, index, mail);
        return true;
    }
    if (mail->type == TT_CELL_STARTED)
        return true;            /* already recorded */
    if (!p2p && mail->cell.opseq < c->next_seq && !is_waiting(c, mail->cell.opseq)) {
        check_history(c, index, mail);
        return true;
    }
    if (p2p && mail->type == TT_CELL_PROBE && has_begun(cp, mail))
        return true;
    return tt_unexpected_keep(cp, mail, false) == TUTTI_OK;
}

bool tt_rx_dispatch(struct tt_engine *e, struct tt_peer *p, const struct tt_mail *mail)
{
    p->heard_ns = e->now_ns;
    if (mail->type == TT_CELL_EAGER)
        p->progress_ns = e->now_ns;
    if (mail->type == TT_CELL_FENCE)
        return true;            /* a fence only orders the messages after it */
    if (mail->type != TT_CELL_CLIENT)
        return deliver_to_context(e, p, mail);
    return !e->guest || e->guest->mail(e->guest->arg, p->rank, mail->payload, mail->bytes);
}
