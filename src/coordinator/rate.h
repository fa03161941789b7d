/* A rate limiter: a burst, then a number of units per second. Pure: the time is an argument. */
#ifndef TT_COORDINATOR_RATE_H
#define TT_COORDINATOR_RATE_H

#include <stdint.h>

struct tt_rate {
    uint64_t each_ns;       /* time per unit */
    uint64_t burst_ns;      /* duration that the burst represents */
    uint64_t spent_ns;      /* time until which the rate is used up */
};

/* per_s units per second, after `burst` at once; both above 0. */
void tt_rate_init(struct tt_rate *r, uint64_t per_s, uint64_t burst);
/* Returns the time at which the next unit may be consumed: now_ns, or later. */
uint64_t tt_rate_next_ns(const struct tt_rate *r, uint64_t now_ns);
/* Consumes `units`, even beyond the limit: the excess delays the next unit. */
void tt_rate_take(struct tt_rate *r, uint64_t units, uint64_t now_ns);

#endif
