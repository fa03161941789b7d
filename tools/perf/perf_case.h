/* A case of `tutti perf`: one call with its shapes, its buffers and its expected result. */
#ifndef TUTTI_TOOLS_PERF_CASE_H
#define TUTTI_TOOLS_PERF_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/sched.h"
#include "tutti/tutti.h"

/* In addition to the collectives of tt_coll_kind. */
enum {
    PERF_SENDRECV = TT_COLL_KINDS,  /* every rank sends to its right neighbour and receives from
                                       its left neighbour, as one group */
    PERF_PINGPONG,                  /* round trips between the ranks 2i and 2i + 1, all pairs at
                                       the same time; half of a round trip counts. A last rank
                                       without a partner does nothing */
    PERF_OVERLAP,                   /* a non-blocking allreduce, perf_work, and the wait */
    PERF_COMPUTE                    /* perf_work alone */
};

/* Factor of busbw = algbw * factor, as in nccl-tests: the share of the larger buffer that crosses
 * the busiest link. */
enum perf_factor { PERF_WHOLE, PERF_OTHERS, PERF_TWICE };

/* An operation that can be measured. */
struct perf_coll {
    const char *name;
    int kind;                   /* enum tt_coll_kind, or one of the above */
    enum perf_factor factor;
    bool cut;                   /* the larger buffer contains one block per rank */
    bool uneven;                /* variable collective: block lengths alternate between 0.5 and 1.5
                                   times the mean */
    bool reduces, rooted, in_place;     /* has an operation; has a root; has an in-place form */
};

extern const struct perf_coll perf_colls[];
extern const size_t perf_ncolls;

/* Returns the operation with this name, or NULL. */
const struct perf_coll *perf_coll_find(const char *name);
/* Returns the busbw factor: 1, (n - 1) / n, or 2 (n - 1) / n. */
double perf_bus_factor(const struct perf_coll *coll, uint32_t nranks);

struct perf_case {
    const struct perf_coll *coll;
    uint32_t rank, nranks, root;
    tutti_dtype dtype;
    tutti_redop op;
    tutti_quant quant;          /* encoding of transferred values; NONE: unchanged */
    bool in_place;
    const char *algo;           /* forced; NULL: the library selects */
    unsigned long work;         /* units of perf_work, for overlap and compute */
    size_t block, count;        /* elements per block (mean if uneven), and of the larger buffer */
    size_t *counts, *displs;    /* [nranks] elements, owned: counts and displacements of this
                                   rank */
    void *src, *dst;            /* set by perf_case_place */
};

/* Returns the size of the larger buffer: `bytes` rounded down to whole elements and equal blocks,
 * with at least one element per block. */
size_t perf_rounded_bytes(const struct perf_coll *coll, tutti_dtype dtype, uint32_t nranks,
                          size_t bytes);

/* Completes *c for a larger buffer of `bytes`, rounded as above. The caller has set the fields
 * before `block`. Returns false if out of memory. Undone by perf_case_fini. */
bool perf_case_init(struct perf_case *c, size_t bytes);
void perf_case_fini(struct perf_case *c);
/* Returns the size of the larger buffer. */
size_t perf_case_bytes(const struct perf_case *c);

/* Places src and dst in two buffers of perf_case_bytes each, which the caller keeps owning. */
void perf_case_place(struct perf_case *c, void *room, void *other);

/* Return the number of elements that the call reads or writes on this rank; 0 if it ignores the
 * buffer. */
size_t perf_src_count(const struct perf_case *c);
size_t perf_dst_count(const struct perf_case *c);

/* A piece of the expected result: dst[at .. at + count) equals src[first .. first + count) of rank
 * `from`, or with PERF_FROM_ALL, the reduction of this range over all ranks. */
#define PERF_FROM_ALL UINT32_MAX
struct perf_piece {
    size_t at, count, first;
    uint32_t from;
};

/* Returns the i-th piece of the expected result, or false if there are no more. Elements outside
 * all pieces are not checked. */
bool perf_case_piece(const struct perf_case *c, uint32_t i, struct perf_piece *out);

/* Returns the factor of a rank's input in premultiplied sums. */
double perf_scale_of(uint32_t rank);

/* Runs the call once and waits for its completion. */
tutti_status perf_case_run(const struct perf_case *c, tutti_comm *comm);

/* Returns the call for algorithms, without the arrays of variable collectives. The layout is owned
 * by the communicator. */
struct tt_coll perf_case_call(const struct perf_case *c, const tutti_comm *comm);
/* Returns the algorithm selected for the call, without the name of the collective ("ring"), or NULL
 * if the forced algorithm does not support it. Logs an invalid plug-in algorithm once, as recorded
 * in *refused; an error that is the same on all ranks is logged on rank 0 only. */
const char *perf_case_algo(const struct perf_case *c, tutti_comm *comm, bool *refused);
/* Returns the size of the work buffer that the selected algorithm uses on this rank; 0 if no
 * algorithm supports the call. *refused as above. */
uint64_t perf_case_work(const struct perf_case *c, tutti_comm *comm, bool *refused);
/* Returns true if an algorithm of this name exists for the collective, even if it does not support
 * every call. */
bool perf_algo_exists(const struct perf_coll *coll, const char *name);

#endif
