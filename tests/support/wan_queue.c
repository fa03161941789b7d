#include "support/wan_queue.h"

#include "base/clock.h"
#include "base/status.h"

/* Rounded up, so that no link exceeds its rate. */
static uint64_t time_ns(const struct wan_line *line, uint64_t bytes)
{
    const unsigned __int128 work = (unsigned __int128)bytes * 8 * TT_SECOND;

    return (uint64_t)((work + line->bit_s - 1) / line->bit_s);
}

uint64_t wan_queue_bytes(const struct wan_queue *q, const struct wan_line *line, uint64_t now_ns)
{
    if (q->free_ns <= now_ns)
        return 0;
    return (uint64_t)((unsigned __int128)(q->free_ns - now_ns) * line->bit_s / (8 * TT_SECOND));
}

uint64_t wan_queue_room(const struct wan_queue *q, const struct wan_line *line, uint64_t now_ns)
{
    const uint64_t there = wan_queue_bytes(q, line, now_ns);

    if (line->bit_s == 0)
        return UINT64_MAX;
    return there < line->queue_bytes ? line->queue_bytes - there : 0;
}

uint64_t wan_queue_enter(struct wan_queue *q, const struct wan_line *line, uint64_t now_ns,
                         uint64_t bytes)
{
    uint64_t there;

    tt_assert(bytes <= wan_queue_room(q, line, now_ns));
    q->free_ns = q->free_ns > now_ns ? q->free_ns : now_ns;
    if (line->bit_s == 0)
        return q->free_ns;      /* later than now only if the link had a limited rate before */
    q->free_ns += time_ns(line, bytes);
    there = wan_queue_bytes(q, line, now_ns);
    q->peak_bytes = there > q->peak_bytes ? there : q->peak_bytes;
    return q->free_ns;
}
