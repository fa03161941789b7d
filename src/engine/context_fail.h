/* Failure of contexts. Unless stated otherwise, the caller holds the progress lock. */
#ifndef TT_ENGINE_CONTEXT_FAIL_H
#define TT_ENGINE_CONTEXT_FAIL_H

#include "engine/state.h"

/* Fails c, and ends its operations. notify: also fail it on the other ranks. */
void tt_context_fail_here(struct tt_context *c, tutti_status status, const char *sentence,
                          bool notify);
/* Returns the message of the failure that ended the context. After its status was read. */
const char *tt_context_why(const struct tt_context *c);

#endif
