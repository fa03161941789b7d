/* Common part of all peers' implementations of PROTOCOL.md: reads commands, and replies with lines
 * of JSON. A peer fills a peer_ops table and calls peer_serve on every rank. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum peer_coll {
    PEER_ALLREDUCE,
    PEER_REDUCE,
    PEER_REDUCE_SCATTER,
    PEER_ALLGATHER,
    PEER_BROADCAST,
    PEER_GATHER,
    PEER_SCATTER,
    PEER_ALLTOALL,
    PEER_BARRIER,
    PEER_PINGPONG,
    PEER_SENDRECV,
    PEER_OVERLAP,   /* a non-blocking allreduce with a computation before the wait */
    PEER_COMPUTE,   /* the computation alone */
    PEER_NCOLLS,
};

/* Parameters of one command. count is the number of float32 values in the larger buffer. block is
 * the number that one rank contributes or receives if the operation divides its buffer into blocks;
 * otherwise block == count. Both buffers hold count values. In place, src is the input of calls
 * that have no in-place form on this rank (reduce and gather except at the root, scatter at the
 * root); otherwise dst is the input and the output. */
struct peer_job {
    enum peer_coll coll;
    char           algo[32];    /* empty: the peer selects */
    unsigned long  work;        /* units of perf_work, for overlap and compute */
    size_t         bytes;
    long           iters, warmup, loops;
    size_t         count, block;
    int            in_place;
    float         *src, *dst;
};

/* All functions are called on every rank in the same order. */
struct peer_ops {
    const char *name, *version;
    int         rank, nranks;
    int         in_place;       /* supports in-place forms */

    /* Called once before the runs of a command; returns NULL, or why it cannot run (the same on
     * every rank). fresh: the buffers or the algorithm have changed. */
    const char *(*prepare)(void *ctx, const struct peer_job *job, int fresh);
    void        (*run)(void *ctx, const struct peer_job *job);
    void        (*barrier)(void *ctx);

    /* A non-blocking allreduce and its wait; NULL: it has none. */
    void        (*start)(void *ctx, const struct peer_job *job);
    void        (*finish)(void *ctx);
    void        (*max)(void *ctx, double *values, size_t n);   /* elementwise over ranks, to rank
                                                                  0 */

    /* For an allreduce: the number of ranks whose values are in the result, and the sum of these
     * ranks. NULL: all ranks. */
    void        (*addends)(void *ctx, const struct peer_job *job, int *n, int *sum);
};

/* Algorithms "N_at_once" and "N_in_row": the buffer is reduced in N equal parts, by N operations at
 * the same time or one after the other. Returns N, and sets *at_once; 0: another algorithm. */
#define PEER_PARTS_MAX 64
int peer_parts(const char *algo, int *at_once);
/* Returns the number of values of part i of n, and sets *at to its offset. */
size_t peer_part(const struct peer_job *job, int i, int n, size_t *at);

/* "allreduce", ... */
const char *peer_coll_name(enum peer_coll coll);

/* Serves the commands of dir until quit or the end of the pipe. Returns the exit status. */
int peer_serve(const char *dir, const struct peer_ops *ops, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
