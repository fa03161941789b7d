#include "wire/shm_pace.h"

#include <string.h>
#include "base/clock.h"
#include "reduce/reduce.h"

#define TRY_EVERY 64        /* copies: trying costs up to three times a copy's time, so 3 % */

/* One copy in a few is interrupted, or meets a page that is not there yet: single costs say nothing. */
static uint32_t median(const uint32_t v[TT_SHM_PACE_TRIES])
{
    const uint32_t low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

    return v[2] < low ? low : v[2] > high ? high : v[2];
}

/* Whether the other kind would be better. What goes past the cache must be so by a quarter: the reader then has to go to memory. */
static bool is_better(const struct tt_shm_pace *pace, uint32_t other)
{
    const uint32_t margin = pace->past_cache ? 0 : other / 4;

    return other + margin < median(pace->used);
}

bool tt_shm_pace_next(struct tt_shm_pace *pace)
{
    const bool other = pace->tries > 0 || ++pace->copies % TRY_EVERY == 0;

    return pace->past_cache != other;
}

void tt_shm_pace_learn(struct tt_shm_pace *pace, bool past_cache, uint32_t cost)
{
    if (past_cache == pace->past_cache) {
        pace->used[pace->copies % TT_SHM_PACE_TRIES] = cost;
    } else if (pace->tries == 0) {
        pace->tried[0] = cost;          /* one look; only if it is promising, more */
        pace->tries = is_better(pace, cost) ? TT_SHM_PACE_TRIES - 1 : 0;
    } else {
        pace->tried[pace->tries] = cost;
        if (--pace->tries > 0 || !is_better(pace, median(pace->tried)))
            return;
        pace->past_cache = past_cache;
        memcpy(pace->used, pace->tried, sizeof pace->used);
    }
}

void tt_shm_pace_copy(struct tt_shm_pace *pace, void *dst, const void *src, uint64_t bytes)
{
    const bool past_cache = tt_shm_pace_next(pace);
    const uint64_t begin_ns = tt_now_ns();
    uint64_t cost;

    tt_copy(dst, NULL, src, bytes, past_cache ? TT_STREAM_DST : 0);
    cost = (tt_now_ns() - begin_ns) * 1000 / (bytes / 1024);
    tt_shm_pace_learn(pace, past_cache, cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX);
}
