/* The engine's data, accessed only under the progress lock. Interface for other rooms: engine.h. */
#ifndef TT_ENGINE_STATE_H
#define TT_ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/slab.h"
#include "base/sparse.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/exec.h"
#include "engine/engine_client.h"
#include "engine/lane_board.h"
#include "engine/bounce_buffer.h"
#include "engine/link.h"
#include "trace/dump_state.h"
#include "trace/oplog.h"
#include "trace/stages.h"
#include "wire/copy_policy.h"
#include "wire/wires.h"

#define TT_OPS_EXPOSED 16u      /* collectives of one context that are visible to peers at once */
/* receives of one (context, peer) that are opened before the peer has probed for them */
#define TT_OPENED_UNPROBED 16u
#define TT_PROBES_MAX 16u           /* operations of one (context, peer) with a pending probe */
#define TT_OPS_WAITING 4096u    /* operations that wait locally behind the exposed ones */
/* running or waiting operations of all contexts; cookies have one more slot, for the client */
#define TT_OPS_MAX 8191u
/* unconsumed eager messages to one (context, peer); one is reserved for the oldest collective */
#define TT_EAGER_CREDIT 16u
/* finished collectives whose descriptors are kept, to report a mismatch */
#define TT_HISTORY 16u
#define TT_CONTEXTS_MAX 1024u
/* handles for any operation; the others are reserved for the oldest collective of each context */
#define TT_HANDLES_SHARED (TT_HANDLES - TT_CONTEXTS_MAX)
/* ended contexts that a peer was not notified of, because its mailbox was full */
#define TT_ENDINGS_MAX 4096u
#define TT_ENGINE_ALLOCATED_MAX 256u

/* ---- peers ----------------------------------------------------------------------------------- */

enum tt_peer_state { TT_PEER_NONE, TT_PEER_CONNECTING, TT_PEER_UP, TT_PEER_LEFT, TT_PEER_LOST };

/* Handle and memory left by a flow of a failed operation. */
struct tt_abandoned {
    bool used;
    uint32_t context;           /* id of the operation's context */
    struct tt_bounce landing;
};

struct tt_handles {
    uint32_t nused;
    uint64_t used[TT_HANDLES / 64];
    uint32_t gen[TT_HANDLES];   /* generation: incremented when a handle is released */
};

struct tt_peer {
    uint32_t rank;              /* job rank */
    uint8_t state;
    uint64_t left_ns;           /* time at which it left */
    struct tt_wire *wire;       /* of the connection, or of the attempt in progress */
    bool anymem;                /* may import keys of memory that the wire did not allocate */
    uint64_t round_trip_ns;     /* as measured by the wire; 0: unknown */
    uint64_t heard_ns;          /* time of its last message, up to some milliseconds too early;
                                   short repeated calls do not set it; 0: none */
    uint64_t progress_ns;       /* likewise, for the last data of an operation */
    struct tt_mailbox mail;     /* valid from UP on, also after LEFT */
    struct tt_handles *handles; /* handles of flows from the peer; allocated on first use */
    struct tt_abandoned *abandoned;     /* [TT_HANDLES], by handle; NULL: none yet. Freed with
                                           the engine, like handles and endings */
    uint32_t nabandoned;
    uint32_t *endings, nendings, endings_cap;   /* ended contexts that the peer was not notified
                                                   of yet */
    struct tt_peer *next_up;    /* list of peers with a mailbox */
};

/* ---- contexts -------------------------------------------------------------------------------- */

/* An unexpected message: no operation can use it yet. */
struct tt_unexpected {
    uint64_t opseq;
    struct tt_opdesc desc;
    uint32_t tag;
    uint16_t bytes;
    uint8_t type;               /* enum tt_cell_type */
    bool claimed;               /* assigned to an operation, whose executor will read it */
    uint8_t at;                 /* index of this record: its bit in `kept` */
    uint32_t payload_cap;
    uint8_t *payload;           /* [payload_cap]; kept when the record is freed */
};

struct tt_tag_counter {
    uint32_t tag, next;
    bool is_recv, used;
    uint16_t untaken;           /* recv: started messages from `next` on (any.h) */
};

/* at least the sum of a peer's eager credit, and of a CTS and a probe of each of its exposed
 * operations */
#define TT_UNEXPECTED_MAX 64u
_Static_assert(TT_EAGER_CREDIT + TT_OPENED_UNPROBED + TT_OPS_EXPOSED + TT_PROBES_MAX <=
                       TT_UNEXPECTED_MAX &&
                   TT_UNEXPECTED_MAX <= 64,
               "what a peer may send ahead fits; kept is a bitmap");

