/* Connections of several lanes through a network of several ways, in simulated time: what limits of DQPLB (wire/dqplb.h, whose machines run
 * here) do to throughput, and to the queues in switches.
 *
 *      sender 0 -- NIC --+          +-- way 0: queue, rate --+          +-- receiver 0
 *      sender 1 -- NIC --+----------+-- way 1: queue, rate --+----------+-- receiver 1
 *         ...            |          |        ...             |          |      ...
 *
 * Lanes are dealt out to the ways in turn, over all connections, which is what a good hash of their addresses comes near. A NIC sends what is posted in that order, at its
 * rate. A way serves who came first and drops nothing. Bytes are at the receiver `latency_ns` after the way has let them go, and the sender
 * hears of it as much later. Each sender keeps `depth` messages handed over until `messages` have been.
 *
 * Left out: congestion control, and NICs that share out their rate among lanes. So a queue is as long as those who send let it become. */
#ifndef TT_SIM_LANES_H
#define TT_SIM_LANES_H

#include "wire/dqplb.h"

#define TT_LANES_SENDERS_MAX 1024u
#define TT_LANES_WAYS_MAX 64u

enum tt_lanes_how {
    TT_LANES_DQPLB,             /* by the limits */
    TT_LANES_UNLIMITED,         /* segments as soon as they are handed over */
    TT_LANES_STATIC             /* each message in as many equal stripes as there are lanes, one on each */
};

struct tt_lanes_case {
    enum tt_lanes_how how;
    struct tt_dqplb_limits limits;      /* UNLIMITED: lanes and segment_bytes; STATIC: lanes */
    enum tt_dqplb_choice choice;        /* not with STATIC */
    uint32_t senders, ways, slow_ways;  /* slow_ways of the ways have slow_share of their rate */
    double nic_bytes_per_s, way_bytes_per_s, slow_share;
    uint64_t latency_ns;
    uint64_t message_bytes;
    uint32_t messages, depth;           /* of each sender */
};

struct tt_lanes_result {
    double seconds;             /* until the last message has been told of */
    double bytes_per_s;         /* all senders together */
    double share;               /* of what NICs and ways could carry if nobody ever waited */
    double queue_mean, queue_most;      /* bytes in all ways' queues: over time, and at most */
};

/* Runs the case. False: it makes no sense (0 or too many of something), or needs segments in flight that DQPLB's window cannot hold; logged. */
bool tt_lanes_run(const struct tt_lanes_case *c, struct tt_lanes_result *out);

#endif
