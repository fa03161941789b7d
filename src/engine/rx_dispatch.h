/* Handling of arriving messages (see op.h). The caller holds the progress lock. */
#ifndef TT_ENGINE_RX_DISPATCH_H
#define TT_ENGINE_RX_DISPATCH_H

#include "engine/op.h"

/* Scans the unexpected messages for those that this operation can use now. */
void tt_op_take_unexpected(struct tt_op *op);
/* Reads the flow words: segments that arrived here, and segments consumed by the peers. */
void tt_op_read_flows(struct tt_op *op);
/* Returns whether an unexpected message shows that another rank made a different call. Then the
 * context has failed. */
bool tt_op_find_mismatch(struct tt_op *op);
/* Fails the context: rank `peer` of the context made the call `theirs` instead of this
 * operation. */
void tt_op_mismatch(struct tt_op *op, uint32_t peer, const struct tt_opdesc *theirs);

/* Fails the context: the descriptors are equal, but the sizes differ. Rank `peer` sends `theirs`
 * bytes to this rank (sends), or expects `theirs` bytes from it; this rank's size is `ours`. */
void tt_op_sizes_differ(struct tt_op *op, uint32_t peer, bool sends, uint64_t theirs,
                        uint64_t ours);

#endif
