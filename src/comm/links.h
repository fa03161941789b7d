/* Links between ranks by distance, equal on all ranks: from rank 0's description (TUTTI_TOPO),
 * or measured at start-up. Index: enum tt_distance; 0 is unknown. */
#ifndef TT_COMM_LINKS_H
#define TT_COMM_LINKS_H

#include "algo/algos.h"
#include "base/bytes.h"
#include "comm/measure.h"
#include "topo/topo.h"

/* Write and read the card format: only given values. Reading sets r->bad for values that no
 * description can contain. */
void tt_links_write(const struct tt_topo_link *links, struct tt_writer *w);
void tt_links_read(struct tt_topo_link *links, struct tt_reader *r);

/* Sets the values missing in `links` from `measured`. */
void tt_links_complete(struct tt_topo_link *links, const struct tt_topo_link *measured);

/* Sets the constants of messages between hosts to those of the farthest distance in a
 * communicator, if known, because every round may wait for it. Within a host the measured
 * constants are used, or a given slower link. A message takes its link's latency plus the work
 * of its ends. */
void tt_links_model(const struct tt_topo_link *links, enum tt_distance farthest,
                    const struct tt_ends *ends, struct tt_cost_model *m);

/* Prints "rack 2 us 100 Gbit/s, wan 40 ms" to out[cap], or "" if nothing is known. */
void tt_links_describe(const struct tt_topo_link *links, char *out, size_t cap);

#endif
