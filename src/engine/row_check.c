#include "engine/row_check.h"

#include <string.h>

#include "engine/mismatch.h"

#define PADDED_TAG 0    /* tag of messages that contain lengths (tt_algo.pads) */

void tt_op_write_lengths(struct tt_op *op)
{
    const struct tt_algo *algo = op->conf.algo;
    const struct tt_coll *c = &op->conf.coll;

    op->lengths_due = algo->length_at && algo->length_rounds(c) > 0;
    for (uint32_t r = 0; op->lengths_due && r < c->nranks; r++)
        if (r != c->rank)
            memcpy(op->work + algo->length_at(c, r, true), &c->send_bytes[r],
                   sizeof c->send_bytes[r]);
}

bool tt_op_check_lengths(struct tt_op *op)
{
    const struct tt_algo *algo = op->conf.algo;
    const struct tt_coll *c = &op->conf.coll;

    if (!op->lengths_due || !tt_exec_has_reached(&op->exec, algo->length_rounds(c), PADDED_TAG))
        return true;
    op->lengths_due = false;
    for (uint32_t r = 0; r < c->nranks; r++) {
        uint64_t sent;

        if (r == c->rank)
            continue;
        memcpy(&sent, op->work + algo->length_at(c, r, false), sizeof sent);
        if (sent == c->recv_bytes[r])
            continue;
        tt_op_sizes_differ(op, r, true, sent, c->recv_bytes[r]);
        return false;
    }
    return true;
}
