/* Chooses the stores for the long eager messages of an operation to mapped memory of their
 * receivers. An ordinary store waits for each line that its reader has cached, and leaves it
 * where the reader finds it fast. After a non-temporal store, the read costs more. The better
 * choice depends on the processors, on their shared caches, and on both ends. Example: an
 * all-to-all of 64 KiB on a first-generation AMD EPYC takes 5.3 us with ordinary and 6.9 us with
 * non-temporal stores. If the two processors share no cache, it takes 11.5 and 7 us.
 *
 * The writer can measure only its own side (write_long in link.c; for streamed messages,
 * copy_method.c). Where every rank sends and waits, the operation's time covers both sides, so both
 * kinds are tried (base/autotune.h). Ranks call collectives in the same order, so they try the
 * same kind at the same time. Each kept operation measures for itself, because its calls differ
 * in nothing else. */
#include "engine/exec_actions.h"

#include "base/clock.h"

static bool are_mapped(const struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++)
        if (!op->flow[i].cp || !op->flow[i].cp->peer->mail.theirs.mapped)
            return false;       /* the time would include a network */
    return true;
}

static bool has_long_puts(const struct tt_exec *x)
{
    for (uint32_t i = 0; i < x->tail; i++)
        if (x->step[i].s.opcode == TT_PUT && x->step[i].s.bytes >= TT_MAIL_LONG_BYTES)
            return true;
    return false;
}

void tt_op_stores_settle(struct tt_op *op)
{
    /* else the time is dominated by the scheduler */
    const bool cores_suffice = op->context->engine->spins > 0;

    op->chooses_stores =
        cores_suffice && tt_op_is_mutual(op) && has_long_puts(&op->exec) && are_mapped(op);
    op->stores = TT_STORES_TIMED;
    op->stores_chooser = (struct tt_autotune){ .uses = 0 };
}

void tt_op_stores_begin(struct tt_op *op)
{
    op->stores =
        tt_autotune_next(&op->stores_chooser, 2) ? TT_STORES_NONTEMPORAL : TT_STORES_ORDINARY;
    op->stores_begin_ns = tt_now_ns();
}

void tt_op_stores_record(struct tt_op *op)
{
    static const uint8_t margins[2] = { 1, 1 };

    tt_autotune_learn(&op->stores_chooser, op->stores == TT_STORES_NONTEMPORAL,
                      tt_now_ns() - op->stores_begin_ns, margins);
}
