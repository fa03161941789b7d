/* The one table of parameters: what the environment may set. `tutti info --params` prints it. */
#ifndef TT_BASE_PARAM_H
#define TT_BASE_PARAM_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* One line each in param.c: name in the environment, unit, default, bounds, one sentence. */
enum tt_param_id {
    TT_PARAM_TIMEOUT_MS,
    TT_PARAM_LANES,
    TT_PARAM_LANE_BYTES,        /* outstanding bytes per TCP lane */
    TT_PARAM_EAGER_BYTES,       /* largest message that travels without asking first, within a host */
    TT_PARAM_TCP_EAGER_BYTES,   /* and between hosts */
    TT_PARAM_SEGMENT_BYTES,     /* segment of a streamed transfer on shm */
    TT_PARAM_TCP_SEGMENT_BYTES,
    TT_PARAM_TCP_SILENCE_S,     /* how long a TCP peer's host may say nothing */
    TT_PARAM_SPIN_US,           /* how long a waiter spins before it blocks, if cores suffice */
    TT_PARAM_CMA,               /* process_vm_readv: 0 never, 1 where it pays, 2 for all longer copies */
    TT_PARAM_NUDGE_MS,          /* how long an operation waits before it asks the rank it waits for */
    TT_PARAM_COUNT
};

struct tt_param {
    const char *name;           /* "TUTTI_TIMEOUT_MS" */
    const char *unit;
    int64_t value_default, value_min, value_max;
    const char *summary;
};

extern const struct tt_param tt_params[TT_PARAM_COUNT];

/* Reads the parameter from the environment: *out is its value, or the default where it is missing or empty. A value that is
 * no number or out of bounds is TUTTI_ERR_INVALID with the name, the value and the bounds. */
tutti_status tt_param_get(enum tt_param_id id, int64_t *out);

#endif
