/* The tickets of a split: what each rank of the parent sends to all. Pure. */
#ifndef TT_COMM_TICKET_H
#define TT_COMM_TICKET_H

#include <stdint.h>

struct tt_ticket {
    int32_t colour, key;
    uint32_t id, index;         /* id: of a new context, used if this is the first rank of its
                                   part; index: rank in the parent */
};

/* Sorts by colour, key and index. */
void tt_tickets_sort(struct tt_ticket *tickets, uint32_t n);
/* Writes the indices of the sorted tickets with a colour to members[n], in the order of the part.
 * Returns their number. *rank is set to the position of the ticket with index `mine`, and *id to
 * the id of the first one; 0 if there is none. */
uint32_t tt_tickets_part(const struct tt_ticket *tickets, uint32_t n, int32_t colour, uint32_t mine,
                         uint32_t *members, uint32_t *rank, uint32_t *id);

#endif
