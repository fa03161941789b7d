/* The engine: runs operations of any number of communicators over the wires of one job.
 * Interface for comm.
 *
 * Threads: any thread may make the calls below. The engine's state is accessed only under the
 * progress lock (progress_lock.h), which a blocking caller takes itself. */
#ifndef TT_ENGINE_ENGINE_H
#define TT_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "reduce/quant_packed.h"
#include "reduce/reduce.h"
#include "sched/algo.h"
#include "secure/secure.h"
#include "topo/rails.h"
#include "tutti/tutti.h"

struct tt_device_memory;

struct tt_topo_link;

struct tt_engine;
struct tt_context;
struct tt_op;

/* Behaviour of a call when a rank is lost, in elastic runs. OUTCOME: the exchange in which all
 * ranks confirm their parts. All ranks must pass the same mode, which is in the descriptor. */
enum tt_op_mode {
    TT_MODE_NONE,
    TT_MODE_ABORT,
    TT_MODE_RETRY,
    TT_MODE_PARTIAL,
    TT_MODE_TENTATIVE,
    TT_MODE_OUTCOME,
    TT_MODES
};

/* Maximum number of wires of this process, and of wires in a peer's card, in order of
 * preference. */
#define TT_ENGINE_WIRES_MAX 4

/* IDs from this value on are chosen by the opener of the context */
#define TT_ENGINE_CONTEXTS_OWN 0x80000000u

struct tt_engine_conf {
    uint32_t rank, nranks;          /* in the job */
    const char *wires;              /* "shm,tcp"; "" or NULL: all usable wires */
    const char *interfaces;
    uint32_t lanes;
    const struct tt_rails *rails;   /* rails of this host; NULL: unknown. Borrowed until the engine
                                       is destroyed */
    const struct tt_layout *layout; /* layout of the job, also borrowed. Empty (nranks 0) until all
                                       cards were exchanged; must be filled before
                                       tt_engine_start */
    const struct tt_topo_link *links;   /* [TT_DISTANCES] links between ranks by distance, also
                                           borrowed. NULL: unknown */
    const struct tt_outside *outside;   /* externally reachable address (see tt_wire_conf); NULL:
                                           its own addresses */
    struct tt_secure *secure;       /* TLS state of network connections; borrowed until the engine
                                       is destroyed. NULL: not encrypted */
    const uint64_t *members;        /* [nranks] member numbers in an elastic run, copied. If set,
                                       messages name members instead of ranks, and a loss is not an
                                       error. NULL: no elastic run */
};

/* Returns whether the engine was created before a fork of this process. It then belongs to the
 * parent and must not be used. Any thread. */
bool tt_engine_is_inherited(const struct tt_engine *e);
/* Opens the wires. The caller owns *out and frees it with tt_engine_destroy, after closing all
 * contexts. */
tutti_status tt_engine_create(struct tt_engine **out, const struct tt_engine_conf *conf);
void tt_engine_destroy(struct tt_engine *e);
/* Writes this rank's card into card[cap]: its host and the addresses of its wires. */
tutti_status tt_engine_card(struct tt_engine *e, void *card, size_t cap, size_t *bytes);
/* Replaces the inferred host ID (tt_host_hash) by a verified one. Call before tt_engine_start. */
void tt_engine_set_host(struct tt_engine *e, uint64_t host);

#define TT_ENGINE_CARD_BYTES 1024u      /* maximum size of a card */

/* The cards of all ranks, which the engine reads at the first use of a peer. */
struct tt_engine_cards {
    /* Copies the card of `rank` to card[TT_ENGINE_CARD_BYTES]. Returns its size, or 0 if there is
     * none. Any thread, with or without the progress lock. */
    size_t (*read)(void *arg, uint32_t rank, uint8_t *card);
    void *arg;                  /* outlives the engine */
    uint32_t nlocal;            /* ranks on this host: determines whether waiters spin */
    uint32_t first_here;        /* lowest rank of this host */
};

