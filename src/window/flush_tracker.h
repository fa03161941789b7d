/* Marks that quiet posts after the puts that it waits for, for one peer. Pure.
 *
 * Time is counted in *ticks*; each quiet begins a new tick. A quiet of tick t is complete when
 * nothing is in flight that was put before t, whatever is put meanwhile. This holds when a mark
 * of tick t or later has landed, or when everything in flight was put in tick t or later. */
#ifndef TT_WINDOW_FLUSH_TRACKER_H
#define TT_WINDOW_FLUSH_TRACKER_H

#include <stdbool.h>
#include <stdint.h>

#define TT_MARKS 4u             /* maximum marks in flight to one peer */
#define TT_MARK_BITS 24
#define TT_MARK_MASK ((1u << TT_MARK_BITS) - 1)

/* All zero: nothing was put yet. */
struct tt_flush {
    uint32_t posted, landed;    /* sequence numbers of the last marks, modulo 2^TT_MARK_BITS */
    uint64_t ticks[TT_MARKS];   /* of the marks in flight, by number */
    uint64_t posted_tick, landed_tick;
    bool unmarked;              /* puts were posted since the last mark */
    uint64_t busy_since;        /* tick of the first put in flight */
};

/* Records a put that may not complete at once, called in this tick. The tick may be an earlier
 * one, if no more marks are posted in it. */
void tt_flush_put(struct tt_flush *m, uint64_t tick);
/* Returns whether a quiet of that tick is complete. */
bool tt_flush_is_quiet(const struct tt_flush *m, uint64_t tick);
/* Returns whether a quiet of that tick needs another mark, and one may be posted. */
bool tt_flush_needs_mark(const struct tt_flush *m, uint64_t tick);
/* Returns the number of the next mark. */
static inline uint32_t tt_flush_next(const struct tt_flush *m)
{
    return (m->posted + 1) & TT_MARK_MASK;
}
/* Records a mark posted in this tick, after all earlier puts. */
void tt_flush_posted(struct tt_flush *m, uint64_t tick);
/* Records that a mark, and all earlier ones, have landed. Ignored if the mark is not in flight. */
void tt_flush_landed(struct tt_flush *m, uint32_t number);

#endif
