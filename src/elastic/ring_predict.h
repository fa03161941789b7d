/* How long an all-reduce takes over links as measured: in one ring, in two rings of half each, in two trees; and whether a change is worth
 * it. Pure. docs/ring-order.md derives the formulas. */
#ifndef TT_ELASTIC_RING_PREDICT_H
#define TT_ELASTIC_RING_PREDICT_H

#include "elastic/ring_matrix.h"

/* ns of a ring all-reduce in this order, its links at the rates of tt_ring_rate. NONE: a link does not exist; 0 for one peer. */
uint64_t tt_ring_predict(const struct tt_ring_matrix *m, const struct tt_ring_load *load, const uint32_t *order);

/* ns of two rings at once in this order, in opposite directions, each of half the bytes (src/algo/allreduce_two_rings.c). A peer's up and down
 * are shared by its two links. */
uint64_t tt_ring_predict_two(const struct tt_ring_matrix *m, const struct tt_ring_load *load, const uint32_t *order);

/* ns of the double binary tree all-reduce (src/algo/allreduce_dtree.c) among ranks in this order: each half of the bytes goes up one tree
 * and down again. */
uint64_t tt_ring_predict_trees(const struct tt_ring_matrix *m, const struct tt_ring_load *load, const uint32_t *order);

/* The parent of `node` in that tree of nodes 1 to m (tree 0, or 1: shifted by one); 0: it is the root. */
uint32_t tt_ring_tree_parent(uint32_t m, uint32_t tree, uint32_t node);

enum tt_ring_shape { TT_RING_ONE, TT_RING_TWO, TT_RING_TREES, TT_RING_SHAPES };

/* "one ring", "two rings", "two trees". */
const char *tt_ring_shape_name(enum tt_ring_shape shape);

/* ns of an all-reduce of that shape, among ranks in this order. */
uint64_t tt_ring_predict_as(enum tt_ring_shape shape, const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                            const uint32_t *order);

/* The fastest of what was predicted, by shape; NONE is none. Ties go to the simpler. */
enum tt_ring_shape tt_ring_fastest(const uint64_t ns[TT_RING_SHAPES]);

/* ns until all links of `then` that are not in `now` (NULL: none is there) are up and at full rate: round trips of the handshakes, and of a
 * window that begins with ten packets and doubles. They are made at once, so the slowest counts. */
uint64_t tt_ring_reconnect_ns(const struct tt_ring_matrix *m, const uint32_t *now, const uint32_t *then,
                              uint32_t handshake_round_trips);

struct tt_ring_change {
    uint64_t now_ns, then_ns;   /* of one step's all-reduces, predicted by the same matrix; NONE: cannot be done */
    uint64_t reconnect_ns;
    uint64_t steps;             /* that are expected before the next change */
    uint32_t gain_percent;      /* hysteresis: less than this is noise */
};

/* Whether to change: a step gets shorter by at least gain_percent, and over the expected steps that wins more time than reconnecting takes.
 * What cannot go on as it is always changes, if it then can. */
bool tt_ring_is_worth(const struct tt_ring_change *c);

#endif