/* Call before the first context is opened. */
void tt_engine_set_cards(struct tt_engine *e, const struct tt_engine_cards *cards);
/* Replaces the host in card[bytes]. */
void tt_engine_card_set_host(uint8_t *card, size_t bytes, uint64_t host);
/* Returns whether the preferred wire of a card is shared memory. */
bool tt_engine_card_shares(const uint8_t *card, size_t bytes);
/* Zeroes the parts of a card that this rank does not use, so that it compresses well. */
void tt_engine_trim_card(const struct tt_engine *e, uint8_t *card, size_t bytes);
/* Sets the secret[16] of the job, which authenticates connections between ranks; copied. Call
 * before tt_engine_start. */
void tt_engine_set_secret(struct tt_engine *e, const uint8_t *secret);
/* Sets the job's ID, which is equal on all its ranks and differs from those of other jobs. Together
 * with a context ID it identifies a communicator in traces. Default: random. Call before the first
 * tt_context_open. */
void tt_engine_set_trace_id(struct tt_engine *e, uint64_t id);
uint64_t tt_engine_trace_id(const struct tt_engine *e);
/* Returns the ID of a context in traces; not 0. Any thread. */
uint64_t tt_engine_trace_hash(const struct tt_engine *e, uint32_t context);
/* Sets the number of processors that the ranks of this host share; default: tt_engine_cores.
 * Together with the number of ranks it determines whether waiters spin. Call before
 * tt_engine_start. */
void tt_engine_set_cores(struct tt_engine *e, uint32_t cores);
/* Sets the size of the last-level cache of this rank's core (0: unknown), and the number of
 * processors that share it. Call after all cards and tt_engine_set_cores, and before
 * tt_engine_start. */
void tt_engine_set_cache(struct tt_engine *e, uint64_t bytes, uint32_t sharing);
/* Starts the progress thread. It calls alert(arg), a function of the control overlay, when watch_fd
 * is readable. watch_fd may be -1. */
tutti_status tt_engine_start(struct tt_engine *e, int watch_fd, void (*alert)(void *arg),
                             void *arg);

/* Swaps *other with the layout that conf.layout points to, under the progress lock. Both must have
 * the same hosts and rails. Existing links stay up; only distances may change. */
void tt_engine_exchange_layout(struct tt_engine *e, struct tt_layout *of_job,
                               struct tt_layout *other);

/* Copies links[TT_DISTANCES] to the array that conf.links points to, under the progress lock. Wires
 * use them from now on. */
void tt_engine_set_links(struct tt_engine *e, struct tt_topo_link *of_job,
                         const struct tt_topo_link *links);

/* Returns the name of the wire that a link to `peer` uses or would use. */
const char *tt_engine_wire_of(struct tt_engine *e, uint32_t peer);
/* Returns whether that wire orders signals after earlier data without fences (TT_WIRE_CAP_ORDERED
 * is set) and without waiting for completions (TT_WIRE_CAP_AWAITS is not set). */
bool tt_engine_wire_is_ordered(struct tt_engine *e, uint32_t peer);
/* Returns the number of processors that the ranks of this host share, as visible to this process
 * alone. Any thread. */
uint32_t tt_engine_cores(void);
/* Adds the memory use of the engine, its wires and the context c, by purpose (base/memory.h), and
 * sets m->connected. */
void tt_engine_memory(struct tt_engine *e, const struct tt_context *c, tutti_memory *m);

/* ---- contexts: the matching space of a communicator ------------------------------------------ */

/* Returns an id for a context, below TT_ENGINE_CONTEXTS_OWN, that is unique in the job; 0:
 * exhausted. Any thread. */
uint32_t tt_engine_new_context(struct tt_engine *e);
/* Opens a context of ranks[nranks] (job ranks, copied). All ranks must open it before one uses
 * it: messages for unopened contexts are dropped. The caller owns *out. */
tutti_status tt_context_open(struct tt_engine *e, uint32_t id, const uint32_t *ranks,
                             uint32_t nranks, uint32_t rank, struct tt_context **out);
