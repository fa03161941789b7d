/* Connections of several lanes through a network of several paths (ways), in simulated time: the
 * effect of DQPLB's limits (wire/dqplb.h, whose state machines run here) on throughput, and on
 * switch queues.
 *
 *      sender 0 -- NIC --+          +-- way 0: queue, rate --+          +-- receiver 0
 *      sender 1 -- NIC --+----------+-- way 1: queue, rate --+----------+-- receiver 1
 *         ...            |          |        ...             |          |      ...
 *
 * Lanes are assigned to the ways round-robin over all connections, similar to a good hash of their
 * addresses. A NIC sends in the order of posting, at its rate. A way is first come, first served,
 * and drops nothing. Bytes arrive `latency_ns` after they leave the way, and the acknowledgement
 * arrives as much later. Each sender has `depth` messages posted until all `messages` are.
 *
 * Not modelled: congestion control, and NICs that divide their rate among lanes. A queue is thus as
 * long as the senders allow. */
#ifndef TT_SIM_LANES_H
#define TT_SIM_LANES_H

#include "wire/dqplb.h"

#define TT_LANES_SENDERS_MAX 1024u
#define TT_LANES_WAYS_MAX 64u

enum tt_lanes_how {
    TT_LANES_DQPLB,             /* within the limits */
    TT_LANES_UNLIMITED,         /* segments are sent as soon as they are posted */
    TT_LANES_STATIC             /* each message in equal stripes, one per lane */
};

struct tt_lanes_case {
    enum tt_lanes_how how;
    struct tt_dqplb_limits limits;      /* UNLIMITED: only lanes and segment_bytes; STATIC: only
                                           lanes */
    enum tt_dqplb_choice choice;        /* not for STATIC */
    uint32_t senders, ways, slow_ways;  /* slow_ways of the ways have slow_share of the rate */
    double nic_bytes_per_s, way_bytes_per_s, slow_share;
    uint64_t latency_ns;
    uint64_t message_bytes;
    uint32_t messages, depth;           /* per sender */
};

struct tt_lanes_result {
    double seconds;             /* until the last message was reported */
    double bytes_per_s;         /* of all senders together */
    double share;               /* relative to the maximum rate of NICs and ways */
    double queue_mean, queue_most;      /* bytes in all queues: mean over time, and maximum */
};

/* Runs the case. Returns false (logged) if it is invalid (a value is 0 or too large), or needs more
 * segments in flight than DQPLB's window. */
bool tt_lanes_run(const struct tt_lanes_case *c, struct tt_lanes_result *out);

#endif
