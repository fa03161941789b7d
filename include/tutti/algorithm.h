/* Interface for algorithms in shared objects that Tutti loads at run time, without rebuilding it.
 *
 *     TUTTI_ALGORITHMS=./libmine.so,./other.json tutti run -n 4 -- ./program
 *
 * The shared object defines tutti_algorithm_at (below) and links with no library of Tutti. Tutti
 * selects among all algorithms by cost; tutti_call.algo selects one by name. An alltoallv algorithm
 * is used only by name, and never in place, because no rank has the counts of the others. All ranks
 * must load the same algorithms in the same order; otherwise no communicator is created. A file
 * name that ends in .json is a plan as data (docs/plan-format.md).
 *
 * An algorithm is a set of pure functions of the call: no state and no clock. They return the same
 * result each time and, except for what depends on `rank` and `in_place`, on every rank. They may
 * be called from any thread, also for other ranks.
 * A program is verified before its first run: for all ranks, in place, out of place and mixed. This
 * is limited to 64 ranks and 2^20 steps in total. Beyond that, and for alltoallv, each rank only
 * checks its own program against the bounds below (logged at level info if it was too long).
 * A violation is the error of the call that would have used the algorithm.
 *
 * `round` writes one round of one rank's program, from four steps on symbolic buffers:
 *  - tutti_step_put sends bytes to a peer. The peer's tutti_step_wait with the same pair and tag
 *    states the same number of bytes and their destination.
 *  - tutti_step_reduce computes out = a op b. a is the operand of the lower rank (the lowest of its
 *    contributors). `finish` is set on the one reduction that completes an element.
 *  - tutti_step_copy copies bytes within the rank.
 * A step waits only for earlier steps of its rank that touch the same bytes.
 *
 * Bounds
 *  - At most TUTTI_ROUND_STEPS steps per round, and TUTTI_ALGORITHM_WORK bytes of WORK.
 *  - A put and its wait are in rounds of the same number. The puts and waits of a pair have the
 *    same order on both sides and distinct tags.
 *  - A pipe is written by one step and read by one later step of the same round.
 *  - SRC is read only. All accesses are within the buffers.
 *  - Executed step by step, the program must not deadlock: in a round that exchanges data with
 *    several peers, all puts come before the waits.
 *
 * This is a stable C interface: structs begin with their size and grow at their end. */
#ifndef TUTTI_ALGORITHM_H
#define TUTTI_ALGORITHM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_ALGORITHM_VERSION 1u      /* changes with every incompatible change */
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
    TUTTI_BUFFER_WORK,      /* scratch memory of work_bytes; uninitialized */
    TUTTI_BUFFER_PIPE,      /* from one step to a later one of its round, never stored; `offset` is
                               its name, unique within the rank */
    TUTTI_BUFFER_THERE      /* only as `to` of the only put of a pair: the destination of the peer's
                               wait */
} tutti_buffer;

/* Bytes of a buffer, from `offset` on. With block > 0: pieces of `block` bytes, `stride` apart. */
typedef struct tutti_ref {
    uint64_t offset, block, stride;
    uint32_t buffer;        /* tutti_buffer */
    uint32_t reserved;      /* 0 */
} tutti_ref;

/* Returns a contiguous reference. */
static inline tutti_ref tutti_ref_of(tutti_buffer buffer, uint64_t offset)
{
    tutti_ref ref = { 0, 0, 0, 0, 0 };

    ref.buffer = (uint32_t)buffer;
    ref.offset = offset;
    return ref;
}

/* The call, in bytes. The same on all ranks, except rank, in_place and the arrays of alltoallv. */
typedef struct tutti_algorithm_call {
    size_t size;
    uint32_t collective;    /* tutti_collective */
    uint32_t rank, nranks, root;
    uint32_t elem_bytes;    /* a reduction must not split an element */
    uint32_t in_place;      /* 1: SRC and DST are in place as in tutti.h; 0 for alltoallv */
    uint64_t bytes;         /* of `count` elements as in tutti.h; 0 for v collectives */
    /* v collectives, in bytes, [nranks] each. allgatherv, gatherv: recv; scatterv, reduce_scatterv:
     * send; alltoallv: both. */
    const uint64_t *send_bytes, *send_displs, *recv_bytes, *recv_displs;
} tutti_algorithm_call;

/* Receives the steps of a round; owned by Tutti. Use the functions below. */
typedef struct tutti_schedule tutti_schedule;
struct tutti_schedule {
    size_t size;
    void (*put)(tutti_schedule *s, uint32_t peer, tutti_ref from, tutti_ref to, uint64_t bytes,
                uint32_t tag);
    void (*wait)(tutti_schedule *s, uint32_t peer, tutti_ref to, uint64_t bytes, uint32_t tag);
    void (*reduce)(tutti_schedule *s, tutti_ref out, tutti_ref a, tutti_ref b, uint64_t bytes,
                   int finish);
    void (*copy)(tutti_schedule *s, tutti_ref to, tutti_ref from, uint64_t bytes);
};

static inline void tutti_step_put(tutti_schedule *s, uint32_t peer, tutti_ref from, tutti_ref to,
                                  uint64_t bytes, uint32_t tag)
{
    s->put(s, peer, from, to, bytes, tag);
}

static inline void tutti_step_wait(tutti_schedule *s, uint32_t peer, tutti_ref to, uint64_t bytes,
                                   uint32_t tag)
{
    s->wait(s, peer, to, bytes, tag);
}

static inline void tutti_step_reduce(tutti_schedule *s, tutti_ref out, tutti_ref a, tutti_ref b,
                                     uint64_t bytes, int finish)
{
    s->reduce(s, out, a, b, bytes, finish);
}

static inline void tutti_step_copy(tutti_schedule *s, tutti_ref to, tutti_ref from, uint64_t bytes)
{
    s->copy(s, to, from, bytes);
}

/* Cost on the slowest rank: sequential messages, bytes in its busier direction, bytes reduced and
 * bytes copied. */
typedef struct tutti_algorithm_cost {
    double messages, bytes, reduced, copied;
} tutti_algorithm_cost;

/* One algorithm. The struct and its strings must stay valid until the process ends. */
typedef struct tutti_algorithm {
    size_t size;            /* sizeof(tutti_algorithm) */
    uint32_t version;       /* TUTTI_ALGORITHM_VERSION */
    uint32_t collective;    /* tutti_collective */
    const char *name;       /* unique, "<collective>_<idea>": at most 60 letters, digits and _ */
    const char *summary;    /* when to use it, in a few words */
    const char *needs;      /* requirement of `fits`, for the error message; NULL: none */
    uint64_t revision;      /* your version number; must be the same on all ranks */
    int (*fits)(const tutti_algorithm_call *call);              /* NULL: always; alike on ranks */
    uint64_t (*nrounds)(const tutti_algorithm_call *call);      /* the same on all ranks */
    void (*round)(tutti_schedule *s, const tutti_algorithm_call *call, uint64_t k);
    uint64_t (*work_bytes)(const tutti_algorithm_call *call);   /* NULL: none */
    uint32_t (*npeers)(const tutti_algorithm_call *call);       /* maximum; NULL: all ranks */
    /* NULL: used only by name, as all alltoallv algorithms. */
    void (*cost)(const tutti_algorithm_call *call, tutti_algorithm_cost *out);
    uint32_t direct_unsafe; /* 1: data must not arrive in DST or WORK before its wait is reached */
    uint32_t reserved;      /* 0 */
} tutti_algorithm;

/* Defined by the shared object: returns its algorithm `index`, from 0, and NULL behind the last. */
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