/* Returns the number of the context in traces (trace/comms.h). */
uint16_t tt_context_trace(const struct tt_context *c);
/* Returns the number of the next collective, equal on all ranks. Called by the thread that calls
 * collectives. */
uint64_t tt_context_next_seq(const struct tt_context *c);
/* Returns the job ranks of the members, [nranks]; owned by the context. */
const uint32_t *tt_context_ranks(const struct tt_context *c);
/* Aborts the operations in progress and closes the context. */
void tt_context_close(struct tt_context *c);
/* Enables the counting of calls between enter and leave, and of threads that use the context's
 * requests. Required if a thread may close the communicator while others use it. Call it before the
 * communicator's first call. */
void tt_context_guard(struct tt_context *c);
/* Begins a call on a guarded context. Any thread. If the context is sealed, returns the error that
 * ended it, or INVALID (logged). Then `call` must not begin or leave the context, and c may be
 * freed at any time. */
tutti_status tt_context_enter(struct tt_context *c, const char *call);
void tt_context_leave(struct tt_context *c);
/* Prevents further calls. Returns false, without effect, if a call or a request is in progress. */
bool tt_context_seal(struct tt_context *c);
void tt_context_unseal(struct tt_context *c);
/* Seals the context, aborts its operations, and waits until no thread is inside or uses a
 * request. */
void tt_context_clear(struct tt_context *c);
/* Returns whether an operation of the context is in progress. Any thread. */
bool tt_context_is_busy(struct tt_context *c);
/* For elastic runs: calls from here on are part of operation `n` (from 1) of `tag`, in this mode.
 * The mode is compared between ranks; tag and n appear in messages. Call it in the thread that
 * makes the calls. */
void tt_context_set_operation(struct tt_context *c, enum tt_op_mode mode, uint32_t tag, uint64_t n);
/* Fails all current and later operations with `status` and the message `sentence`. The first
 * failure is kept. Any thread. */
void tt_context_fail(struct tt_context *c, tutti_status status, const char *sentence);
/* Returns OK, or the error that ended the context; copies its message to why[why_bytes]. Any
 * thread. */
tutti_status tt_context_status(const struct tt_context *c, char *why, size_t why_bytes);
/* Declares a job rank lost. Completes the operations whose data has fully arrived, and then fails
 * the contexts that contain the rank. */
void tt_engine_lost(struct tt_engine *e, uint32_t rank, const char *sentence);
/* Handles a report of job rank `from` (UINT32_MAX: none) that the context `id` has failed there.
 * The report is kept for later messages about that rank, even if this rank does not have the
 * context. */
void tt_engine_fail_context(struct tt_engine *e, uint32_t from, uint32_t id, tutti_status status,
                            const char *sentence);
/* Fails all open contexts, because the view is over; `sentence` gives the reason. Returns whether
 * this failed operations in progress. Then the caller must log the failure. */
bool tt_engine_fail_all(struct tt_engine *e, tutti_status status, const char *sentence);
/* Returns whether the connection to job rank `rank` is lost or closed. */
bool tt_engine_has_lost(struct tt_engine *e, uint32_t rank);
/* The rank that an operation waits for. */
struct tt_waiting {
    uint32_t context;
    uint32_t rank;      /* job rank; UINT32_MAX: none */
    uint64_t op;        /* operation number, equal on all ranks; UINT64_MAX for sends and
                           receives, which have none */
    bool ended;         /* the operation failed here while it waited for `rank` (UINT32_MAX:
                           unknown). Listed for some time, and until a later operation succeeds */
    bool late;          /* the operation began after the last failure here; not sent to other
                           ranks */
};

#define TT_WAITINGS 8u  /* maximum number of entries in one report */

enum tt_blame {
    TT_BLAME_NOBODY,    /* all ranks respond */
    TT_BLAME_RANK,
    TT_BLAME_OPEN       /* a queried rank may still respond */
};

/* Findings when a deadline has passed in an operation that waits for a rank. Each field is a job
 * rank or UINT32_MAX. */
