/* Recursive doubling over groups of ranks, in any order of its dimensions that goes through some of the highest ones first, highest
 * first, and then through the others from the lowest. Groups are those of tt_fold, dimension b joins groups that differ in bit b.
 * What has come together after some rounds are then groups that lie a power of two apart, or runs of them: one strided reference,
 * or three where ranks are folded. Pure arithmetic. */
#ifndef TT_ALGO_ORDERS_H
#define TT_ALGO_ORDERS_H

#include "algo/blocks.h"

/* How many of the highest dimensions come first: none, all, or those that cross from building to building, as seen from group 0;
 * none where no layout tells. The same on all ranks. */
enum tt_order_kind { TT_NEAREST_FIRST, TT_FARTHEST_FIRST, TT_HYBRID };
uint32_t tt_order_far(const struct tt_coll *c, const struct tt_fold *f, enum tt_order_kind kind);

/* The dimension of round i < f->rounds, `far` dimensions coming first. */
uint32_t tt_order_dimension(const struct tt_fold *f, uint32_t far, uint32_t i);

/* Blocks of groups as references: up to TT_ORDER_PARTS parts, in ascending order, which may be empty. */
#define TT_ORDER_PARTS 3
struct tt_part {
    struct tt_ref ref;
    uint64_t bytes;
};

/* The blocks of all groups that agree with `group` in the dimensions that rounds i and later go through, in a buffer (`at`: its first
 * byte) that has the ranks' blocks of c->bytes one after the other. */
void tt_order_held(const struct tt_coll *c, const struct tt_fold *f, uint32_t far, uint32_t group, uint32_t i, struct tt_ref at,
                   struct tt_part part[TT_ORDER_PARTS]);
/* The lowest group among them. */
uint32_t tt_order_lowest(const struct tt_fold *f, uint32_t far, uint32_t group, uint32_t i);

#endif
