/* A WAN between hosts: what a host sends goes through its own line up, the line of the pair, a loss, a delay, and the receiver's line down:
 *
 *      host a --[queue, up]--[queue, rate(a, b)]--loss(a, b)--delay(a, b)--[queue, down]--> host b
 *
 * Pure: frames in and out, time as an argument that only goes on; the same calls give the same losses and drops. One thread. */
#ifndef TESTS_SUPPORT_WAN_NET_H
#define TESTS_SUPPORT_WAN_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "support/wan_matrix.h"

/* What became of a pair's packets. Bytes are those of IP packets. */
struct wan_count {
    uint64_t packets;           /* as they came; each is one segment or many */
    uint64_t segments, bytes;
    uint64_t arrived_segments, arrived_bytes;
    uint64_t lost;              /* segments; so are the rest */
    uint64_t dropped_up, dropped_pair, dropped_down;    /* their queue was full */
    uint64_t dropped_room;      /* more was under way than is possible at once */
};

/* What has arrived at a host. */
struct wan_arrival {
    uint32_t from, to;
    uint64_t due_ns;            /* when it arrived */
    size_t bytes;
    const uint8_t *frame;       /* until the next call on the net */
};

struct wan_net;

/* A net with this matrix, which it copies, and in which up to room_bytes are under way at once. NOMEM (logged). */
tutti_status wan_net_create(struct wan_net **out, const struct wan_matrix *m, uint64_t room_bytes);
void wan_net_destroy(struct wan_net *net);

/* Host `from` sends a frame (wan_packet.h), which stays the caller's. What is for no other host is only counted. */
void wan_net_send(struct wan_net *net, uint64_t now_ns, uint32_t from, const uint8_t *frame, size_t bytes);

/* When something happens next; TT_NEVER if nothing is under way. */
uint64_t wan_net_due(const struct wan_net *net);
/* The first that has arrived by now_ns; false if nothing has. */
bool wan_net_take(struct wan_net *net, uint64_t now_ns, struct wan_arrival *out);

/* Changes a value of a pair, for what is sent from now on; nothing overtakes what was sent before. INVALID (logged). */
tutti_status wan_net_change(struct wan_net *net, uint32_t from, uint32_t to, const char *key, double value);

const struct wan_count *wan_net_count(const struct wan_net *net, uint32_t from, uint32_t to);
/* All counters and the queues' peaks as members of a JSON object, without its braces. */
void wan_net_write(FILE *to, const struct wan_net *net);

#endif
