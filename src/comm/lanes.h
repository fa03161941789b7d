/* What the choice knows of lanes between hosts: how many connections, or queue pairs, lead to a peer, and how much each may carry at a time. Rank 0's, the
 * same on all ranks. */
#ifndef TT_COMM_LANES_H
#define TT_COMM_LANES_H

#include "base/bytes.h"
#include "base/status.h"
#include "topo/topo.h"

struct tt_lane_facts {
    uint8_t asked;                      /* so many to each peer, TT_LANES_FREE or TT_LANES_BY_DISTANCE */
    uint8_t by_link;                    /* 1 << distance: of queue pairs for which nobody said bytes, which what lies between decides */
    uint64_t bytes[TT_DISTANCES];       /* RACK to WAN: that one lane may have under way */
};

#define TT_LANES_FREE 0u                /* TCP connections, and nobody said how many: one, or one for each rail of a rank that is alone on its host */
#define TT_LANES_BY_DISTANCE 255u       /* queue pairs, and nobody said how many */

/* As this process has it: lanes (0: nobody said) of verbs where the list `wires` has it, else of TCP, its lane
 * limits, and for connections what the kernel lets each have under way. INVALID (logged): TUTTI_LANE_BYTES is not understood. */
tutti_status tt_lane_facts_get(struct tt_lane_facts *out, uint32_t lanes, const char *wires);
/* The bytes of those that go by what lies between ranks: links[TT_DISTANCES], over hosts of nrails rails. */
void tt_lane_facts_know(struct tt_lane_facts *f, const struct tt_topo_link *links, uint32_t nrails);
/* As a card carries it. A reader is bad where it is out of bounds. */
void tt_lane_facts_write(const struct tt_lane_facts *f, struct tt_writer *w);
void tt_lane_facts_read(struct tt_lane_facts *f, struct tt_reader *r);

/* How many lanes lead from a rank to one of another host; 1 where there is no choice. */
uint32_t tt_lane_facts_count(const struct tt_lane_facts *f, const struct tt_layout *l);

#endif
