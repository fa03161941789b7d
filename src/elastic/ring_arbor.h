/* The cheapest arborescence: links by which peer 0 reaches all others, one into each, at the least sum. Edmonds' contractions, in the form
 * of Gabow and others (1986) for dense graphs: n^2 steps. */
#ifndef TT_ELASTIC_RING_ARBOR_H
#define TT_ELASTIC_RING_ARBOR_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that tt_ring_arbor needs. */
size_t tt_ring_arbor_bytes(uint32_t n);

/* Writes from[k], whom k's link comes from, for each peer k but 0; from[0] is untouched. Returns the sum. weight[n][n], from row to column,
 * may be negative; the diagonal is not looked at. memory: tt_ring_arbor_bytes(n), aligned to 8; n >= 2. */
int64_t tt_ring_arbor(uint32_t n, const int64_t *weight, uint32_t *from, void *memory);

#endif
