/* Sends and receives of a rank with itself. They are matched by tag and order, like those between
 * ranks, and performed as a copy. The caller holds the progress lock, except for the functions that
 * engine.h declares. */
#ifndef TT_ENGINE_SELF_H
#define TT_ENGINE_SELF_H

#include "engine/context.h"

/* Returns whether `conf` describes such a call. */
static inline bool tt_op_is_self(const struct tt_context *c, const struct tt_op_conf *conf)
{
    return tt_is_p2p((uint8_t)conf->coll.kind) && conf->coll.root == c->rank;
}
/* Called when the operation is exposed. If its counterpart is exposed too, both complete, or fail
 * with MISMATCH if they differ. Returns false if the counterpart is not exposed. */
bool tt_op_match_self(struct tt_op *op);

#endif
