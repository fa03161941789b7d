/* Chooses a ring order by a measured matrix: determines the threshold of relevant transfers, and
 * searches in slices. Pure: no clock, no allocation. */
#ifndef TT_RINGORDER_RING_ORDER_H
#define TT_RINGORDER_RING_ORDER_H

#include "ringorder/ring_search.h"

struct tt_ring_order;

/* Returns the memory for choosing an order of n peers, in bytes. */
size_t tt_ring_order_bytes(uint32_t n);

/* Returns the number of steps after which further steps rarely help. */
uint64_t tt_ring_order_enough(uint32_t n);

/* Begins in memory[tt_ring_order_bytes(m->n)], aligned as by malloc. The matrix must be checked;
 * it belongs to the caller, and must not change. now: the current order; NULL: by index. */
struct tt_ring_order *tt_ring_order_init(void *memory, const struct tt_ring_matrix *m,
                                         const struct tt_ring_load *load, const uint32_t *now,
                                         uint64_t seed);

/* Continues for a number of steps (see elastic/ring_search.h). False: nothing better can be
 * found. */
bool tt_ring_order_step(struct tt_ring_order *o, uint64_t steps);

struct tt_ring_ordered {
    bool any, none;             /* any: an order was found; none: provably no order exists */
    bool best;                  /* proven best by the slowest link, then the sum, above floor_ns */
    uint64_t predicted_ns;      /* of one all-reduce */
    uint64_t bound_ns;          /* lower bound for the prediction of any single ring */
    uint64_t floor_ns;          /* shorter transfers of a block counted as equal */
    struct tt_ring_value value; /* block on the slowest link (at least floor_ns), and the sum of
                                   hops */
    uint64_t slow_bound;        /* lower bound for the slowest link, at the same floor */
    uint64_t steps;
};

/* Returns the current result; the order in order[n], if any. */
struct tt_ring_ordered tt_ring_order_found(const struct tt_ring_order *o, uint32_t *order);

#endif
