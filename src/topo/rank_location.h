/* The location that each rank reports, and the layout that all ranks derive from all locations.
 * Pure. */
#ifndef TT_TOPO_RANK_LOCATION_H
#define TT_TOPO_RANK_LOCATION_H

#include "base/bytes.h"
#include "topo/labels.h"
#include "topo/layout.h"
#include "topo/rails.h"

/* Instead of an enum tt_node_kind: TT_NODE_SOCKETS if a host has ranks on several sockets, else
 * MESH. */
#define TT_NODE_AUTOMATIC 255u

/* Location of one rank; sent in its card. */
struct tt_rank_location {
    uint64_t host;                      /* tt_host_hash */
    int16_t socket;                     /* index on its host; TT_UNKNOWN: unknown, or its CPUs are
                                           on several sockets */
    uint8_t node;                       /* enum tt_node_kind, or TT_NODE_AUTOMATIC; rank 0's is
                                           used */
    uint8_t nrails;
    struct tt_rails_near near;          /* nearest of its rails */
    uint64_t label[TT_NEAR_WAN];        /* RACK to FABRIC: hash of the label; 0: not set */
};

void tt_rank_location_init(struct tt_rank_location *out, uint64_t host, int socket, uint32_t nrails,
                           struct tt_rails_near near, const struct tt_labels *labels, uint8_t node);
/* Replaces the labels of its host. */
void tt_rank_location_label(struct tt_rank_location *p, const struct tt_labels *labels);
/* Returns whether any label is set. */
bool tt_rank_location_is_labelled(const struct tt_rank_location *p);
void tt_rank_location_write(const struct tt_rank_location *p, struct tt_writer *w);
/* Sets r->bad if no correct rank can have written it. */
void tt_rank_location_read(struct tt_rank_location *out, struct tt_reader *r);

/* Derives the layout of ranks at places[nranks]; equal places give equal layouts. The labels of a
 * host are those of its first rank. A level without any label is not distinguished: its groups are
 * those of the level below, or above the highest labelled level a single group. A host without a
 * label at a level where others have one is alone there. If the socket of a rank is unknown, all
 * ranks of its host count as on one socket. Returns false if out of memory. The caller releases
 * *out with tt_layout_fini. */
bool tt_layout_derive(struct tt_layout *out, const struct tt_rank_location *places,
                      uint32_t nranks);
/* Derives the layout of ranks[n] of the whole, as a separate communicator; all ranks in order share
 * the whole's. Result and release as above. */
bool tt_layout_part(struct tt_layout *out, const struct tt_layout *whole, const uint32_t *ranks,
                    uint32_t n);
/* Describes the layout in a few words, "8 ranks on 2 hosts, 2 rails each", in out[cap]. */
void tt_layout_describe(const struct tt_layout *l, char *out, size_t cap);

#endif
