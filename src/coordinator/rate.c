#include "coordinator/rate.h"

#include "base/clock.h"

void tt_rate_init(struct tt_rate *r, uint64_t per_s, uint64_t burst)
{
    *r = (struct tt_rate){ .each_ns = TT_SECOND / per_s, .burst_ns = burst * (TT_SECOND / per_s) };
}

uint64_t tt_rate_next_ns(const struct tt_rate *r, uint64_t now_ns)
{
    return r->spent_ns <= now_ns + r->burst_ns ? now_ns : r->spent_ns - r->burst_ns;
}

void tt_rate_take(struct tt_rate *r, uint64_t units, uint64_t now_ns)
{
    if (r->spent_ns < now_ns)
        r->spent_ns = now_ns;
    r->spent_ns += units * r->each_ns;
}
