/* Straight-line programs, for short calls: eager steps that run in program order, without the
 * executor's scheduling. Only copies may run earlier, while no message has arrived. */
#include <sched.h>

#include "base/status.h"
#include "engine/context.h"
#include "engine/context_end.h"
#include "engine/exec_actions.h"
#include "engine/op_trace.h"
#include "engine/progress_lock.h"
#include "engine/quantized.h"

/* polls of a mailbox before the call joins the waiting operations */
#define DIRECT_POLLS 256u
/* polls if ranks are oversubscribed: other ranks may run before each poll */
#define DIRECT_POLLS_OVERSUBSCRIBED 16u
/* polls of a non-blocking call; 1 if ranks are oversubscribed */
#define DIRECT_POLLS_REQUEST 64u
/* first polls of a recorded call, which read the processor's counter instead of pausing */
#define TIMED_POLLS 8u

/* Returns the address of a step's operand: memory, or the eager message that its pipe's writer
 * waited for. */
static const uint8_t *straight_operand(const struct tt_op *op, const struct tt_ref *ref,
                                       int8_t writer)
{
    const struct tt_exec_step *w;

    if (writer < 0)
        return tt_op_buffer(op, ref->buf) + ref->offset;
    w = &op->exec.step[writer];
    return tt_op_eager_payload(op, w->peer, w->s.tag);
}

/* Returns the address of the source of a put or copy. Packs the input of a quantized operation
 * first. */
static const uint8_t *moved_operand(struct tt_op *op, const struct tt_exec_step *t)
{
    const uint8_t *at = straight_operand(op, &t->s.a, t->writer_a);

    if (tt_op_is_quantized(op) && t->writer_a < 0 && t->s.a.buf == TT_BUF_SRC)
        tt_op_quantized_need(op, at, t->s.bytes);
    return at;
}

static uint32_t from_far(const struct tt_op *op, int8_t writer)
{
    return writer < 0 ? 0 : tt_op_remote_cache_flag(op, op->exec.step[writer].peer);
}

static void operand_consumed(struct tt_op *op, int8_t writer)
{
    if (writer >= 0)
        tt_op_eager_consumed(op, op->exec.step[writer].peer, op->exec.step[writer].s.tag);
}

static bool straight_put(struct tt_op *op, const struct tt_exec_step *t)
{
    struct tt_flow *f = tt_op_flow(op, t->peer);

    return f && tt_op_send_eager(op, f, t->s.tag, t->s.bytes ? moved_operand(op, t) : NULL,
                                 (uint32_t)t->s.bytes);
}

/* Returns false if the step cannot run yet. */
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
            return true;        /* the pipe's reader uses the message */
        if (t->s.bytes)
            tt_copy(tt_op_buffer(op, t->s.out.buf) + t->s.out.offset, NULL,
                    tt_op_eager_payload(op, t->peer, t->s.tag), t->s.bytes,
                    tt_op_remote_cache_flag(op, t->peer));
        tt_op_eager_consumed(op, t->peer, t->s.tag);
        return true;
    case TT_COPY:
        tt_copy(tt_op_buffer(op, t->s.out.buf) + t->s.out.offset, NULL, moved_operand(op, t),
                t->s.bytes, from_far(op, t->writer_a));
        break;
    default:
        tt_op_reduce(op, tt_op_buffer(op, t->s.out.buf) + t->s.out.offset, NULL,
                     straight_operand(op, &t->s.a, t->writer_a),
                     straight_operand(op, &t->s.b, t->writer_b), t->s.bytes,
                     from_far(op, t->writer_a) | from_far(op, t->writer_b), t->s.finish);
        operand_consumed(op, t->writer_b);
    }
    operand_consumed(op, t->writer_a);
    return true;
}

/* Performs a copy, e.g. of this rank's own block, while no message has arrived. */
static bool copy_meanwhile(struct tt_op *op)
{
    struct tt_exec_step *t = tt_exec_meanwhile(&op->exec);

    if (!t)
        return false;
    t->over = straight_step(op, t);
    return t->over;
}

bool tt_op_run_in_order(struct tt_op *op)
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

/* ---- direct calls ---------------------------------------------------------------------------- */

/* Returns whether a message belongs to wait t of the operation. tt_rx_dispatch handles all others.
 */
static bool is_mail_of_wait(const struct tt_op *op, const struct tt_exec_step *t,
                            const struct tt_mail *mail)
{
    const struct tt_cell *cell = &mail->cell;

    return mail->type == TT_CELL_EAGER && mail->bytes == t->s.bytes && cell->tag == t->s.tag &&
           cell->opseq == op->seq && cell->context == op->context->id &&
           tt_same_desc(&cell->desc, &op->desc) && (!op->p2p || cell->desc.kind != op->desc.kind);
}

