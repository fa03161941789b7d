/* Algorithms of your own, in a shared object that Tutti loads: nothing of Tutti is built anew.
 *
 *     TUTTI_ALGORITHMS=./libmine.so,./other.json tutti run -n 4 -- ./program
 *
 * The shared object defines tutti_algorithm_at (below), and needs no library of Tutti to link with. Each algorithm it gives takes part in
 * the choice by its cost, and can be named in tutti_call.algo. One of alltoallv is used only by name, and for no call in place: no rank knows whether
 * the others call so. All ranks must load the same ones, in the same order: communicators
 * are not created otherwise. A name that ends in .json is a plan as data instead (docs/plan-format.md).
 *
 * An algorithm is a set of pure functions of the call: no state, no clock, the same answer each time and, but for what
 * depends on `rank` and `in_place`, on every rank. They may be called from any thread, also for other ranks than this process's: a
 * program is proven for all ranks, in place, out of place and mixed, before it runs the first time, where there are at most 64 of them and their
 * programs have at most 2^20 steps together; else, and for alltoallv, whose counts no rank knows of all others, what this rank does is
 * checked against the bounds below (the log says at level info when it was too long to prove). What is found is the error of the
 * call that was to use it.
 *
 * `round` writes one rank's program, a round at a time, with four steps over symbolic buffers:
 *  - tutti_step_put sends bytes to a peer, where the tutti_step_wait of the same pair and tag names the same number of bytes and where they go;
 *  - tutti_step_reduce makes out = a op b, where a is the operand of the lower rank (the lowest of those that contributed);
 *    `finish` is set on the one reduction that completes an element;
 *  - tutti_step_copy moves bytes within the rank.
 * Steps wait for earlier steps of their rank whose bytes they touch, and for nothing else.
 *
 * Bounds: at most TUTTI_ROUND_STEPS steps a round; a put and its wait in rounds of the same number; puts and waits of a pair in the same
 * order on both sides, their tags distinct; a pipe is written by one step and read by one later step of the same round; SRC is
 * only read; all within the buffers; at most TUTTI_ALGORITHM_WORK bytes of WORK. Run step by step, no rank may wait for what a peer sends
 * only after its own wait for this one: in a round that exchanges with several peers, put before you wait.
 *
 * This interface is a C interface that stays: structs begin with their size and grow at their end. */
#ifndef TUTTI_ALGORITHM_H
#define TUTTI_ALGORITHM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_ALGORITHM_VERSION 1u      /* changes when what is below does not mean the same any more */
#define TUTTI_ROUND_STEPS 16u
#define TUTTI_ALGORITHM_WORK (1u << 20)

typedef enum tutti_collective {
    TUTTI_COLL_ALLREDUCE = 0,
    TUTTI_COLL_REDUCE,
    TUTTI_COLL_REDUCE_SCATTER,
    TUTTI_COLL_REDUCE_SCATTERV,
    TUTTI_COLL_ALLGATHER,
    TUTTI_COLL_ALLGATHERV,
    TUTTI_COLL_BROADCAST,
    TUTTI_COLL_GATHER,
    TUTTI_COLL_GATHERV,
    TUTTI_COLL_SCATTER,
    TUTTI_COLL_SCATTERV,
    TUTTI_COLL_ALLTOALL,
    TUTTI_COLL_ALLTOALLV,
    TUTTI_COLL_BARRIER,
    TUTTI_COLL_COUNT
} tutti_collective;

typedef enum tutti_buffer {
    TUTTI_BUFFER_SRC = 0,   /* the call's input: read only */
    TUTTI_BUFFER_DST,       /* the call's output */
    TUTTI_BUFFER_WORK,      /* the operation's own memory, work_bytes long; not cleared */
    TUTTI_BUFFER_PIPE,      /* between one step and a later one of its round, never stored; `offset` is its name, unique in the rank */
    TUTTI_BUFFER_THERE      /* only as `to` of a put that is its pair's only one: wherever the peer's wait says */
} tutti_buffer;

/* Bytes of a buffer: from offset on; or, with block > 0, pieces of `block` bytes, `stride` apart, the first at offset. */
typedef struct tutti_ref {
    uint64_t offset, block, stride;
    uint32_t buffer;        /* tutti_buffer */
    uint32_t reserved;      /* 0 */
} tutti_ref;

static inline tutti_ref tutti_ref_of(tutti_buffer buffer, uint64_t offset)
{
    tutti_ref ref = { 0, 0, 0, 0, 0 };

    ref.buffer = (uint32_t)buffer;
    ref.offset = offset;
    return ref;
}

