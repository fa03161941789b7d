/* The engine's data: what is touched only under the baton. Rooms outside see engine.h. */
#ifndef TT_ENGINE_STATE_H
#define TT_ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/chooser.h"
#include "base/slab.h"
#include "base/sparse.h"
#include "base/status.h"
#include "engine/cards.h"
#include "engine/engine.h"
#include "engine/exec.h"
#include "engine/guest.h"
#include "engine/landing.h"
#include "engine/link.h"
#include "wire/wires.h"

#define TT_OPS_EXPOSED 16u      /* collectives of one context that peers can see at once */
#define TT_OPENED_UNASKED 16u   /* receives of one (context, peer) that are opened before the peer has asked for them */
#define TT_NUDGES 16u           /* operations of one (context, peer) that may have asked it */
#define TT_OPS_WAITING 4096u    /* that wait locally behind them */
#define TT_OPS_MAX 8191u        /* operations of all contexts that run or wait; cookies have one slot more, the guest's */
#define TT_EAGER_CREDIT 16u     /* eager messages to one (context, peer) that it has not consumed; one is for the oldest collective */
#define TT_HISTORY 16u          /* finished collectives whose descriptors are kept, to name a mismatch */
#define TT_CONTEXTS_MAX 1024u
#define TT_HANDLES_SHARED (TT_HANDLES - TT_CONTEXTS_MAX)    /* the others are for the oldest collective of each context */
#define TT_ENDINGS_MAX 4096u    /* contexts of which a peer that reads nothing is still to be told that they ended */
#define TT_ENGINE_ALLOCATED_MAX 256u
#define TT_COPIES_BYTES_MIN (16u << 10)     /* shorter messages between processes of one host go through slots without a try */
#define TT_COPIES_CLASSES 12u               /* of longer ones, by powers of two */

/* ---- peers ------------------------------------------------------------------------------------------------- */

enum tt_peer_state { TT_PEER_NONE, TT_PEER_CONNECTING, TT_PEER_UP, TT_PEER_LEFT, TT_PEER_LOST };

/* What a flow of a failed operation left. */
struct tt_abandoned {
    bool used;
    uint32_t context;           /* its id */
    struct tt_landing landing;
};

struct tt_handles {
    uint32_t nused;
    uint64_t used[TT_HANDLES / 64];
    uint32_t gen[TT_HANDLES];   /* grows when a handle is given back */
};

struct tt_peer {
    uint32_t rank;              /* in the job */
    uint8_t state;
    uint64_t left_ns;           /* when it was seen to have left */
    struct tt_wire *wire;       /* the one that is tried or stands */
    bool anymem;                /* it may be given keys of memory that the wire did not allocate */
    uint64_t round_trip_ns;     /* as the wire knows it; 0: it does not */
    struct tt_mailbox mail;     /* valid from UP on, also after LEFT */
    struct tt_handles *handles; /* of flows from it; made with the first one */
    struct tt_abandoned *abandoned;     /* [TT_HANDLES], by handle; NULL: none yet. Freed with the engine, as handles and endings */
    uint32_t nabandoned;
    uint32_t *endings, nendings, endings_cap;   /* contexts of which the peer is still to be told that they ended here */
    struct tt_peer *next_up;    /* list of peers with a mailbox */
};

/* ---- contexts -------------------------------------------------------------------------------------------------- */

/* A message for an operation that cannot take it yet. */
struct tt_early {
    uint64_t opseq;
    struct tt_opdesc desc;
    uint32_t tag;
    uint16_t bytes;
    uint8_t type;               /* enum tt_cell_type */
    bool claimed;               /* the executor knows of it, and will read it */
    uint32_t payload_cap;
    uint8_t *payload;           /* [payload_cap]; kept when the record is freed */
};

struct tt_tag_counter {
    uint32_t tag, next;
    bool is_recv, used;
    uint16_t untaken;           /* recv: messages from `next` on that the peer is known to have started (any.h) */
};

