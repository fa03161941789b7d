/* Sends and receives of a rank with itself: they are matched as between ranks, by tag and order, and are a copy. Under the baton, but for
 * what engine.h declares. */
#ifndef TT_ENGINE_ONESELF_H
#define TT_ENGINE_ONESELF_H

#include "engine/state.h"

/* Whether what `conf` says is one. */
bool tt_op_is_with_oneself(const struct tt_context *c, const struct tt_op_conf *conf);
/* It is exposed: if its counterpart is, too, both end, or fail as a mismatch where they differ. */
void tt_op_meet_oneself(struct tt_op *op);

#endif
