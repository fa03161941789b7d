/* A fair queue in front of a link. Each flow has its own queue, and the flows send in turn, with
 * equal bytes (deficit round robin: Shreedhar and Varghese, "Efficient Fair Queueing Using Deficit
 * Round Robin", 1995). Flows whose hashes are equal modulo WAN_FLOWS share a queue. Pure: the
 * caller owns the items and provides the time. */
#ifndef TESTS_SUPPORT_WAN_FAIR_H
#define TESTS_SUPPORT_WAN_FAIR_H

#include <stdint.h>
#include <sys/queue.h>

#define WAN_FLOWS 256u

struct wan_fair_item {
    TAILQ_ENTRY(wan_fair_item) place;
    uint32_t flow;              /* hash of the flow */
    uint64_t bytes;
};

struct wan_fair_flow {
    TAILQ_HEAD(wan_fair_items, wan_fair_item) items;
    TAILQ_ENTRY(wan_fair_flow) turn;    /* in the list of flows with items */
    uint64_t bytes;
    uint64_t deficit;           /* bytes that it may still send in its turn */
};

struct wan_fair {
    struct wan_fair_flow flow[WAN_FLOWS];
    TAILQ_HEAD(wan_fair_flows, wan_fair_flow) turns;
    uint64_t bytes, peak_bytes;
};

void wan_fair_init(struct wan_fair *q);
void wan_fair_push(struct wan_fair *q, struct wan_fair_item *item);
/* Removes the item whose turn it is. NULL: the queue is empty. */
struct wan_fair_item *wan_fair_pop(struct wan_fair *q);
/* Removes the last item of the longest flow, if that flow is longer than `flow` would be with
 * `bytes` more. Otherwise returns NULL. */
struct wan_fair_item *wan_fair_drop(struct wan_fair *q, uint32_t flow, uint64_t bytes);

#endif
