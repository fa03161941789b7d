/* Latency of an 8-byte put with signal from a device to a waiting peer, compared with a plain flag
 * in the same memory. Ranks 0 and 1. */
#ifndef TUTTI_TOOLS_PUTSIGNAL_LATENCY_H
#define TUTTI_TOOLS_PUTSIGNAL_LATENCY_H

#include <stdint.h>
#include "tools/perf/putsignal_print.h"
#include "tutti/device.h"

/* Methods of notification. */
enum putsignal_ball {
    PUTSIGNAL_FLAG,         /* store by a thread, polled by a thread of the other process; no
                               library call */
    PUTSIGNAL_DIRECT,       /* put_signal of a block that stores to the peer's mapped memory */
    PUTSIGNAL_PROXY,        /* put_signal through FIFO and proxy */
    PUTSIGNAL_BALLS
};

struct putsignal_latency {
    uint32_t nrounds;
    double us[PUTSIGNAL_BALLS][PUTSIGNAL_ROUNDS_MAX];   /* half of a round trip: mean over the
                                                           trips of a round */
};

/* Runs nrounds rounds, each with `trips` round trips per method, in turn. Results are equal on all
 * ranks. Collective; ranks other than 0 and 1 only wait. UNSUPPORTED (logged): ranks 0 and 1 cannot
 * map each other's memory. */
tutti_status putsignal_latency(tutti_comm *comm, uint32_t nrounds, uint32_t trips,
                               struct putsignal_latency *out);

#endif
