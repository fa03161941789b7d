/* How long a put of 8 bytes with its signal takes from a device to a peer that waits, beside a bare flag in the same memory. Ranks 0 and 1. */
#ifndef TUTTI_TOOLS_PUTSIGNAL_LATENCY_H
#define TUTTI_TOOLS_PUTSIGNAL_LATENCY_H

#include <stdint.h>
#include "putsignal_print.h"
#include "tutti/device.h"

/* What goes to and fro. */
enum putsignal_ball {
    PUTSIGNAL_FLAG,         /* a store by a thread, for which a thread of the other process looks: no library between them */
    PUTSIGNAL_DIRECT,       /* put_signal of a block that stores to the peer's memory */
    PUTSIGNAL_PROXY,        /* put_signal through FIFO and proxy */
    PUTSIGNAL_BALLS
};

struct putsignal_latency {
    uint32_t nrounds;
    double us[PUTSIGNAL_BALLS][PUTSIGNAL_ROUNDS_MAX];   /* half of a round trip, the mean of a round's trips */
};

/* nrounds times `trips` round trips of each in turn; the same on all ranks. Collective; the other ranks only wait. UNSUPPORTED (logged): ranks 0 and 1 have
 * no memory of each other's mapped. */
tutti_status putsignal_latency(tutti_comm *comm, uint32_t nrounds, uint32_t trips, struct putsignal_latency *out);

#endif
