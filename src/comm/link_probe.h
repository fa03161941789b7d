/* Measures latencies and rates between the ranks of a job at start-up, over the links that it
 * will use. The effort is bounded. topo/levels.h selects the pairs. A latency takes at most 17
 * round trips of 8 bytes. For each distance that occurs, one pair of ranks measures a rate. */
#ifndef TT_COMM_LINK_PROBE_H
#define TT_COMM_LINK_PROBE_H

#include "topo/levels.h"
#include "topo/topo.h"
#include "tutti/tutti.h"

/* Results, equal on all ranks. */
struct tt_link_probe {
    uint32_t nhosts, npairs;            /* hosts; measured pairs */
    struct tt_levels levels;            /* derived from latencies alone, ignoring labels */
    struct tt_level_groups *groups;     /* [nhosts] */
    uint32_t *core_ns;                  /* [n][n], above the diagonal: latencies between the n =
                                           min(nhosts, TT_LEVELS_CORE) core hosts, which all measure
                                           each other */
    uint64_t took_ns;
};

/* Measures the latencies between hosts, and derives levels. Collective over `comm`, whose layout
 * must be that of the job, before its first use. On success the caller frees *out with
 * tt_link_probe_fini. */
tutti_status tt_link_probe_hosts(tutti_comm *comm, struct tt_link_probe *out);
void tt_link_probe_fini(struct tt_link_probe *b);

/* Measures latencies and rates for the distances of comm's layout. Latencies between hosts are
 * medians of the measured pairs; rates are those of one pair each. Collective, like
 * tt_link_probe_hosts. Distances without ranks, or without measured hosts, stay unknown. */
tutti_status tt_link_probe_links(tutti_comm *comm, const struct tt_link_probe *b,
                                 struct tt_topo_link links[TT_DISTANCES]);

/* Finds the host nearest to rank 0 to which no link has a given latency. The two ranks that measure
 * it are rank 0 and the first rank of that host. Returns false if all latencies are given, or there
 * is only one host. */
bool tt_link_probe_pair(const tutti_comm *comm, uint32_t pair[2]);
/* Measures the one-way latency between the two ranks, at least 1 ns. Both call it. */
tutti_status tt_link_probe_measure(tutti_comm *comm, const uint32_t pair[2], uint32_t *latency_ns);

#endif
