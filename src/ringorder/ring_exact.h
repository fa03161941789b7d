/* The best order of few peers, exactly, by dynamic programming over sets of peers (Held and
 * Karp, 1962). */
#ifndef TT_RINGORDER_RING_EXACT_H
#define TT_RINGORDER_RING_EXACT_H

#include <stddef.h>
#include "ringorder/ring_matrix.h"

#define TT_RING_EXACT_PEERS 12u         /* maximum number for which a search is exact */
#define TT_RING_EXACT_PEERS_MAX 18u     /* maximum number on request; 18 MB, tenths of a second */

/* Returns the memory that tt_ring_exact needs for n peers, in bytes. */
size_t tt_ring_exact_bytes(uint32_t n);

/* Finds order[n] of the least value: the slowest link first, then the sum; it begins with peer
 * 0. False: there is no ring of existing links, and order is unchanged. memory:
 * tt_ring_exact_bytes(n), aligned as by malloc; n from 1 to EXACT_PEERS_MAX. Pure. */
bool tt_ring_exact(const struct tt_ring_costs *c, void *memory, uint32_t *order);

#endif