/* Records are allocated in blocks: most peers need at most one at a time. A block without messages
 * returns to the engine, so that the number of blocks depends on the messages, not on the
 * contexts. */
#define TT_UNEXPECTED_BLOCK 8u

struct tt_unexpected_block {
    struct tt_unexpected_block *next;       /* list of the peer or of the engine */
    uint32_t first;             /* number of record[0]: a multiple of TT_UNEXPECTED_BLOCK */
    struct tt_unexpected record[TT_UNEXPECTED_BLOCK];
};

/* State of a context for one of its peers; created on first use. */
struct tt_context_peer {
    struct tt_peer *peer;
    struct tt_context *context;
    uint32_t index;             /* its rank in the context; UINT32_MAX: not looked up yet */
    uint16_t eager_out;         /* eager messages that the peer has not consumed yet */
    uint16_t credits_due;       /* consumed messages whose credit was not returned yet */
    uint16_t opened;            /* opened flows of unfinished receives */
    uint16_t probes;            /* unfinished operations that have sent a probe to the peer */
    bool must_notify_end;       /* the peer has opened a flow to this rank, and must be notified
                                   when the context ends here */
    bool ended;                 /* the peer posts no further puts for the context */
    bool receives_any;          /* the peer receives from any rank: waiting sends to it are
                                   announced */
    bool sends_blocked;         /* a send to the peer was blocked and may still be so */
    bool receives_any_sent;     /* the peer was notified that this rank receives from any rank */
    uint64_t kept;              /* bitmap of the records below that are in use */
    struct tt_unexpected_block *early;  /* list of the blocks with messages */
    struct tt_tag_counter *tags;    /* hash table, [tags_cap]: a power of two, or 0; at least
                                       half of it is free */
    uint32_t ntags, tags_cap;
};

/* Returns the record of a bit of `kept`. Its block exists. */
static inline struct tt_unexpected *tt_unexpected_at(const struct tt_context_peer *cp, uint32_t at)
{
    struct tt_unexpected_block *block = cp->early;

    while (block->first != at - at % TT_UNEXPECTED_BLOCK)
        block = block->next;
    return &block->record[at % TT_UNEXPECTED_BLOCK];
}

struct tt_history {
    uint64_t opseq;
    struct tt_opdesc desc;
    bool used;
};

#define TT_CONTEXT_SEALED (1u << 31)    /* no call may begin */

struct tt_context {
    struct tt_engine *engine;
    uint32_t id, nranks, rank;
    uint32_t *ranks;            /* [nranks] job ranks */
    struct tt_sparse peers;     /* struct tt_context_peer, by job rank; created on first use */
    uint64_t next_seq;          /* of the next collective */
    enum tt_op_mode mode;       /* of calls from here on; NONE: not part of an elastic run's
                                   operation */
    uint32_t tag;               /* else: calls are part of operation n of this tag */
    uint64_t n;
    struct tt_op *active, **active_end;     /* exposed operations, oldest first */
    struct tt_op *awake, **awake_end;       /* operations that each pass runs */
    struct tt_op *waiting, **waiting_end;
    uint32_t nactive, nwaiting; /* collectives */
    uint32_t nunexpected;       /* unexpected messages of all peers */
    bool receives_any;          /* this rank has received from any rank (any.h) */
    uint32_t nunmatched;        /* receives without a number */
    uint32_t next_source;       /* rank at which the search for the next match begins */
    struct tt_history *history; /* [history_cap], by opseq; it grows with the first collectives.
                                   NULL: none yet */
    uint32_t history_cap;       /* a power of two up to TT_HISTORY, or 0 */
    struct tt_copy_tuners *copies;      /* NULL: no long message within the host yet */
    atomic_int status;          /* tutti_status */
    uint16_t trace;             /* its number in traces (trace/comms.h) */
    uint32_t failed_by;         /* job rank that reported the failure; UINT32_MAX: none */
    char *why;                  /* written once, before status; owned. NULL: not failed, or out of
                                   memory */
    struct tt_op *requests;     /* operations that the application has not freed */
    bool guarded;               /* closing waits for threads inside */
    atomic_uint inside;         /* of a guarded context: threads in calls, and TT_CONTEXT_SEALED */
    atomic_uint pins;           /* likewise: threads that use its requests; these do not prevent
                                   a seal */
    struct tt_context *next;
};

/* ---- operations ------------------------------------------------------------------------------ */

