/* Groups: operations that are started together and stand under one request, which is an operation without steps of its own. Under the
 * baton; what rooms above call is tt_op_start_group in engine.h. */
#ifndef TT_ENGINE_GROUP_H
#define TT_ENGINE_GROUP_H

#include "engine/state.h"

/* A running member has its final status. The last one ends the group. */
void tt_group_member_over(struct tt_op *member);
/* Takes the members of a group, which are over, from it: [*n], the caller's to free each, then all with free(). NULL: it has none, or is none. */
struct tt_op **tt_group_take_members(struct tt_op *group, size_t *n);

#endif
