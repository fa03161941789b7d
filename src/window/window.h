/* The inside of the windows: what the files of this room share. Everything runs under the baton unless it says otherwise.
 *
 * How a rank is reached, in the order of preference:
 *   self      this rank: by the processor
 *   mapped    memory of the same host that is mapped here: puts through the wire (a copy and a store), gets and atomics by the processor
 *   wire      memory that the wire puts to (and gets from, if it can): atomics, and what the wire cannot, by message
 *   message   memory that no wire reaches (shm, memory of the caller, where processes may not read each other): all by message
 * Messages are executed by whoever makes progress at the target, in the order in which they were sent. At most TT_WINDOW_ASKS of one process to
 * another are not answered yet, so the target needs no more room than for as many answers. */
#ifndef TT_WINDOW_WINDOW_H
#define TT_WINDOW_WINDOW_H

#include "comm/comm.h"
#include "engine/guest.h"
#include "tutti/rma.h"
#include "window/marks.h"
#include "window/message.h"

#define TT_WINDOWS_MAX 1024u
#define TT_WINDOW_ASKS 16u
#define TT_WINDOW_TRANSFERS 1024u       /* under way to one peer */
#define TT_WINDOW_QUEUED 1024u          /* non-blocking puts to one peer that wait for room */
#define TT_WINDOW_SLICE_BYTES (1u << 20)    /* of what a wire carries in one descriptor, so that several lanes share a long one */

/* ---- a window ---- */

struct tt_window_key {
    char wire[8];
    uint8_t bytes, data[TT_KEY_BYTES];
};

/* What a rank tells of its part; as large on all ranks. */
struct tt_window_card {
    uint64_t bytes;
    uint32_t status;            /* tutti_status: it could not make its part */
    uint32_t id;                /* rank 0's is the window's */
    uint8_t aligned;            /* 1: it begins at a multiple of 8 */
    uint8_t device, pad[6];     /* 1: it is memory of a device, which no processor may touch */
    struct tt_window_key keys[TT_ENGINE_WIRES_MAX];
};

/* How the part of one rank is reached. */
struct tt_window_way {
    bool known;
    bool by_mail;               /* else key is there */
    bool left;                  /* it frees the window: nothing comes from it any more */
    tutti_status failed;        /* something of the host's was not done there; told by its quiet */
    struct tt_rkey key;
};

struct tt_window {
    struct tt_windows *home;
    struct tt_window *next;     /* of home */
    tutti_comm *comm;
    tutti_window *handle;
    uint32_t id;                /* the same on all ranks, of no other window of the job */
    uint8_t *mem;
    uint64_t bytes;
    bool device;                /* this rank's part is memory of a device */
    struct tt_region *regions[TT_ENGINE_WIRES_MAX];
    struct tt_window_card *cards;   /* [nranks] */
    struct tt_window_way *ways;     /* [nranks] */
    _Atomic uint32_t nleft;     /* ranks that have left */
    atomic_bool signals_itself; /* this rank has raised a signal of its own, or may do so unseen */
    uint32_t ndevices;          /* that use it */
};

/* ---- what is under way ---- */

/* A put or get that is not complete when its descriptors have been taken. */
struct tt_window_transfer {
    struct tt_window *window;
    struct tt_window_peer *peer;
    struct tt_window_transfer *older, *newer;   /* of the peer, that are not over */
    uint64_t tick;              /* in which it began */
    uint32_t index, generation; /* what a cookie names */
    uint32_t left;              /* completions to come */
    bool open;                  /* more may be added */
    bool waited;                /* a call waits for it, and ends it */
    bool over;
    tutti_status status;
    tutti_status *failed;       /* where it is noted for whose quiet tells: the way's, or a device's */
    uint64_t *counter;          /* NULL: nobody counts */
    uint64_t old;               /* of an atomic */
    struct tt_region **regions; /* [nregions] of our own memory, registered for it */
    uint32_t nregions;
};

