/* The engine: runs operations of any number of communicators over the wires of one job. What comm sees.
 *
 * Threads: every call below may come from any thread; the engine's state is touched only by whoever holds the progress baton
 * (progress.h), which a blocking caller takes itself. */
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

/* What becomes of a call where a rank is lost, as elastic runs have it; VERDICT: it is the exchange in which all say that they have done their parts. All ranks must say the
 * same: it is in the descriptor. */
enum tt_op_mode {
    TT_MODE_NONE,
    TT_MODE_ABORT,
    TT_MODE_RETRY,
    TT_MODE_PARTIAL,
    TT_MODE_TENTATIVE,
    TT_MODE_VERDICT,
    TT_MODES
};

/* Wires of this process, opened in order of preference, and what a peer's card says of its own. */
#define TT_ENGINE_WIRES_MAX 4

#define TT_ENGINE_CONTEXTS_OWN 0x80000000u  /* ids of contexts from here on are who opens them to choose */

struct tt_engine_conf {
    uint32_t rank, nranks;          /* in the job */
    const char *wires;              /* "shm,tcp"; "" or NULL: all that open here */
    const char *interfaces;
    uint32_t lanes;
    const struct tt_rails *rails;   /* of this host; NULL: not known. The caller's, until the engine is destroyed */
    const struct tt_layout *layout; /* of the job; likewise. Empty (nranks 0) until all cards are there, and filled before tt_engine_start */
    const struct tt_topo_link *links;   /* [TT_DISTANCES] what lies between ranks; likewise. NULL: not known */
    const struct tt_outside *outside;   /* where it can be reached over the network, as tt_wire_conf has it; NULL: at its own addresses */
    struct tt_secure *secure;       /* of connections over the network; the caller's, until the engine is destroyed. NULL: they are plain */
    const uint64_t *members;        /* [nranks] of an elastic run: what ranks are called where a loss is told, and a loss is no error then; copied. NULL:
                                       they are called by their number */
};

/* Whether it was created before this process was forked: then it is the parent's, and nothing of it may be used. Any thread. */
bool tt_engine_is_inherited(const struct tt_engine *e);
/* Opens the wires. Caller owns *out; tt_engine_destroy ends it (all contexts closed before). */
tutti_status tt_engine_create(struct tt_engine **out, const struct tt_engine_conf *conf);
void tt_engine_destroy(struct tt_engine *e);
/* What the other ranks must know to reach this one; into card[cap]. */
tutti_status tt_engine_card(struct tt_engine *e, void *card, size_t cap, size_t *bytes);
/* Replaces the inferred number of this host (tt_host_hash) by a proven one. Before the first tt_engine_add_card. */
void tt_engine_set_host(struct tt_engine *e, uint64_t host);
/* The card of `rank`; copied. `host` replaces the host that the card names; NULL keeps it. For all ranks before tt_engine_start.
 * Ranks on this host are counted, which decides how waiters wait. */
tutti_status tt_engine_add_card(struct tt_engine *e, uint32_t rank, const uint64_t *host, const void *card,
                                size_t bytes);
/* The secret[16] of the job, by which ranks know each other's connections; copied. Before tt_engine_start. */
void tt_engine_set_secret(struct tt_engine *e, const uint8_t *secret);
/* Processors that the ranks of this host share, which decides with their number how waiters wait; not told: tt_engine_cores. Before
 * tt_engine_start. */
void tt_engine_set_cores(struct tt_engine *e, uint32_t cores);
/* The last cache before memory that this rank's core has, 0: not known, and how many of those processors share it; not told: not known. After all cards and tt_engine_set_cores, before
 * tt_engine_start. */
void tt_engine_set_cache(struct tt_engine *e, uint64_t bytes, uint32_t sharing);
/* Starts the progress thread. watch_fd (or -1): when it is readable, the thread calls alert(arg): the control overlay. */
tutti_status tt_engine_start(struct tt_engine *e, int watch_fd, void (*alert)(void *arg), void *arg);

/* Puts `other` where conf.layout points, and into *other what was there, while nobody makes progress. It must have the same hosts and rails: what
 * is up stays up, and only distances may be others from now on. */
void tt_engine_exchange_layout(struct tt_engine *e, struct tt_layout *of_job, struct tt_layout *other);

/* Puts links[TT_DISTANCES] where conf.links points, while nobody makes progress: wires go by them from now on. */
void tt_engine_set_links(struct tt_engine *e, struct tt_topo_link *of_job, const struct tt_topo_link *links);