#define TT_EARLY_MAX 64u        /* more than a peer's eager credit, and a ready and a nudge of each of its exposed operations */
_Static_assert(TT_EAGER_CREDIT + TT_OPENED_UNASKED + TT_OPS_EXPOSED + TT_NUDGES <= TT_EARLY_MAX && TT_EARLY_MAX <= 64,
               "what a peer may send ahead fits; kept is a bitmap");

/* What a context keeps of one of its peers; made at first use. */
struct tt_context_peer {
    struct tt_peer *peer;
    struct tt_context *context;
    uint32_t index;             /* its rank in the context; UINT32_MAX: not looked up yet */
    uint16_t eager_out;         /* eager messages that the peer has not consumed yet */
    uint16_t owed;              /* consumed ones that the peer has not been told of */
    uint16_t opened;            /* flows of receives that we have opened and that have not ended */
    uint16_t nudges;            /* operations that have nudged the peer and have not ended */
    bool opens;                 /* the peer has opened a flow to us: it must hear when the context ends here */
    bool ended;                 /* the context has ended there: it puts nothing more */
    bool receives_any;          /* the peer receives from any rank: sends to it that wait are announced */
    bool told_any;              /* the peer knows that we do */
    uint64_t kept;              /* bitmap of the records below that are in use */
    struct tt_early early[TT_EARLY_MAX];
    struct tt_tag_counter *tags;    /* hash table, [tags_cap]: a power of two, or 0; at least half of it is free */
    uint32_t ntags, tags_cap;
};

/* The ways in which long messages come from this host (copies.c). */
enum tt_copies_way {
    TT_COPIES_SLOTS,            /* through slots; where all ranks wait for one another, with ordinary stores */
    TT_COPIES_SINGLE,           /* fetched by their receiver */
    TT_COPIES_PAST_CACHE,       /* through slots, with stores past the cache */
    TT_COPIES_WAYS
};

/* For one kind of operation and one class of lengths. */
struct tt_copies {
    struct tt_chooser_runs runs;
    uint8_t in_use;             /* tt_copies_way: what was said of the next operation in the last one, */
    bool follows;               /* by another rank */
};

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
    struct tt_sparse peers;     /* struct tt_context_peer, by job rank; made at first use */
    uint64_t next_seq;          /* of the next collective */
    enum tt_op_mode mode;       /* of calls from here on; NONE: it is of no elastic run, or the program's */
    uint32_t tag;               /* else: they are of operation n of this tag */
    uint64_t n;
    struct tt_op *active, **active_end;     /* exposed ones, oldest first */
    struct tt_op *awake, **awake_end;       /* of them those that each pass looks at */
    struct tt_op *waiting, **waiting_end;
    uint32_t nactive, nwaiting; /* collectives */
    uint32_t nkept;             /* messages before their time, of all peers */
    bool receives_any;          /* this rank has received from any rank (any.h) */
    uint32_t nunmatched;        /* receives that have no number yet */
    uint32_t next_source;       /* rank of which the next one takes a message, if there are several */
    struct tt_history history[TT_HISTORY];
    struct tt_copies (*copies)[TT_COPIES_CLASSES];   /* [TT_COLL_KINDS]; NULL: no long message came from this host yet */
    atomic_int status;          /* tutti_status */
    uint32_t failed_by;         /* job rank that reported its failure; UINT32_MAX: none */
    char why[TT_ERROR_BYTES];   /* written once, before status */
    struct tt_op *requests;     /* operations that the application has not freed */
    bool guarded;               /* who closes it waits for who is inside */
    atomic_uint inside;         /* of a guarded one: threads in calls, TT_CONTEXT_SEALED */
    atomic_uint pins;           /* likewise: threads that are with its requests, which does not hinder a seal */
    struct tt_context *next;
};

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* The two directions of an operation with one peer; parallel to the executor's peers. */
struct tt_flow {
    struct tt_context_peer *cp; /* NULL: not looked up yet */
    int16_t in_handle;          /* -1: not opened */
    uint32_t in_gen;
    struct tt_landing landing;
    struct tt_region *direct;   /* where the peer may write straight into the final buffer; NULL: it may not */
    bool ready;                 /* the peer has opened: what follows of it is valid */
    bool nudged;                /* we have asked the peer */
    bool asked;                 /* the peer has asked us */
    uint16_t out_handle;
    uint32_t out_gen;
    struct tt_rkey landing_key, direct_key;
    uint64_t landing_offset, direct_offset;
    uint64_t gathered[TT_EXEC_STREAMS_MAX];     /* bytes that went of a strided put which is not taken yet, by stream */
};

