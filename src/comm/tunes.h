/* The tune files of a job: rank 0 reads what its TUTTI_TUNE_FILE names and tells all ranks, so that all choose by the same; each
 * communicator then has the one that is of ranks placed like its own. */
#ifndef TT_COMM_TUNES_H
#define TT_COMM_TUNES_H

#include <stdatomic.h>

#include "comm/tunefile.h"

#define TT_TUNES_MAX 16
#define TT_TUNES_TOLD_MAX (TT_TUNES_MAX * (TT_TUNEFILE_BYTES_MAX + 65536u))

struct tt_tunes {
    struct tt_tunefile *file[TT_TUNES_MAX];     /* [n] */
    uint32_t n;
    uint8_t *told;              /* what rank 0 tells the others: paths and texts */
    uint32_t told_bytes;        /* the same on all ranks once cards are there; 0: there are no tune files */
    bool agreed;                /* all ranks have them */
    atomic_bool said;           /* that none fits a communicator that was split off */
};

/* Reads the files of a list like "shm4.json,tcp4.json" (NULL or empty: none). INVALID (logged) with file, line and what is wrong. Ended with
 * tt_tunes_fini, on error too. */
tutti_status tt_tunes_load(struct tt_tunes *t, const char *list);
void tt_tunes_fini(struct tt_tunes *t);

/* Takes what rank 0 tells: told[bytes]. */
tutti_status tt_tunes_take(struct tt_tunes *t, const uint8_t *told, size_t bytes);

/* Collective over the first communicator of a world, before the application has it: all ranks get rank 0's files. Costs nothing where
 * there are none. On error no rank succeeds. */
tutti_status tt_tunes_share(tutti_comm *comm);

/* How its ranks reach each other: "shm", "tcp" or "shm+tcp"; the same answer on every rank. */
const char *tt_tunes_wires(const tutti_comm *comm);

/* Looks for a communicator's own; its plans begin anew. Rank 0 says what is used (info), or that nothing is and why (a warning the
 * first time, for all ranks of the job). */
void tt_tunes_choose(tutti_comm *comm);

#endif
