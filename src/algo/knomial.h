/* k-nomial trees over ranks counted from the root: the children of v are v + i * k^l, 0 < i < k, for every l below the number of zero
 * digits that v ends in, base k. k = 2 is the binomial tree: fewer levels cost more children on each. Pure arithmetic.
 *
 * Which k there are: each of the knomial files ends in a list, one line each; algos.c names them. */
#ifndef TT_ALGO_KNOMIAL_H
#define TT_ALGO_KNOMIAL_H

#include "algo/blocks.h"

#define TT_KNOMIAL_MAX 8    /* a round serves k - 1 children; a reduction takes two steps for each */

/* Levels of the tree: the least L with k^L >= nranks; and k^level. */
uint32_t tt_knomial_levels(uint32_t nranks, uint32_t k);
uint64_t tt_knomial_power(uint32_t k, uint32_t level);

/* Whether v has children on a level, k^level = step apart; if so how many of them there are. */
uint32_t tt_knomial_children(uint32_t v, uint32_t nranks, uint32_t k, uint64_t step);
/* Whether v hangs below a parent on that level; *parent is it. */
bool tt_knomial_parent(uint32_t v, uint32_t k, uint64_t step, uint32_t *parent);
/* The subtree of v != 0 is [v, v + size); of 0 all. */
uint32_t tt_knomial_subtree(uint32_t v, uint32_t nranks, uint32_t k);

/* On the critical path: a node of each level serves, one after the other, all its children. In `messages`, and in vectors. */
double tt_knomial_messages(uint32_t nranks, uint32_t k);
double tt_knomial_vectors(uint32_t nranks, uint32_t k);

#endif
