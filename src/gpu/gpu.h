/* A communicator bound to a device: its queue of units, the pinned memory, and the thread that runs
 * the units. A unit is one or more operations that start and end together; a stream waits for the
 * unit's sequence number in the end word. */
#ifndef TT_GPU_GPU_H
#define TT_GPU_GPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "gpu/cuda.h"
#include "gpu/flags.h"
#include "tutti/gpu.h"

#define TT_GPU_ALGO_BYTES 64        /* longest name of an algorithm */
#define TT_GPU_STREAMS_MAX 64u      /* of one unit */
#define TT_GPU_CHUNKS_MAX 64u
/* Sends and receives are cut into pieces of chunk_bytes / TT_GPU_P2P_SHARE. For each peer and
 * direction, up to TT_GPU_P2P_DEPTH pieces are in flight. */
#define TT_GPU_P2P_SHARE 8u
#define TT_GPU_P2P_DEPTH 2u
/* Pinned memory of a tutti_gpu's captured direct units; further units are staged. */
#define TT_GPU_CAPTURED_BYTES_MAX ((size_t)64 << 20)

struct tt_gpu_captured;
struct tt_gpu_chain;
struct tt_gpu_mapping;
struct tt_gpu_rma;

/* A request, shared by the caller and the worker. */
struct tutti_gpu_request {
    pthread_mutex_t lock;
    pthread_cond_t completed;
    unsigned references;            /* protected by lock, like the next */
    bool done;
    tutti_status status;
    char why[TT_ERROR_BYTES];
};

/* An operation of a unit; `algo` is its own copy. */
struct tt_gpu_item {
    tutti_gpu_op op;
    char algo[TT_GPU_ALGO_BYTES];
    uint32_t window;                        /* id, of a window operation */
    tutti_dynamic *dynamic;                 /* owned, of an ALLTOALLV_DYNAMIC */
    struct tutti_gpu_request *request;      /* one reference; NULL: none */
};

/* A call of the caller's function by the worker (tutti_gpu_run). */
struct tt_gpu_job {
    tutti_status (*job)(tutti_comm *comm, void *arg);
    void *arg;
};

struct tt_gpu_unit {
    struct tt_gpu_unit *next;
    uint32_t sequence;
    struct tt_gpu_item *items;
    size_t nitems;
    void *streams[TT_GPU_STREAMS_MAX];      /* without duplicates */
    uint32_t nstreams;
    uint32_t start[TT_GPU_STREAMS_MAX];     /* indices of their start words */
    size_t arena_bytes;                     /* pinned memory that the unit needs */
    bool is_captured;                       /* the streams are being captured */
    uint64_t capture;                       /* id of the capture */
    tt_cuda_graph graph;                    /* of the capture */
    size_t direct_bytes;                    /* pinned memory of a direct unit; 0: not direct */
    uint32_t slot;                          /* index of its slot + 1; 0: none */
    struct tt_gpu_pinned *memory;           /* of a captured direct unit, owned; NULL: none */
    bool can_exchange;                      /* captured: may become part of an exchange */
    const struct tt_gpu_job *job;           /* the caller's; NULL: none */
    struct tutti_gpu_request *job_request;  /* of the job, one reference */
};

/* Pinned memory; used by one unit at a time. */
struct tt_gpu_arena {
    struct tt_gpu_arena *next;      /* smaller ones, kept until destruction: freeing waits for the
                                       device */
    char *mem;
    size_t bytes;
};

struct tutti_gpu {
    const struct tt_cuda *cu;
    tutti_comm *comm;
    int device;
    tt_cuda_context context;
    tutti_gpu_conf conf;            /* complete: defaults are filled in */
    tt_cuda_stream in, out;         /* copies from and to the device; used by the worker */
    tt_cuda_event in_done[TT_GPU_CHUNKS_MAX], out_done[TT_GPU_CHUNKS_MAX];     /* likewise */
    /* Copies from the memory of other ranks; used by the worker. */
    struct tt_gpu_mapping *mappings;
    uint32_t nmappings;
    bool *far;                      /* [nranks][2]: messages to, and from, a rank are staged */
    bool no_pull;                   /* collectives are staged */
    _Atomic uint64_t npulled;       /* collectives and messages that were not staged */
    struct tt_gpu_flags *flags;
    pthread_t worker;
    atomic_bool aborted;
    _Atomic tutti_status status;    /* set once, after `why` */
    char why[TT_ERROR_BYTES];

    pthread_mutex_t lock;           /* protects all following fields, and fields of `flags` */
    pthread_cond_t changed;         /* a unit was added or has ended, stop, or abort */
    atomic_uint changes;            /* incremented by tt_gpu_wake; read without lock */
    bool spins;                     /* the worker waits for a while before it sleeps; constant */
    struct tt_gpu_unit *first, **last;
    uint32_t added, ended;          /* sequence numbers */
    struct tt_gpu_arena *arenas;    /* largest first */
    bool stop;

    struct tt_gpu_rma *rma;                 /* from the first window on; set by the worker */
    struct tt_gpu_captured *captured;       /* units in graphs */
    size_t captured_bytes;                  /* pinned memory of these units */
    struct tt_gpu_chain *chains;
    struct tt_gpu_captured *first_arrived, **last_arrived;     /* of launched graphs */
    atomic_bool has_arrived;                /* first_arrived is not NULL; read without lock */
    uint64_t nexchanged;                    /* launches without the worker (gpu/exchange.h) */
    bool is_watched;                        /* the worker checks for exchanges that cannot end */
    uint64_t watch_ns, nwatched;            /* time of the next check; nexchanged at the last one */

    uint64_t group;                 /* identifies the ranks of comm, equal on all of them; 0:
                                       unknown */
    tutti_gpu *next_here;           /* in the list of the process */
};

/* Collectives run before the other operations of a unit. */
static inline bool tt_gpu_is_collective(tutti_gpu_kind kind)
{
    return kind < TUTTI_GPU_SEND || kind == TUTTI_GPU_ALLTOALLV_DYNAMIC;
}

/* Frees a unit, but not its memory and requests. */
void tt_gpu_unit_free(struct tt_gpu_unit *u);

/* Records the first error of gpu, with the calling thread's last error as its message. */
void tt_gpu_set_failed(tutti_gpu *gpu, tutti_status status);
/* Returns OK, or the error that failed gpu, as the thread's last error. */
tutti_status tt_gpu_failure(const tutti_gpu *gpu);
/* Releases the streams that wait for units in graphs of gpu, which has failed. Streams of the
 * running unit follow when it has ended, because the worker uses their memory. gpu->lock is
 * held. */
void tt_gpu_release_captured(tutti_gpu *gpu);
/* Wakes the worker, and waiting callers. gpu->lock is held. */
void tt_gpu_wake(tutti_gpu *gpu);
/* Make the context of gpu current for the calling thread, and restore the previous one. */
tutti_status tt_gpu_enter(const tutti_gpu *gpu);
void tt_gpu_leave(const tutti_gpu *gpu);
/* Ensures that an arena of `bytes` exists. Called before a stream waits for the unit: pinning
 * memory may wait for the device. */
tutti_status tt_gpu_reserve(tutti_gpu *gpu, size_t bytes);
/* Returns the largest arena's memory; used by the worker. */
char *tt_gpu_arena(tutti_gpu *gpu);

#endif
