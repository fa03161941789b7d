/* Predicted times of an all-reduce over measured links: in one ring, in two rings of half each,
 * in two trees; and whether a change is worthwhile. Pure. docs/ring-order.md derives the
 * formulas. */
#ifndef TT_RINGORDER_RING_PREDICT_H
#define TT_RINGORDER_RING_PREDICT_H

#include "ringorder/ring_matrix.h"

/* Returns the time of a ring all-reduce in this order in ns, with the rates of tt_ring_rate.
 * NONE: a link does not exist; 0 for one peer. */
uint64_t tt_ring_predict(const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                         const uint32_t *order);

/* Returns the time of two simultaneous rings in this order in ns, in opposite directions, each
 * with half of the bytes (src/algo/allreduce_two_rings.c). A peer's two links share its up and
 * down rates. */
uint64_t tt_ring_predict_two(const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                             const uint32_t *order);

/* Returns the time of a double binary tree all-reduce (src/algo/allreduce_dtree.c) among ranks
 * in this order in ns: each half of the bytes goes up one tree and down again. */
uint64_t tt_ring_predict_trees(const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                               const uint32_t *order);

/* Returns the parent of `node` in that tree of nodes 1 to m (tree 0, or 1: shifted by one); 0:
 * the root. */
uint32_t tt_ring_tree_parent(uint32_t m, uint32_t tree, uint32_t node);

enum tt_ring_shape { TT_RING_ONE, TT_RING_TWO, TT_RING_TREES, TT_RING_SHAPES };

/* Returns "one ring", "two rings" or "two trees". */
const char *tt_ring_shape_name(enum tt_ring_shape shape);

/* Returns the time of an all-reduce of that shape, among ranks in this order, in ns. */
uint64_t tt_ring_predict_as(enum tt_ring_shape shape, const struct tt_ring_matrix *m,
                            const struct tt_ring_load *load, const uint32_t *order);

/* Returns the shape with the least predicted time; NONE is excluded. Of shapes with equal times,
 * returns the simplest. */
enum tt_ring_shape tt_ring_fastest(const uint64_t ns[TT_RING_SHAPES]);

/* Returns the time until all links of `then` that are not in `now` (NULL: no links) are established
 * at full rate, in ns. The time counts the round trips of the handshakes, and of a window that
 * begins with ten packets and doubles. Links are established concurrently, so the slowest
 * counts. */
uint64_t tt_ring_reconnect_ns(const struct tt_ring_matrix *m, const uint32_t *now,
                              const uint32_t *then, uint32_t handshake_round_trips);

struct tt_ring_change {
    uint64_t now_ns, then_ns;   /* of one step's all-reduces, predicted from the same matrix;
                                   NONE: impossible */
    uint64_t reconnect_ns;
    uint64_t steps;             /* expected number before the next change */
    uint32_t gain_percent;      /* hysteresis: smaller gains are noise */
};

/* Returns whether to change: a step gets shorter by at least gain_percent, and over the expected
 * steps this saves more time than reconnecting takes. An impossible order is always replaced by a
 * possible one. */
bool tt_ring_is_worth(const struct tt_ring_change *c);

#endif
