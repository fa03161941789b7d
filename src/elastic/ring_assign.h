/* The assignment problem: to each peer its next one, every peer once, at the least sum; several rings are allowed, so what comes out is
 * no more than what any single ring costs. Shortest augmenting paths with potentials (Kuhn, Munkres; Jonker and Volgenant, 1987), a row per
 * call. */
#ifndef TT_ELASTIC_RING_ASSIGN_H
#define TT_ELASTIC_RING_ASSIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In memory of the caller's. */
struct tt_ring_assign {
    uint32_t n, rows;           /* rows that are assigned */
    const int64_t *weight;      /* [n][n] from row to column, not negative; n times the largest fits */
    int64_t *row_price, *column_price;      /* [n]: weight - both is never negative, and 0 where assigned */
    uint32_t *row_of;           /* [n + 1] by column, n: none */
    int64_t *least;
    uint32_t *way;
    bool *seen;
};

size_t tt_ring_assign_bytes(uint32_t n);
/* Begins, in memory[tt_ring_assign_bytes(n)], aligned to 8; n >= 2. */
void tt_ring_assign_init(struct tt_ring_assign *a, uint32_t n, const int64_t *weight, void *memory);
/* Assigns one more row, in n^2 steps at most. True: all are. */
bool tt_ring_assign_step(struct tt_ring_assign *a);
/* The least sum, of a finished one. */
int64_t tt_ring_assign_sum(const struct tt_ring_assign *a);

#endif