/* Claims the unexpected message for wait t, if there is one. All of them are from matching calls
 * (tt_op_run_unexposed). */
static bool take_unexpected(const struct tt_op *op, struct tt_exec_step *t)
{
    struct tt_context_peer *cp = op->flow[t->peer].cp;
    struct tt_unexpected *m;

    for (uint32_t at = 0;
         (m = tt_unexpected_find(cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_EAGER)); at++)
        if (m->tag == t->s.tag && m->bytes == t->s.bytes && !m->claimed) {
            m->claimed = t->arrived = true;
            return true;
        }
    return false;
}

/* Returns whether another thread needs the progress lock, or a failure was reported. */
static bool must_release_lock(const struct tt_engine *e)
{
    return atomic_load_explicit(&e->urgent, memory_order_relaxed) ||
           atomic_load_explicit(&e->ntrouble, memory_order_relaxed) != e->trouble_seen;
}

/* Waits briefly for a message in the mailbox. If ranks are oversubscribed, the peer may need this
 * core, so this yields. Polling this one word is the cheapest method. *tick becomes the time of the
 * last poll without a message. It serves as the end time of the operation, so that the clock is not
 * read after the message has arrived. tick NULL: the operation is not recorded. */
static bool await_any(struct tt_engine *e, const struct tt_mailbox *m, struct tt_wire *w,
                      bool blocking, uint64_t *tick)
{
    const bool crowded = e->spins == 0;
    uint32_t polls = crowded ? DIRECT_POLLS_OVERSUBSCRIBED : DIRECT_POLLS, timed = 0;

    if (!blocking)
        polls = crowded ? 1 : DIRECT_POLLS_REQUEST;
    while (!tt_mail_waits(m)) {
        if (--polls == 0 || (crowded && must_release_lock(e)))
            return false;
        if (crowded)
            sched_yield();
        if (!(w->caps & TT_WIRE_CAP_INSTANT)) {
            e->armed = false;
            w->ops->poll(w, NULL, 0);   /* completions are handled later */
        } else if (!crowded && (!tick || ++timed > TIMED_POLLS)) {
            tt_relax();
        }
        if (tick)
            *tick = tt_tick_now();
    }
    return true;
}

/* Waits for the message of wait t. It stays in the mailbox, as op->now, until a step has used
 * it. It may also be among the unexpected messages. */
static bool await_mail(struct tt_op *op, struct tt_exec_step *t, struct tt_mail *mail)
{
    struct tt_flow *f = tt_op_flow(op, t->peer);
    struct tt_mailbox *m;

    if (!f || f->cp->peer->state != TT_PEER_UP)
        return false;
    if (f->cp->kept && take_unexpected(op, t))
        return true;
    m = &f->cp->peer->mail;
    while (!tt_mail_waits(m) && copy_meanwhile(op))
        ;
    if (!await_any(op->context->engine, m, f->cp->peer->wire, op->loan == TT_LOAN_NONE,
                   TT_OPLOG_COMPILED && op->record ? &op->last_tick : NULL) ||
        tt_mail_next(m, mail) || !is_mail_of_wait(op, t, mail))
        return false;
    f->cp->eager_out -= mail->credits < f->cp->eager_out ? mail->credits : f->cp->eager_out;
    t->arrived = true;
    op->now = mail;
    op->now_from = f->cp;
    return true;
}

/* Moves the message out of the mailbox, because only a later step needs it. False: the context
 * has failed. */
static bool move_to_unexpected(struct tt_op *op)
{
    const struct tt_mail *mail = op->now;
    const bool kept = tt_unexpected_keep(op->now_from, mail, true) == TUTTI_OK;

    if (!kept)
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM, tutti_last_error(), true);
    tt_mail_drop(&op->now_from->peer->mail, mail);
    op->now = NULL;
    return kept;
}

bool tt_op_run_unexposed(struct tt_op *op)
{
    struct tt_exec *x = &op->exec;
    struct tt_mail mail;        /* in the mailbox while it is op->now */

    for (; x->head != x->tail; x->head++) {
        struct tt_exec_step *t = &x->step[x->head];
        const struct tt_context_peer *from;

        if (t->over)
            continue;
        if (t->s.opcode == TT_WAIT) {
            if (!op->record)    /* after the first messages were sent, since the wait hides the
                                   cost */
                tt_op_trace_begin(op, true);
            if (op->now && !move_to_unexpected(op))
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
    if (op->now && !move_to_unexpected(op))
        return false;
    return x->head == x->tail;
}
