/* Measures what lies between the ranks of a job, while it starts, over the very links that it will use. Bounded: who meets whom is
 * topo/levels.h's business, a meeting is at most 17 round trips of 8 bytes, and at each distance that there is one pair of ranks
 * measures a rate. */
#ifndef TT_COMM_BETWEEN_H
#define TT_COMM_BETWEEN_H

#include "topo/levels.h"
#include "topo/topo.h"
#include "tutti/tutti.h"

/* Equal on all ranks. */
struct tt_between {
    uint32_t nhosts, npairs;            /* of hosts, that met */
    struct tt_levels levels;            /* by latency alone, whatever labels say */
    struct tt_level_groups *groups;     /* [nhosts] */
    uint32_t *core_ns;                  /* [n][n] of the n = tt_between_ncore(nhosts) hosts that all met, above the diagonal */
    uint64_t took_ns;
};

/* The latencies between hosts, and what levels they make. All ranks of `comm` call it, whose layout is that of the job; before anybody else uses it. On
 * success the caller ends *out with tt_between_fini. */
tutti_status tt_between_hosts(tutti_comm *comm, struct tt_between *out);
void tt_between_fini(struct tt_between *b);
uint32_t tt_between_ncore(uint32_t nhosts);

/* What the distances of comm's layout have between them: latencies (between hosts: the medians of what met), and rates of one pair each.
 * Likewise. A distance that no pair is at, or none of the hosts that met, stays unknown. */
tutti_status tt_between_links(tutti_comm *comm, const struct tt_between *b, struct tt_topo_link links[TT_DISTANCES]);

/* The nearest two hosts of which no link tells the latency, by the ranks that measure it: rank 0, and the first of the nearest such host to it. False: it is told
 * of all, or there is one host. */
bool tt_between_pair(const tutti_comm *comm, uint32_t pair[2]);
/* The two meet: one way, at least 1. Both call it. */
tutti_status tt_between_meet(tutti_comm *comm, const uint32_t pair[2], uint32_t *latency_ns);

#endif
