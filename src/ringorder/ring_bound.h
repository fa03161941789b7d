/* Lower bounds for rings: for the slowest link and for the sum. Pure. */
#ifndef TT_RINGORDER_RING_BOUND_H
#define TT_RINGORDER_RING_BOUND_H

#include <stddef.h>
#include "ringorder/ring_matrix.h"

/* Returns the memory that tt_ring_may_exist and tt_ring_slow_bound need, in bytes. */
size_t tt_ring_reach_bytes(uint32_t n);

/* False: there is no ring with only links of slow <= limit. With these, some peer cannot reach
 * another one, or not every peer can have its own successor. True proves nothing. memory:
 * tt_ring_reach_bytes(n), aligned to 8; n >= 2. About n^2 steps, rarely more than n^3 / 64. */
bool tt_ring_may_exist(const struct tt_ring_costs *c, uint64_t limit, void *memory);

/* Returns a value of slow in [low, high), near the middle; NONE: there is none. */
uint64_t tt_ring_slow_between(const struct tt_ring_costs *c, uint64_t low, uint64_t high);

/* Returns the least limit at which a ring may exist: the slowest link of any ring is at least as
 * slow. NONE: there is no ring. */
uint64_t tt_ring_slow_bound(const struct tt_ring_costs *c, void *memory);

/* Returns the memory that tt_ring_sum_bound needs, in bytes. */
size_t tt_ring_sum_bound_bytes(uint32_t n);

/* Returns a lower bound for the sum of rings whose links are all of slow <= limit. `known`: the
 * sum of such a ring. It controls the step sizes, and cannot falsify the bound. `rounds`: each
 * takes n^2 to n^3 steps; 0 is the assignment bound, some hundred approach the best bound of
 * this kind. memory: tt_ring_sum_bound_bytes(n), aligned to 8; n >= 2. NONE: there is no such
 * ring. */
uint64_t tt_ring_sum_bound(const struct tt_ring_costs *c, uint64_t limit, uint64_t known,
                           uint32_t rounds, void *memory);

#endif
