/* The algorithms that TUTTI_ALGORITHMS adds: loading them, and whether all ranks have the same. */
#ifndef TT_COMM_PLUGINS_H
#define TT_COMM_PLUGINS_H

#include "base/bytes.h"
#include "base/status.h"

#define TT_PLUGIN_NAMES_BYTES 128

/* What a rank has, as its card says it. */
struct tt_plugin_set {
    uint64_t hash;                          /* of names, revisions and plans, in their order; 0: none */
    char names[TT_PLUGIN_NAMES_BYTES];      /* "allgather_mine, broadcast_other", cut where it is too long */
};

/* Loads what TUTTI_ALGORITHMS names, the first time it is called; after an error nothing has been added, and the next call tries again.
 * INVALID (logged). Any thread. */
tutti_status tt_plugins_load(void);
/* What was loaded. */
void tt_plugins_set(struct tt_plugin_set *out);

void tt_plugin_set_write(const struct tt_plugin_set *set, struct tt_writer *w);
void tt_plugin_set_read(struct tt_plugin_set *set, struct tt_reader *r);

/* Goes over the sets of all ranks, rank by rank from 0, to find those that differ from rank 0's. */
struct tt_plugin_judge {
    struct tt_plugin_set first, other;      /* other: of the lowest rank that differs */
    uint32_t differing;                     /* how many ranks do */
    char ranks[64];                         /* "2, 3, 7, ..." */
};
void tt_plugin_judge_add(struct tt_plugin_judge *j, uint32_t rank, const struct tt_plugin_set *set);
/* MISMATCH (logged), naming ranks and what they have, if any differ. */
tutti_status tt_plugin_judge_end(const struct tt_plugin_judge *j);

#endif
