/* The queue of events: earliest first, and first in first out among those of one time, so that the same run gives the same order.
 *
 * A radix heap: time never runs backwards, so an event is kept by the highest bit in which its time differs from a time that has been
 * reached, and is moved to a lower bucket only when that bit comes to be the same. Each event moves a few times at most and always along
 * plain arrays, where a heap over millions of events would miss the cache at each level. The next few hundred are sorted: so it is known
 * a while before who will be at work, and what that takes can be fetched into the cache. */
#ifndef TT_SIM_QUEUE_H
#define TT_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_queue_item {
    uint64_t time_ps;
    uint32_t what;      /* the caller's */
};

struct tt_queue_bucket {
    struct tt_queue_item *item;
    size_t n, cap;
};

struct tt_queue {
    struct tt_queue_item *front;        /* [first, n): all events before front_end_ps, in their order */
    size_t front_first, front_n, front_cap;
    size_t front_long;                  /* so many there are too many */
    uint64_t front_end_ps;
    struct tt_queue_bucket bucket[65];  /* the others. bucket[b]: the highest differing bit is b - 1; 0: none differs */
    uint64_t base_ps;                   /* what they differ from */
    uint64_t last_ps;                   /* of what was taken last */
    size_t nitems, nitems_most;
};

/* An empty queue at time 0. */
void tt_queue_init(struct tt_queue *q);
void tt_queue_fini(struct tt_queue *q);
/* item->time_ps is not before what was taken last. Aborts when there is no memory. */
void tt_queue_push(struct tt_queue *q, struct tt_queue_item item);
/* False: it is empty. */
bool tt_queue_pop(struct tt_queue *q, struct tt_queue_item *out);

/* What will be popped `ahead` pops from now, where that is known without work and nothing is pushed before it; else false. */
static inline bool tt_queue_peek(const struct tt_queue *q, size_t ahead, uint32_t *what)
{
    if (q->front_first + ahead >= q->front_n)
        return false;
    *what = q->front[q->front_first + ahead].what;
    return true;
}

#endif
