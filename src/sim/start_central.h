/* Start-up over one central server, in simulated time: the baseline of the tree (start.h). It
 * follows the description of NCCL's start-up in "Collective Communication for 100k+ GPUs", section
 * 7.1: every rank connects to one server, which builds a ring; then all exchange their records by
 * all-gathers over the ring.
 *
 *   collect   a rank connects at a random time, and sends its record; the server handles two
 *             messages for it, one after the other. A full backlog drops the connection request,
 *             which TCP sends again after 1, 2, 4, ... s, six times. Then connect fails after
 *             another 64 s, and the rank begins again.
 *   ring      when all have connected, the server connects to each rank, and sends it the address
 *             of the next. Each completed connect costs as much as one message.
 *   gathers   each all-gather has nranks - 1 steps, in which each rank sends one record to the
 *             next rank. A step takes the latency, and the time of one message.
 *
 * Costs are those of the tree: message_ns where a message is received, and byte_ns for each byte
 * at both ends. Hops between ranks of a host have no random part of the latency; those of the tree
 * have one (start.h).
 *
 * The first phase is simulated by events. The third is a formula, with the mean latency of all
 * hops: the last rank to begin determines the end, since its record passes all others. Latencies
 * that vary take longer, so that the formula favours the baseline. */
#ifndef TT_SIM_START_CENTRAL_H
#define TT_SIM_START_CENTRAL_H

#include <stdbool.h>
#include <stdint.h>
#include "base/prng.h"
#include "sim/net.h"

#define TT_CENTRAL_RETRIES 6u       /* of TCP, by default */

struct tt_central_conf {
    uint32_t nranks;                /* at least 2 */
    uint32_t per_host;              /* consecutive ranks of a host; 0: 1 */
    uint32_t backlog;               /* at least 1 */
    uint32_t ngathers;
    uint32_t record_bytes;
    uint64_t latency_min_ns, latency_ns;        /* minimum, and maximum of the random part */
    uint64_t start_ns;              /* ranks start within this time, at random; at least 1 */
    uint64_t message_ns;
    double byte_ns;
    bool no_retries;                /* a dropped rank never connects */
    const struct tt_net_conf *net;  /* replaces latency_min_ns between ranks, by distance; or NULL.
                                       Its layout must have nranks */
    uint64_t seed;
};

struct tt_central_result {
    uint64_t collected_ns, ring_ns, gathered_ns;        /* end of each phase; 0: not reached */
    uint64_t dropped;               /* connection requests */
    uint32_t nlost;                 /* ranks that never connected */
    uint32_t queued_most;           /* connections that wait for the server */
    uint64_t server_bytes, rank_bytes;          /* sent and received; frame headers excluded */
};

/* Aborts if out of memory. */
void tt_central_run(const struct tt_central_conf *conf, struct tt_central_result *out);
/* The time of one all-gather by steps of all ranks, with a random latency for each message: for
 * tests of the formula, with few ranks. began_ns[nranks]: times at which ranks begin. Returns the
 * time at which the last rank ends. */
uint64_t tt_central_gather_steps(const struct tt_central_conf *conf, const uint64_t *began_ns,
                                 struct tt_prng *prng);
/* The same time by the formula. */
uint64_t tt_central_gather_ns(const struct tt_central_conf *conf, uint64_t began_ns);

#endif
