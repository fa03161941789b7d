/* Parts of the simulated start-up, upper ones first: start.c (processes and their configuration),
 * start_net.c (the network, and how processes handle messages). */
#ifndef TT_SIM_START_STATE_H
#define TT_SIM_START_STATE_H

#include "sim/start.h"

enum tt_start_event_kind {
    TT_START_EV_START,
    TT_START_EV_DELIVER,
    TT_START_EV_PROCESS,
    TT_START_EV_TICK,
    TT_START_EV_KILL,
    TT_START_EV_RESET,
    TT_START_EV_STRANGER
};

/* ---- start_net.c ---- */

/* Plans an event, not before now. Takes over `data`, which is malloc'd or NULL. */
void tt_start_schedule(struct tt_start *s, uint64_t at_ns, enum tt_start_event_kind kind, int a,
                       int b, uint8_t *data, size_t bytes);
/* Performs an action of the process `context`: the `emit` callback of its node. */
void tt_start_on_act(void *context, const struct tt_tree_act *act);

#endif
