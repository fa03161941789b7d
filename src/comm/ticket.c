#include "comm/ticket.h"

#include <stdlib.h>

static int ticket_compare(const void *a, const void *b)
{
    const struct tt_ticket *x = a, *y = b;

    if (x->colour != y->colour)
        return x->colour < y->colour ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

void tt_tickets_sort(struct tt_ticket *tickets, uint32_t n)
{
    qsort(tickets, n, sizeof *tickets, ticket_compare);
}

uint32_t tt_tickets_part(const struct tt_ticket *tickets, uint32_t n, int32_t colour, uint32_t mine,
                         uint32_t *members, uint32_t *rank, uint32_t *id)
{
    uint32_t nmembers = 0;

    *rank = *id = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (tickets[i].colour != colour)
            continue;
        if (nmembers == 0)
            *id = tickets[i].id;
        if (tickets[i].index == mine)
            *rank = nmembers;
        members[nmembers++] = tickets[i].index;
    }
    return nmembers;
}
