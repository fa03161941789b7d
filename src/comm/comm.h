/* A communicator: a context of the engine, and what the calls on it default to. A world is one start-up: engine and overlay, shared by the
 * communicators that were split from it. */
#ifndef TT_COMM_COMM_H
#define TT_COMM_COMM_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "algo/algos.h"
#include "base/pages.h"
#include "boot/boot.h"
#include "comm/between.h"
#include "comm/chunks.h"
#include "comm/entry.h"
#include "comm/lanes.h"
#include "comm/links.h"
#include "comm/measure.h"
#include "comm/plugins.h"
#include "comm/probe.h"
#include "comm/seat.h"
#include "comm/tunes.h"
#include "engine/engine.h"
#include "topo/machine.h"
#include "tune/memory.h"

/* How transfers are cut where all ranks are on one host, and else. */
struct tt_sizes {
    uint64_t segment_bytes, eager_bytes;
};

/* TUTTI_TOPO_MEASURE: what start-up measures between hosts. */
enum tt_measure_what {
    TT_MEASURE_NOTHING,
    TT_MEASURE_ALL,             /* levels and links */
    TT_MEASURE_PAIR             /* the latency between two, where no link tells it */
};

struct tt_world {
    struct tt_engine *engine;
    struct tt_overlay *overlay;     /* NULL with one rank; under overlay_lock */
    pthread_mutex_t overlay_lock;
    pthread_cond_t heard;           /* with overlay_lock: something came over the overlay */
    uint32_t pair_ns;               /* under overlay_lock: that rank 0 measured and told; 0: not yet */
    pthread_mutex_t probe_lock;
    struct tt_probe probe;          /* under probe_lock */
    struct tt_constants constants;  /* rank 0's, as the sizes: the same on all ranks */
    struct tt_sizes shm_sizes, tcp_sizes;
    struct tt_cache cache;          /* rank 0's */
    struct tt_cache cache_mine;
    cpu_set_t cache_cores;          /* that share cache_mine */
    struct tt_chunks chunks;
    struct tt_pages_hot hot;        /* buffers of this rank's calls */
    struct tt_lane_facts lanes;     /* rank 0's */
    uint32_t cores;                 /* that the ranks of rank 0's host share; the same on all ranks */
    cpu_set_t cores_here, cores_first;      /* that the ranks of this host, and of rank 0's, may use together */
    enum tt_secure_mode security;   /* of connections over the network */
    struct tt_secure *secure;       /* NULL: plain */
    bool simulates;                 /* candidates are simulated before a choice (TUTTI_TUNE) */
    struct tt_surroundings here;    /* `links` is rank 0's, and completed by what was measured: the same on all ranks */
    const uint32_t *proven;         /* [nranks] during start-up: which ranks proved that they share a host; NULL: places say it */
    struct tt_told *places;         /* [nranks] as their cards tell; NULL once start-up is over */
    struct tt_layout layout;        /* of all ranks of the job; empty before that */
    enum tt_measure_what measures;  /* rank 0's TUTTI_TOPO_MEASURE */
    struct tt_between between;      /* what came of TT_MEASURE_ALL; else zero */
    bool labelled;                  /* the labels of some host were told: then they hold */
    struct tt_plugin_judge plugins;
    struct tt_tunes tunes;          /* rank 0's */
    atomic_uint users;              /* communicators */
    uint32_t rank, nranks;
};

/* A world of which its ranks (tutti_comm_create), or a session (src/session), bring the cards together. */
struct tt_world_conf {
    uint32_t rank, nranks;
    const char *wires, *interfaces;
    uint32_t lanes;
    const struct tt_outside *outside;       /* as tt_engine_conf has it */
    struct tt_secure *secure;               /* of a session's connections; the world takes a reference. NULL: as these say: */
    const char *security, *token;           /* as tt_launch has them */
    const char *tune_files;                 /* that rank 0 reads; NULL: none */
    const struct tt_constants *constants;   /* of this host, as they were measured before; NULL: rank 0 measures */
    const uint64_t *members;                /* [nranks], as tt_engine_conf has it */
    uint64_t host;                          /* equal for ranks that share a host; 0: start-up proves it */
};

/* What calls have in common that can share an operation. */
struct tt_shape {
    enum tt_coll_kind kind;
    tutti_dtype dtype;
    tutti_redop redop;
    uint32_t root;
    uint64_t count;
    uint64_t src_bytes, dst_bytes;  /* 0: this rank does not use it */
    bool in_place;
    uintptr_t shift;                /* in place: dst - src */
};

