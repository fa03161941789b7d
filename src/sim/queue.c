#include "sim/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define NBUCKETS 65
#define FRONT_MAX 256u              /* items sorted at a time */
#define FRONT_LONG (2 * FRONT_MAX)  /* a front that pushes have made this long is cut */

void tt_queue_init(struct tt_queue *q)
{
    *q = (struct tt_queue){ .front_long = FRONT_LONG };
}

void tt_queue_fini(struct tt_queue *q)
{
    for (int b = 0; b < NBUCKETS; b++)
        free(q->bucket[b].item);
    free(q->front);
    tt_queue_init(q);
}

static struct tt_queue_item *items_reserve(struct tt_queue_item *items, size_t n, size_t *cap)
{
    if (n < *cap)
        return items;
    *cap = *cap ? 2 * *cap : FRONT_MAX;
    items = realloc(items, *cap * sizeof *items);
    tt_assert(items);
    return items;
}

static void push_to_bucket(struct tt_queue *q, struct tt_queue_item item)
{
    const uint64_t differs = item.time_ps ^ q->base_ps;
    struct tt_queue_bucket *b = &q->bucket[differs ? 64 - __builtin_clzll(differs) : 0];

    b->item = items_reserve(b->item, b->n, &b->cap);
    b->item[b->n++] = item;
}

/* ---- the front ---- */

/* Cuts a long front: items after its middle go back. Items of one time stay together. Items before
 * the base time stay in the front, as there is no bucket for them. If no item can go back, the
 * front may grow. */
static void cut_front(struct tt_queue *q)
{
    size_t middle = q->front_first + (q->front_n - q->front_first) / 2;

    while (middle < q->front_n && (q->front[middle].time_ps == q->front[middle - 1].time_ps ||
                                   q->front[middle].time_ps < q->base_ps))
        middle++;
    if (middle == q->front_n) {
        q->front_long = 2 * (q->front_n - q->front_first);
        return;
    }
    q->front_end_ps = q->front[middle].time_ps;
    for (size_t i = middle; i < q->front_n; i++)
        push_to_bucket(q, q->front[i]);
    q->front_n = middle;
}

/* Inserts after all items that are not later. */
static void front_insert(struct tt_queue *q, struct tt_queue_item item)
{
    size_t at;

    q->front = items_reserve(q->front, q->front_n, &q->front_cap);
    for (at = q->front_n++; at > q->front_first && q->front[at - 1].time_ps > item.time_ps; at--)
        q->front[at] = q->front[at - 1];
    q->front[at] = item;
}

void tt_queue_push(struct tt_queue *q, struct tt_queue_item item)
{
    tt_assert(item.time_ps >= q->last_ps);
    if (item.time_ps < q->front_end_ps && q->front_n - q->front_first >= q->front_long)
        cut_front(q);
    if (item.time_ps < q->front_end_ps)
        front_insert(q, item);
    else
        push_to_bucket(q, item);
    if (++q->nitems > q->nitems_most)
        q->nitems_most = q->nitems;
}

/* ---- from the buckets to the front ---- */

/* Merges runs a[0, middle) and a[middle, n), stable. */
static void merge_runs(struct tt_queue_item *a, size_t middle, size_t n)
{
    struct tt_queue_item left[FRONT_MAX];
    size_t i = 0, j = middle, at = 0;

    memcpy(left, a, middle * sizeof *a);
    while (i < middle)
        a[at++] = j < n && a[j].time_ps < left[i].time_ps ? a[j++] : left[i++];
}

static void sort_items(struct tt_queue_item *a, size_t n)
{
    for (size_t run = 1; run < n; run *= 2)
        for (size_t i = 0; i + run < n; i += 2 * run)
            merge_runs(&a[i], run, n - i < 2 * run ? n - i : 2 * run);
}

/* The first time beyond buckets 0 to b. */
static uint64_t bucket_end(const struct tt_queue *q, int b)
{
    return b < 64 ? (q->base_ps | ((1ull << b) - 1)) + 1 : UINT64_MAX;
}

/* The lowest non-empty bucket is too large to sort: distributes it to lower ones, in order. Events
 * of one time are always in the same bucket, and so stay in the order in which they were pushed. */
static void spread_bucket(struct tt_queue *q, struct tt_queue_bucket *from)
{
    const size_t n = from->n;

    q->base_ps = from->item[0].time_ps;
    for (size_t i = 1; i < n; i++)
        if (from->item[i].time_ps < q->base_ps)
            q->base_ps = from->item[i].time_ps;
    from->n = 0;
    for (size_t i = 0; i < n; i++)
        push_to_bucket(q, from->item[i]);
}

/* Appends bucket b to the front. Items of bucket 0 have the same time and are in order. */
static void take_bucket(struct tt_queue *q, int b)
{
    struct tt_queue_bucket *from = &q->bucket[b];

    while (q->front_cap < q->front_n + from->n)
        q->front = items_reserve(q->front, q->front_cap, &q->front_cap);
    memcpy(q->front + q->front_n, from->item, from->n * sizeof *from->item);
    if (b > 0)
        sort_items(q->front + q->front_n, from->n);
    q->front_n += from->n;
    q->front_end_ps = bucket_end(q, b);
    from->n = 0;
}

/* The front is empty: fills it with the earliest items, if possible enough for
 * tt_queue_peek. */
static void front_refill(struct tt_queue *q)
{
    q->front_first = q->front_n = 0;
    q->front_long = FRONT_LONG;
    while (q->front_n < FRONT_MAX / 2 && q->front_n < q->nitems) {
        int b = 0;

        while (!q->bucket[b].n)
            b++;
        if (b == 0 || q->front_n + q->bucket[b].n <= FRONT_MAX)
            take_bucket(q, b);
        else if (q->front_n)
            break;      /* a far bucket would extend the front: pushes before it are all inserted */
        else
            spread_bucket(q, &q->bucket[b]);
    }
}

bool tt_queue_pop(struct tt_queue *q, struct tt_queue_item *out)
{
    if (!q->nitems)
        return false;
    if (q->front_first == q->front_n)
        front_refill(q);
    *out = q->front[q->front_first++];
    q->last_ps = out->time_ps;
    q->nitems--;
    return true;
}
