/* Row lengths of a padded alltoallv. They are sent with the rows (tt_algo.length_at): the engine
 * writes and compares them. The caller holds the progress lock. */
#ifndef TT_ENGINE_ROW_CHECK_H
#define TT_ENGINE_ROW_CHECK_H

#include "engine/state.h"

/* Writes the lengths of this rank's rows. Call before the first round. */
void tt_op_write_lengths(struct tt_op *op);
/* Compares the lengths that peers send with those that this rank expects, once they have
 * arrived. False: they differ, and the context has failed. */
bool tt_op_check_lengths(struct tt_op *op);

#endif
