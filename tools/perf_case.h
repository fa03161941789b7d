/* A case of `tutti perf`: one call with its shapes, its buffers, and what must be where when it has returned. */
#ifndef TUTTI_TOOLS_PERF_CASE_H
#define TUTTI_TOOLS_PERF_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/sched.h"
#include "tutti/tutti.h"

/* Beside the collectives of tt_coll_kind. */
enum {
    PERF_SENDRECV = TT_COLL_KINDS,  /* every rank sends to its right neighbour and receives from the left, as one group */
    PERF_PINGPONG                   /* rank 0 to rank 1 and back; counts half of the round trip */
};

/* busbw = algbw * factor: the share of the larger buffer that has to cross the busiest link, as nccl-tests define it. */
enum perf_factor { PERF_WHOLE, PERF_OTHERS, PERF_TWICE };

/* What can be measured. */
struct perf_coll {
    const char *name;
    int kind;                   /* enum tt_coll_kind, or one of the above */
    enum perf_factor factor;
    bool cut;                   /* the larger buffer holds a block of each rank */
    bool uneven;                /* a v call: neighbours' blocks have half and one and a half times the length */
    bool reduces, rooted, in_place;     /* has an operation; a root; a form in place */
};

extern const struct perf_coll perf_colls[];
extern const size_t perf_ncolls;

/* By name; NULL if there is none. */
const struct perf_coll *perf_coll_find(const char *name);
/* 1, (n - 1) / n, or 2 (n - 1) / n. */
double perf_bus_factor(const struct perf_coll *coll, uint32_t nranks);

struct perf_case {
    const struct perf_coll *coll;
    uint32_t rank, nranks, root;
    tutti_dtype dtype;
    tutti_redop op;
    tutti_quant quant;          /* how numbers travel; NONE: as they are */
    bool in_place;
    const char *algo;           /* forced; NULL: the library chooses */
    size_t block, count;        /* elements: of the call (v: on average), and of the larger buffer */
    size_t *counts, *displs;    /* [nranks] elements, owned: blocks of this rank's view */
    void *src, *dst;            /* set by perf_case_place */
};

/* Of the larger buffer: `bytes` rounded down to whole elements and equal blocks, at least one element each. */
size_t perf_rounded_bytes(const struct perf_coll *coll, tutti_dtype dtype, uint32_t nranks, size_t bytes);

/* Completes *c, whose fields before `block` the caller has set, for a larger buffer of `bytes`, rounded as above. False if
 * there is no memory. Ended by perf_case_fini. */
bool perf_case_init(struct perf_case *c, size_t bytes);
void perf_case_fini(struct perf_case *c);
/* Of the larger buffer. */
size_t perf_case_bytes(const struct perf_case *c);

/* Lays src and dst into two rooms of perf_case_bytes each, which stay the caller's. */
void perf_case_place(struct perf_case *c, void *room, void *other);

/* Elements that the call reads and writes on this rank; 0 where it ignores the buffer. */
size_t perf_src_count(const struct perf_case *c);
size_t perf_dst_count(const struct perf_case *c);

/* dst[at .. at + count) must be src[first .. first + count) of rank `from`, or the reduction of all ranks' there. */
#define PERF_FROM_ALL UINT32_MAX
struct perf_piece {
    size_t at, count, first;
    uint32_t from;
};

/* The i-th piece of what dst must hold; false if there are no more. Elements in no piece are not looked at. */
bool perf_case_piece(const struct perf_case *c, uint32_t i, struct perf_piece *out);

/* Premultiplied sums: what this rank's input is multiplied by. */
double perf_scale_of(uint32_t rank);

/* Runs the call once, to its end. */
tutti_status perf_case_run(const struct perf_case *c, tutti_comm *comm);

/* The call as algorithms see it, but for the arrays of v calls. The layout is the communicator's. */
struct tt_coll perf_case_call(const struct perf_case *c, const tutti_comm *comm);
/* The algorithm that the call takes, without the name of the collective ("ring"); NULL if the forced one cannot do it. What is wrong with one from outside is
 * logged where *refused is not set yet, which then is; by rank 0 alone where all ranks find the same. */
const char *perf_case_algo(const struct perf_case *c, tutti_comm *comm, bool *refused);
/* Whether any algorithm of this name exists for the collective, if not for every call. */
bool perf_algo_exists(const struct perf_coll *coll, const char *name);

#endif
