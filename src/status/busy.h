/* The time that a rank spent in collectives in the last second. Times of overlapping collectives
 * count once, at a resolution of a millisecond. Each call takes constant time. */
#ifndef TT_STATUS_BUSY_H
#define TT_STATUS_BUSY_H

#include <stdint.h>
#include "base/clock.h"

#define TT_BUSY_MS 1000u

/* Arrays by milliseconds before now. All zero: no collective. */
struct tt_busy {
    int32_t whole[TT_BUSY_MS + 1];      /* changes of the number of collectives that fill the ms */
    uint64_t part_ns[TT_BUSY_MS];       /* time of collectives that fill only a part of it */
};

/* Adds a collective that began from_ns ago and ended until_ns ago: until_ns < from_ns, which is at
 * most a second. */
void tt_busy_add(struct tt_busy *b, uint64_t from_ns, uint64_t until_ns);
/* Returns the time in collectives. */
uint64_t tt_busy_sum_ns(const struct tt_busy *b);

#endif
