/* Time stamps from the processor's counter: a few nanoseconds each; a clock reading takes several
 * times as long. Ticks are converted to nanoseconds when they are read, not when they are
 * recorded.
 *
 * The counter is used if it runs at a constant rate in all processor states and the kernel has not
 * declared it unstable (x86: invariant TSC). Otherwise a tick is a nanosecond of tt_now_ns. */
#ifndef TT_TRACE_TICK_H
#define TT_TRACE_TICK_H

#include <stdbool.h>
#include <stdint.h>
#include "base/clock.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

extern bool tt_tick_is_counter;     /* set by tt_tick_start */

/* Returns a tick. Only if tt_tick_is_counter, which is never set on other processors. */
static inline uint64_t tt_tick_read_counter(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
}

/* Any thread, after tt_tick_start. */
static inline uint64_t tt_tick_now(void)
{
    return __builtin_expect(tt_tick_is_counter, true) ? tt_tick_read_counter() : tt_now_ns();
}

/* ---- conversion, without the clock and the counter ---- */

#define TT_TICK_POINTS 256u

struct tt_tick_point {
    uint64_t tick, ns;
};

/* Points in order of time. When the table is full, every second point is removed, and the interval
 * between new points doubles. */
struct tt_tick_table {
    struct tt_tick_point point[TT_TICK_POINTS];
    uint32_t n;
    bool last_is_extra;     /* the last point was added early: the next one replaces it */
    uint64_t spacing_ns;    /* interval between points; not 0 */
};

/* Adds a point, unless it is not later than the last one. extra: it is added before it is due. If
 * the counter has jumped back (the process was migrated to another machine), the earlier points are
 * removed; *jumped_back is the number of ticks. */
void tt_tick_table_add(struct tt_tick_table *t, const struct tt_tick_point *p, bool extra,
                       uint64_t *jumped_back);
/* Returns the time of a tick; 0: there is no point. Limits it to now_ns, the current time, for
 * ticks after the last point, including those from before a jump. */
uint64_t tt_tick_table_ns(const struct tt_tick_table *t, uint64_t tick, uint64_t now_ns);

/* ---- the table of the process ---- */

/* Chooses the source of ticks and takes the first calibration point. Several calls are allowed;
 * not concurrently with other functions. */
void tt_tick_start(void);
/* Adds a calibration point if the last one is old enough. now_ns: a recent clock reading. Cheap;
 * call it wherever the clock is read anyway. The kernel adjusts the clock's rate over time (NTP),
 * so a conversion uses the points around its tick. Any thread. */
void tt_tick_calibrate(uint64_t now_ns);
/* Returns the time of a tick on the clock of tt_now_ns, from the points before and after it. Ticks
 * after the last point are extrapolated: call tt_tick_refresh first. Any thread. */
uint64_t tt_tick_to_ns(uint64_t tick);
/* Adds a calibration point now. */
void tt_tick_refresh(void);

#endif
