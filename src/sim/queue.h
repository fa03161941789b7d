/* The event queue: earliest first, and first in, first out among events of one time, so runs are
 * reproducible.
 *
 * A radix heap, since time never decreases. An event is stored by the highest bit in which its time
 * differs from a base time. It moves to a lower bucket only when the base changes. Each event moves
 * a few times at most, always through arrays; a binary heap of millions of
 * events would miss the cache at each level. The next few hundred events are sorted, so their
 * data can be prefetched. */
#ifndef TT_SIM_QUEUE_H
#define TT_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_queue_item {
    uint64_t time_ps;
    uint32_t what;      /* user data */
};

struct tt_queue_bucket {
    struct tt_queue_item *item;
    size_t n, cap;
};

struct tt_queue {
    struct tt_queue_item *front;        /* [first, n): all events before front_end_ps, in order */
    size_t front_first, front_n, front_cap;
    size_t front_long;                  /* length at which the front is cut */
    uint64_t front_end_ps;
    struct tt_queue_bucket bucket[65];  /* the other events. bucket[b]: the highest differing bit
                                           is b - 1; 0: none differs */
    uint64_t base_ps;                   /* base time */
    uint64_t last_ps;                   /* time of the last popped event */
    size_t nitems, nitems_most;
};

/* Initializes an empty queue at time 0. */
void tt_queue_init(struct tt_queue *q);
void tt_queue_fini(struct tt_queue *q);
/* item->time_ps must not be before the last popped event. Aborts if out of memory. */
void tt_queue_push(struct tt_queue *q, struct tt_queue_item item);
/* Returns false if it is empty. */
bool tt_queue_pop(struct tt_queue *q, struct tt_queue_item *out);

/* Returns the item that is popped after `ahead` others if nothing earlier is pushed. Returns false
 * if this item has not been sorted yet. */
static inline bool tt_queue_peek(const struct tt_queue *q, size_t ahead, uint32_t *what)
{
    if (q->front_first + ahead >= q->front_n)
        return false;
    *what = q->front[q->front_first + ahead].what;
    return true;
}

#endif
