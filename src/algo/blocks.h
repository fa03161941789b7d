/* Arithmetic shared by algorithms: blocks of a call, ranks folded to a power of two, ranks counted
 * from the root, and the order of operands. Pure. */
#ifndef TT_ALGO_BLOCKS_H
#define TT_ALGO_BLOCKS_H

#include "sched/sched.h"

/* Maximum WORK of an algorithm, and the part of a row that slab-wise algorithms process at a
 * time. */
#define TT_WORK_MAX (256u << 10)
/* maximum WORK per rank with very many ranks, if that is more */
#define TT_WORK_RANK_BYTES 64u
#define TT_WORK_MAX_TEXT "256 KiB, or 64 bytes a rank if that is more"
#define TT_SLAB_BYTES (256u << 10)

/* Returns the layout; for a call without one, all ranks on one host, stored in *alone. */
const struct tt_layout *tt_layout_of(const struct tt_coll *c, struct tt_layout *alone);

/* A range of bytes within SRC or DST. */
struct tt_block {
    uint64_t offset, bytes;
};

/* Block i of the call, i < nranks: row i of the buffer with rows (allgather, gather: DST; scatter,
 * reduce_scatter: SRC; alltoall: both); for allreduce, reduce and broadcast the vector split into
 * nranks. Not for alltoallv, barrier, send, recv. */
struct tt_block tt_block_of(const struct tt_coll *c, uint32_t i);
/* Blocks [first, last) as one range; requires packed blocks. */
struct tt_block tt_blocks_of(const struct tt_coll *c, uint32_t first, uint32_t last);
/* Returns whether each block begins at the end of the previous one. O(nranks) for the v kinds. */
bool tt_blocks_packed(const struct tt_coll *c);
/* Maximum WORK of the call: TT_WORK_MAX, or TT_WORK_RANK_BYTES per rank. */
uint64_t tt_work_max(const struct tt_coll *c);
/* Bytes of all blocks, and of the longest one. O(nranks) for the v kinds. */
uint64_t tt_blocks_total(const struct tt_coll *c);
uint64_t tt_blocks_longest(const struct tt_coll *c);

/* Emits the copy of this rank's own bytes from SRC to DST: its block, or everything for the root
 * (broadcast) or the only rank (reductions). Nothing in place. */
void tt_sched_own(struct tt_sched *s, const struct tt_coll *c);

/* Reduces any number of ranks to a power of two of groups. Of the first 2 * extras ranks, the odd
 * one of each pair sends its part to the even one, its group's active rank, and gets the result
 * from it. Groups, like ranks, are in rank order. */
struct tt_fold {
    uint32_t groups;        /* a power of two <= nranks */
    uint32_t rounds;        /* log2 groups */
    uint32_t extras;        /* number of groups of two ranks; they come first */
    uint32_t group;         /* of this rank */
    bool folded;            /* this rank's group has two ranks */
    bool active;            /* this rank takes part among the groups; otherwise it is its group's
                               odd rank */
};
struct tt_fold tt_fold_of(uint32_t rank, uint32_t nranks);
/* Returns the active rank of a group, which is the group's first rank; for group == groups:
 * nranks. */
uint32_t tt_fold_rank(const struct tt_fold *f, uint32_t group);

/* Ranks counted from the root, which is 0; and the inverse. */
uint32_t tt_from_root(const struct tt_coll *c);
uint32_t tt_rank_at(const struct tt_coll *c, uint32_t from_root);
/* A binomial tree over ranks counted from the root: the subtree of v is [v, v + tt_subtree(v)), its
 * parent is v without its lowest bit. */
uint32_t tt_subtree(uint32_t v, uint32_t nranks);

/* ceil(log2 n); 0 for n == 1. */
uint32_t tt_log2_up(uint32_t n);
/* Returns the lowest of `count` ranks counted upward from `first`, modulo nranks. */
uint32_t tt_lowest(uint32_t first, uint32_t count, uint32_t nranks);
/* Emits a reduce with the operand of the lower rank on the left; x_lowest: the lowest rank that
 * contributed to x. */
void tt_sched_reduce_ordered(struct tt_sched *s, struct tt_ref out, struct tt_ref x,
                             uint32_t x_lowest, struct tt_ref y, uint32_t y_lowest, uint64_t bytes,
                             bool finish);

#endif
