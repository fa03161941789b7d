/* Two binary trees over m nodes, numbered from 1, such that no node has children in both: a node
 * that forwards one half of a vector to two others only receives or sends the other half. The first
 * tree is the in-order tree (a node's subtree contains the nodes around it, as many on each side as
 * its lowest bit minus one), the second is the same shifted by one. Pure arithmetic. */
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

/* Returns the lowest rank in the subtree of a node, where node v is rank (first + v) mod nranks. */
uint32_t tt_tree_lowest(uint32_t m, uint32_t tree, uint32_t node, uint32_t first, uint32_t nranks);

/* The half of the call's vector that uses a tree. */
struct tt_block tt_tree_half(const struct tt_coll *c, uint32_t tree);

/* Cost of a streamed half over the longest path: inner nodes forward each segment to two. */
struct tt_cost tt_tree_cost(const struct tt_coll *c, uint32_t m);

#endif
