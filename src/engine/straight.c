/* Straight programs: eager steps in program order. Short calls take this way; there is nothing to decide, only to do. */
#include "engine/context.h"
#include "engine/perform.h"
#include "engine/progress.h"

#define LOOKS_AT_ONCE 256u      /* at a mailbox, before the call joins those that wait */

/* Where a step reads: memory, or the eager message that the pipe's writer waited for. */
static const uint8_t *operand(const struct tt_op *op, const struct tt_ref *ref, int8_t writer)
{
    const struct tt_exec_step *w;

    if (writer < 0)
        return tt_op_buffer(op, ref->buf) + ref->offset;
    w = &op->exec.step[writer];
    return tt_op_eager_payload(op, w->peer, w->s.tag);
}

static void operand_consumed(struct tt_op *op, int8_t writer)
{
    if (writer >= 0)
        tt_op_eager_consumed(op, op->exec.step[writer].peer, op->exec.step[writer].s.tag);
}

static bool straight_put(struct tt_op *op, const struct tt_exec_step *t)
{
    struct tt_flow *f = tt_op_flow(op, t->peer);

    if (!f || f->cp->peer->state != TT_PEER_UP || !tt_op_has_eager_credit(op, f) ||
        !tt_op_send_cell(op, f, TT_CELL_EAGER, t->s.tag, t->s.bytes ? operand(op, &t->s.a, t->writer_a) : NULL,
                         (uint32_t)t->s.bytes))
        return false;
    f->cp->eager_out++;
    return true;
}

/* False: the step cannot go yet. */
static bool straight_step(struct tt_op *op, const struct tt_exec_step *t)
{
    switch (t->s.opcode) {
    case TT_PUT:
        if (!straight_put(op, t))
            return false;
        break;
    case TT_WAIT:
        if (!t->arrived)
            return false;
        if (t->s.out.buf == TT_BUF_PIPE && t->s.bytes)
            return true;        /* its reader finds it */
        if (t->s.bytes)
            tt_copy(tt_op_buffer(op, t->s.out.buf) + t->s.out.offset, NULL, tt_op_eager_payload(op, t->peer, t->s.tag),
                    t->s.bytes, false);
        tt_op_eager_consumed(op, t->peer, t->s.tag);
        return true;
    case TT_COPY:
        tt_copy(tt_op_buffer(op, t->s.out.buf) + t->s.out.offset, NULL, operand(op, &t->s.a, t->writer_a), t->s.bytes,
                false);
        break;
    default:
        (t->s.finish ? op->kernel_finish : op->kernel)(
            tt_op_buffer(op, t->s.out.buf) + t->s.out.offset, NULL, operand(op, &t->s.a, t->writer_a),
            operand(op, &t->s.b, t->writer_b), t->s.bytes >> op->elem_shift, false, op->conf.coll.nranks);
        operand_consumed(op, t->writer_b);
    }
    operand_consumed(op, t->writer_a);
    return true;
}

bool tt_op_run_straight(struct tt_op *op)
{
    struct tt_exec *x = &op->exec;
    const uint32_t before = x->head;

    x->progress = false;
    while (x->head != x->tail && straight_step(op, &x->step[x->head]))
        x->head++;
    if (x->head != x->tail && x->step[x->head].s.opcode == TT_PUT)
        op->retry = true;
    return x->head != before;
}

/* ---- at once ----------------------------------------------------------------------------------------------- */

/* Whether a message is the one that wait t of the operation is for. Anything else is for tt_deliver to judge. */
static bool is_for(const struct tt_op *op, const struct tt_exec_step *t, const struct tt_mail *mail)
{
    const struct tt_cell *cell = &mail->cell;

    return mail->type == TT_CELL_EAGER && mail->bytes == t->s.bytes && cell->tag == t->s.tag &&
           cell->opseq == op->seq && cell->context == op->context->id && tt_same_desc(&cell->desc, &op->desc) &&
           (!op->p2p || cell->desc.kind != op->desc.kind);
}

/* Looks for the message of wait t. It stays in the mailbox, as op->now, until a step has used it. */
static bool await_mail(struct tt_op *op, struct tt_exec_step *t, struct tt_mail *mail)
{
    struct tt_flow *f = tt_op_flow(op, t->peer);
    uint32_t looks = op->context->engine->spins ? LOOKS_AT_ONCE : 1;
    struct tt_mailbox *m;
    struct tt_wire *w;

    if (!f || f->cp->peer->state != TT_PEER_UP)
        return false;
    m = &f->cp->peer->mail;
    w = f->cp->peer->wire;
    while (!tt_mail_waits(m)) {
        if (--looks == 0)
            return false;
        if (w->caps & TT_WIRE_CAP_INSTANT)
            tt_relax();
        else
            w->ops->poll(w, NULL, 0);   /* what it has to tell can wait */
    }
    if (tt_mail_next(m, mail) || !is_for(op, t, mail))
        return false;
    f->cp->eager_out -= mail->credits < f->cp->eager_out ? mail->credits : f->cp->eager_out;
    t->arrived = true;
    op->now = mail;
    op->now_from = f->cp;
    return true;
}

bool tt_op_run_at_once(struct tt_op *op)
{
    struct tt_exec *x = &op->exec;
    struct tt_mail mail;
    bool held = false;          /* mail is still in the mailbox */

    for (; x->head != x->tail; x->head++) {
        struct tt_exec_step *t = &x->step[x->head];

        if (t->s.opcode == TT_WAIT) {
            if (held || !await_mail(op, t, &mail))
                break;
            held = true;
        }
        if (!straight_step(op, t))
            break;
        if (held && !op->now) {
            tt_mail_drop(&op->now_from->peer->mail, &mail);
            held = false;
        }
    }
    if (held) {                 /* a later step needs it */
        if (tt_early_keep(op->now_from, &mail, true))
            tt_context_fail_here(op->context, TUTTI_ERR_NOMEM, tutti_last_error(), true);
        tt_mail_drop(&op->now_from->peer->mail, &mail);
    }
    op->now = NULL;
    return x->head == x->tail;
}
