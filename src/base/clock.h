/* Time. Protocol code does not include this; it takes `now_ns` as an argument. */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

#include <stdint.h>

#define TT_MS 1000000ull            /* nanoseconds */
#define TT_SECOND 1000000000ull
#define TT_NEVER UINT64_MAX         /* no deadline */

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t tt_now_ns(void);
/* Returns now + timeout_ms; TT_NEVER for a negative timeout. Saturates. */
uint64_t tt_deadline_ns(uint64_t now_ns, int64_t timeout_ms);

#endif
