/* The minimum-cost arborescence: links by which peer 0 reaches all others, one into each, with
 * the least sum. Edmonds' algorithm, in the form of Gabow and others (1986) for dense graphs:
 * n^2 steps. */
#ifndef TT_TESTS_RING_ARBOR_H
#define TT_TESTS_RING_ARBOR_H

#include <stddef.h>
#include <stdint.h>

/* Returns the memory that tt_ring_arbor needs, in bytes. */
size_t tt_ring_arbor_bytes(uint32_t n);

/* Sets from[k] to the source of the link into peer k, for each k except 0; from[0] is unchanged.
 * Returns the sum. weight[n][n], from row to column, may be negative; the diagonal is ignored.
 * memory: tt_ring_arbor_bytes(n), aligned to 8; n >= 2. */
int64_t tt_ring_arbor(uint32_t n, const int64_t *weight, uint32_t *from, void *memory);

#endif
