/* Where the time of operations goes, for whoever asks: measured only while it is asked for, as clocks cost time too. */
#ifndef TT_ENGINE_TIMERS_H
#define TT_ENGINE_TIMERS_H

#include "engine/engine.h"
#include "engine/exec.h"

struct tt_op;

/* The operation begins, and ends. Nothing unless timers run; straight programs, which are over before a clock could tell, are left out.
 * Under the baton. */
void tt_timers_begin(struct tt_op *op);
void tt_timers_end(struct tt_op *op);
/* Performs an action, and counts it with those of its kind. */
bool tt_timers_perform(struct tt_op *op, const struct tt_action *a);
/* A look at a wire while operations run took so long and came back with something, or not. */
void tt_timers_polled(struct tt_engine *e, uint64_t ns, bool any);

#endif
