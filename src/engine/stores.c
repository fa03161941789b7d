/* Which stores the long eager messages of an operation are written with, into memory that their receivers have mapped. Ordinary ones wait for each line that its reader has had, and leave
 * it where the reader finds it fast; what is written past the caches costs the reader more. Which is better depends on the processors, on what two of them share, and on both ends:
 * all-to-all of 64 KiB on an AMD EPYC of the first generation, us: 5.3 with ordinary stores, 6.9 past the caches, and where the two processors share no cache 11.5 and 7.
 *
 * Who writes sees its own end alone (copy_long in link.c; of messages that are not eager, copies.c). But where every rank sends and waits, the time of its operation tells of both; so both ways are tried (base/chooser.h). Ranks call
 * collectives in the same order, so they try the same at the same time. Each operation that is begun again by each call of its shape learns for itself: nothing else differs then. */
#include "engine/perform.h"

#include "base/clock.h"

static bool are_mapped(const struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++)
        if (!op->flow[i].cp || !op->flow[i].cp->peer->mail.theirs.mapped)
            return false;       /* its time tells of a network, too */
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
    const bool cores_suffice = op->context->engine->spins > 0;      /* else the time is the scheduler's */

    op->chooses_stores = cores_suffice && tt_op_is_mutual(op) && has_long_puts(&op->exec) && are_mapped(op);
    op->stores = TT_STORES_TIMED;
    op->stores_chooser = (struct tt_chooser){ .uses = 0 };
}

void tt_op_stores_begin(struct tt_op *op)
{
    op->stores = tt_chooser_next(&op->stores_chooser, 2) ? TT_STORES_PAST_CACHE : TT_STORES_ORDINARY;
    op->stores_begin_ns = tt_now_ns();
}

void tt_op_stores_learn(struct tt_op *op)
{
    static const uint8_t margins[2] = { 1, 1 };

    tt_chooser_learn(&op->stores_chooser, op->stores == TT_STORES_PAST_CACHE, tt_now_ns() - op->stores_begin_ns,
                     margins);
}
