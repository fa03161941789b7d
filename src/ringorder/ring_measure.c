#include "ringorder/ring_measure.h"

#include "base/status.h"
#include "ringorder/ring_matrix.h"

typedef unsigned long long ull;
typedef unsigned __int128 u128;

uint32_t tt_ring_round_to(uint32_t n, uint32_t round, uint32_t peer)
{
    tt_assert(n >= 2 && round < n - 1 && peer < n);
    return (uint32_t)(((uint64_t)peer + round + 1) % n);
}

uint32_t tt_ring_round_from(uint32_t n, uint32_t round, uint32_t peer)
{
    tt_assert(n >= 2 && round < n - 1 && peer < n);
    return (uint32_t)(((uint64_t)peer + n - round - 1) % n);
}

uint32_t tt_ring_round_of(uint32_t n, uint32_t from, uint32_t to)
{
    tt_assert(from < n && to < n && from != to);
    return (uint32_t)(((uint64_t)to + n - from) % n - 1);
}

static tutti_status check_samples(const struct tt_ring_sample *s, uint32_t n)
{
    uint64_t duration;

    if (n < TT_RING_SAMPLES_MIN)
        return tt_fail(TUTTI_ERR_INVALID, "invalid burst: %u samples (must be at least %u)", n,
                       TT_RING_SAMPLES_MIN);
    if (n > TT_RING_SAMPLES_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "invalid burst: %u samples (the maximum is %u)", n,
                       TT_RING_SAMPLES_MAX);
    for (uint32_t k = 1; k < n; k++)
        if (s[k].at_ns < s[k - 1].at_ns || s[k].bytes < s[k - 1].bytes)
            return tt_fail(TUTTI_ERR_INVALID,
                           "invalid burst: sample %u (%llu bytes at %llu ns) is before the "
                           "previous sample (%llu "
                           "bytes at %llu ns)",
                           k, (ull)s[k].bytes, (ull)s[k].at_ns, (ull)s[k - 1].bytes,
                           (ull)s[k - 1].at_ns);
    duration = s[n - 1].at_ns - s[0].at_ns;
    if (duration < TT_RING_BURST_NS_MIN || duration > TT_RING_BURST_NS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "invalid burst: duration of %llu ns (must be %u to %llu)",
                       (ull)duration, TT_RING_BURST_NS_MIN, TT_RING_BURST_NS_MAX);
    if (s[n - 1].bytes - s[0].bytes > TT_RING_RATE_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "invalid burst: %llu bytes (the maximum is %llu)",
                       (ull)(s[n - 1].bytes - s[0].bytes), TT_RING_RATE_MAX);
    return TUTTI_OK;
}

/* The slope is the covariance of time and bytes divided by the variance of time. Both are
 * multiplied by n^2. Exact: below 2^26
 * us, 2^50 bytes and 2^16 samples no product exceeds 2^108. */
tutti_status tt_ring_estimate_rate(const struct tt_ring_sample *sample, uint32_t n, uint64_t *rate)
{
    const tutti_status st = check_samples(sample, n);
    u128 t = 0, b = 0, tt = 0, tb = 0, over, under, slope;
    uint64_t middle, count = 0;

    if (st)
        return st;
    middle = sample[0].at_ns + (sample[n - 1].at_ns - sample[0].at_ns) / 2;
    for (uint32_t k = 0; k < n; k++) {
        const u128 at = (sample[k].at_ns - sample[0].at_ns) / 1000,
                   bytes = sample[k].bytes - sample[0].bytes;

        if (sample[k].at_ns < middle)
            continue;
        count++;
        t += at;
        b += bytes;
        tt += at * at;
        tb += at * bytes;
    }
    if (count < TT_RING_HALF_SAMPLES_MIN)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "invalid burst: %llu of %u samples are in its second half (must be at least %u)",
            (ull)count, n, TT_RING_HALF_SAMPLES_MIN);
    over = count * tb - t * b;
    under = count * tt - t * t;
    slope = under ? over / under * 1000000 + over % under * 1000000 / under : 0;
    if (slope == 0 || slope > TT_RING_RATE_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "invalid burst: %llu bytes in %llu ns: %s",
                       (ull)(sample[n - 1].bytes - sample[0].bytes),
                       (ull)(sample[n - 1].at_ns - sample[0].at_ns),
                       slope ? "faster than any link" : "no progress in its second half");
    *rate = (uint64_t)slope;
    return TUTTI_OK;
}
