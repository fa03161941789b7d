/* Internal to the room: windows. Unless stated otherwise, all functions require the progress
 * lock.
 *
 * Ways to reach a rank, in order of preference:
 *   self      this rank: by the processor
 *   mapped    memory of the same host, mapped here: puts by the wire (a copy and a store), gets and
 *             atomics by the processor
 *   wire      memory that the wire can put to, and get from if supported. Other operations, e.g.
 *             most atomics, are sent by message
 *   message   memory that no wire reaches: everything is sent by message. Over shm this is the
 *             caller's memory if processes may not access each other's
 * Messages are executed by progress at the target, in the order in which they were sent. At most
 * TT_WINDOW_REQUESTS_MAX of one process to another are unanswered, so the target needs room for
 * that many replies only. */
#ifndef TT_WINDOW_WINDOW_H
#define TT_WINDOW_WINDOW_H

#include "comm/comm.h"
#include "engine/engine_client.h"
#include "trace/oplog.h"
#include "tutti/rma.h"
#include "window/flush_tracker.h"
#include "window/message.h"

#define TT_WINDOWS_MAX 1024u
#define TT_WINDOW_REQUESTS_MAX 16u
#define TT_WINDOW_TRANSFERS 1024u       /* maximum transfers in progress to one peer */
#define TT_WINDOW_QUEUED 1024u          /* maximum queued puts, signals and atomics to one peer */
/* maximum size of one descriptor, so that several lanes share a long put */
#define TT_WINDOW_SLICE_BYTES (1u << 20)

/* ---- a window ---- */

struct tt_window_key {
    char wire[8];
    uint8_t bytes, data[TT_KEY_BYTES];
};

/* Description of a rank's part, exchanged at creation; of equal size on all ranks. */
struct tt_window_card {
    uint64_t bytes;
    uint32_t status;            /* tutti_status: creation of its part failed */
    uint32_t id;                /* rank 0's is the id of the window */
    uint8_t aligned;            /* 1: begins at a multiple of 8 */
    uint8_t device, pad[6];     /* 1: device memory, which no processor may access */
    uint64_t offset;            /* offset of the rank's memory in the mapped region of keys[0] */
    struct tt_window_key keys[TT_ENGINE_WIRES_MAX];
};

/* The way to reach one rank's part. */
struct tt_window_way {
    bool known;
    bool by_mail;               /* else key is valid */
    bool left;                  /* the rank is freeing the window: it sends no more signals */
    tutti_status failed;        /* failure of a put by the host, reported by its quiet */
    struct tt_rkey key;
};

struct tt_window {
    struct tt_windows *home;
    struct tt_window *next;     /* list of home */
    tutti_comm *comm;
    tutti_window *handle;
    uint32_t id;                /* equal on all ranks, and unique in the job */
    uint8_t *mem;
    uint64_t bytes;
    bool device;                /* this rank's part is device memory */
    struct tt_region *regions[TT_ENGINE_WIRES_MAX];
    const struct tt_region *borrowed;   /* region of memory from tutti_mem_alloc, in place of
                                           regions[0]; NULL: none */
    uint64_t borrowed_offset;   /* offset of mem in the borrowed region */
    struct tt_window_card *cards;   /* [nranks] */
    struct tt_window_way *ways; /* [nranks] */
    _Atomic uint32_t nleft;     /* ranks that have left */
    atomic_bool signals_itself; /* this rank has set one of its own signals, or devices may do so
                                   directly */
    uint32_t ndevices;          /* number of devices that use it */
    uint16_t trace;             /* number of the window in traces (trace/comms.h); 0: not listed
                                   yet */
    uint64_t ncalls;            /* recorded calls */
};

/* ---- transfers in progress ------------------------------------------------------------------- */

/* A put or get that completes after its descriptors have been taken. */
struct tt_window_transfer {
    struct tt_window *window;
    struct tt_window_peer *peer;
    struct tt_window_transfer *older, *newer;   /* list of the peer's incomplete transfers */
    uint64_t tick;              /* tick in which it began */
    uint32_t index, generation; /* in its cookie */
    uint32_t left;              /* pending completions */
    bool open;                  /* parts may be added */
    bool waited;                /* a call waits for it, and frees it */
    bool over;
    tutti_status status;
    tutti_status *failed;       /* where a failure is stored for a later quiet: the way's, or a
                                   device's */
    uint64_t *counter;          /* NULL: none */
    uint64_t old;               /* old value of an atomic */
    struct tt_region **regions; /* [nregions] memory of this process, registered for it */
    uint32_t nregions;
};