#define TT_PLANS 64
#define TT_RECENT 32

/* What was chosen for a call; by hash of what the choice may depend on. */
struct tt_plan {
    uint64_t key;               /* 0: empty */
    const struct tt_algo *algo;
    uint64_t segment_bytes;
    uint8_t algo_id, streams, depth, lanes;
    bool forced;                    /* by name */
    const struct tt_tune_row *tuned;    /* the row of the communicator's tune file that said so; NULL: none did */
    bool keeps;                     /* short calls, alike each time: their operation is kept */
    struct tt_op *kept;             /* owned; NULL: none yet */
    struct tt_shape shape;          /* of kept */
};

struct tutti_comm {
    struct tt_world *world;
    struct tt_context *context;
    uint32_t rank, nranks;
    const uint32_t *ranks;      /* [nranks] job ranks; the context's */
    int64_t timeout_ms;
    bool restore, all_local, near_is_shm;       /* near: of one host */
    bool shares_memory;         /* some of its ranks are of one host, and exchange over shm */
    bool guarded;               /* tt_comm_guard */
    struct tt_entry entry;      /* refuses a second thread */
    struct tt_cost_model model;
    const struct tt_topo_link *links;   /* [TT_DISTANCES] what lies between ranks at each distance, 0 where it is not known; the world's, and
                                           the same on all ranks */
    struct tt_sizes sizes;
    struct tt_layout layout;            /* of its ranks */
    const struct tt_tunefile *tune;     /* asked before the model; NULL: none. The world's */
    struct tt_tune_memory choices;      /* by class, for plans; used as they are */
    struct tt_plan plans[TT_PLANS];     /* used by the one thread that may call collectives */
    uint32_t plans_made;                /* that took the place of others */
    uint32_t kinds_told;                /* bit per kind of v call whose plan was logged */
    void *exchanges;                    /* of src/moe, made by its first call; NULL: none yet. The thread that may call collectives */
    void (*exchanges_free)(void *exchanges);    /* when the context is closed */
    struct tt_plan *recent[TT_RECENT];  /* by hash of the call's arguments; NULL: none. Its shape tells whether it is the one */
};

/* The plan of a call: forced by name, or the cheapest. INVALID (logged) if the name does not fit. *out is the communicator's, until the
 * next call of this. */
tutti_status tt_plan_of(tutti_comm *comm, const struct tt_coll *c, const char *force, struct tt_plan **out);

/* Forgets all plans, and what was kept in them. By the thread that calls collectives. */
void tt_plans_forget(tutti_comm *comm);

/* ---- for sessions: the way that tutti_comm_create goes, with cards that are brought ---- */

/* Makes a world, and what its ranks must know of this one: card[*bytes]. Caller owns *out: tt_world_discard ends it until a communicator was
 * opened in it, then the last of these does. */
tutti_status tt_world_prepare(struct tt_world **out, const struct tt_world_conf *conf, uint8_t card[TT_CARD_BYTES],
                              size_t *bytes);
/* The card of one rank; of all, this one too, in the order of ranks. */
tutti_status tt_world_add_card(struct tt_world *w, uint32_t rank, const uint8_t *card, size_t bytes);
/* All cards are there: what follows from them, and the secret[16] by which its ranks know each other's connections. */
tutti_status tt_world_complete(struct tt_world *w, const uint8_t *secret);
/* Makes a communicator of job ranks ranks[nranks], copied. Before the start for the first ones, so that no message comes for one that is
 * not there. */
tutti_status tt_comm_open(tutti_comm **out, struct tt_world *w, uint32_t id, const uint32_t *ranks, uint32_t nranks,
                          uint32_t rank, int64_t timeout_ms, bool restore);
/* From here on peers are heard. */
tutti_status tt_world_start(struct tt_world *w, const struct tt_engine_hooks *hooks);
void tt_world_discard(struct tt_world *w);

/* For a communicator that another thread destroys than those that call on it (a run's, at the end of a view), before the first of them can: who
 * destroys it waits until they are out of it. */
void tt_comm_guard(tutti_comm *comm);
/* Begins and ends a call that one thread at a time may make; calls of one thread nest. `call` lives until the end.
 * INVALID: another thread is in such a call, or the view of a guarded communicator is changing. NULL is fine. */
tutti_status tt_comm_enter(tutti_comm *comm, const char *call);
void tt_comm_leave(tutti_comm *comm);

/* OK; FORKED (logged) in the child of a fork; INVALID for no communicator. */
tutti_status tt_comm_check(const tutti_comm *comm, const char *call);

#endif
