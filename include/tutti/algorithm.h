/* Interface for algorithms in shared objects (plug-ins), which Tutti loads at run time.
 *
 *     TUTTI_ALGORITHMS=./libmine.so,./other.json tutti run -n 4 -- ./program
 *
 * The shared object defines tutti_algorithm_at (below) and need not be linked with libtutti. Tutti
 * selects among all algorithms by cost, or by name with tutti_call.algo. An alltoallv algorithm is
 * selected only by name, and never for an in-place call, because no rank has the counts of the
 * other ranks. All ranks must load the same algorithms in the same order; otherwise
 * tutti_comm_create fails. A file whose name ends in .json contains a plan (docs/plan-format.md).
 *
 * An algorithm is a set of pure functions: their results depend only on their arguments, not on
 * state, time or the calling rank. They may be called from any thread, and with the arguments of
 * any rank.
 * The steps that `round` emits for a rank are the rank's program. Before the first run, Tutti
 * verifies the programs of all ranks together, in three cases: all ranks in place, all out of
 * place, and mixed. This verification covers up to 64 ranks and 2^20 steps in total. Beyond these
 * limits, and for alltoallv, each rank only checks its own program against the rules below. If the
 * programs have more than 2^20 steps, Tutti logs this at level info. If the verification fails, the
 * call that selected the algorithm returns the error.
 *
 * `round` emits one round of one rank's program. A round consists of steps on symbolic buffers
 * (tutti_buffer). There are four kinds of steps:
 *  - tutti_step_put sends bytes to a peer.
 *  - tutti_step_wait waits for the bytes of the matching put, and specifies their destination. The
 *    matching put is the peer's put to this rank with the same tag and number of bytes.
 *  - tutti_step_reduce computes out = a op b. Operand a contains the input of the lowest
 *    contributing rank. `finish` is 1 in the last reduction of each element, else 0.
 *  - tutti_step_copy copies bytes within the rank.
 * A step waits only for earlier steps of its rank that access the same bytes.
 *
 * Rules
 *  - A round has at most TUTTI_ROUND_STEPS steps; WORK has at most TUTTI_ALGORITHM_WORK bytes.
 *  - A put and its matching wait have the same round number. Between any two ranks, each put has
 *    its own tag, which only the matching wait shares. The sender's puts and the receiver's waits
 *    have the same order.
 *  - A pipe (TUTTI_BUFFER_PIPE) is written by one step and read by one later step of the same
 *    round.
 *  - SRC is read-only. All accesses must be within the buffers.
 *  - The programs must not deadlock when each rank executes its steps one after the other.
 *    Therefore, in a round that exchanges data with several peers, all puts precede all waits.
 *
 * This is a stable C interface: each struct begins with its size, and new fields are added at its
 * end. */
#ifndef TUTTI_ALGORITHM_H
#define TUTTI_ALGORITHM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_ALGORITHM_VERSION 1u      /* incremented with each incompatible change */
#define TUTTI_ROUND_STEPS 16u
#define TUTTI_ALGORITHM_WORK (1u << 20)

/* Collectives that an algorithm can implement, defined as in tutti.h. */
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

/* Buffers that the steps of an algorithm access. */
typedef enum tutti_buffer {
    TUTTI_BUFFER_SRC = 0,   /* the call's input; read-only */
    TUTTI_BUFFER_DST,       /* the call's output */
    TUTTI_BUFFER_WORK,      /* scratch memory of work_bytes; uninitialized */
    TUTTI_BUFFER_PIPE,      /* result that one step passes directly to a later step of the round,
                               without storing it. `offset` is an identifier, unique within the
                               rank */
    TUTTI_BUFFER_THERE      /* the destination that the peer's matching wait specifies. Valid only
                               as `to` of a put, and only if there is no other put from this rank to
                               that peer */
} tutti_buffer;

/* Bytes of a buffer, starting at `offset`: contiguous if block is 0, else pieces of `block` bytes
 * that begin every `stride` bytes. */
typedef struct tutti_ref {
    uint64_t offset, block, stride;
    uint32_t buffer;        /* tutti_buffer */
    uint32_t reserved;      /* must be 0 */
} tutti_ref;

/* Returns a reference to the contiguous bytes of `buffer` from `offset` on. */
static inline tutti_ref tutti_ref_of(tutti_buffer buffer, uint64_t offset)
{
    tutti_ref ref = { 0, 0, 0, 0, 0 };

    ref.buffer = (uint32_t)buffer;
    ref.offset = offset;
    return ref;
}

/* The arguments of the call, in bytes. They are equal on all ranks, except rank, in_place and the
 * arrays of alltoallv. */
typedef struct tutti_algorithm_call {
    size_t size;
    uint32_t collective;    /* tutti_collective */
    uint32_t rank, nranks, root;
    uint32_t elem_bytes;    /* a reduction must not split an element */
    uint32_t in_place;      /* 1: the call is in place, as defined in tutti.h; 0 for alltoallv */
    uint64_t bytes;         /* size of `count` elements (tutti.h); 0 for v collectives */
    /* Arrays [nranks], for v collectives only. recv_*: allgatherv, gatherv, alltoallv. send_*:
     * scatterv, reduce_scatterv, alltoallv. */
    const uint64_t *send_bytes, *send_displs, *recv_bytes, *recv_displs;
} tutti_algorithm_call;

/* Receives the steps of a round. Owned by Tutti; use the functions below. */
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

/* Cost on the slowest rank: number of successive messages, bytes sent or received (whichever is
 * larger), bytes reduced, and bytes copied. */
typedef struct tutti_algorithm_cost {
    double messages, bytes, reduced, copied;
} tutti_algorithm_cost;

/* An algorithm. The struct and its strings must stay valid until the process ends. */
typedef struct tutti_algorithm {
    size_t size;            /* sizeof(tutti_algorithm) */
    uint32_t version;       /* TUTTI_ALGORITHM_VERSION */
    uint32_t collective;    /* tutti_collective */
    const char *name;       /* unique, "<collective>_<method>": at most 60 letters, digits and _ */
    const char *summary;    /* when to use it, in a few words */
    const char *needs;      /* what `fits` requires, for the error message; NULL: nothing */
    uint64_t revision;      /* version number of the algorithm; must be equal on all ranks */
    /* Returns 1 if the algorithm supports the call, else 0; must be the same on all ranks. NULL:
     * always 1. */
    int (*fits)(const tutti_algorithm_call *call);
    uint64_t (*nrounds)(const tutti_algorithm_call *call);      /* same on all ranks */
    void (*round)(tutti_schedule *s, const tutti_algorithm_call *call, uint64_t k);
    uint64_t (*work_bytes)(const tutti_algorithm_call *call);   /* size of WORK; NULL: 0 */
    uint32_t (*npeers)(const tutti_algorithm_call *call);       /* upper bound; NULL: all ranks */
    /* NULL: selected only by name, like all alltoallv algorithms. */
    void (*cost)(const tutti_algorithm_call *call, tutti_algorithm_cost *out);
    uint32_t direct_unsafe; /* 1: received data must not be written to DST or WORK before the
                               program reaches the wait for this data */
    uint32_t reserved;      /* must be 0 */
} tutti_algorithm;

/* The shared object defines this function, which returns the algorithm with 0-based index `index`,
 * or NULL if there are no more. */
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
