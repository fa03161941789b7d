/* Schedule of measurements between peers, and evaluation of their samples. Pure. */
#ifndef TT_RINGORDER_RING_MEASURE_H
#define TT_RINGORDER_RING_MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* Measures all ordered pairs of n peers in n - 1 rounds. In each round a peer sends to one peer and
 * receives from one, so no uplink or downlink is used twice. In `round` (0 to n - 2), peer sends to
 * tt_ring_round_to and receives from tt_ring_round_from. Known pairs may be skipped; all other
 * pairs keep their rounds. */
uint32_t tt_ring_round_to(uint32_t n, uint32_t round, uint32_t peer);
uint32_t tt_ring_round_from(uint32_t n, uint32_t round, uint32_t peer);
/* Returns the round of that pair; from != to. */
uint32_t tt_ring_round_of(uint32_t n, uint32_t from, uint32_t to);

/* A receiver's sample of a burst: total bytes since the first one, received by at_ns. */
struct tt_ring_sample {
    uint64_t at_ns, bytes;
};

#define TT_RING_SAMPLES_MIN 8u
#define TT_RING_HALF_SAMPLES_MIN 3u             /* minimum samples in the second half of the time */
#define TT_RING_SAMPLES_MAX 65536u
/* 1 ms: shorter bursts measure buffers rather than the link */
#define TT_RING_BURST_NS_MIN 1000000u
#define TT_RING_BURST_NS_MAX 60000000000ull     /* 60 s: longer bursts were interrupted */

/* Returns the rate in bytes/s from samples of a burst, in order: the slope by least squares over
 * the second half of its time, when the connection has reached its rate. A policer's initial
 * burst, or one pause, has little effect. INVALID (logged, with the values): too few samples in
 * total or in that half; decreasing time or bytes; too short or long; no progress; an impossible
 * rate. */
tutti_status tt_ring_estimate_rate(const struct tt_ring_sample *sample, uint32_t n, uint64_t *rate);

#endif