/* An operation's memory as one wire knows it, where that wire needs to. */
struct tt_op_regions {
    bool made;
    struct tt_region *src, *dst, *stage, *work;
};

struct tt_op {
    struct tt_op *next, **at;   /* active or waiting list of the context; at: what points at an active one */
    struct tt_op *next_awake, **awake_at;   /* the same in the context's list of those awake; awake_at NULL: it is not in there */
    struct tt_op *next_request, **request_at;   /* list of the context's requests */
    struct tt_context *context; /* NULL: it was closed; what is left is the status */
    bool guarded;               /* its context is, or was */
    struct tt_op_conf conf;
    struct tt_opdesc desc;
    uint64_t seq;               /* key within the context; sends and receives have theirs from tag and counter */
    bool p2p, exposed;
    bool kept;                  /* begun again by each call of its shape; straight */
    bool second;                /* it is in its second part (tt_op_parts), which has the next seq */
    bool lengths_due;           /* those of its rows are still to be compared: lengths.c */
    bool oneself;               /* a send or receive of this rank with itself: oneself.c */
    bool unmatched;             /* a receive without a number, which no peer sees: any.h */
    bool unannounced;           /* a send that could not be announced yet: any.h */
    struct tt_op *group;        /* of which it is a running member: group.c. NULL: of none, or it is over */
    struct tt_op **members;     /* a group: [nmembers], owned; NULL: it is none, or an empty one */
    size_t nmembers, nmembers_running;
    atomic_int status;          /* PENDING until over: written last */
    void (*notify)(void *arg);  /* called once when it is over; NULL: nobody asked for it */
    void *notify_arg;
    char why[TT_ERROR_BYTES];
    uint64_t began_ns;          /* for timers; 0: it is not timed */
    uint64_t deadline_ns, nudge_ns;     /* 0: not set yet: the first look at the clock does */
    uint32_t started;           /* engine->starts then */
    struct tt_copies *copies;   /* who has said how its messages of this host come; NULL: nobody has */
    bool copies_timed;          /* and hears what it took */
    uint8_t copies_way;         /* that it tries: tt_copies_way */
    uint8_t copies_says;        /* what its READYs say of the next operation: 1 + TT_COPIES_WAYS times the class of lengths + the way, */
    uint8_t copies_told;        /* what that of the lowest rank of the host below this one says; 0: none has */
    uint32_t copies_told_by;    /* its index */
    uint64_t copies_begin_ns, copies_bytes;
    enum tt_stores slot_stores; /* that its segments are written with */
    bool chooses_stores;        /* kept, and both kinds of stores are tried for its long eager messages: stores.c */
    enum tt_stores stores; /* that it uses */
    struct tt_chooser stores_chooser;   /* 1: past the cache */
    uint64_t stores_begin_ns;
    tt_reduce_fn *kernel, *kernel_finish;
    uint8_t elem_shift;         /* elements have 1 << elem_shift bytes */
    bool stream_dst;            /* large enough for stores that bypass the cache */
    uint32_t scanned;           /* exec.loaded when early messages were last looked through */
    const struct tt_mail *now;  /* the message being delivered, and from whom */
    struct tt_context_peer *now_from;
    const void *own_src;        /* quantized: the caller's buffers; those in conf are packed, and in `rooms` */
    void *own_dst;
    struct tt_op_rooms *rooms;  /* quantized.h; kept from one operation to the next, NULL: none was needed yet */
    uint8_t *work, *stage;
    uint64_t stage_bytes;
    void *backup;
    uint64_t backup_bytes;
    void *backup_of;
    struct tt_op_regions regions[TT_ENGINE_WIRES_MAX];
    uint16_t slot;              /* in engine->ops: what a wire's cookie names, with the generation */
    uint16_t generation;
    uint16_t held_passes;       /* how often the executor held something back, one time after another */
    uint16_t hasty;             /* actions to go until it may do so again */
    bool retry;                 /* an action could not be done; try again without news */
    uint32_t peers_cap;         /* what the memory below has room for; it is kept from one operation to the next */
    uint64_t work_cap, backup_cap;
    size_t arrays_cap;
    uint32_t in_flight;         /* puts posted and not yet locally complete */
    uint64_t *arrays;           /* copies of coll's arrays */
    struct tt_flow *flow;       /* [peers_max] */
    struct tt_exec_peer *exec_peers;
    uint32_t peers_max;
    struct tt_exec exec;
};

