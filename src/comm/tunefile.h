/* Measured times instead of a model. A tune file (docs/tune-file.md) contains, for one number of
 * ranks in one placement, the time of each algorithm at each size, and the best one. `tutti
 * tune` writes it. In a job that loads it, it takes precedence over any model. */
#ifndef TT_COMM_TUNEFILE_H
#define TT_COMM_TUNEFILE_H

#include <stdio.h>

#include "algo/segments.h"
#include "sched/algo.h"

#define TT_TUNEFILE_BYTES_MAX (4u << 20)
#define TT_TUNE_ROWS_MAX (1u << 15)
#define TT_TUNEFILE_RANKS_MAX 65536u
#define TT_TUNE_SEGMENT_MAX (16u << 20)

/* One candidate at one size. The first usable row of a size is used. */
struct tt_tune_row {
    const struct tt_algo *algo;     /* NULL: this process has no algorithm of that name; skipped */
    char name[64];                  /* full name of the algorithm */
    enum tt_coll_kind kind;
    uint32_t index;                 /* position in the file: the order among rows of one size */
    uint32_t rounds;                /* number of rounds in which it was measured */
    bool untuned;                   /* the choice without a file */
    bool dropped;                   /* too slow to be measured in all rounds */
    uint64_t bytes;                 /* size as in tutti.h: the block of an allgather, the whole
                                       vector of an all-reduce */
    struct tt_segments segments;
    double median_us, min_us, max_us;   /* of the rounds' medians */
};

struct tt_tunefile {
    char *path;                     /* as given */
    char tutti[32], date[32], host[72];     /* version, date and host of the measurement: for
                                               information */
    char wires[16];                 /* "shm", "tcp" or "shm+tcp": connections between the ranks */
    uint32_t nranks;
    uint32_t *host_of;              /* [nranks] index of the rank's host, by first appearance */
    bool complete;                  /* false: the measurement was interrupted */
    uint32_t nrows;
    struct tt_tune_row *row;        /* [nrows] by kind, bytes, index */
};

/* Reads text[bytes], which must be followed by a NUL; `path` names it in errors and is copied.
 * INVALID (logged) with cause and line. The caller frees *out with tt_tunefile_free. */
tutti_status tt_tunefile_read(struct tt_tunefile **out, const char *text, size_t bytes,
                              const char *path);
/* As tt_tunefile_read, from a file. *text (text may be NULL) is set to its content, with a final
 * NUL; the caller frees it. */
tutti_status tt_tunefile_load(struct tt_tunefile **out, const char *path, char **text,
                              size_t *bytes);
void tt_tunefile_free(struct tt_tunefile *f);

/* Writes the file: rows by kind and bytes, then in their order. SYSTEM (logged), naming `path`. */
tutti_status tt_tunefile_write(const struct tt_tunefile *f, FILE *to, const char *path);

/* Returns whether the file was measured with this placement and these `wires`; if not, prints the
 * reason to why[cap]. */
bool tt_tunefile_is_for(const struct tt_tunefile *f, const struct tt_layout *l, const char *wires,
                        char *why, size_t cap);

/* The best measured choice. */
struct tt_tuned {
    const struct tt_algo *algo;
    struct tt_segments segments;
    const struct tt_tune_row *row;  /* the row that determined it; owned by the file */
};

/* Looks up a call in the file (NULL: none): the row of the nearest size on a logarithmic scale,
 * with segments within the limits. False: there is no row for such calls, or no usable algorithm
 * at that size. Depends only on values that are equal on all ranks. */
bool tt_tunefile_find(const struct tt_tunefile *f, const struct tt_coll *c,
                      const struct tt_segment_limits *limits, struct tt_tuned *out);

/* Returns whether calls of this kind can be looked up. False for variable collectives, whose sizes
 * differ between ranks, and for sends and receives, which have no choice. */
bool tt_tunefile_has(enum tt_coll_kind kind);

#endif
