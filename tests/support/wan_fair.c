#include "support/wan_fair.h"

#include <stddef.h>

#define QUANTUM 3000u           /* two large packets */

void wan_fair_init(struct wan_fair *q)
{
    *q = (struct wan_fair){ .bytes = 0 };
    TAILQ_INIT(&q->turns);
    for (uint32_t i = 0; i < WAN_FLOWS; i++)
        TAILQ_INIT(&q->flow[i].items);
}

void wan_fair_push(struct wan_fair *q, struct wan_fair_item *item)
{
    struct wan_fair_flow *f = &q->flow[item->flow % WAN_FLOWS];

    if (TAILQ_EMPTY(&f->items)) {
        TAILQ_INSERT_TAIL(&q->turns, f, turn);
        f->deficit = QUANTUM;
    }
    TAILQ_INSERT_TAIL(&f->items, item, place);
    f->bytes += item->bytes;
    q->bytes += item->bytes;
    q->peak_bytes = q->bytes > q->peak_bytes ? q->bytes : q->peak_bytes;
}

static void flow_remove(struct wan_fair *q, struct wan_fair_flow *f, struct wan_fair_item *item)
{
    TAILQ_REMOVE(&f->items, item, place);
    f->bytes -= item->bytes;
    q->bytes -= item->bytes;
    if (TAILQ_EMPTY(&f->items))
        TAILQ_REMOVE(&q->turns, f, turn);
}

struct wan_fair_item *wan_fair_pop(struct wan_fair *q)
{
    struct wan_fair_flow *f;

    while ((f = TAILQ_FIRST(&q->turns))) {
        struct wan_fair_item *item = TAILQ_FIRST(&f->items);

        if (item->bytes <= f->deficit) {
            f->deficit -= item->bytes;
            flow_remove(q, f, item);
            return item;
        }
        f->deficit += QUANTUM;
        TAILQ_REMOVE(&q->turns, f, turn);
        TAILQ_INSERT_TAIL(&q->turns, f, turn);
    }
    return NULL;
}

struct wan_fair_item *wan_fair_drop(struct wan_fair *q, uint32_t flow, uint64_t bytes)
{
    struct wan_fair_flow *longest = NULL, *f;
    struct wan_fair_item *item;

    TAILQ_FOREACH(f, &q->turns, turn)
    if (!longest || f->bytes > longest->bytes)
        longest = f;
    if (!longest || longest->bytes <= q->flow[flow % WAN_FLOWS].bytes + bytes)
        return NULL;
    item = TAILQ_LAST(&longest->items, wan_fair_items);
    flow_remove(q, longest, item);
    return item;
}
