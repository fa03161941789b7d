/* What lies between ranks at each distance, equal on all ranks: as rank 0's description (TUTTI_TOPO) tells it, or else as it was measured
 * when the job started. Index: enum tt_distance; 0 is unknown. */
#ifndef TT_COMM_LINKS_H
#define TT_COMM_LINKS_H

#include "algo/algos.h"
#include "base/bytes.h"
#include "comm/measure.h"
#include "topo/topo.h"

/* In a card: only what is told. Reading sets r->bad for what no description can hold. */
void tt_links_write(const struct tt_topo_link *links, struct tt_writer *w);
void tt_links_read(struct tt_topo_link *links, struct tt_reader *r);

/* What `links` does not tell is taken from `measured`. */
void tt_links_complete(struct tt_topo_link *links, const struct tt_topo_link *measured);

/* Lets the constants of messages between hosts be those of the farthest distance that a communicator spans, as far as they are known: it is
 * that which every round of it may wait for. Within a host what was measured there holds, or what a link is told to be, if that is slower. A message takes
 * its link's latency and what its ends do. */
void tt_links_model(const struct tt_topo_link *links, enum tt_distance farthest, const struct tt_ends *ends,
                    struct tt_cost_model *m);

/* "rack 2 us 100 Gbit/s, wan 40 ms" into out[cap]; "" if nothing is known. */
void tt_links_describe(const struct tt_topo_link *links, char *out, size_t cap);

#endif
