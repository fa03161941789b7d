/* What arriving takes; see op.h for who calls. Under the baton. */
#ifndef TT_ENGINE_DELIVER_H
#define TT_ENGINE_DELIVER_H

#include "engine/op.h"

/* Looks through the kept messages for what this operation can use now. */
void tt_op_take_early(struct tt_op *op);
/* Reads the flow words: segments landed here, segments consumed there. */
void tt_op_look_at_flows(struct tt_op *op);
/* Whether a rank that was here before has called something else as this operation: then the context has failed. */
bool tt_op_contradicted(struct tt_op *op);
/* Rank `peer` of the context says `theirs` where this operation is: the context fails. */
void tt_op_mismatch(struct tt_op *op, uint32_t peer, const struct tt_opdesc *theirs);

/* The descriptors are alike, and rank `peer` of the context says that it sends `theirs` bytes to this rank (sends), or expects them from it, where this one says
 * `ours`: the context fails. */
void tt_op_sizes_differ(struct tt_op *op, uint32_t peer, bool sends, uint64_t theirs, uint64_t ours);

#endif
