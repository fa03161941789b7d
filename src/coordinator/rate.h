/* How often somebody may do something: so much at once, then so much per second. Pure: time comes in. */
#ifndef TT_COORDINATOR_RATE_H
#define TT_COORDINATOR_RATE_H

#include <stdint.h>

struct tt_rate {
    uint64_t each_ns;       /* what one unit costs */
    uint64_t burst_ns;      /* of so much at once */
    uint64_t spent_ns;      /* until when what was taken is paid */
};

/* per_s units a second, after `burst` at once; both above 0. */
void tt_rate_init(struct tt_rate *r, uint64_t per_s, uint64_t burst);
/* When the next may be taken: now_ns, or later. */
uint64_t tt_rate_next_ns(const struct tt_rate *r, uint64_t now_ns);
/* Takes `units`, whether it may or not: the debt has to be waited for before the next. */
void tt_rate_take(struct tt_rate *r, uint64_t units, uint64_t now_ns);

#endif
