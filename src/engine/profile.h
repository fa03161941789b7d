/* Time spent in operations: timers, only on request, because clock readings cost time; and the
 * stages of operations in the trace, from the processor's counter. */
#ifndef TT_ENGINE_PROFILE_H
#define TT_ENGINE_PROFILE_H

#include "engine/engine.h"
#include "engine/exec.h"

struct tt_op;

/* Record the begin and the end of an operation. No effect unless timers run. Straight-line programs
 * are not timed, because they are too short. The caller holds the progress lock. */
void tt_profile_begin(struct tt_op *op);
void tt_profile_end(struct tt_op *op);
/* Writes the stages of an operation to the trace, unless it is a straight-line program. Call it
 * before its record ends, while its flows are valid. */
void tt_profile_trace_stages(struct tt_op *op);
/* Performs an action, and adds its time to that of its kind. */
bool tt_profile_perform(struct tt_op *op, const struct tt_action *a);
/* Adds the time of a poll while operations run. any: it returned events. */
void tt_profile_polled(struct tt_engine *e, uint64_t ns, bool any);

#endif
