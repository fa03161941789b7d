/* Groups: operations that are started together, with one request. The request is an operation
 * without steps. All functions require the progress lock; rooms above call tt_op_start_group
 * (engine.h). */
#ifndef TT_ENGINE_GROUP_H
#define TT_ENGINE_GROUP_H

#include "engine/state.h"

/* Called when a running member has its final status. The last member ends the group. */
void tt_group_member_over(struct tt_op *member);
/* Takes the members (all over) from a group. The caller frees each of the *n members, and the
 * array with free(). NULL: not a group, or empty. */
struct tt_op **tt_group_take_members(struct tt_op *group, size_t *n);

#endif
