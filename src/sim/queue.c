#include "sim/queue.h"

#include <stdlib.h>

#include "base/status.h"

void tt_queue_init(struct tt_queue *q)
{
    *q = (struct tt_queue){ .nitems = 0 };
}

void tt_queue_fini(struct tt_queue *q)
{
    for (int b = 0; b < 65; b++)
        free(q->bucket[b].item);
    tt_queue_init(q);
}

static void append(struct tt_queue_bucket *b, struct tt_queue_item item)
{
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 256;
        b->item = realloc(b->item, b->cap * sizeof *b->item);
        tt_assert(b->item);
    }
    b->item[b->n++] = item;
}

static struct tt_queue_bucket *bucket_of(struct tt_queue *q, uint64_t time_ps)
{
    const uint64_t differs = time_ps ^ q->last_ps;

    return &q->bucket[differs ? 64 - __builtin_clzll(differs) : 0];
}

void tt_queue_push(struct tt_queue *q, struct tt_queue_item item)
{
    tt_assert(item.time_ps >= q->last_ps);
    append(bucket_of(q, item.time_ps), item);
    if (++q->nitems > q->nitems_most)
        q->nitems_most = q->nitems;
}

/* Bucket 0 is empty: the lowest bucket that is not moves down, in its order. Events of one time are always in one bucket, and
 * therefore stay in the order in which they were pushed. */
static void refill(struct tt_queue *q)
{
    struct tt_queue_bucket *from = &q->bucket[1];
    uint64_t earliest;

    while (!from->n)
        from++;
    earliest = from->item[0].time_ps;
    for (size_t i = 1; i < from->n; i++)
        if (from->item[i].time_ps < earliest)
            earliest = from->item[i].time_ps;
    q->last_ps = earliest;
    for (size_t i = 0; i < from->n; i++)
        append(bucket_of(q, from->item[i].time_ps), from->item[i]);
    from->n = 0;
}

bool tt_queue_pop(struct tt_queue *q, struct tt_queue_item *out)
{
    struct tt_queue_bucket *b = &q->bucket[0];

    if (!q->nitems)
        return false;
    if (b->first == b->n) {
        b->first = b->n = 0;
        refill(q);
    }
    *out = b->item[b->first++];
    q->nitems--;
    return true;
}
