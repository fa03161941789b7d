/* Error messages for calls of ranks that do not match. These functions fail the context, which ends
 * its operations. The caller holds the progress lock. */
#ifndef TT_ENGINE_MISMATCH_H
#define TT_ENGINE_MISMATCH_H

#include "engine/state.h"

/* Fails the context: rank `peer` of the context made the call `theirs` instead of `ours`. which:
 * the operation, e.g. "operation 17"; `more` is appended. */
void tt_context_mismatch(struct tt_context *c, uint32_t peer, const struct tt_opdesc *theirs,
                         const struct tt_opdesc *ours, const char *which, const char *more);
/* Like tt_context_mismatch, for an operation. */
void tt_op_mismatch(struct tt_op *op, uint32_t peer, const struct tt_opdesc *theirs,
                    const char *more);
/* Fails the context: the descriptors are equal, but the sizes differ. Rank `peer` sends `theirs`
 * bytes to this rank (sends), or expects `theirs` bytes from it; this rank's size is `ours`. */
void tt_op_sizes_differ(struct tt_op *op, uint32_t peer, bool sends, uint64_t theirs,
                        uint64_t ours);

#endif