/* A message that has not been answered. */
struct tt_window_asked {
    bool busy;
    uint8_t verb;
    uint32_t token, window;
    uint64_t tick;              /* in which it was sent */
    tutti_status *failed;       /* as of a transfer; NULL: nobody wants to know any more */
    uint8_t *to;                /* of a get; NULL: nobody wants it any more */
    uint64_t bytes;
    struct tt_window_transfer *transfer;    /* NULL: none */
};

/* A process of the job. */
struct tt_window_peer {
    uint32_t rank;              /* in the job */
    bool fenced;                /* the wire needs a fence before the next signal or get */
    bool mail_fenced;           /* messages sent before a fence are unanswered: signals and gets must be messages, too */
    bool wire_fenced;           /* the next message must stay behind the puts that the wire had taken */
    uint32_t fences_seen;       /* of home->fences */
    uint64_t fence_tick;        /* begun by the last fence: what is older was put before it; 0: all that has landed */
    struct tt_window_queued *queue, *queue_last;    /* queue.h */
    uint64_t oldest_queued, queued_bytes;   /* oldest_queued: the tick of the first; UINT64_MAX: there is none */
    uint32_t nqueued;
    struct tt_window_peer *next_queued, **queued_at;    /* of home->queued, while it has a queue */
    bool no_direct;             /* found out once: it cannot be given bytes in memory that its wire did not allocate */
    struct tt_marks marks;      /* by which quiet waits for what the wire took */
    struct tt_window_transfer *oldest, *newest;     /* that are not over, in the order in which they began */
    uint32_t ntransfers;        /* of these, and those that are over and not freed */
    uint32_t nasked, nmail_changes, next_token;     /* changes: unanswered puts and atomics */
    struct tt_window_asked asked[TT_WINDOW_ASKS];   /* by token */
    struct tt_window_message answers[TT_WINDOW_ASKS];   /* to it, that had no room; a ring */
    uint32_t answers_head, answers_tail;
};

/* A call that waits for a word. The list is under the baton; the rest is the caller's. */
struct tt_window_waiter {
    struct tt_window_waiter *next;
    bool (*is_ready)(const struct tt_window_waiter *w);
    bool told;
};

/* All windows of an engine. */
struct tt_windows {
    struct tt_guest guest;
    struct tt_engine *engine;
    uint32_t rank, nranks;      /* in the job */
    struct tt_window *first;
    struct tt_window_peer **peers;  /* [nranks]; NULL: not used yet */
    struct tt_window_transfer **transfers;  /* [ntransfers], which grows; NULL: free */
    uint32_t ntransfers, transfers_busy, next_transfer, generation;
    struct tt_window_waiter *waiters;
    uint32_t fences;            /* of all ranks */
    uint64_t tick;              /* quiets that have begun: marks.h */
    uint32_t nattempts;         /* calls that may wait for room, and devices */
    struct tt_attempt *attempts;    /* of them the calls */
    uint32_t nanswers;          /* that do */
    struct tt_window_peer *queued;  /* the peers that have a queue */
    uint8_t message[TT_WINDOW_HEADER_BYTES + TT_WINDOW_CHUNK_BYTES];    /* to build one in */
};

/* ---- home.c ---- */

/* The engine's windows, made at first use. Any thread, without the baton. */
tutti_status tt_windows_of(struct tt_world *world, struct tt_windows **out);
/* NULL (logged): no memory. */
struct tt_window_peer *tt_window_peer_of(struct tt_windows *home, uint32_t rank);
struct tt_window *tt_window_find(const struct tt_windows *home, uint32_t id);

/* A transfer with nothing under way yet, of that tick; open. *failed and *counter stay until it is over, or tt_window_disown. NULL: there are too many now (or, logged
 * as NOMEM in *st, no memory). */
struct tt_window_transfer *tt_transfer_begin(struct tt_window *w, struct tt_window_peer *peer, tutti_status *failed,
                                             uint64_t *counter, uint64_t tick, tutti_status *st);