/* The two flows between an operation and one peer; parallel to the executor's peers. */
struct tt_flow {
    struct tt_context_peer *cp; /* NULL: not looked up yet */
    int16_t in_handle;          /* -1: not opened */
    uint32_t in_gen;
    struct tt_bounce landing;
    struct tt_region *direct;   /* region in which the peer may write directly to the final
                                   buffer; NULL: none */
    bool ready;                 /* CTS received: the fields below are valid */
    bool probe_sent;            /* probe sent to the peer */
    bool probe_received;        /* probe received from the peer */
    uint16_t out_handle;
    uint32_t out_gen;
    struct tt_rkey landing_key, direct_key;
    uint64_t landing_offset, direct_offset;
    uint64_t gathered[TT_EXEC_STREAMS_MAX];     /* by stream: bytes already sent of a strided put
                                                   that is not fully sent yet */
    struct tt_dump_flow trace;  /* streamed data and its times, for dumps; not of straight
                                   programs */
};

/* An operation's memory as registered with one wire. */
struct tt_op_regions {
    bool made;
    struct tt_region *src, *dst, *stage, *work;
};

/* State of a kept operation. A request borrows it from its start until its wait. Only the thread
 * that makes the communicator's calls lends and drops it. Requires the progress lock. */
enum tt_loan {
    TT_LOAN_NONE,               /* owned by its plan and unused, or owned by a single request */
    TT_LOAN_OUT,                /* used by a request, which returns it */
    TT_LOAN_LAPSED,             /* owned by its plan, but not reusable: it must be dropped */
};

/* Whether the application waits for an operation, for dumps. A request that is only tested, or
 * whose end is notified, counts as waited for, because programs may do this instead of waiting. */
enum tt_op_waited { TT_OP_UNWAITED, TT_OP_BLOCKING, TT_OP_WAITED, TT_OP_WATCHED };

struct tt_op {
    struct tt_op *next, **at;   /* active or waiting list of the context; at: the link to an
                                   active one */
    struct tt_op *next_awake, **awake_at;   /* the same for the context's awake list; awake_at
                                               NULL: not in it */
    struct tt_op *next_request, **request_at;   /* list of the context's requests */
    struct tt_context *context; /* NULL: it was closed; only the status is valid */
    bool guarded;               /* its context is guarded */
    struct tt_op_conf conf;
    struct tt_opdesc desc;
    struct tt_oplog_words trace;    /* its description in the trace */
    uint64_t record;            /* number of its record in the trace; 0: none */
    uint64_t called_tick, last_tick;    /* of a recorded call that runs unexposed: its begin, and
                                           the last time at which it waited */
    atomic_uchar waited;        /* enum tt_op_waited: written by the waiting thread */
    uint64_t waited_ns;         /* first of the checks that have all found the application waiting;
                                   0: none */
    uint64_t moved_ns;          /* time of the first check that found the executor at moved_step; */
    uint32_t moved_step;        /* valid if probe_ns is not 0 */
    uint64_t seq;               /* key within the context; for sends and receives made from tag
                                   and counter */
    bool p2p, exposed;
    bool kept;                  /* reused by each call of its shape; straight */
    bool compact;               /* kept, and its memory ends after the executor's steps
                                   (compact_op) */
    enum tt_loan loan;          /* of an operation that is kept, or will be */
    bool second;                /* in its second part (tt_op_parts), whose seq is one higher */
    bool lengths_due;           /* its row lengths were not compared yet */
    bool oneself;               /* a send or receive of this rank with itself: self.c */
    bool unmatched;             /* a receive without a number, not visible to peers: any.h */
    bool unannounced;           /* a send whose announcement is pending: any.h */
    struct tt_op *group;        /* group of which it is a running member: group.c; else NULL */
    struct tt_op **members;     /* of a group: [nmembers], owned; NULL: not a group, or empty */
    size_t nmembers, nmembers_running;
    atomic_int status;          /* PENDING until over: written last */
    void (*notify)(void *arg);  /* called once when it is over; NULL: none */
    void *notify_arg;
    char *why;                  /* of the last failure; owned. NULL: none, or out of memory */
    uint64_t began_ns;          /* for timers; 0: not timed */
    struct tt_stage_times stages;   /* of a recorded operation that is not straight */
    uint64_t deadline_ns, probe_ns;     /* 0: set at the next clock reading */
    uint32_t started;           /* engine->starts when it was started */
    struct tt_copy_trial copies;    /* of its long messages within the host */
    struct tt_copy_eager eager; /* `tried` is set only in a kept operation */
    tt_reduce_fn *kernel, *kernel_finish;
    uint8_t elem_shift;         /* log2 of the element size */
    bool beyond_cache;          /* tt_copy_exceeds_cache */
    uint32_t scanned;           /* exec.loaded at the last scan of unexpected messages */
    const struct tt_mail *now;  /* message being delivered, and its sender */
    struct tt_context_peer *now_from;
    const void *own_src;        /* quantized: the caller's buffers; those in conf are packed, and
                                   in `rooms` */
    void *own_dst;
    struct tt_op_quant_buffers *rooms;  /* quantized.h; reused by later operations. NULL: not needed
                                           yet */
    uint8_t *work, *stage;
    uint64_t stage_bytes;
    void *backup;
    uint64_t backup_bytes;
    void *backup_of;
    struct tt_op_regions regions[TT_ENGINE_WIRES_MAX];
    uint16_t slot;              /* index in engine->ops; part of a wire's cookie, with the
                                   generation */
    uint16_t generation;
    uint16_t held_passes;       /* consecutive passes in which the executor held back an action */
    uint16_t no_hold_actions;   /* remaining actions until it may hold back again */
    bool retry;                 /* an action could not be performed: retry without an event */
    uint32_t peers_cap;         /* capacity of the memory below, which is reused by later
                                   operations */
    uint64_t work_cap, backup_cap;
    size_t arrays_cap;
    uint32_t in_flight;         /* puts posted and not yet locally complete */
    uint64_t *arrays;           /* copies of coll's arrays */
    struct tt_flow *flow;       /* [peers_max] */
    struct tt_exec_peer *exec_peers;
    uint32_t peers_max;
    struct tt_exec exec;        /* last: see `compact` */
};

