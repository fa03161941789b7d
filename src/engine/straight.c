/* Straight programs: eager steps in program order. Short calls take this way; there is nothing to decide, only to do. */
#include "engine/perform.h"

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

