/* Recursive doubling over groups of ranks, in a configurable order of its dimensions: some of the
 * highest first, in descending order, then the others in ascending order. Groups are those of
 * tt_fold; dimension b joins groups that differ in bit b. The blocks gathered after some rounds
 * belong to groups a power of two apart, or to runs of these: one strided reference, or three if
 * ranks are folded. Pure arithmetic. */
#ifndef TT_ALGO_ORDERS_H
#define TT_ALGO_ORDERS_H

#include "algo/blocks.h"

/* Number of highest dimensions that come first: none, all, or those that cross buildings, as seen
 * from group 0; none without a layout. Equal on all ranks. */
enum tt_order_kind { TT_NEAREST_FIRST, TT_FARTHEST_FIRST, TT_HYBRID };
uint32_t tt_order_far(const struct tt_coll *c, const struct tt_fold *f, enum tt_order_kind kind);

/* The dimension of round i < f->rounds, with `far` dimensions first. */
uint32_t tt_order_dimension(const struct tt_fold *f, uint32_t far, uint32_t i);

/* Blocks of groups as references: up to TT_ORDER_PARTS parts, ascending, possibly empty. */
#define TT_ORDER_PARTS 3
struct tt_part {
    struct tt_ref ref;
    uint64_t bytes;
};

/* The blocks of all groups that agree with `group` in the dimensions of rounds i and later, in a
 * buffer (`at`: its first byte) with the ranks' blocks of c->bytes in order. */
void tt_order_held(const struct tt_coll *c, const struct tt_fold *f, uint32_t far, uint32_t group,
                   uint32_t i, struct tt_ref at, struct tt_part part[TT_ORDER_PARTS]);

#endif