/* The call, in bytes. The same on all ranks but for rank and in_place (and the arrays of alltoallv). */
typedef struct tutti_algorithm_call {
    size_t size;
    uint32_t collective;    /* tutti_collective */
    uint32_t rank, nranks, root;
    uint32_t elem_bytes;    /* no reduction splits an element */
    uint32_t in_place;      /* 1: SRC and DST are the same memory, as tutti.h says; never of alltoallv */
    uint64_t bytes;         /* of `count` elements as tutti.h shapes the call; 0 where counts differ by rank */
    /* Where they do, in bytes, [nranks] each. allgatherv, gatherv: recv; scatterv, reduce_scatterv: send; alltoallv: both. */
    const uint64_t *send_bytes, *send_displs, *recv_bytes, *recv_displs;
} tutti_algorithm_call;

/* Where a round's steps go: Tutti's. Call it by the functions below. */
typedef struct tutti_schedule tutti_schedule;
struct tutti_schedule {
    size_t size;
    void (*put)(tutti_schedule *s, uint32_t peer, tutti_ref from, tutti_ref to, uint64_t bytes, uint32_t tag);
    void (*wait)(tutti_schedule *s, uint32_t peer, tutti_ref to, uint64_t bytes, uint32_t tag);
    void (*reduce)(tutti_schedule *s, tutti_ref out, tutti_ref a, tutti_ref b, uint64_t bytes, int finish);
    void (*copy)(tutti_schedule *s, tutti_ref to, tutti_ref from, uint64_t bytes);
};

static inline void tutti_step_put(tutti_schedule *s, uint32_t peer, tutti_ref from, tutti_ref to, uint64_t bytes,
                                  uint32_t tag)
{
    s->put(s, peer, from, to, bytes, tag);
}

static inline void tutti_step_wait(tutti_schedule *s, uint32_t peer, tutti_ref to, uint64_t bytes, uint32_t tag)
{
    s->wait(s, peer, to, bytes, tag);
}

static inline void tutti_step_reduce(tutti_schedule *s, tutti_ref out, tutti_ref a, tutti_ref b, uint64_t bytes,
                                     int finish)
{
    s->reduce(s, out, a, b, bytes, finish);
}

static inline void tutti_step_copy(tutti_schedule *s, tutti_ref to, tutti_ref from, uint64_t bytes)
{
    s->copy(s, to, from, bytes);
}

/* What the slowest rank pays: messages one after another, bytes through its busiest direction, bytes reduced, bytes copied. */
typedef struct tutti_algorithm_cost {
    double messages, bytes, reduced, copied;
} tutti_algorithm_cost;

/* One algorithm. It must stay where it is until the process ends; so must its strings. */
typedef struct tutti_algorithm {
    size_t size;            /* sizeof(tutti_algorithm) */
    uint32_t version;       /* TUTTI_ALGORITHM_VERSION */
    uint32_t collective;    /* tutti_collective */
    const char *name;       /* "<collective>_<idea>": letters, digits and _, at most 60; no other algorithm's */
    const char *summary;    /* when it is good, in a few words */
    const char *needs;      /* what a call must be for it to fit, said when it does not; NULL: it always fits */
    uint64_t revision;      /* yours: ranks whose algorithms of one name differ in it do not work together */
    int (*fits)(const tutti_algorithm_call *call);              /* NULL: always. Alike on all ranks, in place or not */
    uint64_t (*nrounds)(const tutti_algorithm_call *call);      /* alike on all ranks */
    void (*round)(tutti_schedule *s, const tutti_algorithm_call *call, uint64_t k);
    uint64_t (*work_bytes)(const tutti_algorithm_call *call);   /* NULL: none */
    uint32_t (*npeers)(const tutti_algorithm_call *call);       /* bound on the ranks it exchanges with; NULL: all */
    void (*cost)(const tutti_algorithm_call *call, tutti_algorithm_cost *out);   /* NULL: it is used only by name, as those of alltoallv are */
    uint32_t direct_unsafe; /* 1: what a wait takes must not land in DST or WORK before the wait's turn */
    uint32_t reserved;      /* 0 */
} tutti_algorithm;

/* What the shared object defines: its algorithms, by index from 0; NULL after the last. */
typedef const tutti_algorithm *tutti_algorithm_at_fn(size_t index);

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const tutti_algorithm *
tutti_algorithm_at(size_t index);

#ifdef __cplusplus
}
#endif
#endif
