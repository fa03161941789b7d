/* Definition of the collectives: the origin of each byte of a rank's result. */
#ifndef TT_SCHED_EXPECT_H
#define TT_SCHED_EXPECT_H

#include "sched/sched.h"

/* DST[offset, offset + bytes) of a rank must equal SRC of rank `origin` from `origin_offset` on;
 * for a reducing collective, the reduction of these bytes of all ranks. */
struct tt_expect {
    uint64_t offset, bytes;
    uint64_t origin_offset;
    uint32_t origin;
};

/* Return the maximum number of ranges of a rank's result, and the i-th range, which may be empty.
 * coll: [nranks]. */
uint32_t tt_nexpects(const struct tt_coll *coll, uint32_t rank);
struct tt_expect tt_expect_of(const struct tt_coll *coll, uint32_t rank, uint32_t i);

#endif
