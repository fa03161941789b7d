/* Properties of lanes between hosts for the choice of algorithms: number of connections or queue
 * pairs per peer, and bytes in flight of each. Rank 0's, equal on all ranks. */
#ifndef TT_COMM_LANES_H
#define TT_COMM_LANES_H

#include "base/bytes.h"
#include "base/status.h"
#include "topo/topo.h"

struct tt_lane_facts {
    uint8_t asked;                      /* number per peer, TT_LANES_FREE or TT_LANES_BY_DISTANCE */
    uint8_t by_link;                    /* bitmap 1 << distance: the bytes of queue pairs are not
                                           configured, but derived from the link */
    uint64_t bytes[TT_DISTANCES];       /* RACK to WAN: maximum bytes in flight on one lane */
};

/* TCP connections, number not configured: one, or one per rail for a rank that is alone on its
 * host */
#define TT_LANES_FREE 0u
#define TT_LANES_BY_DISTANCE 255u       /* queue pairs, number not configured */

/* Reads the configuration of this process. lanes: of verbs if `wires` contains it, else of TCP;
 * 0: not configured. Also reads the lane limits, and the kernel's limit per connection. INVALID
 * (logged): TUTTI_LANE_BYTES is invalid. */
tutti_status tt_lane_facts_get(struct tt_lane_facts *out, uint32_t lanes, const char *wires);
/* Sets the bytes that depend on links[TT_DISTANCES], for hosts with nrails rails. */
void tt_lane_facts_set_links(struct tt_lane_facts *f, const struct tt_topo_link *links,
                             uint32_t nrails);
/* Write and read the card format. Reading sets r->bad for values out of bounds. */
void tt_lane_facts_write(const struct tt_lane_facts *f, struct tt_writer *w);
void tt_lane_facts_read(struct tt_lane_facts *f, struct tt_reader *r);

/* Returns the number of lanes between two ranks of different hosts; 1 if there is no choice. */
uint32_t tt_lane_facts_count(const struct tt_lane_facts *f, const struct tt_layout *l);

#endif