/* An unanswered request. */
struct tt_window_pending {
    bool busy;
    uint8_t verb;
    uint32_t token, window;
    uint64_t tick;              /* tick in which it was sent */
    tutti_status *failed;       /* as in a transfer; NULL: not reported any more */
    uint8_t *to;                /* destination of a get; NULL: discard the data */
    uint64_t bytes;
    struct tt_window_transfer *transfer;    /* NULL: none */
};

/* A process of the job. */
struct tt_window_peer {
    uint32_t rank;              /* job rank */
    bool fenced;                /* the next signal or get by the wire needs a fence */
    bool mail_fenced;           /* messages sent before a fence are unanswered: signals and gets
                                   must be messages, too */
    bool wire_fenced;           /* the next message must follow the puts that the wire had taken */
    uint32_t fences_seen;       /* value of home->fences when last seen */
    uint64_t fence_tick;        /* tick begun by the last fence: older puts precede it; 0: all of
                                   them have landed */
    struct tt_window_queued *queue, *queue_last;    /* queue.h */
    uint64_t oldest_queued, queued_bytes;   /* oldest_queued: tick of the first entry;
                                               UINT64_MAX: none */
    uint32_t nqueued;
    struct tt_window_peer *next_queued, **queued_at;    /* list of home->queued, while it has a
                                                           queue */
    bool no_direct;             /* determined once: the wire cannot put into memory that it did
                                   not allocate */
    struct tt_flush marks;      /* used by quiet to wait for puts taken by the wire */
    struct tt_window_transfer *oldest, *newest;     /* incomplete transfers, in the order in
                                                       which they began */
    uint32_t ntransfers;        /* incomplete transfers, and complete ones that are not freed */
    uint32_t nasked, nmail_changes, next_token;     /* nmail_changes: unanswered puts and atomics */
    struct tt_window_pending asked[TT_WINDOW_REQUESTS_MAX];   /* by token */
    struct tt_window_message answers[TT_WINDOW_REQUESTS_MAX];   /* ring of replies to it that had no
                                                                   room */
    uint32_t answers_head, answers_tail;
};

/* A call that waits for a word. The list is protected by the progress lock; the rest belongs to
 * the caller. */
struct tt_window_waiter {
    struct tt_window_waiter *next;
    bool (*is_ready)(const struct tt_window_waiter *w);
    bool told;
};

/* All windows of an engine. */
struct tt_windows {
    struct tt_engine_client client;
    struct tt_engine *engine;
    uint32_t rank, nranks;      /* in the job */
    struct tt_window *first;
    struct tt_window_peer **peers;  /* [nranks]; NULL: not used yet */
    struct tt_window_transfer **transfers;  /* [ntransfers], which grows; NULL: free */
    uint32_t ntransfers, transfers_busy, next_transfer, generation;
    struct tt_window_waiter *waiters;
    uint32_t fences;            /* number of fences over all ranks */
    uint64_t tick;              /* number of quiets that have begun: flush_tracker.h */
    uint32_t nattempts;         /* calls that may wait for room, and devices */
    struct tt_call_check *attempts;    /* of these, the calls */
    uint32_t nanswers;          /* pending replies */
    struct tt_window_peer *queued;  /* peers with a queue */
    uint8_t message[TT_WINDOW_HEADER_BYTES + TT_WINDOW_CHUNK_BYTES];    /* buffer for a message */
};

/* ---- rma_progress.c ---- */

/* Returns the engine's windows, created on first use. Any thread; the caller must not hold the
 * progress lock. */
tutti_status tt_windows_of(struct tt_world *world, struct tt_windows **out);

/* ---- uses.c ---- */

/* Returns whether some of this process's mem[bytes] is exposed by a window, or used by an
 * incomplete put or get. */
bool tt_windows_use(const struct tt_windows *home, const void *mem, size_t bytes);

/* ---- window.c ---- */

/* Exchanges the keys again, as at creation. Collective, without transfers in progress. */
tutti_status tt_window_exchange_keys(struct tt_window *w);
/* Returns whether no rank will send a signal to this one any more: all others have left, and this
 * rank has set none of its own signals. Any thread. */
