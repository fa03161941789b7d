/* Probes, and the messages that use streams after one. */
#include "engine/probe.h"

#include "engine/context_fail.h"
#include "engine/exec_actions.h"
#include "engine/op_lists.h"

void tt_op_choose_nontemporal(struct tt_op *op)
{
    if (op->kept && !tt_op_take_slot(op->context->engine, op)) {
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM,
                             "cannot stream a message: too many operations are in progress", true);
        return;
    }
    op->kept = op->chooses_stores = false;
    tt_exec_stream(&op->exec);
    op->retry = true;
    tt_op_wake(op);
}

void tt_op_send_probe(struct tt_op *op)
{
    const uint32_t r = !op->exposed || op->oneself || op->unmatched ? UINT32_MAX
                       : op->p2p                                    ? op->conf.coll.root
                                                                    : tt_exec_waits_for(&op->exec);
    const int i = r == UINT32_MAX ? -1 : tt_exec_peer_of(&op->exec, r);
    struct tt_flow *f = i < 0 ? NULL : tt_op_flow(op, (uint16_t)i);
    struct tt_probe_msg sizes = { 0 };
    uint32_t bytes = 0;

    if (!f || f->probe_sent || f->cp->peer->state != TT_PEER_UP ||
        (!f->probe_received && f->cp->probes >= TT_PROBES_MAX))
        return;
    if (op->conf.coll.kind == TT_ALLTOALLV && !op->conf.coll.stretches) {
        sizes.sends = op->conf.coll.send_bytes[r];
        sizes.expects = op->conf.coll.recv_bytes[r];
        bytes = sizeof sizes;
    }
    f->probe_sent = tt_op_send_cell(op, f, TT_CELL_PROBE, 0, &sizes, bytes);
    f->cp->probes += f->probe_sent;
    if (f->probe_sent && op->desc.kind == TT_SEND)
        /* without credit; the receiver also switches to streams, and sends a CTS */
        tt_op_choose_nontemporal(op);
}
