/* Sends and receives of a rank with itself. They are matched like others, by tag and order, and
 * performed as a copy. The caller holds the progress lock, except for the functions that
 * engine.h declares. */
#ifndef TT_ENGINE_SELF_H
#define TT_ENGINE_SELF_H

#include "engine/state.h"

/* Returns whether `conf` describes one. */
bool tt_op_is_self(const struct tt_context *c, const struct tt_op_conf *conf);
/* Called when the operation is exposed. If its counterpart is exposed too, both end, or fail
 * with MISMATCH if they differ. */
void tt_op_match_self(struct tt_op *op);

#endif
