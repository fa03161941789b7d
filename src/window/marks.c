#include "window/marks.h"

_Static_assert((TT_MARK_MASK + 1u) % TT_MARKS == 0, "the ring of ticks must be continuous across the wrap");

static uint32_t marks_in_flight(const struct tt_marks *m) { return (m->posted - m->landed) & TT_MARK_MASK; }

static bool marks_are_idle(const struct tt_marks *m) { return !m->unmarked && marks_in_flight(m) == 0; }

void tt_marks_put(struct tt_marks *m, uint64_t tick)
{
    if (marks_are_idle(m) || tick < m->busy_since)     /* a queued put is posted late */
        m->busy_since = tick;
    m->unmarked = true;
}

bool tt_marks_is_quiet(const struct tt_marks *m, uint64_t tick)
{
    return marks_are_idle(m) || m->busy_since >= tick || m->landed_tick >= tick;
}

bool tt_marks_wants(const struct tt_marks *m, uint64_t tick)
{
    return m->unmarked && m->posted_tick < tick && marks_in_flight(m) < TT_MARKS && !tt_marks_is_quiet(m, tick);
}

void tt_marks_posted(struct tt_marks *m, uint64_t tick)
{
    m->posted = tt_marks_next(m);
    m->ticks[m->posted % TT_MARKS] = tick;
    m->posted_tick = tick;
    m->unmarked = false;
}

void tt_marks_landed(struct tt_marks *m, uint32_t number)
{
    const uint32_t ahead = (number - m->landed) & TT_MARK_MASK;

    if (ahead == 0 || ahead > marks_in_flight(m))
        return;
    m->landed = number;
    m->landed_tick = m->ticks[number % TT_MARKS];
}