/* Names of the wire that `peer` is (or would be) reached by. */
const char *tt_engine_wire_of(struct tt_engine *e, uint32_t peer);
/* Whether all of ranks[n] (job ranks) share a host and shared memory with each other; the same answer on every rank. */
bool tt_engine_all_local(const struct tt_engine *e, const uint32_t *ranks, uint32_t n);
/* Ranks of the job on this host, and processors this process may use. */
uint32_t tt_engine_local_ranks(const struct tt_engine *e);
/* Processors that the ranks of this host share, as far as this process alone can tell. Any thread. */
uint32_t tt_engine_cores(void);
/* Links that are up: connections are made on first use only. */
uint32_t tt_engine_links(struct tt_engine *e);
/* Adds the memory of the engine, its wires, and the context c, by purpose (base/memory.h), and m->connected. */
void tt_engine_memory(struct tt_engine *e, const struct tt_context *c, tutti_memory *m);

/* ---- contexts: the matching space of a communicator ------------------------------------------------------ */

/* An id for a context, below TT_ENGINE_CONTEXTS_OWN, which no process of the job makes again; 0: they are used up. Any thread. */
uint32_t tt_engine_new_context(struct tt_engine *e);
/* ranks[nranks]: job ranks, copied. All of them open it before one uses it: messages of contexts that are not open are dropped. Caller
 * owns *out. */
tutti_status tt_context_open(struct tt_engine *e, uint32_t id, const uint32_t *ranks, uint32_t nranks, uint32_t rank,
                             struct tt_context **out);
/* Its job ranks, [nranks]; the context's own. */
const uint32_t *tt_context_ranks(const struct tt_context *c);
/* Aborts what is running and closes. */
void tt_context_close(struct tt_context *c);
/* For a communicator that is closed by another thread than those that call on it, before the first of them can: its calls are counted, from enter to leave, and
 * so is, apart from them, who is with its requests. */
void tt_context_guard(struct tt_context *c);
/* Of a guarded one, any thread. Else than OK it is sealed, and `call` must not begin: what ended it, or INVALID (logged); there is nothing to leave then, and
 * c may be gone. */
tutti_status tt_context_enter(struct tt_context *c, const char *call);
void tt_context_leave(struct tt_context *c);
/* From here on no call begins. False: one is under way, or a request is open that is not over, and nothing has changed. */
bool tt_context_seal(struct tt_context *c);
void tt_context_unseal(struct tt_context *c);
/* Seals it, aborts what is running, and waits until nobody is inside or with a request. */
void tt_context_clear(struct tt_context *c);
/* Whether an operation of it is under way. Any thread. */
bool tt_context_is_busy(struct tt_context *c);
/* Of an elastic run: calls from here on are part of operation `n` (from 1) of `tag`, in this mode. The mode is compared, the rest is what sentences call
 * them. By the thread that makes them. */
void tt_context_set_operation(struct tt_context *c, enum tt_op_mode mode, uint32_t tag, uint64_t n);
/* Ends every operation now and later with `status` and the sentence; the first failure stays. Any thread. */
void tt_context_fail(struct tt_context *c, tutti_status status, const char *sentence);
/* OK, or what ended it; the sentence goes to why[why_bytes]. Any thread. */
tutti_status tt_context_status(const struct tt_context *c, char *why, size_t why_bytes);
/* A job rank was lost: fails the contexts that hold it, after operations whose data is all here have finished. */
void tt_engine_lost(struct tt_engine *e, uint32_t rank, const char *sentence);
/* Job rank `from` (UINT32_MAX: no rank) reports that the context `id` failed there. Kept for what is said of that rank later, whether or not this rank
 * has the context. */
void tt_engine_fail_context(struct tt_engine *e, uint32_t from, uint32_t id, tutti_status status, const char *sentence);
/* All contexts that are there: the view is over. The sentence says why. Whether that ended operations of a context that had not failed: the caller is then
 * the first to know, and logs it. */
bool tt_engine_fail_all(struct tt_engine *e, tutti_status status, const char *sentence);
/* Whether the connection to job rank `rank` is lost, or has ended. */
bool tt_engine_has_lost(struct tt_engine *e, uint32_t rank);
/* What an operation waits for. */
struct tt_waiting {
    uint32_t context;
    uint32_t rank;      /* of the job; UINT32_MAX: nobody */
    uint64_t op;        /* its number, which is the same on all ranks; UINT64_MAX: sends and receives have none */
    bool ended;         /* it failed here, and waited for `rank` then (UINT32_MAX: not known); no later one succeeded */
};

#define TT_WAITINGS 8u  /* told of at once */

enum tt_blame {
    TT_BLAME_NOBODY,    /* all answer */
    TT_BLAME_RANK,
    TT_BLAME_OPEN       /* somebody has been asked, and may yet answer */
};

