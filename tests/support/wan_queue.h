/* A tail-drop FIFO queue in front of a link with a fixed rate, as in a router. Pure: time is an
 * argument that never decreases. Because the rate is known, the departure time is computed when
 * data enters. */
#ifndef TESTS_SUPPORT_WAN_QUEUE_H
#define TESTS_SUPPORT_WAN_QUEUE_H

#include <stdint.h>
#include "support/wan_matrix.h"

struct wan_queue {
    uint64_t free_ns;           /* when the link will have sent all queued data */
    uint64_t peak_bytes;        /* maximum number of queued bytes */
};

/* Returns the bytes in the queue or on the link at now_ns. */
uint64_t wan_queue_bytes(const struct wan_queue *q, const struct wan_line *line, uint64_t now_ns);
/* Returns the free space in bytes; unlimited if the link has no rate. */
uint64_t wan_queue_room(const struct wan_queue *q, const struct wan_line *line, uint64_t now_ns);
/* Adds bytes, for which there must be space. Returns when the last of them has left. */
uint64_t wan_queue_enter(struct wan_queue *q, const struct wan_line *line, uint64_t now_ns,
                         uint64_t bytes);

#endif
