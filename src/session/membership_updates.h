/* Membership updates that members exchange with an operation. Each of the three words contains the
 * update's number and a part of its content. Therefore the element-wise maximum over all members is
 * the newest update. Members exchange them by an all-reduce, whose size does not depend on the
 * number of members. They fit in one inline message of the engine (TT_CELL_INLINE), which makes
 * this fast. */
#ifndef TT_SESSION_MEMBERSHIP_UPDATES_H
#define TT_SESSION_MEMBERSHIP_UPDATES_H

#include "elastic/message.h"

#define TT_MEMBERSHIP_WORDS 3

void tt_membership_write(const struct tt_membership *n, uint64_t out[TT_MEMBERSHIP_WORDS]);
/* Decodes the words; any words are valid. near: an update number of this member. Numbers of
 * other members in the same epoch differ by less than 2^15 starts of the coordinator. */
struct tt_membership tt_membership_read(const uint64_t in[TT_MEMBERSHIP_WORDS], uint64_t near);

#endif
