/* The assignment problem: each peer gets a successor, every peer once, with the least sum.
 * Several rings are permitted, so the sum is a lower bound for a single ring. Shortest
 * augmenting paths with potentials (Kuhn, Munkres; Jonker and Volgenant, 1987), one row per
 * call. */
#ifndef TT_RINGORDER_RING_ASSIGN_H
#define TT_RINGORDER_RING_ASSIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In memory of the caller. */
struct tt_ring_assign {
    uint32_t n, rows;           /* rows: number of assigned rows */
    const int64_t *weight;      /* [n][n] from row to column, not negative; n times the maximum
                                   must not overflow */
    int64_t *row_price, *column_price;      /* [n]: weight minus both prices is never negative,
                                               and 0 for assigned pairs */
    uint32_t *row_of;           /* [n + 1] by column; n: none */
    int64_t *least;
    uint32_t *way;
    bool *seen;
};

size_t tt_ring_assign_bytes(uint32_t n);
/* Initializes in memory[tt_ring_assign_bytes(n)], aligned to 8; n >= 2. */
void tt_ring_assign_init(struct tt_ring_assign *a, uint32_t n, const int64_t *weight, void *memory);
/* Assigns another row, in at most n^2 steps. Returns true when all are assigned. */
bool tt_ring_assign_step(struct tt_ring_assign *a);
/* Returns the least sum, when all are assigned. */
int64_t tt_ring_assign_sum(const struct tt_ring_assign *a);

#endif
