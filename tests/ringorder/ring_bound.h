/* Lower bounds for rings: for the slowest link and for the sum. They show how good the results of
 * the search are. Pure. */
#ifndef TT_TESTS_RING_BOUND_H
#define TT_TESTS_RING_BOUND_H

#include <stddef.h>
#include "ringorder/ring_matrix.h"

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
