/* The algorithms added by TUTTI_ALGORITHMS: loading, and the check that all ranks have the same. */
#ifndef TT_COMM_PLUGINS_H
#define TT_COMM_PLUGINS_H

#include "base/bytes.h"
#include "base/status.h"

#define TT_PLUGIN_NAMES_BYTES 128

/* A rank's algorithms, as in its card. */
struct tt_plugin_set {
    uint64_t hash;                          /* of names, revisions and plans, in order; 0: none */
    char names[TT_PLUGIN_NAMES_BYTES];      /* "allgather_mine, broadcast_other", truncated if
                                               too long */
};

/* Loads the files in TUTTI_ALGORITHMS on the first call. After an error nothing was added, and
 * the next call tries again. INVALID (logged). Any thread. */
tutti_status tt_plugins_load(void);
/* Returns the loaded set. */
void tt_plugins_set(struct tt_plugin_set *out);

void tt_plugin_set_write(const struct tt_plugin_set *set, struct tt_writer *w);
void tt_plugin_set_read(struct tt_plugin_set *set, struct tt_reader *r);

/* Compares the sets of all ranks, in order, with that of rank 0. */
struct tt_plugin_judge {
    struct tt_plugin_set first, other;      /* other: of the lowest rank that differs */
    uint32_t differing;                     /* number of differing ranks */
    char ranks[64];                         /* "2, 3, 7, ..." */
};
void tt_plugin_judge_add(struct tt_plugin_judge *j, uint32_t rank, const struct tt_plugin_set *set);
/* Returns MISMATCH (logged) with the differing ranks and their sets, if there are any. */
tutti_status tt_plugin_judge_end(const struct tt_plugin_judge *j);

#endif
