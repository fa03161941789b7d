/* From a measured matrix to an order of the ring: which transfers are too short to matter, and the search, in slices. Pure: no clock, no
 * allocation. */
#ifndef TT_ELASTIC_RING_ORDER_H
#define TT_ELASTIC_RING_ORDER_H

#include "elastic/ring_search.h"

struct tt_ring_order;

/* Bytes that choosing an order of n peers needs. */
size_t tt_ring_order_bytes(uint32_t n);

/* Steps after which more seldom bring much. */
uint64_t tt_ring_order_enough(uint32_t n);

/* Begins in memory[tt_ring_order_bytes(m->n)], aligned as malloc does. The matrix, which was checked, stays the caller's, and unchanged. now:
 * the order in use, or NULL: that of the peers' numbers. */
struct tt_ring_order *tt_ring_order_init(void *memory, const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                                         const uint32_t *now, uint64_t seed);

/* Goes on for so many steps, each as in elastic/ring_search.h. False: there is nothing more to find. */
bool tt_ring_order_step(struct tt_ring_order *o, uint64_t steps);

struct tt_ring_ordered {
    bool any, none;             /* there is an order; there is none, that is proven */
    bool best;                  /* proven best in its slowest link, and then the sum, above floor_ns */
    uint64_t predicted_ns;      /* of one all-reduce */
    uint64_t bound_ns;          /* no single ring is predicted to be faster */
    uint64_t floor_ns;          /* transfers of a block that are shorter were taken as equal */
    struct tt_ring_value value; /* block on the slowest link (at least floor_ns), and the sum of hops */
    uint64_t slow_bound;        /* of that, at the same floor */
    uint64_t steps;
};

/* What was found so far; the order in order[n], if any. */
struct tt_ring_ordered tt_ring_order_found(const struct tt_ring_order *o, uint32_t *order);

#endif
