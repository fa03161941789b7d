/* Improvement of a ring by exchanging adjacent pieces, and by reversing pieces, whose links then
 * have the costs of the other direction. Uses one weight per link. */
#ifndef TT_RINGORDER_RING_TOUR_H
#define TT_RINGORDER_RING_TOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"

#define TT_RING_NEAR 10u        /* successors that a move considers */

/* In memory of the caller. */
struct tt_ring_tour {
    uint32_t n, near;
    const int64_t *weight;      /* [n][n] */
    uint32_t *order, *at;       /* [n] peers in order; position of each */
    uint32_t *near_of;          /* [n][near] the most promising successors of each, the lightest
                                   first */
    uint16_t *all_of;           /* [n][n - 1] all other peers, the lightest link first */
    uint32_t *queue;            /* [n] a ring buffer of peers that may have a better successor */
    uint32_t head, queued;
    bool *is_queued;
    bool wide;                  /* moves consider all peers, not only near ones */
    uint32_t *spare;            /* [n] */
    int64_t *forth, *back;      /* [n + 1] sums of the links before a position, forwards and
                                   reversed */
    bool stale;                 /* forth and back belong to another order */
    int64_t sum;
};

size_t tt_ring_tour_bytes(uint32_t n);
/* Begins with peers ordered by index; memory[tt_ring_tour_bytes(n)], aligned to 8;
 * n >= 3. */
void tt_ring_tour_init(struct tt_ring_tour *t, uint32_t n, const int64_t *weight, void *memory);
/* Determines the promising successors: by weight minus the column's price (the value of that
 * peer in the assignment problem), and half of them by weight alone. column_price may be NULL.
 * n^2 steps. */
void tt_ring_tour_near(struct tt_ring_tour *t, const int64_t *column_price);
/* Sets order[n], computes its sum, and queues all peers, for wide moves. */
void tt_ring_tour_set(struct tt_ring_tour *t, const uint32_t *order);
/* Sets order[n] with a known sum, and queues no peers. */
void tt_ring_tour_restore(struct tt_ring_tour *t, const uint32_t *order, int64_t sum);
/* Processes one queued peer: makes the first move that lowers the sum. False: the queue is
 * empty. near^2 + n steps; n^2 with wide moves. */
bool tt_ring_tour_improve(struct tt_ring_tour *t);
/* Exchanges three adjacent pieces at a random position, in reverse order, which no move of
 * `improve` undoes. Queues the affected peers. far: cuts at heavy links anywhere, and makes the
 * following moves wide, so that regions between heavy links also change their order. n >= 8. */
void tt_ring_tour_kick(struct tt_ring_tour *t, struct tt_prng *random, bool far);

#endif
