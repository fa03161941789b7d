/* Backup of the input that an in-place call overwrites. The caller holds the progress lock. */
#ifndef TT_ENGINE_INPUT_BACKUP_H
#define TT_ENGINE_INPUT_BACKUP_H

#include "engine/state.h"

/* Copies the input that this call will overwrite. */
void tt_op_copy_input(struct tt_op *op);
/* Copies the input if the call must restore it on failure. */
static inline void tt_op_back_up(struct tt_op *op)
{
    op->backup_bytes = 0;
    if (op->conf.restore)
        tt_op_copy_input(op);
}
/* Restores the input from the backup, if there is one. */
void tt_op_restore_input(struct tt_op *op);

#endif
