/* Units that are part of CUDA graphs.
 *
 * At each launch of the graph, a host function (tt_gpu_captured_arrive) sets the unit's end word to
 * "not ended", and queues the unit for the worker when all streams of the unit have arrived. The
 * streams then wait for the end word. Units of one capture run in the order of their calls.
 *
 * Launches of graphs from the same capture must not overlap. If a stream reaches a unit that has
 * arrived already and has not ended, the tutti_gpu fails.
 *
 * A unit of an exchange (gpu/exchange.h) is not queued, and is no longer part of its chain. The
 * host function sends its blocks; a second one, after the wait, copies the received blocks out.
 *
 * A graph owns its units by user objects: a unit lives as long as the graph and all executable
 * graphs made from it. Nodes refer to it by a handle. A graph that is launched after
 * tutti_gpu_destroy finds no unit, or a unit without tutti_gpu; its streams are released.
 *
 * Lock order: the lock of the table of units, then the lock of a tutti_gpu. CUDA is never called
 * with one of them held, because CUDA calls functions of this file. */
#ifndef TT_GPU_CAPTURED_H
#define TT_GPU_CAPTURED_H

#include "gpu/gpu.h"

#define TT_GPU_WATCH_NS 100000000ull        /* between two checks of exchanges by the worker */

struct tt_gpu_exchange;

/* The units of one tutti_gpu in one capture. */
struct tt_gpu_chain {
    struct tt_gpu_chain *next;
    uint64_t capture;               /* id */
    uint32_t count, turn;           /* units, and the index of the next one to run */
    uint32_t references;            /* of units */
};

struct tt_gpu_captured {
    struct tt_gpu_captured *next;           /* of its tutti_gpu */
    struct tt_gpu_captured *next_arrived;
    tutti_gpu *gpu;                         /* NULL: destroyed; protected by the table's lock */
    struct tt_gpu_unit *unit;               /* owned */
    struct tt_gpu_chain *chain;             /* before it is attached: its own, unused */
    uint32_t position;                      /* in the chain; unused in an exchange */
    uint64_t arrived;                       /* set of streams; protected by gpu->lock, like
                                               is_queued and is_running */
    bool is_queued;                         /* in the list of arrived units */
    bool is_running;                        /* the worker runs it */
    bool was_run;                           /* used by the worker */
    struct tt_gpu_exchange *exchange;       /* protected by both locks; NULL: the worker runs the
                                               unit */
    uint32_t rank;                          /* in the exchange */
    char *src, *dst;                        /* of the exchange, in the unit's memory */
    atomic_bool is_exchanging;              /* from the arrival until the blocks were taken */
    uint64_t began_ns;                      /* of the exchange; protected by gpu->lock */
    uint32_t references;                    /* protected by the table's lock */
    uint32_t slot, generation;
    uint32_t *word;                         /* end word: `generation` means ended */
    tt_cuda_address word_address;
};

/* Makes the streams of a unit wait (with both locks held), or releases them (with one of the locks
 * held, or after the worker has terminated). */
static inline void tt_gpu_captured_set_ended(const struct tt_gpu_captured *c, bool ended)
{
    __atomic_store_n(c->word, ended ? c->generation : c->generation - 1, __ATOMIC_RELEASE);
}

/* Creates a unit in the table, with one reference, for a graph. It has no tutti_gpu yet. On success
 * it owns u. May allocate pinned memory. */
tutti_status tt_gpu_captured_create(struct tt_gpu_captured **out, tutti_gpu *gpu,
                                    struct tt_gpu_unit *u);
/* The argument of the next three functions; `stream` is an index of the unit's streams. */
void *tt_gpu_captured_handle(const struct tt_gpu_captured *c, uint32_t stream);
/* Host function of graphs: the stream has reached the unit. */
void tt_gpu_captured_arrive(void *handle);
/* Host function of graphs, after the wait for the end word, for a unit with can_exchange. */
void tt_gpu_captured_depart(void *handle);
/* Destructor of user objects: drops the reference of the graph. */
void tt_gpu_captured_drop(void *handle);

/* Makes the unit usable, as the last one of its capture so far. */
void tt_gpu_captured_attach(struct tt_gpu_captured *c, tutti_gpu *gpu);

/* Detaches all units from gpu, whose worker has terminated, and releases their streams. Unless gpu
 * has failed, a launch that is waiting at a unit sets tutti_gpu_graph_status. */
void tt_gpu_captured_detach(tutti_gpu *gpu);

/* Removes and returns the next unit whose streams have all arrived, or NULL. Called by the worker
 * with gpu->lock held; tt_gpu_captured_end follows. */
struct tt_gpu_captured *tt_gpu_captured_next(tutti_gpu *gpu);
bool tt_gpu_captured_is_next(const tutti_gpu *gpu);
/* Releases the unit's streams, and drops the worker's reference. */
void tt_gpu_captured_end(struct tt_gpu_captured *c);

/* Makes the unit, which the worker is running, part of the exchange from the next launch on. Takes
 * over the reference of tt_gpu_exchange_join. */
void tt_gpu_captured_exchange(struct tt_gpu_captured *c, struct tt_gpu_exchange *x);
/* Whether an exchange is in progress. With gpu->lock held. */
bool tt_gpu_captured_is_exchanging(const tutti_gpu *gpu);
/* Returns an error if an exchange in progress waits for a rank that has left, or has passed its
 * deadline. Called by the worker. */
tutti_status tt_gpu_captured_watch(tutti_gpu *gpu);

#endif
