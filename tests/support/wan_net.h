/* A WAN between hosts. A packet passes the sender's up link, the link of the pair, a loss, a delay,
 * and the receiver's down link:
 *
 *      host a --[queue, up]--[queue, rate(a, b)]--loss(a, b)--delay(a, b)--[queue, down]--> host b
 *
 * Pure: frames in and out; time is an argument that never decreases. Equal calls give equal losses
 * and drops. Single-threaded. */
#ifndef TESTS_SUPPORT_WAN_NET_H
#define TESTS_SUPPORT_WAN_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "support/wan_matrix.h"

/* Counters of a pair. Bytes are those of IP packets. */
struct wan_count {
    uint64_t packets;           /* as received; each contains one or more segments */
    uint64_t segments, bytes;
    uint64_t arrived_segments, arrived_bytes;
    uint64_t lost;              /* number of lost segments; the following counters are segments,
                                   too */
    uint64_t dropped_up, dropped_pair, dropped_down;    /* dropped by a full queue */
    uint64_t dropped_room;      /* dropped because too much was in flight */
};

/* A packet that has arrived at a host. */
struct wan_arrival {
    uint32_t from, to;
    uint64_t due_ns;            /* when it arrived */
    size_t bytes;
    const uint8_t *frame;       /* valid until the next call on the net */
};

struct wan_net;

/* Creates a net with a copy of the matrix, and at most room_bytes in flight. NOMEM (logged). */
tutti_status wan_net_create(struct wan_net **out, const struct wan_matrix *m, uint64_t room_bytes);
void wan_net_destroy(struct wan_net *net);

/* Sends a frame (wan_packet.h) from host `from`; the caller keeps owning it. Packets to unknown
 * hosts are only counted. */
void wan_net_send(struct wan_net *net, uint64_t now_ns, uint32_t from, const uint8_t *frame,
                  size_t bytes);

/* Returns the time of the next event; TT_NEVER if nothing is in flight. */
uint64_t wan_net_due(const struct wan_net *net);
/* Removes the first packet that has arrived by now_ns. Returns false if there is none. */
bool wan_net_take(struct wan_net *net, uint64_t now_ns, struct wan_arrival *out);

/* Changes a value of a pair for packets sent from now on; no packet overtakes an earlier one.
 * INVALID (logged). */
tutti_status wan_net_change(struct wan_net *net, uint32_t from, uint32_t to, const char *key,
                            double value);

const struct wan_count *wan_net_count(const struct wan_net *net, uint32_t from, uint32_t to);
/* Prints all counters and peak queue lengths as members of a JSON object, without its braces. */
void wan_net_write(FILE *to, const struct wan_net *net);

#endif
