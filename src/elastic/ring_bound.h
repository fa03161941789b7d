/* What no ring can be better than: bounds from below, for the slowest link and for the sum. Pure. */
#ifndef TT_ELASTIC_RING_BOUND_H
#define TT_ELASTIC_RING_BOUND_H

#include <stddef.h>
#include "elastic/ring_matrix.h"

/* Bytes that tt_ring_may_exist and tt_ring_slow_bound need. */
size_t tt_ring_reach_bytes(uint32_t n);

/* False: no ring has only links of slow <= limit, since with them not every peer reaches every other, or not every peer can have a
 * next one of its own. True says nothing certain. memory: tt_ring_reach_bytes(n), aligned to 8; n >= 2. About n^2 steps, seldom more than
 * n^3 / 64. */
bool tt_ring_may_exist(const struct tt_ring_costs *c, uint64_t limit, void *memory);

/* A value of slow from low on and below high, near their middle; NONE: there is none. */
uint64_t tt_ring_slow_between(const struct tt_ring_costs *c, uint64_t low, uint64_t high);

/* The least limit at which a ring may exist: none has a faster slowest link. NONE: there is no ring at all. */
uint64_t tt_ring_slow_bound(const struct tt_ring_costs *c, void *memory);

/* Bytes that tt_ring_sum_bound needs. */
size_t tt_ring_sum_bound_bytes(uint32_t n);

/* No ring whose links are all of slow <= limit has a lower sum than this. `known` is the sum of some such ring (it steers the steps, and
 * cannot make the bound wrong); `rounds` of n^2 to n^3 steps each: 0 is the assignment bound, some hundred come near the best bound of
 * this kind. memory: tt_ring_sum_bound_bytes(n), aligned to 8; n >= 2. NONE: there is no such ring. */
uint64_t tt_ring_sum_bound(const struct tt_ring_costs *c, uint64_t limit, uint64_t known, uint32_t rounds,
                           void *memory);

#endif
