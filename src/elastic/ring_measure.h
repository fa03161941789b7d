/* Who measures whom when, and what comes of the bytes and times of a measurement. Pure. */
#ifndef TT_ELASTIC_RING_MEASURE_H
#define TT_ELASTIC_RING_MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* All ordered pairs of n peers in n - 1 rounds; in a round each peer sends to one and receives from one, so nobody's uplink or downlink is
 * used twice. In `round` (0 to n - 2), peer sends to tt_ring_round_to and receives from tt_ring_round_from. Where some pairs are known
 * already, they skip theirs; the others keep their rounds. */
uint32_t tt_ring_round_to(uint32_t n, uint32_t round, uint32_t peer);
uint32_t tt_ring_round_from(uint32_t n, uint32_t round, uint32_t peer);
/* The round in which that pair has its turn; from != to. */
uint32_t tt_ring_round_of(uint32_t n, uint32_t from, uint32_t to);

/* What a receiver saw of a burst: that by at_ns, bytes had come in all since its first one. */
struct tt_ring_sample {
    uint64_t at_ns, bytes;
};

#define TT_RING_SAMPLES_MIN 8u
#define TT_RING_HALF_SAMPLES_MIN 3u             /* of these, in the second half of the time */
#define TT_RING_SAMPLES_MAX 65536u
#define TT_RING_BURST_NS_MIN 1000000u           /* 1 ms: shorter ones say more about buffers than about the link */
#define TT_RING_BURST_NS_MAX 60000000000ull     /* 60 s: longer ones were interrupted */

/* Bytes/s from samples of a burst, in order: the slope by least squares over the second half of its time, when a connection has found its
 * rate. A policer that lets more through at first, or one pause, moves it little. INVALID (logged, with the values) for
 * what is none: too few samples, or too few in that half; time or bytes that run backwards; too short or long; nothing moved; more than a link can be. */
tutti_status tt_ring_estimate_rate(const struct tt_ring_sample *sample, uint32_t n, uint64_t *rate);

/* One way latency, ns: half the shortest of n round trips, which met the emptiest queues. INVALID (logged): none, one of 0 ns, or above
 * twice TT_RING_LATENCY_MAX. Half: without clocks that agree, the two directions cannot be told apart. */
tutti_status tt_ring_estimate_latency(const uint64_t *round_trip_ns, uint32_t n, uint64_t *latency_ns);

#endif
