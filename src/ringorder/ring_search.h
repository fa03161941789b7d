/* The search for the best order of peers in a ring: the slowest link first, then the sum
 * (ring_matrix.h). Exact for up to TT_RING_EXACT_PEERS peers; otherwise a search of any
 * length, in slices of any length. Pure: no clock, no allocation. Equal costs, seed and number
 * of steps give the same order on every machine, for any slices. */
#ifndef TT_RINGORDER_RING_SEARCH_H
#define TT_RINGORDER_RING_SEARCH_H

#include <stddef.h>
#include "ringorder/ring_matrix.h"

struct tt_ring_search;

/* Returns the number of steps for n peers after which further steps rarely help. */
uint64_t tt_ring_search_enough(uint32_t n);

/* Returns the memory of a search of n peers, in bytes. */
size_t tt_ring_search_bytes(uint32_t n);

/* Begins a search in memory[tt_ring_search_bytes(c->n)], aligned as by malloc; the costs' arrays
 * belong to the caller, and must not change. order: initial order, e.g. the current one; NULL:
 * none. 1 to TT_RING_PEERS_MAX peers. */
struct tt_ring_search *tt_ring_search_init(void *memory, const struct tt_ring_costs *c,
                                           const uint32_t *order, uint64_t seed);

/* Searches for a number of steps. A step takes at most about n^2 operations, usually far fewer;
 * up to EXACT_PEERS peers a single step does everything. False: the best order, or the absence
 * of any ring, is proven. */
bool tt_ring_search_step(struct tt_ring_search *s, uint64_t steps);

struct tt_ring_found {
    bool any;                       /* an order of existing links was found; otherwise all
                                       following fields except `none` are 0 */
    bool none;                      /* no order of existing links exists */
    bool best;                      /* no better order exists; this is proven */
    struct tt_ring_value value;     /* of the best order found */
    uint64_t slow_bound;            /* lower bound for the slowest link of any ring */
    uint64_t steps;                 /* steps done */
};

/* Returns the current result; the best order in order[n], if any. */
struct tt_ring_found tt_ring_search_found(const struct tt_ring_search *s, uint32_t *order);

#endif