/* Registers mem[bytes] for it with the wire. */
tutti_status tt_transfer_register(struct tt_window_transfer *t, struct tt_wire *wire, const void *mem, uint64_t bytes);
/* The cookie of its descriptors. */
uint64_t tt_transfer_cookie(const struct tt_window_transfer *t);
/* Nothing more is added: it ends when what is under way has ended, and by itself unless it is waited for. */
void tt_transfer_close(struct tt_window_transfer *t);
/* One of its parts is complete. */
void tt_transfer_part(struct tt_window_transfer *t, tutti_status status);
/* Ends one that was waited for, over or not: an unfinished one ends itself. */
void tt_transfer_leave(struct tt_window_transfer *t);
/* What is under way for the window touches none of its callers' memory any more. */
void tt_transfers_drop(struct tt_window *w);

/* Whether another message may go to the peer. */
static inline bool tt_window_may_ask(const struct tt_window_peer *p)
{
    return !p->asked[p->next_token % TT_WINDOW_ASKS].busy;
}
/* Sends a message with its payload[m->bytes] (of a put); the token is given here. `to`: where the answer of a get goes. *failed as of a transfer. False: there
 * is no room now. */
bool tt_window_ask(struct tt_windows *home, struct tt_window_peer *p, struct tt_window_message *m, const void *payload,
                   void *to, struct tt_window_transfer *t, tutti_status *failed);
/* Fences a peer: sets flags for each way by which it may be reached, and behind the last queued put. Constant time. */
void tt_window_peer_fence(struct tt_windows *home, struct tt_window_peer *p);
/* Sets these flags once more: the last put that was queued before a fence has been posted only now. */
void tt_window_peer_mark(struct tt_window_peer *p);
/* Fences the peer if a fence of all ranks was called since the last look at this peer. */
void tt_window_see_fences(struct tt_windows *home, struct tt_window_peer *p);
/* After a fence, keeps the next messages to the peer, and all behind them, after the puts that the wire had taken. False: there is no room now. */
bool tt_window_hold_mail(struct tt_windows *home, struct tt_window_peer *p);
/* Whether puts are queued for the peer that were called before the tick. */
static inline bool tt_window_is_queued(const struct tt_window_peer *p, uint64_t tick)
{
    return p->oldest_queued < tick;
}
/* Whether the processor may load and change memory of the peer that is mapped: what was put before the fence of that tick (0: none) has landed.
 * Sees to it that it will. */
bool tt_window_may_load(struct tt_windows *home, struct tt_window_peer *p, const struct tt_guest_link *link,
                        uint64_t fence_tick);
/* Whether a transfer or message to the peer is incomplete that began before the tick. */
bool tt_window_is_under_way(const struct tt_window_peer *p, uint64_t tick);
/* Puts the mark by which quiet knows that all before it has landed. False: there is no room now. */
bool tt_window_mark(struct tt_windows *home, struct tt_window_peer *p, const struct tt_guest_link *link);
/* Sends a message that has no answer. False: there is no room now. */
bool tt_window_tell(struct tt_windows *home, uint32_t rank, const struct tt_window_message *m);

/* ---- uses.c ---- */

/* Whether some of this process' mem[bytes] is exposed by a window, or is read or written by a put or get that is not complete. */
bool tt_windows_use(const struct tt_windows *home, const void *mem, size_t bytes);

/* ---- window.c ---- */

/* The window of that handle. INVALID if it is none, or freed; FORKED; or what ended the communicator. Any thread, without the baton. */
tutti_status tt_window_take(tutti_window *handle, const char *call, struct tt_window **out);
/* The same of a peer's rank. */
tutti_status tt_window_take_rank(tutti_window *handle, int rank, const char *call, struct tt_window **out);
/* What ended the communicator, and its sentence as the thread's last error; OK: nothing. Any thread, without the baton. */
tutti_status tt_window_status(const struct tt_window *w);
/* INVALID (logged) unless the part of `rank` holds the bytes. */
tutti_status tt_window_check(const struct tt_window *w, uint32_t rank, uint64_t offset, uint64_t bytes,
                             const char *call);
