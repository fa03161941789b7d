/* Whether a ring of permitted links may exist. Pure. */
#ifndef TT_RINGORDER_RING_REACH_H
#define TT_RINGORDER_RING_REACH_H

#include <stddef.h>
#include "ringorder/ring_matrix.h"

/* Returns the memory that tt_ring_may_exist needs, in bytes. */
size_t tt_ring_reach_bytes(uint32_t n);

/* False: there is no ring with only links of slow <= limit. With these, some peer cannot reach
 * another one, or not every peer can have its own successor. True proves nothing. memory:
 * tt_ring_reach_bytes(n), aligned to 8; n >= 2. About n^2 steps, rarely more than n^3 / 64. */
bool tt_ring_may_exist(const struct tt_ring_costs *c, uint64_t limit, void *memory);

/* Returns a value of slow in [low, high), near the middle; NONE: there is none. */
uint64_t tt_ring_slow_between(const struct tt_ring_costs *c, uint64_t low, uint64_t high);

#endif
