/* A ring that is being made better by exchanging neighbouring pieces of it, and by turning pieces around, whose links then cost what they cost
 * in the other direction. Works on one weight per link. */
#ifndef TT_ELASTIC_RING_TOUR_H
#define TT_ELASTIC_RING_TOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"

#define TT_RING_NEAR 10u        /* next peers that a move looks at */

/* In memory of the caller's. */
struct tt_ring_tour {
    uint32_t n, near;
    const int64_t *weight;      /* [n][n] */
    uint32_t *order, *at;       /* [n] peers in order; where each is */
    uint32_t *near_of;          /* [n][near] the most promising next ones of each, the lightest first */
    uint16_t *all_of;           /* [n][n - 1] all others, the lightest first */
    uint32_t *queue;            /* [n] a ring of peers that may have a better next one */
    uint32_t head, queued;
    bool *is_queued;
    bool wide;                  /* moves look at all peers, not only at those near */
    uint32_t *spare;            /* [n] */
    int64_t *forth, *back;      /* [n + 1] sums of the links before a place, as they are and turned around */
    bool stale;                 /* these are of another order */
    int64_t sum;
};

size_t tt_ring_tour_bytes(uint32_t n);
/* Begins with peers in the order of their numbers; memory[tt_ring_tour_bytes(n)], aligned to 8; n >= 3. */
void tt_ring_tour_init(struct tt_ring_tour *t, uint32_t n, const int64_t *weight, void *memory);
/* Who is promising: by weight less the column's price (what the assignment problem says that peer is worth to whoever gets it), and half
 * of them by weight alone. column_price may be NULL. n^2 steps. */
void tt_ring_tour_near(struct tt_ring_tour *t, const int64_t *column_price);
/* Takes order[n], whose sum is computed anew, and queues all peers, for wide moves. */
void tt_ring_tour_set(struct tt_ring_tour *t, const uint32_t *order);
/* Takes order[n] again, of that sum, and queues nobody. */
void tt_ring_tour_restore(struct tt_ring_tour *t, const uint32_t *order, int64_t sum);
/* Looks at one queued peer, and makes the first move that lowers the sum. False: nobody was queued. near^2 + n steps; n^2 where wide. */
bool tt_ring_tour_improve(struct tt_ring_tour *t);
/* Cuts out three neighbouring pieces somewhere and puts them back in the opposite order: no move of `improve` undoes that. Queues who is
 * touched. far: it cuts at heavy links, wherever they are, and the moves that follow are wide: so places between which links are heavy change
 * their order, too. n >= 8. */
void tt_ring_tour_kick(struct tt_ring_tour *t, struct tt_prng *random, bool far);

#endif