/* Returns the divisor of TUTTI_AVG. */
static inline uint32_t tt_op_divisor(const struct tt_op *op)
{
    return op->conf.divisor ? op->conf.divisor : op->conf.coll.nranks;
}

#define TT_WAITINGS_KEPT 64u    /* more concurrent operations are rare */

/* ---- the engine ------------------------------------------------------------------------------ */

#define TT_REPORTS 8u           /* failure reports, one per rank */

/* The last failure that a rank reported. */
struct tt_report {
    uint32_t rank;
    char sentence[TT_ERROR_BYTES];
};

struct tt_engine {
    struct tt_engine *next_here;    /* list of this process's engines: engines.h */
    uint32_t rank, nranks;
    struct tt_oplog_writer oplog;
    struct tt_lane_board lane_board;
    uint64_t trace_id;          /* equal on all ranks: makes the IDs of contexts unique among
                                   jobs */
    uint64_t host;              /* ID of this host */
    uint32_t cores;             /* processors that the ranks of this host share; 0: unknown */
    uint64_t cache_share;       /* tt_copy_cache_share */
    uint32_t forks;             /* number of forks before its creation */
    uint8_t secret[16];
    uint64_t *members;          /* [nranks] in an elastic run; else NULL */
    struct tt_wire *wire[TT_ENGINE_WIRES_MAX];
    uint32_t nwires;
    char *unusable;             /* why allowed wires are unusable, until logged; or NULL */
    uint32_t nlinks[TT_ENGINE_WIRES_MAX];       /* established links, by wire */
    bool single_copies;         /* use single copies for all longer messages (TUTTI_CMA=2) */
    uint32_t nregistered[TT_ENGINE_WIRES_MAX];  /* operations whose memory is registered there */
    struct tt_sparse peers;     /* struct tt_peer, by rank; from the slab, created on first use */
    struct tt_slab peer_slab;
    struct tt_peer *up;         /* peers with a mailbox */
    struct tt_engine_cards cards;

    struct tt_context *contexts;
    _Atomic uint64_t serial;    /* serial number of the last context ID created here */
    uint32_t nexposed;          /* operations in active lists */
    uint32_t nunbegun;          /* operations that wait for a start signal in memory, without a
                                   wake-up */
    uint32_t ndirect;           /* direct calls, to run a full pass at intervals */
    struct tt_op **ops;         /* [ops_cap], by slot; NULL: free */
    uint32_t next_slot;         /* where the search for a free slot begins */
    uint32_t ops_cap;
    uint16_t ops_generation;
    struct tt_op *free_ops;
    struct tt_unexpected_block *free_unexpected;
    struct tt_bounce_pool *pool[TT_ENGINE_WIRES_MAX];
    struct tt_region *allocated[TT_ENGINE_ALLOCATED_MAX];   /* tutti_mem_alloc */
    uint32_t nallocated;
    bool credit_due;            /* some context peer has unreturned credit */
    bool any_due;               /* a notification for receives from any rank is pending (any.h) */
    int endings_nap_ms;         /* sleep while notifications are pending; increases */
    bool endings_due;           /* a notification of an ended context is pending */

