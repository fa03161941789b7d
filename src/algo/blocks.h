/* Geometry that algorithms share: blocks of a call, ranks folded to a power of two, ranks counted from the root, and
 * who is the left operand. Pure arithmetic. */
#ifndef TT_ALGO_BLOCKS_H
#define TT_ALGO_BLOCKS_H

#include "sched/sched.h"

/* What an algorithm may ask of WORK, and how much of a row the slab-wise ones pass at a time. */
#define TT_WORK_MAX (256u << 10)
#define TT_WORK_RANK_BYTES 64u      /* with very many ranks: what they may ask of it per rank instead, where that is more */
#define TT_WORK_MAX_TEXT "256 KiB, or 64 bytes a rank if that is more"
#define TT_SLAB_BYTES (256u << 10)

/* Where the ranks are; a call that does not know has them all on one host, which *alone becomes. */
const struct tt_layout *tt_layout_of(const struct tt_coll *c, struct tt_layout *alone);

/* A range of bytes within SRC or DST. */
struct tt_block {
    uint64_t offset, bytes;
};

/* Block i of the call, i < nranks: row i of the buffer that has rows (allgather, gather: DST; scatter, reduce_scatter:
 * SRC; alltoall: both); of allreduce, reduce and broadcast the vector cut into nranks. Not for alltoallv, barrier,
 * send, recv. */
struct tt_block tt_block_of(const struct tt_coll *c, uint32_t i);
/* Blocks [first, last) as one range; only when they are packed. */
struct tt_block tt_blocks_of(const struct tt_coll *c, uint32_t first, uint32_t last);
/* Whether each block begins where the one before it ends. O(nranks) for the v kinds. */
bool tt_blocks_packed(const struct tt_coll *c);
/* What the call may ask of WORK: TT_WORK_MAX, or TT_WORK_RANK_BYTES a rank. */
uint64_t tt_work_max(const struct tt_coll *c);
/* Bytes of all blocks, and of the longest one. O(nranks) for the v kinds. */
uint64_t tt_blocks_total(const struct tt_coll *c);
uint64_t tt_blocks_longest(const struct tt_coll *c);

/* The copy of this rank's own bytes from SRC to DST: its block, or all of it where root (broadcast) or the only rank
 * (reductions) keeps everything. Nothing in place. */
void tt_sched_own(struct tt_sched *s, const struct tt_coll *c);

/* Any number of ranks as a power of two of groups: of the first 2 * extras ranks the odd one of each pair hands its
 * part to the even one, its group's active rank, and gets the result from it. Groups, like ranks, are in rank order. */
struct tt_fold {
    uint32_t groups;        /* a power of two <= nranks */
    uint32_t rounds;        /* log2 groups */
    uint32_t extras;        /* groups of two ranks; they come first */
    uint32_t group;         /* this rank's */
    bool folded;            /* this rank's group has two ranks */
    bool active;            /* this rank takes part among the groups; else it is its group's odd rank */
};
struct tt_fold tt_fold_of(uint32_t rank, uint32_t nranks);
/* The active rank of a group, which is the first rank of the group; for group == groups: nranks. */
uint32_t tt_fold_rank(const struct tt_fold *f, uint32_t group);

/* Ranks counted from the root, which is 0; and back. */
uint32_t tt_from_root(const struct tt_coll *c);
uint32_t tt_rank_at(const struct tt_coll *c, uint32_t from_root);
/* A binomial tree over ranks counted from the root: the subtree of v is [v, v + tt_subtree(v)), its parent is v less
 * its lowest bit. */
uint32_t tt_subtree(uint32_t v, uint32_t nranks);

/* ceil(log2 n); 0 for n == 1. */
uint32_t tt_log2_up(uint32_t n);
/* The lowest of `count` ranks counted upward from `first`, modulo nranks. */
uint32_t tt_lowest(uint32_t first, uint32_t count, uint32_t nranks);
/* reduce with the operand of the lower rank on the left; x_lowest: the lowest rank that contributed to x. */
void tt_sched_reduce_ordered(struct tt_sched *s, struct tt_ref out, struct tt_ref x, uint32_t x_lowest, struct tt_ref y,
                             uint32_t y_lowest, uint64_t bytes, bool finish);

#endif