static inline bool tt_window_all_closed(const struct tt_window *w)
{
    return w->comm->nranks > 1 && w->nleft == w->comm->nranks - 1 && !w->signals_itself;
}
/* Returns the job rank of a rank of the window. */
static inline uint32_t tt_window_job_rank(const struct tt_window *w, uint32_t rank)
{
    return w->comm->ranks[rank];
}

/* ---- wait.c ---- */

/* Returns the text before a compared value in messages: "", "at least " or "other than ". */
const char *tt_compare_prefix(tutti_compare compare);

/* ---- calls.c ---- */

/* A call that makes progress until it is complete. */
struct tt_call_check {
    struct tt_window *window;
    const char *call;
    uint32_t rank;              /* of the window, for messages; UINT32_MAX: none */
    int64_t timeout_ms;
    uint64_t deadline_ns;       /* 0: not set yet */
    tutti_status status;
    bool failed;                /* the communicator has failed, and has the message */
    bool is_test;               /* PENDING instead of TIMEOUT at the deadline */
    bool traced;                /* the call is recorded, as described by `trace` */
    struct tt_oplog_call trace;
    uint64_t record;            /* number of its record in the trace; 0: none */
    struct tt_call_check *next;    /* list of home->attempts */
    tutti_status (*step)(struct tt_call_check *a);     /* called under the progress lock; PENDING:
                                                       not complete */
    /* called under the progress lock: whether it uses some of the caller's mem[bytes]. NULL:
     * never */
    bool (*uses)(const struct tt_call_check *a, const void *mem, size_t bytes);
};

/* Calls `step` until it returns anything but PENDING, the communicator fails, or the deadline
 * passes. Logs errors that `step` does not log. */
tutti_status tt_call_check_run(struct tt_call_check *a);
/* As tt_call_check_run. Then abandons the transfer in *t that `step` may have begun, and sets *t to
 * NULL. If the call failed, the counter is not incremented. */
tutti_status tt_call_check_run_transfer(struct tt_call_check *a, struct tt_window_transfer **t);
/* Describes the call for its record: bytes to or from `rank` of the window (UINT32_MAX: no
 * rank). */
void tt_call_check_trace(struct tt_call_check *a, enum tt_oplog_kind kind, uint64_t bytes);
/* Begins the record of a call that does not use tt_call_check_run; ended with tt_oplog_end. The
 * caller must not hold the progress lock. */
uint64_t tt_window_trace_begin(struct tt_window *w, enum tt_oplog_kind kind, uint32_t rank,
                               uint64_t bytes);
/* Returns the deadline of a call with that timeout_ms. */
uint64_t tt_window_deadline_ns(const struct tt_window *w, int64_t timeout_ms);

/* ---- mapped_atomic.c ---- */

/* Performs the atomic on the window's mapped memory `mem` with the processor, then wakes the owner,
 * which may wait for the word. Returns the old value. */
uint64_t tt_window_change_mapped(const struct tt_window_message *m, uint8_t *mem,
                                 const struct tt_engine_client_link *link);

/* ---- put.c ---- */

/* An atomic to another rank without its old value: sent, or queued if it cannot be sent now. The
 * arguments must be checked. */
tutti_status tt_window_put_atomic(struct tt_window *w, uint32_t rank,
                                  const struct tt_window_message *atomic, const char *call);
/* A put without data, with a signal, like tutti_window_signal; the arguments must be checked. */
tutti_status tt_window_signal(struct tt_window *w, uint32_t rank, uint64_t offset,
                              tutti_signal_op op, uint64_t value, const char *call);
/* Copies the caller's options (NULL: defaults) to *out. */
tutti_status tt_rma_take(const tutti_rma *rma, tutti_rma *out, const char *call);

/* ---- multi_put.c ---- */

/* A put of at most TT_INLINE_BYTES into a window, and the word of that window that is set after
 * it. */
struct tt_window_short {
    uint32_t rank;              /* not this one */
    bool gone;                  /* passed to its wire; its source may be reused */
    const void *src;
    uint64_t offset, bytes, signal_offset, signal_value;
};
/* Sends puts[n], many with one doorbell; the arguments must be checked. Puts that must be sent
 * by message are left to the caller, with `gone` false. */
tutti_status tt_window_put_several(struct tt_window *w, struct tt_window_short *puts, uint32_t n,
                                   int64_t timeout_ms, const char *call);

#endif
