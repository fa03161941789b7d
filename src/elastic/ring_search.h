/* The search for the best order of peers in a ring: the slowest link first, then the sum (elastic/ring_matrix.h). Exact to
 * TT_RING_EXACT_PEERS peers; beyond, a search that can go on for as long as one likes, in slices as short as one likes. Pure: no clock, no
 * allocation; the same costs, seed and number of steps give the same order on every machine, however the steps are sliced. */
#ifndef TT_ELASTIC_RING_SEARCH_H
#define TT_ELASTIC_RING_SEARCH_H

#include <stddef.h>
#include "elastic/ring_matrix.h"

struct tt_ring_search;

/* Steps after which more seldom bring much: that many for n peers. */
uint64_t tt_ring_search_enough(uint32_t n);

/* Bytes that a search of n peers needs. */
size_t tt_ring_search_bytes(uint32_t n);

/* Begins a search in memory[tt_ring_search_bytes(c->n)], aligned as malloc does; the costs' arrays stay the caller's, and unchanged.
 * order: one to begin with, such as the one in use; NULL: none. 1 to TT_RING_PEERS_MAX peers. */
struct tt_ring_search *tt_ring_search_init(void *memory, const struct tt_ring_costs *c, const uint32_t *order,
                                           uint64_t seed);

/* Searches on for so many steps. A step takes about n^2 operations at most, mostly far fewer; that of a search of up to EXACT_PEERS all it
 * takes. False: there is nothing more to find, since the best is known, or it is known that there is no ring. */
bool tt_ring_search_step(struct tt_ring_search *s, uint64_t steps);

struct tt_ring_found {
    bool any;                       /* an order of links that exist was found; else all of what follows but `none` is 0 */
    bool none;                      /* there is no such order */
    bool best;                      /* it is proven that there is no better one */
    struct tt_ring_value value;     /* of the best order so far */
    uint64_t slow_bound;            /* no ring has a faster slowest link */
    uint64_t steps;                 /* that were taken */
};

/* What was found so far; the best order in order[n], if there is any. */
struct tt_ring_found tt_ring_search_found(const struct tt_ring_search *s, uint32_t *order);

#endif
