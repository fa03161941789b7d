/* Two binary trees over m nodes, numbered from 1, such that no node has children in both: while a node passes on one half of a vector to
 * two others, it only takes the other half, or gives it. The first tree is the in-order one (a node's subtree is the nodes around it, as
 * many on either side as its lowest bit tells), the second the same shifted by one. Pure arithmetic. */
#ifndef TT_ALGO_TWOTREE_H
#define TT_ALGO_TWOTREE_H

#include "algo/algos.h"
#include "algo/blocks.h"

#define TT_TWO 2

/* Nodes; 0: none. */
struct tt_tree_place {
    uint32_t parent, left, right;
};
struct tt_tree_place tt_tree_place(uint32_t m, uint32_t tree, uint32_t node);
uint32_t tt_tree_root(uint32_t m, uint32_t tree);

/* The lowest rank in the subtree of a node, where node v is rank (first + v) mod nranks. */
uint32_t tt_tree_lowest(uint32_t m, uint32_t tree, uint32_t node, uint32_t first, uint32_t nranks);

/* The half of the call's vector that goes through a tree. */
struct tt_block tt_tree_half(const struct tt_coll *c, uint32_t tree);

/* What a hop costs of a streamed half: inner nodes pass each segment on to two. `hops` of the longest way. */
struct tt_cost tt_tree_cost(const struct tt_coll *c, uint32_t m);

#endif