/* What TUTTI_AVG divides by. */
static inline uint32_t tt_op_divisor(const struct tt_op *op)
{
    return op->conf.divisor ? op->conf.divisor : op->conf.coll.nranks;
}

#define TT_WAITINGS_KEPT 64u    /* more operations are seldom under way */

/* ---- the engine ---------------------------------------------------------------------------------------------------- */

#define TT_REPORTS 8u           /* of failures, one for each rank */

/* The last failure that a rank reported. */
struct tt_report {
    uint32_t rank;
    char sentence[TT_ERROR_BYTES];
};

struct tt_engine {
    struct tt_engine *next_here;    /* of this process: engines.h */
    uint32_t rank, nranks, local_ranks;
    uint64_t host;              /* ours, as cards have it */
    uint32_t first_here;        /* the lowest rank of this host */
    uint32_t cores;             /* that these share; 0: not told */
    uint64_t stream_least;      /* stream.h */
    uint32_t forks;             /* before it was created */
    uint8_t secret[16];
    uint64_t *members;          /* [nranks] of an elastic run; NULL */
    struct tt_wire *wire[TT_ENGINE_WIRES_MAX];
    uint32_t nwires;
    char *unusable;             /* why others that may be used are not, until it is told; NULL: nothing to tell */
    uint32_t nlinks[TT_ENGINE_WIRES_MAX];       /* that came up, by wire */
    bool single_copies;         /* for every longer copy: TUTTI_CMA=2 */
    uint32_t nregistered[TT_ENGINE_WIRES_MAX];  /* operations whose memory is registered there */
    struct tt_sparse peers;     /* struct tt_peer, by rank; made at first use, from the slab */
    struct tt_slab peer_slab;
    struct tt_peer *up;         /* those with a mailbox */
    struct tt_cards cards;

    struct tt_context *contexts;
    _Atomic uint64_t serial;    /* of the last context id that was made here */
    uint32_t nexposed;          /* operations in active lists */
    uint32_t nunbegun;          /* operations that wait to hear that they may begin: memory says so, without a sign */
    uint32_t at_once;           /* calls that were tried at once, to look around now and then */
    struct tt_op **ops;         /* [ops_cap], by slot; NULL free */
    uint32_t next_slot;         /* where to look for a free one first */
    uint32_t ops_cap;
    uint16_t ops_generation;
    struct tt_op *free_ops;
    struct tt_landing_pool *pool[TT_ENGINE_WIRES_MAX];
    struct tt_region *allocated[TT_ENGINE_ALLOCATED_MAX];   /* tutti_mem_alloc */
    uint32_t nallocated;
    bool credit_due;            /* some context peer owes credit that had no room to go */
    bool any_due;               /* something of receives from any rank is still to be sent (any.h) */
    int endings_nap_ms;         /* how long a sleeper sleeps then; grows */
    bool endings_due;           /* some peer is still to be told that a context ended */

