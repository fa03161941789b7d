/* How a job spent its time: operations by communicator, kind, size and algorithm, and the ranks for
 * which others waited. */
#ifndef TT_ANALYZE_PROFILE_H
#define TT_ANALYZE_PROFILE_H

#include "analyze/instances.h"

/* Stages of operations, in ns, summed over all ranks. Their sum is the time from call to end. */
enum tt_profile_stage {
    TT_PROFILE_QUEUED,          /* waiting for earlier operations, before the start */
    TT_PROFILE_WAITED,          /* then waiting for the last caller */
    TT_PROFILE_CONTROL,         /* then control messages, until the first data */
    TT_PROFILE_REGISTER,        /* registration of memory */
    TT_PROFILE_SEND,            /* posting, or copying to memory of peers */
    TT_PROFILE_REDUCE,
    TT_PROFILE_COPY,            /* within the process */
    TT_PROFILE_WIRE,            /* the rest: waiting for data and completions */
    TT_PROFILE_STAGES
};

/* Completed operations of one communicator, kind, algorithm and size class. Times are sums over all
 * ranks, unless stated otherwise. */
struct tt_profile_row {
    uint32_t comm, kind, algo;  /* kind, algo: texts */
    uint64_t bytes_from;        /* size class [bytes_from, 2 * bytes_from); 0: no bytes */
    uint64_t calls, nfailed;
    uint64_t bytes;
    double total_ns;            /* from call to end */
    double queued_ns;           /* part of total_ns: waiting for earlier operations */
    double waited_ns;           /* part of total_ns: waiting for the last caller */
    int64_t median_ns, max_ns;  /* of one call, from call to end */
    int64_t transfer_ns;        /* median from the last call of an operation to its end on one rank.
                                   -1: unknown */
    uint64_t nstaged;           /* calls with known stages: long ones */
    double staged_ns[TT_PROFILE_STAGES];    /* times of these calls */
    double busbw;               /* of the median transfer, or of the median call if that is unknown,
                                   in bytes per ns; 0: not defined */
};

/* A member of a communicator that was the last caller of operations. */
struct tt_profile_late {
    uint32_t comm, rank;
    uint64_t times;             /* it was the last caller, by more than the error of the clocks */
    uint64_t of;                /* operations of the communicator whose last caller is known */
    double lost_ns;             /* time that the others waited for it */
};

struct tt_profile {
    struct tt_profile_row *rows;        /* [nrows] by total_ns, the largest first */
    struct tt_profile_late *late;       /* [nlate] by lost_ns, the largest first */
    size_t nrows, nlate;
    uint64_t calls, nopen;      /* completed; incomplete ones, which are in no row */
    uint64_t ninstances, nknown;        /* collectives and messages; with a known last caller */
    int64_t begin, end;         /* first call and last end; NEVER: none */
};

/* Profiles *in. Time: n log n in the operations. NOMEM (logged): *p is not initialized. */
tutti_status tt_profile_init(struct tt_profile *p, const struct tt_instances *in);
void tt_profile_fini(struct tt_profile *p);

/* Divides the time of operation `op` of *in into stages. Returns false if they are unknown. */
bool tt_profile_stages_of(const struct tt_instances *in, uint32_t op,
                          double out[TT_PROFILE_STAGES]);
/* Returns e.g. "control". */
const char *tt_profile_stage_name(enum tt_profile_stage stage);

/* Returns the bus bandwidth in bytes per ns, as in nccl-tests, of a collective or message of
 * `bytes` among `nranks` ranks in `ns`. bytes: as in the dump, i.e. of one block. 0: not
 * defined. */
double tt_profile_busbw(const char *kind, uint64_t bytes, uint32_t nranks, int64_t ns);

#endif
