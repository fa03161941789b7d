/* What was measured instead of modelled: a tune file (docs/tune-file.md) holds, for one number of ranks on one placement, how long each
 * algorithm took at each size, and says which is best. `tutti tune` writes it; a job that loads it asks it before any model. */
#ifndef TT_COMM_TUNEFILE_H
#define TT_COMM_TUNEFILE_H

#include <stdio.h>

#include "algo/segments.h"
#include "sched/algo.h"

#define TT_TUNEFILE_BYTES_MAX (4u << 20)
#define TT_TUNE_ROWS_MAX (1u << 15)
#define TT_TUNEFILE_RANKS_MAX 65536u
#define TT_TUNE_SEGMENT_MAX (16u << 20)

/* One candidate at one size. Of the rows of one size the first whose algorithm can do the call is used. */
struct tt_tune_row {
    const struct tt_algo *algo;     /* NULL: this process has none of that name; passed over */
    char name[64];                  /* of the algorithm, whole */
    enum tt_coll_kind kind;
    uint32_t index;                 /* in the file: the order among rows of one size */
    uint32_t rounds;                /* that it was measured in */
    bool untuned;                   /* what is chosen without a file */
    bool dropped;                   /* too slow to be measured in all rounds */
    uint64_t bytes;                 /* as tutti.h shapes the call: the block of an allgather, the whole vector of an all-reduce */
    struct tt_segments segments;
    double median_us, min_us, max_us;   /* of the rounds' medians */
};

struct tt_tunefile {
    char *path;                     /* as it was named */
    char tutti[32], date[32], host[72];     /* who measured, when, where: for people */
    char wires[16];                 /* "shm", "tcp" or "shm+tcp": how the ranks reach each other */
    uint32_t nranks;
    uint32_t *host_of;              /* [nranks] number of the rank's host, in order of first appearance */
    bool complete;                  /* false: the measurement was interrupted */
    uint32_t nrows;
    struct tt_tune_row *row;        /* [nrows] by kind, bytes, index */
};

/* Reads text[bytes], which is followed by a NUL; `path` names it in errors and is copied. INVALID (logged): what is wrong, and on which line.
 * Caller owns *out, and ends it with tt_tunefile_free. */
tutti_status tt_tunefile_read(struct tt_tunefile **out, const char *text, size_t bytes, const char *path);
/* The same from a file. text (may be NULL) gets what was read, NUL at its end, the caller's to free. */
tutti_status tt_tunefile_load(struct tt_tunefile **out, const char *path, char **text, size_t *bytes);
void tt_tunefile_free(struct tt_tunefile *f);

/* Writes it (its own rows' order: by kind and bytes, then as they are). SYSTEM (logged): `path` names it there. */
tutti_status tt_tunefile_write(const struct tt_tunefile *f, FILE *to, const char *path);

/* Whether it is of ranks placed like these, that reach each other by `wires`; if not, why not goes to why[cap]. */
bool tt_tunefile_is_for(const struct tt_tunefile *f, const struct tt_layout *l, const char *wires, char *why,
                        size_t cap);

/* What was measured to be best. */
struct tt_tuned {
    const struct tt_algo *algo;
    struct tt_segments segments;
    const struct tt_tune_row *row;  /* why; the file's */
};

/* What the file (NULL: none) says of a call: the row of the size that is nearest on a logarithmic scale, segments kept within the limits.
 * False: nothing, as no row is of such calls, or no algorithm of that size can do it. Depends on what all ranks agree on only. */
bool tt_tunefile_find(const struct tt_tunefile *f, const struct tt_coll *c, const struct tt_segment_limits *limits,
                      struct tt_tuned *out);

/* Whether calls of this kind can be looked up: the size of v calls is not the same on all ranks, and messages have no choice. */
bool tt_tunefile_has(enum tt_coll_kind kind);

#endif
