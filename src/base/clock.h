/* Time. Protocol code never includes this: it is given `now_ns`. */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

#include <stdint.h>

#define TT_MS 1000000ull            /* nanoseconds */
#define TT_SECOND 1000000000ull
#define TT_NEVER UINT64_MAX         /* a deadline that never comes */

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t tt_now_ns(void);
/* now + timeout_ms; TT_NEVER for a negative one; saturates. */
uint64_t tt_deadline_ns(uint64_t now_ns, int64_t timeout_ms);

#endif
