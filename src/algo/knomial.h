/* k-nomial trees over ranks counted from the root: the children of v are v + i * k^l, 0 < i < k,
 * for every l below the number of trailing zero digits of v in base k. k = 2 is the binomial tree;
 * a larger k has fewer levels, with more children on each. Pure arithmetic.
 *
 * Each knomial file ends in the list of its values of k, one line each (TT_KNOMIAL); algos.c names
 * them. */
#ifndef TT_ALGO_KNOMIAL_H
#define TT_ALGO_KNOMIAL_H

#include "algo/blocks.h"

/* a round serves k - 1 children; a reduction takes two steps for each */
#define TT_KNOMIAL_MAX 8

/* Levels of the tree: the least L with k^L >= nranks; and k^level. */
uint32_t tt_knomial_levels(uint32_t nranks, uint32_t k);
uint64_t tt_knomial_power(uint32_t k, uint32_t level);

/* Returns the number of v's children on a level, which are k^level = step apart. */
uint32_t tt_knomial_children(uint32_t v, uint32_t nranks, uint32_t k, uint64_t step);
/* Returns whether v has its parent on that level, and sets *parent. */
bool tt_knomial_parent(uint32_t v, uint32_t k, uint64_t step, uint32_t *parent);
/* The subtree of v != 0 is [v, v + size); that of 0 is all ranks. */
uint32_t tt_knomial_subtree(uint32_t v, uint32_t nranks, uint32_t k);

/* Returns how many of the `count` ranks from v on, counted from the root, precede the wrap from the
 * last rank to rank 0. */
uint32_t tt_knomial_before_end(const struct tt_coll *c, uint32_t v, uint32_t count);

/* One round per level. */
uint64_t tt_knomial_nrounds(const struct tt_coll *c, uint32_t k);
uint32_t tt_knomial_npeers(const struct tt_coll *c, uint32_t k);

/* Length of the critical path: a node of each level serves all its children in sequence. In
 * `messages`, and in vectors. */
double tt_knomial_messages(uint32_t nranks, uint32_t k);
double tt_knomial_vectors(uint32_t nranks, uint32_t k);

/* Defines tt_algo_<coll>_knomial<k> from the file's round_of, work_of and cost_of, which take k.
 * The functions are repeated for each k, since the functions of the table take only the call. The
 * variable arguments are further members of the table. */
#define TT_KNOMIAL(coll, k, ...) \
    static uint64_t nrounds_##k(const struct tt_coll *c) \
    { \
        return tt_knomial_nrounds(c, k); \
    } \
    static void round_##k(struct tt_sched *s, const struct tt_coll *c, uint64_t r) \
    { \
        round_of(s, c, r, k); \
    } \
    static uint64_t work_##k(const struct tt_coll *c) \
    { \
        return work_of(c, k); \
    } \
    static uint32_t npeers_##k(const struct tt_coll *c) \
    { \
        return tt_knomial_npeers(c, k); \
    } \
    static struct tt_cost cost_##k(const struct tt_coll *c) \
    { \
        return cost_of(c, k); \
    } \
    const struct tt_algo tt_algo_##coll##_knomial##k = { \
        .name = #coll "_knomial" #k, \
        .nrounds = nrounds_##k, \
        .round = round_##k, \
        .work_bytes = work_##k, \
        .npeers = npeers_##k, \
        .cost = cost_##k, \
        __VA_ARGS__, \
    }; \
    _Static_assert((k) <= TT_KNOMIAL_MAX && 2 * ((k)-1) <= TT_ROUND_STEPS_MAX,     \
                   "a round has room for its children")

#endif