struct tt_blamed {
    uint32_t silent;    /* does not respond (TT_BLAME_RANK) */
    uint32_t idle;      /* the only responding rank that is in no operation */
    uint32_t gone;      /* does not respond, but had reported a failure */
    uint32_t next;      /* the waited-for rank waits for this rank, */
    bool next_ended;    /* or did so when its last call failed */
};

struct tt_dump_state;

/* Callbacks into the layer above, all called under the progress lock. They must not call the
 * engine. */
struct tt_engine_hooks {
    void *arg;
    /* A context failed here first; other ranks must be notified. */
    void (*failed)(void *arg, uint32_t context, tutti_status st, const char *sentence);
    /* An operation has waited for w->rank for some time. */
    void (*slow)(void *arg, const struct tt_waiting *w);
    /* A deadline passed at since_ns in an operation that waits for w->rank. Returns the rank
     * along the chain of waiting ranks that does not respond. Queries ranks that were not
     * queried since. */
    enum tt_blame (*blame)(void *arg, const struct tt_waiting *w, uint64_t since_ns,
                           struct tt_blamed *out);
    /* Performs a step of the roll call for a dump. Called at intervals of some milliseconds;
     * `begins`: the first call. Returns whether the roll call is complete. */
    bool (*call_roll)(void *arg, bool begins);
    /* Adds the result of the roll call to the dump. */
    void (*add_roll)(void *arg, struct tt_dump_state *s);
};
/* Replaces the callbacks. After it returns, the previous callbacks are no longer called. */
void tt_engine_set_hooks(struct tt_engine *e, const struct tt_engine_hooks *hooks);
/* Lists operations of this process, and returns their number. The operation with this context and
 * number is first, if there is one. Operations in progress follow (for a context without any, one
 * that has not begun), and then failed ones, if no later one succeeded. For some time after a
 * failure, the list shows the state at that failure: failed operations even if later ones
 * succeeded, and no operation that began after it. Any thread; the data is some milliseconds
 * old. */
uint32_t tt_engine_list_waits(struct tt_engine *e, uint32_t context, uint64_t op,
                              struct tt_waiting out[TT_WAITINGS]);

/* ---- operations ------------------------------------------------------------------------------ */

struct tt_op_conf;

/* Quantization of an operation. coll then counts packed blocks, and is not in place. */
struct tt_op_quant {
    tutti_quant quant;              /* NONE: not quantized, and the fields below are unused */
    struct tt_packed packed;
    uint64_t count;                 /* elements per row; each row begins with a new block */
    bool ahead;                     /* final results may be unpacked into dst before all data has
                                       arrived */
    float *residual;                /* the caller's residuals, with the shape of src; NULL: none */
};

/* An operation in two parts, where the second depends on the results of the first. All callbacks
 * run under the progress lock, and are called at most once each. The parts have consecutive
 * numbers, so that a rank may run the second while another runs the first. Their arrays are not
 * copied and must stay unchanged until `end`. */
struct tt_op_parts {
    enum tt_coll_kind kind;         /* kind of both parts for peers and in messages, independent
                                       of the algorithms that they run */
    const struct tt_algo *second;   /* of the second part */
    bool (*may_begin)(void *arg);   /* returns whether the start was signalled; polled until
                                       true, before peers see the operation */
    /* Called when the first part begins. Fills the arrays that `conf` points to. */
    void (*begin)(void *arg, struct tt_op_conf *conf);
    /* Called when the first part is over. PENDING: *conf now describes the second part, whose work
     * memory must not exceed that of the first. OK: there is no second part. RANGE or INVALID
     * (logged): the operation fails with this status on all ranks. Other errors (logged) fail the
     * communicator. */
    tutti_status (*then)(void *arg, struct tt_op_conf *conf);
    /* Called when the operation is over, also if it never began. arg is not used afterwards. */
    void (*end)(void *arg, tutti_status status);
};

/* Bits of a descriptor for the declared maxima of a dynamic exchange: elements per rank, and
 * elements per piece. */
#define TT_DYNAMIC_TOTAL_BITS 44u
#define TT_DYNAMIC_LENGTH_BITS 32u

