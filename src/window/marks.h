/* What quiet knows of one peer: marks that are put behind what it waits for, and which of them have landed. Pure.
 *
 * Time is counted in *ticks*, of which each quiet begins one; what was put in an earlier tick was put before it. A quiet of tick t is over
 * when nothing is on its way that was put before t, whatever others put meanwhile: when a mark of tick t or later has landed, or all that is
 * on its way was put from t on. */
#ifndef TT_WINDOW_MARKS_H
#define TT_WINDOW_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#define TT_MARKS 4u             /* on their way to one peer at once */
#define TT_MARK_BITS 24
#define TT_MARK_MASK ((1u << TT_MARK_BITS) - 1)

/* All 0: nothing was put yet. */
struct tt_marks {
    uint32_t posted, landed;    /* numbers of the last; they wrap after TT_MARK_BITS bits */
    uint64_t ticks[TT_MARKS];   /* of those on their way, by number */
    uint64_t posted_tick, landed_tick;
    bool unmarked;              /* something was put since the last mark */
    uint64_t busy_since;        /* the tick in which the first was put of what is on its way */
};

/* Something was put that may take its time, and was called in this tick: the current one, or an earlier one in which no mark is posted any more. */
void tt_marks_put(struct tt_marks *m, uint64_t tick);
/* Whether a quiet of that tick is over. */
bool tt_marks_is_quiet(const struct tt_marks *m, uint64_t tick);
/* Whether it needs another mark, and there may be one. */
bool tt_marks_wants(const struct tt_marks *m, uint64_t tick);
/* The number of the next. */
static inline uint32_t tt_marks_next(const struct tt_marks *m) { return (m->posted + 1) & TT_MARK_MASK; }
/* It was posted, in this tick, behind all that was put before. */
void tt_marks_posted(struct tt_marks *m, uint64_t tick);
/* That mark has landed, and so have all before it. One that is not on its way changes nothing. */
void tt_marks_landed(struct tt_marks *m, uint32_t number);

#endif
