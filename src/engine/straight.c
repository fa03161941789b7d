/* Straight programs: eager steps in program order, but for what may be copied while nothing comes. Short calls take this way; there is nothing to decide, only to do. */
#include <sched.h>

#include "base/status.h"
#include "engine/context.h"
#include "engine/perform.h"
#include "engine/progress.h"
#include "engine/quantized.h"

#define LOOKS_AT_ONCE 256u      /* at a mailbox, before the call joins those that wait */
#define LOOKS_CROWDED 16u       /* the same where ranks outnumber cores: before each, another rank may run */

/* Where a step reads: memory, or the eager message that the pipe's writer waited for. */
static const uint8_t *operand(const struct tt_op *op, const struct tt_ref *ref, int8_t writer)
{
    const struct tt_exec_step *w;

    if (writer < 0)
        return tt_op_buffer(op, ref->buf) + ref->offset;
    w = &op->exec.step[writer];
    return tt_op_eager_payload(op, w->peer, w->s.tag);
}

/* The one that a put or a copy moves; of a quantized operation's input it is packed first. */
static const uint8_t *moved(struct tt_op *op, const struct tt_exec_step *t)
{
    const uint8_t *at = operand(op, &t->s.a, t->writer_a);

    if (tt_op_is_quantized(op) && t->writer_a < 0 && t->s.a.buf == TT_BUF_SRC)
        tt_op_quantized_need(op, at, t->s.bytes);
    return at;
}

static uint32_t from_far(const struct tt_op *op, int8_t writer)
{
    return writer < 0 ? 0 : tt_op_from_far(op, op->exec.step[writer].peer);
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
        !tt_op_send_cell(op, f, TT_CELL_EAGER, t->s.tag, t->s.bytes ? moved(op, t) : NULL, (uint32_t)t->s.bytes))
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
                    t->s.bytes, tt_op_from_far(op, t->peer));
        tt_op_eager_consumed(op, t->peer, t->s.tag);
        return true;
    case TT_COPY:
        tt_copy(tt_op_buffer(op, t->s.out.buf) + t->s.out.offset, NULL, moved(op, t), t->s.bytes,
                from_far(op, t->writer_a));
        break;
    default:
        tt_op_reduce(op, tt_op_buffer(op, t->s.out.buf) + t->s.out.offset, NULL, operand(op, &t->s.a, t->writer_a),
                     operand(op, &t->s.b, t->writer_b), t->s.bytes,
                     from_far(op, t->writer_a) | from_far(op, t->writer_b), t->s.finish);
        operand_consumed(op, t->writer_b);
    }
    operand_consumed(op, t->writer_a);
    return true;
}

/* What can be copied while nothing comes, which is this rank's own block. */
static bool copy_meanwhile(struct tt_op *op)
{
    struct tt_exec_step *t = tt_exec_meanwhile(&op->exec);

    if (!t)
        return false;
    t->over = straight_step(op, t);
    return t->over;
}

bool tt_op_run_straight(struct tt_op *op)
{
    struct tt_exec *x = &op->exec;
    const uint32_t before = x->head;
    bool any = false;

    x->progress = false;
    while (x->head != x->tail && (x->step[x->head].over || straight_step(op, &x->step[x->head])))
        x->head++;
    if (x->head != x->tail && x->step[x->head].s.opcode == TT_PUT)
        op->retry = true;
    while (x->head != x->tail && copy_meanwhile(op))
        any = true;
    return any || x->head != before;
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

/* Takes the message of wait t from those that came before their time. They are all of this call: tt_op_run_at_once. */
static bool take_kept(const struct tt_op *op, struct tt_exec_step *t)
{
    struct tt_context_peer *cp = op->flow[t->peer].cp;
    struct tt_early *m;

    for (uint32_t at = 0; (m = tt_early_find(cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_EAGER)); at++)
        if (m->tag == t->s.tag && m->bytes == t->s.bytes && !m->claimed) {
            m->claimed = t->arrived = true;
            return true;
        }
    return false;
}

/* Whether the baton or a loss must not wait any longer. */
static bool is_called_away(const struct tt_engine *e)
{
    return atomic_load_explicit(&e->urgent, memory_order_relaxed) ||
           atomic_load_explicit(&e->ntrouble, memory_order_relaxed) != e->trouble_seen;
}

/* Waits a little until something is in the mailbox. Where ranks outnumber cores, who is waited for may need this one's: every other way
 * to wait, and to come back from it, costs more than the word that is looked at here. */
static bool await_any(struct tt_engine *e, const struct tt_mailbox *m, struct tt_wire *w)
{
    const bool crowded = e->spins == 0;

    for (uint32_t looks = crowded ? LOOKS_CROWDED : LOOKS_AT_ONCE; !tt_mail_waits(m);) {
        if (--looks == 0 || (crowded && is_called_away(e)))
            return false;
        if (crowded)
            sched_yield();
        if (!(w->caps & TT_WIRE_CAP_INSTANT)) {
            e->armed = false;
            w->ops->poll(w, NULL, 0);   /* what it has to tell can wait */
        } else if (!crowded) {
            tt_relax();
        }
    }
    return true;
}

/* Looks for the message of wait t. It stays in the mailbox, as op->now, until a step has used it; or it was kept already. */
static bool await_mail(struct tt_op *op, struct tt_exec_step *t, struct tt_mail *mail)
{
    struct tt_flow *f = tt_op_flow(op, t->peer);
    struct tt_mailbox *m;

    if (!f || f->cp->peer->state != TT_PEER_UP)
        return false;
    if (f->cp->kept && take_kept(op, t))
        return true;
    m = &f->cp->peer->mail;
    while (!tt_mail_waits(m) && copy_meanwhile(op))
        ;
    if (!await_any(op->context->engine, m, f->cp->peer->wire) || tt_mail_next(m, mail) || !is_for(op, t, mail))
        return false;
    f->cp->eager_out -= mail->credits < f->cp->eager_out ? mail->credits : f->cp->eager_out;
    t->arrived = true;
    op->now = mail;
    op->now_from = f->cp;
    return true;
}

/* The message that is still in the mailbox makes room for the next: a later step needs it. False: the context has failed. */
static bool put_by(struct tt_op *op)
{
    const struct tt_mail *mail = op->now;
    const bool kept = tt_early_keep(op->now_from, mail, true) == TUTTI_OK;

    if (!kept)
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM, tutti_last_error(), true);
    tt_mail_drop(&op->now_from->peer->mail, mail);
    op->now = NULL;
    return kept;
}

bool tt_op_run_at_once(struct tt_op *op)
{
    struct tt_exec *x = &op->exec;
    struct tt_mail mail;        /* in the mailbox as long as it is op->now */

    for (; x->head != x->tail; x->head++) {
        struct tt_exec_step *t = &x->step[x->head];
        const struct tt_context_peer *from;

        if (t->over)
            continue;
        if (t->s.opcode == TT_WAIT) {
            if (op->now && !put_by(op))
                return false;
            if (!await_mail(op, t, &mail))
                break;
        }
        from = op->now ? op->now_from : NULL;
        if (!straight_step(op, t))
            break;
        if (from && !op->now)
            tt_mail_drop(&from->peer->mail, &mail);
    }
    if (op->now && !put_by(op))
        return false;
    return x->head == x->tail;
}