/* Value of coll.root for a receive from any rank (any.h). */
#define TT_ROOT_ANY UINT32_MAX

/* Description of an operation. Copied, including coll's arrays, but not the buffers. */
struct tt_op_conf {
    struct tt_coll coll;
    const struct tt_algo *algo;
    uint8_t algo_id;
    tutti_dtype dtype;
    tutti_redop redop;
    uint64_t count;                 /* in the descriptor */
    uint32_t tag;                   /* send and recv */
    int *source;                    /* recv: the sender's rank is stored here on OK; NULL: not
                                       stored. Not with `kept` */
    struct tt_op_quant quant;
    const void *src;
    void *dst;
    uint64_t segment_bytes, eager_bytes;
    uint8_t streams, depth;
    uint8_t lanes;                  /* maximum number of lanes per peer for its segments; 0: all.
                                       May differ between ranks */
    bool restore;                   /* the call is in place, and its input is restored on
                                       failure. coll may differ, since the algorithm's input can
                                       be a scaled copy */
    int64_t timeout_ms;             /* from its start; negative: none */
    struct tt_op **kept;            /* NULL, or a place to keep an operation for the next call of
                                       the same shape (tt_op_again, tt_op_start_again). *kept is
                                       NULL or an operation kept before; freed with tt_op_drop */
    void *owned;                    /* malloc'd memory whose ownership passes to the operation,
                                       also on failure */
    uint32_t divisor;               /* divisor of TUTTI_AVG; 0: the number of ranks. For
                                       alltoallv_stretches in two parts: divisor is the declared
                                       maximum of elements per piece, count the maximum per rank,
                                       and redop is 1 if heads are gathered. Values that exceed
                                       their bits are hashed */
    const struct tt_op_parts *parts;    /* NULL: a single part */
    void *parts_arg;
};

/* Runs an operation to completion in the calling thread. */
tutti_status tt_op_blocking(struct tt_context *c, const struct tt_op_conf *conf);
/* Like tt_op_blocking, for a call of the same shape as the kept operation, on its context. The
 * schedule is not rebuilt. These parameters may differ from those of the kept call. */
tutti_status tt_op_again(struct tt_context *c, struct tt_op **kept, const void *src, void *dst,
                         uint32_t tag, int64_t timeout_ms);
/* Like tt_op_again, but does not block: *out as in tt_op_start. If a request is using the kept
 * operation, a new one is created. */
tutti_status tt_op_start_again(struct tt_context *c, struct tt_op **kept, const void *src,
                               void *dst, int64_t timeout_ms, struct tt_op **out);
/* Returns the bytes allocated by the kept operation, if there is one. */
uint64_t tt_op_kept_bytes(struct tt_context *c, struct tt_op *const *kept);
/* Frees the kept operation, if there is one. If a request is using it, it is freed with that
 * request. *kept becomes NULL. */
void tt_op_drop(struct tt_context *c, struct tt_op **kept);
/* Returns whether an operation is kept. Without the progress lock, *kept must only be read by this
 * function, because another thread may complete a request and replace its operation by a copy. */
static inline bool tt_op_is_kept(struct tt_op *const *kept)
{
    return __atomic_load_n(kept, __ATOMIC_RELAXED) != NULL;
}
/* Starts an operation. On success the caller owns *out until tt_op_free. Also returns the error
 * of a failed context. */
tutti_status tt_op_start(struct tt_context *c, const struct tt_op_conf *conf, struct tt_op **out);
/* Starts n operations together. *out is over when all of them are, and has the status of the first
 * failed one, by index. All are validated first. If one cannot be started after others were, the
 * communicator fails with ABORTED. No conf may have `owned` memory. */
tutti_status tt_op_start_group(struct tt_context *c, const struct tt_op_conf *conf, size_t n,
                               struct tt_op **out);
#define TT_GROUP_CALLS_MAX 8u

