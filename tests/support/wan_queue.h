/* A queue before a line of a rate, as a router has: first in, first out; what does not fit is dropped at its tail. Pure: time is an argument,
 * and only goes on. As the line's rate is known, what enters learns at once when it will have left. */
#ifndef TESTS_SUPPORT_WAN_QUEUE_H
#define TESTS_SUPPORT_WAN_QUEUE_H

#include <stdint.h>
#include "support/wan_matrix.h"

struct wan_queue {
    uint64_t free_ns;           /* when the line will have sent all that is in the queue */
    uint64_t peak_bytes;        /* most that was in it */
};

/* Bytes that are in the queue or on the line at now_ns. */
uint64_t wan_queue_bytes(const struct wan_queue *q, const struct wan_line *line, uint64_t now_ns);
/* How many more would fit in; any number where the line has no rate. */
uint64_t wan_queue_room(const struct wan_queue *q, const struct wan_line *line, uint64_t now_ns);
/* Puts them in, where there must be room; returns when the last of them has left. */
uint64_t wan_queue_enter(struct wan_queue *q, const struct wan_line *line, uint64_t now_ns, uint64_t bytes);

#endif