    const struct tt_guest *guest;   /* NULL: none */
    uint32_t expected;          /* things of the guest that peers may use at any time */

    struct tt_engine_hooks hooks;
    pthread_mutex_t waiting_lock;
    struct tt_waiting waiting[TT_WAITINGS_KEPT];    /* see tt_engine_waitings: written under the baton and the lock */
    uint32_t nwaiting;
    struct tt_waiting failed[TT_WAITINGS];      /* the last ones, oldest first; likewise */
    uint32_t nfailed;
    uint32_t starts;            /* operations that were started, apart from those that ended at once */
    uint32_t failed_starts, failed_at_once;     /* starts and at_once when the last of these failed */
    struct tt_report *reports;  /* [TT_REPORTS], failures that other ranks reported; NULL: none yet */
    uint32_t nreports;          /* so far; the newest ones are kept */

    bool armed;                 /* the wires were armed: the next pass polls them all */
    bool unfinished;            /* the guest left something under way since the last pass, whose end may wake no sleeper */
    bool busy;                  /* the last pass had something to do */
    uint64_t looks;             /* at operations, in passes of progress */
    uint32_t passes;            /* of progress, to look at quiet wires only now and then */
    uint64_t now_ns;            /* as of the last look at the clock */
    uint64_t timer_ns;          /* when deadlines are looked at next */
    _Atomic uint64_t guest_due_ns;      /* the first deadline of the guest's waits, at most; TT_NEVER: none */
    uint64_t looked_ns, looked_cpu_ns;  /* when they were last, and what this process had worked until then */
    uint64_t nudge_ns;          /* how long an operation waits before it asks */

    /* The baton and those who wait for it: progress.c. */
    atomic_int baton;           /* 1: held */
    atomic_uint urgent;         /* threads that need it now */
    atomic_uint sleepers;       /* threads that sleep on `events`, or are about to */
    bool barrier;               /* the kernel has the barrier that they need: progress.c */
    atomic_uint events;         /* futex: grows when an operation ends or the baton is given back while there are sleepers */
    atomic_uint uses;           /* grows with each taking */
    atomic_bool blocked;        /* the holder sleeps in epoll_wait */
    atomic_bool parked;         /* the progress thread sleeps there, without the baton: what is started must wake it */
    int kick_fd, all_epoll, control_epoll;
    uint32_t spins;             /* of a waiter before it yields; 0 where ranks outnumber cores */
    uint32_t crowd;             /* ranks of this host a core */
    bool timed;                 /* operations are */
    uint32_t ntimed;            /* that run */
    struct tt_timers timers;
    char loss_told[TT_ERROR_BYTES];     /* the last that was logged: one loss ends many communicators */
    uint64_t worked;            /* bytes moved in memory since the core was last offered to others */
    bool tired;                 /* it should be */
    pthread_t thread;
    bool thread_runs;
    atomic_bool stop;
    int watch_fd;
    bool alerted;               /* it was readable when the holder last woke */
    uint32_t guest_calls;       /* of the guest, to make progress now and then where they never wait */
    uint32_t heard;             /* passes of the guarding progress thread */
    void (*alert)(void *arg);
    void *alert_arg;

    /* Losses, told by another thread. */
    pthread_mutex_t trouble_lock;
    struct tt_trouble *trouble;
    bool trouble_missed;        /* there was no memory to keep one */
    atomic_uint ntrouble;       /* grows with each */
    uint32_t trouble_seen;
};

/* What there is of a rank; NULL: nothing was exchanged with it yet. */
static inline struct tt_peer *tt_peer_get(const struct tt_engine *e, uint32_t rank)
{
    return tt_sparse_get(&e->peers, rank);
}

/* The same, made if it is not there. NULL: no memory (logged). engine.c. */
struct tt_peer *tt_peer_of(struct tt_engine *e, uint32_t rank);

#endif