/* A call of a blocking group. */
struct tt_group_call {
    const struct tt_op_conf *conf;  /* NULL: that of the kept operation below */
    struct tt_op **kept;            /* a send or receive kept by an earlier call of this shape;
                                       several calls may share it */
    const void *src;
    void *dst;
    uint32_t tag;
    struct tt_op *op;               /* used by tt_op_blocking_group */
};

/* Runs n calls, at most TT_GROUP_CALLS_MAX, to completion in the calling thread. Errors: see
 * tt_op_start_group. timeout_ms applies to calls without conf. */
tutti_status tt_op_blocking_group(struct tt_context *c, struct tt_group_call *calls, size_t n,
                                  int64_t timeout_ms);
/* Returns whether a send to this rank itself, or a receive from it, would complete at once,
 * because its counterpart has been started. */
bool tt_op_would_match_self(struct tt_context *c, enum tt_coll_kind kind, uint32_t tag);
/* Returns whether the operation's engine is inherited; false if its context was closed. */
bool tt_op_is_inherited(const struct tt_op *op);
/* Makes some progress. Returns true when the operation is over. */
bool tt_op_test(struct tt_op *op);
/* Waits until the operation is over. */
void tt_op_wait(struct tt_op *op);
/* Waits until the operation is over, or until due_ns. Returns whether it is over. */
bool tt_op_wait_until(struct tt_op *op, uint64_t due_ns);
/* Calls notify(arg) when the operation is over, in the thread that completes it, under the progress
 * lock. If it is already over, calls it at once, without the lock. Returns false if a callback is
 * already set. */
bool tt_op_notify(struct tt_op *op, void (*notify)(void *arg), void *arg);
/* Waits until one of ops[n] is over and returns its index. NULL entries are skipped; at least
 * one must not be NULL. */
size_t tt_op_wait_any(struct tt_op **ops, size_t n);
/* Returns the final status, or PENDING. The error message becomes the thread's last error. */
tutti_status tt_op_status(struct tt_op *op);
/* Frees an operation. If it is in progress, it is cancelled: its context fails with ABORTED. */
void tt_op_free(struct tt_op *op);

/* ---- timers ---------------------------------------------------------------------------------- */

/* Time spent in the operations of this process. The remainder of call_ns is waiting for peers.
 * Short operations that run without interruption are excluded. The times of concurrent operations
 * are added. */
struct tt_profile {
    uint64_t calls, call_ns;
    uint64_t send_ns;           /* passing data to peers or wires */
    uint64_t forward_ns;        /* reducing data that is only forwarded: into a peer's memory or
                                   a send buffer */
    uint64_t reduce_ns;         /* reducing into the result, which may also be forwarded */
    uint64_t copy_ns;           /* copying data from receive memory to its destination */
    uint64_t wire_ns;           /* transferring data in wires */
    uint64_t most_in_flight;    /* maximum bytes in flight to one peer, for bounded algorithms
                                   (tt_exec) */
};

/* Resets and starts the timers, or stops them. Operations in progress are not timed, or only
 * partially. */
void tt_engine_time(struct tt_engine *e, bool on);
void tt_engine_profile(struct tt_engine *e, struct tt_profile *out);

/* ---- memory ---------------------------------------------------------------------------------- */

tutti_status tt_engine_alloc(struct tt_engine *e, size_t bytes, void **out);
tutti_status tt_engine_free(struct tt_engine *e, void *mem);
/* Declares that mem[bytes] (the caller's) will be used often, until tt_engine_undeclare. Wires with
 * slow registration may register it now (NOMEM on failure) or in the background. It is recorded
 * even if no wire registers memory. Any thread. */
tutti_status tt_engine_declare(struct tt_engine *e, void *mem, size_t bytes);
/* As tt_engine_declare, for device memory. UNSUPPORTED if no wire can transfer it. */
tutti_status tt_engine_declare_device(struct tt_engine *e, void *mem, size_t bytes,
                                      const struct tt_device_memory *what);
/* Ends the declaration. INVALID: no declared memory begins at mem, or an engine of this process
 * uses it (engines.h). The caller must not hold a progress lock. */
tutti_status tt_engine_undeclare(const void *mem);

#endif
