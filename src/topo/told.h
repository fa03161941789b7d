/* What each rank tells of where it is, and the layout that all derive from what all tell. Pure. */
#ifndef TT_TOPO_TOLD_H
#define TT_TOPO_TOLD_H

#include "base/bytes.h"
#include "topo/labels.h"
#include "topo/layout.h"
#include "topo/rails.h"

/* In place of an enum tt_node_kind: sockets are seen where ranks of a host are on several. */
#define TT_NODE_AS_FOUND 255u

/* A rank's own part; travels in its card. */
struct tt_told {
    uint64_t host;                      /* tt_host_hash */
    int16_t socket;                     /* of its host; TT_UNKNOWN: not told, or its processors are on several */
    uint8_t node;                       /* enum tt_node_kind, or TT_NODE_AS_FOUND; rank 0's holds */
    uint8_t nrails;
    struct tt_rails_near near;          /* of its rails */
    uint64_t label[TT_NEAR_WAN];        /* RACK to FABRIC: hash of the label; 0: not told */
};

void tt_told_init(struct tt_told *out, uint64_t host, int socket, uint32_t nrails, struct tt_rails_near near,
                  const struct tt_labels *labels, uint8_t node);
/* Other labels for its host. */
void tt_told_label(struct tt_told *p, const struct tt_labels *labels);
/* Whether it tells any label. */
bool tt_told_is_labelled(const struct tt_told *p);
void tt_told_write(const struct tt_told *p, struct tt_writer *w);
/* Sets r->bad for what no rank can have written. */
void tt_told_read(struct tt_told *out, struct tt_reader *r);

/* The layout of ranks at places[nranks]; the same for the same places. Of a host, its first rank's labels hold. A level that no host has a
 * label for does not exist: it holds what the level below holds, or, above the highest that is told, everything. A host without one at a
 * level where others have some is alone there. Ranks of a host of which one does not know its socket count as of one socket. False:
 * out of memory. Caller ends *out with tt_layout_fini. */
bool tt_layout_derive(struct tt_layout *out, const struct tt_told *places, uint32_t nranks);
/* The layout of ranks[n] of the whole, as a communicator of their own; all of them in order share the whole's. Likewise. */
bool tt_layout_part(struct tt_layout *out, const struct tt_layout *whole, const uint32_t *ranks, uint32_t n);
/* In a few words, "8 ranks on 2 hosts, 2 rails each", into out[cap]. */
void tt_layout_describe(const struct tt_layout *l, char *out, size_t cap);

#endif
