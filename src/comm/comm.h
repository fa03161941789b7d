/* A communicator: a context of the engine, and the defaults of its calls. A world is the result
 * of one start-up: engine and overlay, shared by the communicators that were split from it. */
#ifndef TT_COMM_COMM_H
#define TT_COMM_COMM_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "algo/algos.h"
#include "base/pages.h"
#include "boot/boot.h"
#include "comm/link_probe.h"
#include "comm/chunks.h"
#include "comm/enter.h"
#include "comm/thread_guard.h"
#include "comm/lanes.h"
#include "comm/links.h"
#include "comm/measure.h"
#include "comm/plugins.h"
#include "comm/blame_search.h"
#include "comm/surroundings.h"
#include "comm/tunes.h"
#include "engine/engine.h"
#include "topo/machine.h"
#include "tune/memory.h"

struct tt_service;

/* Segment and eager sizes: for ranks on one host, and for others. */
struct tt_sizes {
    uint64_t segment_bytes, eager_bytes;
};

/* TUTTI_TOPO_MEASURE: what start-up measures between hosts. */
enum tt_measure_what {
    TT_MEASURE_NOTHING,
    TT_MEASURE_ALL,             /* levels and links */
    TT_MEASURE_PAIR                 /* the latency between two hosts, if no given link has it */
};

struct tt_world {
    struct tt_engine *engine;
    struct tt_overlay *overlay;     /* NULL with one rank; protected by overlay_lock */
    pthread_mutex_t overlay_lock;
    bool is_elastic;                /* of an elastic run: its ranks are members */
    char token[128];                /* of the job, for the live view; "": none */
    struct tt_service *service;     /* the live view; protected by overlay_lock. NULL before the
                                       start */
    pthread_cond_t frame_signal;    /* with overlay_lock: signalled after frames were handled */
    uint32_t pair_ns;               /* protected by overlay_lock: measured and sent by rank 0; 0:
                                       not yet */
    pthread_mutex_t probe_lock;
    struct tt_blame_search probe;          /* protected by probe_lock */
    struct tt_neighbours *neighbours;   /* protected by overlay_lock: roll_call.h. NULL: not needed
                                           yet */
    bool leads_dumps;               /* dumps of this process have the ranks and the clock of this
                                       job */
    pthread_mutex_t group_lock;     /* held while tutti_comm_create_group starts a message */
    struct tt_constants constants;  /* rank 0's, like the sizes: equal on all ranks */
    struct tt_sizes shm_sizes, tcp_sizes;
    struct tt_cache cache;          /* rank 0's */
    struct tt_cache cache_mine;
    cpu_set_t cache_cores;          /* that share cache_mine */
    struct tt_chunks chunks;
    struct tt_pages_hot hot;        /* buffers of this rank's calls */
    struct tt_lane_facts lanes;     /* rank 0's */
    uint32_t cores;                 /* shared by the ranks of rank 0's host; equal on all ranks */
    cpu_set_t cores_here, cores_first;      /* processors available to the ranks of this host, and
                                               to those of rank 0's host */
    enum tt_secure_mode security;   /* of network connections */
    struct tt_secure *secure;       /* NULL: not encrypted */
    bool simulates;                 /* candidates are simulated before a choice (TUTTI_TUNE) */
    struct tt_surroundings here;    /* `links` is rank 0's, completed by measurements: equal on
                                       all ranks */
    pthread_mutex_t cards_lock;
    struct tt_record_store records; /* protected by cards_lock: cards of all ranks; if `proven`,
                                       tt_boot_card reads them, and they have only the engine's
                                       part */
    bool proven;                    /* start-up has verified which ranks share a host; else their
                                       cards state it */
    uint32_t nlocal, first_here;    /* number of ranks of this host, and the lowest of them */
    struct tt_rank_location *places;         /* [nranks] from the cards; NULL after start-up */
    uint8_t *shares;                /* [nranks] bits: tt_world_all_local reads them */
    struct tt_layout layout;        /* of all ranks of the job; empty before all cards are known */
    enum tt_measure_what measures;  /* rank 0's TUTTI_TOPO_MEASURE */
    struct tt_link_probe between;      /* results of TT_MEASURE_ALL; else zero */
    bool labelled;                  /* some host has labels, which take precedence */
    bool overlay_doubling;          /* TUTTI_OVERLAY_DOUBLING */
    char settings[TT_BOOT_SETTINGS_BYTES];      /* text of all that must be equal on all ranks */
    struct tt_tunes tunes;          /* rank 0's */
    atomic_uint users;              /* number of communicators */
    uint32_t rank, nranks;
};

/* A rank's input to a world: see struct tt_boot_offer. The card contains the rank's processors, its
 * location and, from engine_at on, the engine's part. The place contains the processors and the
 * location without its host. */
struct tt_world_offer {
    char settings[TT_BOOT_SETTINGS_BYTES];
    size_t constants_bytes, card_bytes, engine_at, place_bytes;     /* constants: of rank 0 */
    uint8_t constants[TT_BOOT_CONSTANTS_BYTES], card[TT_CARD_BYTES], place[TT_BOOT_PLACE_BYTES];
};

/* Configuration of a world. Its cards are exchanged by start-up (tutti_comm_create), or by an
 * elastic run (src/session). */