/* INVALID (logged) unless a process can have mem[bytes]; `what` is the call and its argument. */
tutti_status tt_window_check_own(const void *mem, uint64_t bytes, const char *what);
/* INVALID (logged) unless it has a word of `width` there. */
tutti_status tt_window_check_word(const struct tt_window *w, uint32_t rank, uint64_t offset, uint64_t width,
                                  const char *call);
/* What goes before the value that a word is compared with, in a sentence that says what it should be: "", "at least " or "other than ". */
const char *tt_compare_prefix(tutti_compare compare);
/* All ranks tell each other anew how they are reached, as when it was made. Collective; while nothing is under way. */
tutti_status tt_window_exchange_keys(struct tt_window *w);
/* How the part of `rank` (not this one) is reached. PENDING: it is not known yet; PEER_LOST (not logged). */
tutti_status tt_window_reach(struct tt_window *w, uint32_t rank, struct tt_window_way **way,
                             struct tt_guest_link *link);
/* Whether nobody will raise a signal of this rank's any more: all others have left, and it never did so itself. Any thread. */
static inline bool tt_window_is_deserted(const struct tt_window *w)
{
    return w->comm->nranks > 1 && w->nleft == w->comm->nranks - 1 && !w->signals_itself;
}
/* The job rank of a rank of the window. */
static inline uint32_t tt_window_job_rank(const struct tt_window *w, uint32_t rank) { return w->comm->ranks[rank]; }
/* Handles are none any more; the engine is going. Any thread. */
void tt_window_forget(struct tt_window *w);
void tt_window_destroy(struct tt_window *w);

/* ---- attempt.c ---- */

/* A call that makes progress until it could do what it shall. */
struct tt_attempt {
    struct tt_window *window;
    const char *call;
    uint32_t rank;              /* of the window, for the sentence; UINT32_MAX: none */
    int64_t timeout_ms;
    uint64_t deadline_ns;       /* 0: not set yet */
    tutti_status status;
    bool failed;                /* the communicator has: it says why */
    struct tt_attempt *next;    /* of home->attempts */
    tutti_status (*step)(struct tt_attempt *a);     /* under the baton; PENDING: not yet */
    bool (*uses)(const struct tt_attempt *a, const void *mem, size_t bytes);    /* under the baton: whether it reads or writes some of the
                                                       caller's mem[bytes]. NULL: never */
};

/* Runs step until it says something else than PENDING, the communicator fails, or the deadline passes. Logs what step does not. */
tutti_status tt_attempt_run(struct tt_attempt *a);
/* The same, and then leaves the transfer that step may have begun in *t, which becomes NULL. If it has failed, nobody counts. */
tutti_status tt_attempt_run_transfer(struct tt_attempt *a, struct tt_window_transfer **t);
/* When a call with that timeout_ms ends. */
uint64_t tt_window_deadline_ns(const struct tt_window *w, int64_t timeout_ms);

/* ---- put.c ---- */

/* A put of no bytes with a signal, as tutti_window_signal does; arguments were checked. */
tutti_status tt_window_signal(struct tt_window *w, uint32_t rank, uint64_t offset, tutti_signal_op op, uint64_t value,
                              const char *call);
/* *out gets what the caller's options (NULL: defaults) say. */
tutti_status tt_rma_take(const tutti_rma *rma, tutti_rma *out, const char *call);
/* Adds 1 at local completion. */
void tt_window_count(uint64_t *counter);

/* ---- several.c ---- */

/* A put of at most TT_INLINE_BYTES into a window, and the word of that window that is set behind it. */
struct tt_window_short {
    uint32_t rank;              /* not this one */
    bool gone;                  /* it was given to its wire; its source is the caller's again */
    const void *src;
    uint64_t offset, bytes, signal_offset, signal_value;
};
/* Puts puts[n], many with one doorbell; arguments were checked. What must go by message is left to the caller, with `gone` false. */
tutti_status tt_window_put_several(struct tt_window *w, struct tt_window_short *puts, uint32_t n, int64_t timeout_ms,
                                   const char *call);

#endif
