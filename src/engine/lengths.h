/* Where an alltoallv pads what it sends, how long a row is travels with it (tt_algo.length_at): the engine writes it there, and compares. Under the baton. */
#ifndef TT_ENGINE_LENGTHS_H
#define TT_ENGINE_LENGTHS_H

#include "engine/op.h"

/* Before the first round: what this rank sends. */
void tt_op_write_lengths(struct tt_op *op);
/* Compares what others send with what this rank expects, once that has come. False: they differ, and the context has failed. */
bool tt_op_check_lengths(struct tt_op *op);

#endif
