/* Parallel aggregated trees: geometry. Every rank's block is sent along a binomial tree over the
 * ranks counted from its own: the parent of offset d is d without its lowest bit. All trees run at
 * once: in a step every rank r sends, for several trees, the value of offset `parent` to offset
 * `child`, which is rank r + distance. The blocks of these trees are one message: the aggregation.
 *
 * With 2^levels >= nranks and an aggregation of A = 2^k blocks, offsets are q * M + e, M = 2^levels
 * / A, e < M. First the tree of the offsets q * M, a level per step, far ranks first: k steps.
 * Then, for e = 1, 2, .. M - 1, one step for all q: short paths. A = 2^levels is full aggregation:
 * `levels` steps. Pure arithmetic. */
#ifndef TT_ALGO_PAT_H
#define TT_ALGO_PAT_H

#include "algo/blocks.h"

struct tt_pat {
    uint32_t nranks, levels;
    uint32_t aggregated;        /* A, a power of two, at most 2^levels */
    uint32_t apart;             /* M */
    uint32_t far_steps, steps;  /* far_steps: of the first kind; steps: in total */
};

/* blocks_max: limit of A, at least 1. */
struct tt_pat tt_pat_of(uint32_t nranks, uint64_t blocks_max);

/* Step k: in trees i < count, parent + i * apart sends to offset child + i * apart. */
struct tt_pat_step {
    uint32_t child, parent, distance, apart, count;
    bool far;       /* of the first kind */
};
struct tt_pat_step tt_pat_step(const struct tt_pat *p, uint32_t k);

/* For the trees in which `rank` is offset first + i * apart, i < count: number of i before the
 * roots pass rank 0. From there on they continue below nranks; in both parts they descend by
 * `apart`. */
uint32_t tt_pat_wrap(uint32_t rank, uint32_t first, uint32_t apart, uint32_t count);
/* The root of the tree in which `rank` is at `offset`. */
uint32_t tt_pat_root(const struct tt_pat *p, uint32_t rank, uint32_t offset);

#endif