/* What is known when a deadline passes in an operation that waits for a rank. Each is a job rank, or UINT32_MAX. */
struct tt_blamed {
    uint32_t silent;    /* does not answer (TT_BLAME_RANK) */
    uint32_t idle;      /* the only one that answers and is in no operation */
    uint32_t gone;      /* does not answer, but had reported a failure of its own */
    uint32_t next;      /* the waited-for rank waits for this one, */
    bool next_ended;    /* or did when its last call failed */
};

/* What the engine asks of the level above, all under the baton; they must not call back into the engine. */
struct tt_engine_hooks {
    void *arg;
    /* A context failed here first: others shall hear of it. */
    void (*failed)(void *arg, uint32_t context, tutti_status st, const char *sentence);
    /* An operation has waited for w->rank for a while. */
    void (*slow)(void *arg, const struct tt_waiting *w);
    /* A deadline has passed, at since_ns, in an operation that waits for w->rank: who, along the chain of waiting, does not answer? Who was not asked since is
     * asked now. */
    enum tt_blame (*blame)(void *arg, const struct tt_waiting *w, uint64_t since_ns, struct tt_blamed *out);
};
/* None of the ones before is called any more when it returns. */
void tt_engine_set_hooks(struct tt_engine *e, const struct tt_engine_hooks *hooks);
/* What this process is in: the operations that have begun, one of each context where none has, and then those that failed, if no later
 * one succeeded; at most TT_WAITINGS. First is the one with this context and number if it is among them. Returns how many there are. Any
 * thread; as of some milliseconds ago. */
uint32_t tt_engine_waitings(struct tt_engine *e, uint32_t context, uint64_t op, struct tt_waiting out[TT_WAITINGS]);

/* ---- operations ------------------------------------------------------------------------------------------- */

struct tt_op_conf;

/* How a quantized operation travels. coll then counts packed blocks, and is not in place. */
struct tt_op_quant {
    tutti_quant quant;              /* NONE: it does not, and nothing below is read */
    struct tt_packed packed;
    uint64_t count;                 /* elements of a row; each row begins with a block of its own */
    bool ahead;                     /* what is final may be unpacked into dst before all is there */
    float *residual;                /* the caller's, alike in shape to src; NULL: none */
};

/* An operation in two parts, of which the second follows from what the first one brought: all under the baton, and each at most once. The parts have two
 * numbers in a row, so that a rank may be in the second while another is in the first. Their arrays are not copied: they stay as they are until `end`. */
struct tt_op_parts {
    enum tt_coll_kind kind;         /* that both parts are to peers and in sentences, whatever programs they run */
    const struct tt_algo *second;   /* of the second part */
    bool (*may_begin)(void *arg);   /* whether its start has been signalled: asked until it is so, while nobody knows of the operation */
    /* The first part begins: what the arrays of `conf` point to gets its values. */
    void (*begin)(void *arg, struct tt_op_conf *conf);
    /* The first part is over. PENDING: *conf now says what the second is, whose work memory is at most that of the first. OK: there is none. RANGE and
     * INVALID (logged): all ranks find the same, and the operation ends with that. Others (logged) end the communicator. */
    tutti_status (*then)(void *arg, struct tt_op_conf *conf);
    /* It is over, with that status; arg is not used any more. Also where it never began. */
    void (*end)(void *arg, tutti_status status);
};

/* Bits that a descriptor has for what ranks declare of an exchange whose sizes are decided late: the most elements of a rank, and of a piece. */
#define TT_DYNAMIC_TOTAL_BITS 44u
#define TT_DYNAMIC_LENGTH_BITS 32u

/* As coll.root of a receive: it is from any rank (any.h). */
#define TT_ROOT_ANY UINT32_MAX

/* What is to be done. Copied, except the buffers; coll's arrays are copied too. */
struct tt_op_conf {
    struct tt_coll coll;
    const struct tt_algo *algo;
    uint8_t algo_id;
    tutti_dtype dtype;
    tutti_redop redop;
    uint64_t count;                 /* for the descriptor */
    uint32_t tag;                   /* send and recv */
    int *source;                    /* recv: the sender's rank is written there when it ends with OK; NULL: nowhere. Not with `kept` */
    struct tt_op_quant quant;
    const void *src;
    void *dst;
    uint64_t segment_bytes, eager_bytes;
    uint8_t streams, depth;
    uint8_t lanes;                  /* its segments go over at most so many of a wire's lanes to a peer; 0: over all. This rank's own affair */
    bool restore;                   /* the call is in place, and its input is put back on failure. coll may say otherwise of the program: its
                                       input can be a scaled copy */
    int64_t timeout_ms;             /* from its start; negative: none */
    struct tt_op **kept;            /* NULL, or where a blocking operation may be kept for the next call of this very shape; *kept is NULL or
                                       one that was kept there, for tt_op_again; ended by tt_op_drop */
    void *owned;                    /* malloc'd memory that becomes the operation's, also when it cannot start */
    uint32_t divisor;               /* what TUTTI_AVG divides by; 0: the number of ranks. Of alltoallv_stretches in two parts: of what ranks declare, the most elements
                                       of a piece; count: of a rank; redop: 1 if heads are gathered. Of a number that needs all of its bits, or more, a hash */
    const struct tt_op_parts *parts;    /* NULL: it has one, like most */
    void *parts_arg;
};