    const struct tt_engine_client *guest;   /* NULL: none */
    uint32_t expected;          /* objects of the client that peers may access at any time */

    /* Ends the operations of a context that has failed (tt_ops_fail). Failures are detected in the
     * layers below operations. */
    void (*end_operations)(struct tt_context *c);
    struct tt_engine_hooks hooks;
    pthread_mutex_t waiting_lock;
    struct tt_waiting waiting[TT_WAITINGS_KEPT];    /* see tt_engine_list_waits: written under the
                                                       progress lock and waiting_lock */
    uint32_t nwaiting;
    struct tt_waiting failed[TT_WAITINGS];      /* the last failed operations, oldest first; written
                                                   likewise */
    uint32_t nfailed;
    bool failed_is_past;        /* an operation that began after the last failure has succeeded */
    uint64_t failed_ns;         /* time of the last failure */
    uint32_t starts;            /* started operations, except direct calls */
    uint32_t failed_starts, failed_ndirect;     /* starts and ndirect at the last failure;
                                                   failed_ndirect also counts later direct calls
                                                   without success */
    struct tt_report *reports;  /* [TT_REPORTS] failures reported by other ranks; NULL: none yet */
    uint32_t nreports;          /* total number; the newest ones are kept */

    bool armed;                 /* the wires were armed: the next pass polls all of them */
    bool unfinished;            /* the client has transfers in progress whose completion may wake
                                   no sleeper */
    bool busy;                  /* the last pass had work */
    uint64_t looks;             /* number of operations run in progress passes */
    uint32_t passes;            /* counts passes, to poll quiet wires rarely */
    uint64_t now_ns;            /* last clock reading */
    uint64_t timer_ns;          /* time of the next check of deadlines */
    _Atomic uint64_t guest_due_ns;      /* lower bound of the deadlines of the client's waits and
                                           of tt_op_wait_until; TT_NEVER: none */
    uint64_t looked_ns, looked_cpu_ns;  /* time of the last check, and this process's CPU time
                                           then */
    uint64_t probe_ns;          /* delay before an operation sends a probe */

    /* The progress lock and its waiters: progress_lock.c. */
    atomic_int progress_lock;   /* 1: held */
    atomic_uint urgent;         /* number of threads that need the lock now */
    atomic_uint sleepers;       /* threads that sleep on `events`, or are about to */
    bool barrier;               /* the kernel supports membarrier: progress_lock.c */
    atomic_uint events;         /* futex: incremented when an operation ends or the lock is
                                   released while there are sleepers */
    atomic_uint uses;           /* number of acquisitions */
    atomic_bool blocked;        /* the holder sleeps in epoll_wait */
    atomic_bool parked;         /* the progress thread sleeps without the lock: a start must wake
                                   it */
    int kick_fd, all_epoll, control_epoll;
    int summon_fd;              /* wakes the progress thread while it leaves operations to
                                   callers */
    uint32_t spins;             /* polls of a waiter before it yields; 0: ranks are
                                   oversubscribed */
    uint32_t ranks_per_core;    /* ranks of this host per core */
    bool timed;                 /* timers run */
    uint32_t ntimed;            /* timed operations in progress */
    struct tt_profile timers;
    char loss_logged[TT_ERROR_BYTES];     /* last logged loss: one loss fails many communicators */
    uint64_t moved_bytes;           /* bytes copied or reduced since the last yield */
    bool yield_due;                /* a yield is due */
    pthread_t thread;
    bool thread_runs;
    atomic_bool stop;
    int watch_fd;
    bool control_readable;              /* watch_fd was readable at the last wake-up */
    uint32_t guest_calls;       /* calls of the client, to make progress at intervals */
    uint32_t thread_passes;            /* passes of the progress thread */
    void (*alert)(void *arg);
    void *alert_arg;

    /* Failure reports of other threads. */
    pthread_mutex_t trouble_lock;
    struct tt_failure *trouble;
    bool trouble_missed;        /* a report was lost: out of memory */
    atomic_uint ntrouble;       /* number of reports */
    uint32_t trouble_seen;
};

/* Returns the state of a rank, or NULL if nothing was exchanged with it yet. */
static inline struct tt_peer *tt_peer_get(const struct tt_engine *e, uint32_t rank)
{
    return tt_sparse_get(&e->peers, rank);
}

#endif
