/* Backup of the input that an in-place call overwrites, which is restored after a failure. */
#include "engine/input_backup.h"

#include <stdlib.h>

#include "base/log.h"

/* Copies the input that an in-place call overwrites to its backup, or (back) from it. For an
 * alltoallv, copies only the rows, because the gaps between them do not belong to the call. */
static void copy_input(const struct tt_op *op, bool back)
{
    const struct tt_coll *c = &op->conf.coll;
    const bool rows = c->kind == TT_ALLTOALLV;
    uint8_t *kept = op->backup, *at;
    uint64_t bytes;

    for (uint32_t r = 0; r < (rows ? c->nranks : 1); r++, kept += bytes) {
        bytes = rows ? c->recv_bytes[r] : op->backup_bytes;
        at = (uint8_t *)op->backup_of + (rows ? c->recv_displs[r] : 0);
        tt_copy(back ? at : kept, NULL, back ? kept : at, bytes, false);
    }
}

void tt_op_restore_input(struct tt_op *op)
{
    if (op->backup_bytes)
        copy_input(op, true);
    op->backup_bytes = 0;
}

void tt_op_copy_input(struct tt_op *op)
{
    const struct tt_coll *c = &op->conf.coll;

    op->backup_of = op->conf.dst;
    switch (c->kind) {
    case TT_ALLREDUCE:
        op->backup_bytes = c->bytes;
        break;
    case TT_REDUCE:
        op->backup_bytes = c->rank == c->root ? c->bytes : 0;
        break;
    case TT_REDUCE_SCATTER:
        op->backup_bytes = c->bytes;
        break;
    case TT_REDUCE_SCATTERV:
        op->backup_bytes = c->send_bytes[c->rank];
        break;
    case TT_ALLTOALL:
        op->backup_bytes = c->bytes * c->nranks;
        break;
    case TT_ALLTOALLV:
        for (uint32_t r = 0; r < c->nranks; r++)
            op->backup_bytes += c->recv_bytes[r];
        break;
    default:
        break; /* other kinds do not overwrite their input */
    }
    if (op->backup_bytes > op->backup_cap) {
        free(op->backup);
        op->backup = malloc(op->backup_bytes);
        op->backup_cap = op->backup ? op->backup_bytes : 0;
        if (!op->backup) {
            tt_log(TT_LOG_WARN,
                   "out of memory for a copy of in-place input (%llu bytes): the input will not be "
                   "restored after a failure",
                   (unsigned long long)op->backup_bytes);
            op->backup_bytes = 0;
        }
    }
    if (op->backup_bytes)
        copy_input(op, false);
}