/* Runs an operation to its end in the calling thread. */
tutti_status tt_op_blocking(struct tt_context *c, const struct tt_op_conf *conf);
/* The same for a call like the one whose operation is kept there, on its context: nothing is built again. What a call may have of its own is
 * given here. */
tutti_status tt_op_again(struct tt_op **kept, const void *src, void *dst, uint32_t tag, int64_t timeout_ms);
/* Ends what tt_op_blocking kept. NULL is fine. */
void tt_op_drop(struct tt_op *op);
/* Starts an operation. On success *out is the caller's until tt_op_free. Errors of a failed context come back here, too. */
tutti_status tt_op_start(struct tt_context *c, const struct tt_op_conf *conf, struct tt_op **out);
/* Starts n operations together; *out is over when all of them are, and has the status of the first one, by index, that failed. Each is checked
 * before: if one cannot be started though others were, the communicator fails as ABORTED, and nothing is left. None of them owns memory. */
tutti_status tt_op_start_group(struct tt_context *c, const struct tt_op_conf *conf, size_t n, struct tt_op **out);
/* Whether a send to this rank itself, or a receive from it, would end at once, as its counterpart has been started. */
bool tt_op_would_meet_oneself(struct tt_context *c, enum tt_coll_kind kind, uint32_t tag);
/* Whether its engine is; one whose context was closed has none any more. */
bool tt_op_is_inherited(const struct tt_op *op);
/* Makes a little progress; true when it is over. */
bool tt_op_test(struct tt_op *op);
/* Until it is over. */
void tt_op_wait(struct tt_op *op);
/* Calls notify(arg) when it is over, under the baton, by the thread that ends it; at once, without the baton, if it is. False: it has one already. */
bool tt_op_notify(struct tt_op *op, void (*notify)(void *arg), void *arg);
/* Until one of ops[n] (NULLs skipped; at least one not NULL) is over: its index. */
size_t tt_op_wait_any(struct tt_op **ops, size_t n);
/* Final status (PENDING before); the sentence becomes the thread's last error. */
tutti_status tt_op_status(struct tt_op *op);
/* Frees an operation; one that still runs is cancelled: its context fails as ABORTED. */
void tt_op_free(struct tt_op *op);

/* ---- timers ---------------------------------------------------------------------------------------------------- */

/* What operations of this process took, added up; what is left of call_ns is waiting for peers. Short ones that go in one piece are not
 * among them. Several at once each count what all of them took. */
struct tt_timers {
    uint64_t calls, call_ns;
    uint64_t send_ns;           /* handing bytes to peers or wires */
    uint64_t forward_ns;        /* adding what only goes on to a peer: into its memory, or what is sent from, and nowhere else */
    uint64_t reduce_ns;         /* adding where the sum is stored (and may go on, too) */
    uint64_t copy_ns;           /* from where bytes landed to where they belong */
    uint64_t wire_ns;           /* in wires that move bytes by themselves */
    uint64_t most_in_flight;    /* bytes on their way to one peer at once, of operations whose algorithm bounds them (tt_exec) */
};

/* Timers run from here on, from zero, or no longer. Operations that are under way are not timed, or not to their end. */
void tt_engine_time(struct tt_engine *e, bool on);
void tt_engine_timers(struct tt_engine *e, struct tt_timers *out);

/* ---- memory ---------------------------------------------------------------------------------------------------- */

tutti_status tt_engine_alloc(struct tt_engine *e, size_t bytes, void **out);
tutti_status tt_engine_free(struct tt_engine *e, void *mem);
/* mem[bytes], the caller's, will be used often, until untell: wires for which registering takes long may do it now (then NOMEM if that fails), or
 * in the background. Remembered also where no wire registers. Any thread. */
tutti_status tt_engine_tell(struct tt_engine *e, void *mem, size_t bytes);
/* The same of memory of a device; UNSUPPORTED where no wire carries it. */
tutti_status tt_engine_tell_device(struct tt_engine *e, void *mem, size_t bytes, const struct tt_device_memory *what);
/* INVALID: no told memory begins there, or an engine of this process uses it (engines.h). Without any baton. */
tutti_status tt_engine_untell(const void *mem);

#endif
