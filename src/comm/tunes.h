/* The tune files of a job. Rank 0 reads the files in its TUTTI_TUNE_FILE and distributes them,
 * so that all ranks use the same. Each communicator uses the file that matches its placement. */
#ifndef TT_COMM_TUNES_H
#define TT_COMM_TUNES_H

#include <stdatomic.h>

#include "comm/tunefile.h"

#define TT_TUNES_MAX 16
#define TT_TUNES_SHARED_MAX (TT_TUNES_MAX * (TT_TUNEFILE_BYTES_MAX + 65536u))

struct tt_tunes {
    struct tt_tunefile *file[TT_TUNES_MAX];     /* [n] */
    uint32_t n;
    uint8_t *told;              /* distributed by rank 0: paths and texts */
    uint32_t told_bytes;        /* equal on all ranks after the cards were exchanged; 0: no tune
                                   files */
    bool agreed;                /* all ranks have them */
    atomic_bool said;           /* the warning that none fits a split communicator was logged */
};

/* Reads the files of a list like "shm4.json,tcp4.json" (NULL or empty: none). INVALID (logged)
 * with file, line and cause. Free with tt_tunes_fini, also on error. */
tutti_status tt_tunes_load(struct tt_tunes *t, const char *list);
void tt_tunes_fini(struct tt_tunes *t);

/* Parses rank 0's files: told[bytes]. */
tutti_status tt_tunes_take(struct tt_tunes *t, const uint8_t *told, size_t bytes);

/* Distributes rank 0's files. Collective over the first communicator of a world, before it is
 * returned to the application. Costs nothing without files. On error no rank succeeds. */
tutti_status tt_tunes_share(tutti_comm *comm);

/* Returns the connections between its ranks: "shm", "tcp" or "shm+tcp"; equal on every rank. */
const char *tt_tunes_wires(const tutti_comm *comm);

/* Selects the file for a communicator; its plans are discarded. Rank 0 logs the file (info), or
 * that there is none and why (a warning the first time, for all ranks of the job). */
void tt_tunes_choose(tutti_comm *comm);

#endif
