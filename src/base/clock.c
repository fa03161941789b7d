#include "base/clock.h"

#include <time.h>

uint64_t tt_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * TT_SECOND + (uint64_t)t.tv_nsec;
}

uint64_t tt_deadline_ns(uint64_t now_ns, int64_t timeout_ms)
{
    if (timeout_ms < 0 || (uint64_t)timeout_ms > (TT_NEVER - now_ns) / TT_MS)
        return TT_NEVER;
    return now_ns + (uint64_t)timeout_ms * TT_MS;
}