struct tt_world_conf {
    uint32_t rank, nranks;
    const char *wires, *interfaces;
    uint32_t lanes;
    const struct tt_outside *outside;       /* as in tt_engine_conf */
    struct tt_secure *secure;               /* of an elastic run's connections; the world takes a
                                               reference. NULL: use the next fields */
    const char *security, *token;           /* as in tt_launch */
    const char *tune_files;                 /* read by rank 0; NULL: none */
    const struct tt_constants *constants;   /* of this host, measured before; NULL: rank 0
                                               measures */
    const uint64_t *members;                /* [nranks], as in tt_engine_conf */
    uint64_t host;                          /* equal for ranks that share a host; 0: verified at
                                               start-up */
};

/* Properties that calls must share to reuse an operation. */
struct tt_shape {
    enum tt_coll_kind kind;
    tutti_dtype dtype;
    tutti_redop redop;
    uint32_t root;
    uint64_t count;
    uint64_t src_bytes, dst_bytes;  /* 0: not used by this rank */
    bool in_place;
    uintptr_t shift;                /* in place: dst - src */
};

#define TT_PLAN_SETS 16u
#define TT_PLAN_WAYS 4u
#define TT_RECENT 32

/* The choice for a call; found by a hash of all inputs of the choice. */
struct tt_plan {
    struct tt_plan *next;           /* in its set */
    uint64_t key;                   /* 0: empty */
    const struct tt_algo *algo;
    uint64_t segment_bytes;
    uint8_t algo_id, streams, depth, lanes;
    bool forced;                    /* by name */
    const struct tt_tune_row *tuned;    /* row of the communicator's tune file that determined
                                           it; NULL: none */
    bool keeps;                     /* short repeated calls: their operation is kept */
    struct tt_op *kept;             /* owned; NULL: none yet */
    struct tt_shape shape;          /* of kept; without it, of the last call */
};

/* Collective calls that create a communicator from another one. */
enum tt_comm_creation { TT_COMM_SPLIT, TT_COMM_DUP, TT_COMM_CREATIONS };

struct tutti_comm {
    struct tt_world *world;
    struct tt_context *context;
    uint32_t rank, nranks;
    const uint32_t *ranks;      /* [nranks] job ranks; owned by the context */
    int64_t timeout_ms;
    bool restore, all_local, near_is_shm;       /* near: between ranks of one host */
    bool shares_memory;         /* some of its ranks share a host, and communicate over shm */
    bool guarded;               /* tt_comm_guard */
    uint32_t ncreations[TT_COMM_CREATIONS];     /* calls by which it created others, for the
                                                   trace */
    struct tt_thread_guard entry;      /* detects calls of a second thread */
    struct tt_cost_model model;
    const struct tt_topo_link *links;   /* [TT_DISTANCES] links between ranks by distance, 0:
                                           unknown; the world's, equal on all ranks */
    struct tt_sizes sizes;
    struct tt_layout layout;            /* of its ranks */
    const struct tt_tunefile *tune;     /* takes precedence over the model; NULL: none. The
                                           world's */
    struct tt_tune_memory choices;      /* measurements by class, for plans */
    struct tt_plan *plans[TT_PLAN_SETS];    /* lists of up to TT_PLAN_WAYS, by hash; used only by
                                               the thread that calls collectives */
    uint32_t plans_made;                /* number of plans that replaced others */
    uint32_t kinds_told;                /* bit per kind of v call whose plan was logged */
    void *exchanges;                    /* of src/moe, created by its first call; NULL: none yet.
                                           Used only by the thread that calls collectives */
    void (*exchanges_free)(void *exchanges);    /* called when the context is closed */
    struct tt_plan *recent[TT_RECENT];  /* by hash of the call's arguments; NULL: none. The shape
                                           must be compared */
};

/* Returns the plan of a call: forced by name, or the cheapest. INVALID (logged) if the named
 * algorithm does not fit. *out belongs to the communicator, and is valid until the next call. */
tutti_status tt_plan_of(tutti_comm *comm, const struct tt_coll *c, const char *force,
                        struct tt_plan **out);

/* Discards all plans and their kept operations. Called by the thread that calls collectives. */
void tt_plans_discard(tutti_comm *comm);
/* Returns the allocated bytes of plans and choices. */
uint64_t tt_plans_bytes(const tutti_comm *comm);

/* ---- for elastic runs: the steps of tutti_comm_create, with external cards ------------------- */

/* Creates a world, and the offer of this rank. Until a communicator is opened in it, the caller
 * frees *out with tt_world_discard; afterwards the last communicator frees it. */
tutti_status tt_world_prepare(struct tt_world **out, const struct tt_world_conf *conf,
                              struct tt_world_offer *offer);
/* Sets the values that rank 0 determines for all ranks, before any card is added. PROTOCOL
 * (logged) if they are invalid. */
tutti_status tt_world_set_constants(struct tt_world *w, const uint8_t *constants, size_t bytes);
/* Adds the card of one rank. Call for all ranks, including this one, in order. */
tutti_status tt_world_add_card(struct tt_world *w, uint32_t rank, const uint8_t *card,
                               size_t bytes);
/* Called after all cards were added. Derives the layout, and sets the secret[16] that
 * authenticates connections between ranks. */
tutti_status tt_world_complete(struct tt_world *w, const uint8_t *secret);
/* Creates a communicator of job ranks ranks[nranks], copied. Open the first ones before
 * tt_world_start, so that no message arrives for a missing communicator. */
tutti_status tt_comm_open(tutti_comm **out, struct tt_world *w, uint32_t id, const uint32_t *ranks,
                          uint32_t nranks, uint32_t rank, int64_t timeout_ms, bool restore);
/* Starts receiving from peers. */
tutti_status tt_world_start(struct tt_world *w, const struct tt_engine_hooks *hooks);
void tt_world_discard(struct tt_world *w);

#endif
