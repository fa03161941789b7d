#include "window/flush_tracker.h"

_Static_assert((TT_MARK_MASK + 1u) % TT_MARKS == 0,
               "the ring of ticks must be continuous across the wrap");

static uint32_t marks_in_flight(const struct tt_flush *m)
{
    return (m->posted - m->landed) & TT_MARK_MASK;
}

static bool marks_are_idle(const struct tt_flush *m)
{
    return !m->unmarked && marks_in_flight(m) == 0;
}

void tt_flush_put(struct tt_flush *m, uint64_t tick)
{
    if (marks_are_idle(m) || tick < m->busy_since)     /* a queued put is posted late */
        m->busy_since = tick;
    m->unmarked = true;
}

bool tt_flush_is_quiet(const struct tt_flush *m, uint64_t tick)
{
    return marks_are_idle(m) || m->busy_since >= tick || m->landed_tick >= tick;
}

bool tt_flush_needs_mark(const struct tt_flush *m, uint64_t tick)
{
    return m->unmarked && m->posted_tick < tick && marks_in_flight(m) < TT_MARKS &&
           !tt_flush_is_quiet(m, tick);
}

void tt_flush_posted(struct tt_flush *m, uint64_t tick)
{
    m->posted = tt_flush_next(m);
    m->ticks[m->posted % TT_MARKS] = tick;
    m->posted_tick = tick;
    m->unmarked = false;
}

void tt_flush_landed(struct tt_flush *m, uint32_t number)
{
    const uint32_t ahead = (number - m->landed) & TT_MARK_MASK;

    if (ahead == 0 || ahead > marks_in_flight(m))
        return;
    m->landed = number;
    m->landed_tick = m->ticks[number % TT_MARKS];
}
