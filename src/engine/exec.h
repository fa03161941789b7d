/* The executor: runs one rank's schedule of one operation. A pure state machine with events as
 * input and actions as output; it has no clock, memory, locks or addresses. op.c performs the
 * actions on real memory and wires; the simulator performs them in virtual time.
 *
 * Transfers. A put of at most `eager_bytes` is sent as one eager message. A longer put is divided
 * into segments of `segment_bytes`, which use one of `streams` streams of the (operation, peer)
 * pair. Put i of a pair uses stream i mod streams, and segments are numbered consecutively within a
 * stream. Both ends derive the same numbers from the same program. Segment s of a stream lands in
 * slot s mod `depth` at the receiver. The sender may be at most `depth` segments ahead of the
 * receiver's consumption. On a long link, the plan's slots may hold less than the data in flight.
 * Therefore the receiver may provide more slots, and announces their number when it opens the flow.
 * If the receiver has opened its final buffer (direct), segments land at their destination, without
 * that limit. Segments of a stream are consumed in order.
 *
 * A bounded algorithm limits the data in flight in both cases. The data sent to a peer and not yet
 * reported as consumed never exceeds tt_coll_chunks * tt_coll_chunk_bytes. The limit is divided
 * evenly among the streams, so that none takes another's share. All its messages are streamed, and
 * all consumption is reported.
 *
 * Pipelining. Steps advance segment by segment, each as far as the conflicting earlier steps have
 * advanced. Fusion: the reader of a pipe reads the receive slot itself. If a put sends the output
 * of a reduction or arrival, that reduction or arrival writes a second copy directly into the
 * peer's slot, if the slot is mapped. If the output is a pipe, which has no memory, the step must
 * wait for that slot.
 *
 * Liveness. Schedules have two properties. Both ends of a message, and of a pipe, are in the same
 * round. Steps cannot wait for each other in a cycle, for any segmentation and any room
 * (tt_segments_check). Consider the earliest round that some rank has not finished. All earlier
 * rounds are over on all ranks. Therefore each rank has this round in its window or can load it,
 * and opens its flows; in each stream, its messages come first. Later rounds use no resource that
 * this round needs: slots are assigned in stream order, eager messages need none, and later steps
 * access memory only after earlier steps that conflict. Each pipe of the window has one staging
 * segment reserved, both when rounds are loaded and when staging is allotted. Thus a step of this
 * round waits only for data, room or completion of other steps of this round, as tt_segments_check
 * models. These waits form no cycle, so one step can advance. No step waits for optional work: a
 * second copy is written to a peer's slot only if the slot is free. tests/engine/test_deadlock.c
 * searches for counterexamples. */
#ifndef TT_ENGINE_EXEC_H
#define TT_ENGINE_EXEC_H

#include <stddef.h>

#include "sched/algo.h"

#define TT_EXEC_STEPS 64        /* steps in the window; at least 2 * TT_ROUND_STEPS_MAX */
#define TT_EXEC_STREAMS_MAX 4   /* also the number of words per flow in a link region */
#define TT_EXEC_DEPTH_MAX 16    /* maximum depth of a plan */
#define TT_EXEC_STAGES 64       /* staging segments of one operation */
/* peers found by a table search: enough for recursive doubling on a million ranks */
#define TT_EXEC_NEAR_PEERS 20

struct tt_exec_conf {
    const struct tt_algo *algo;
    const struct tt_coll *coll;     /* must outlive the executor */
    uint64_t segment_bytes;         /* power of two, at least 8 and at least eager_bytes */
    uint64_t eager_bytes;
    uint8_t streams, depth;         /* depth: a power of two */
};

enum tt_place_kind {
    TT_AT_NONE,
    TT_AT_BUF,          /* ref (SRC, DST or WORK), advanced by `skip` bytes */
    TT_AT_SLOT,         /* receive slot `slot` of (peer, stream), here */
    TT_AT_REMOTE,       /* receive slot `slot` of (peer, stream) at the peer, mapped */
    TT_AT_STAGE,        /* staging segment `slot` */
    TT_AT_EAGER         /* the eager message that arrived from `peer` with tag `slot` */
};

struct tt_place {
    struct tt_ref ref;
    uint64_t skip;
    uint32_t slot;
    uint16_t peer;      /* index into the executor's peers */
    uint8_t stream;
    uint8_t kind;       /* enum tt_place_kind */
};

enum tt_action_kind {
    TT_ACT_OPEN,        /* notify `peer` that it may stream to this rank (CTS); then
                           tt_exec_opened */
    TT_ACT_EAGER,       /* send the bytes at `a` as an eager message with `tag` */
    TT_ACT_PUT,         /* send the bytes at `a` (kind REMOTE: already there) to `out`, as
                           segment `seq` of (peer, stream), or as several segments of which it is
                           the last */
    TT_ACT_REDUCE,      /* out (and out2) = a op b */
    TT_ACT_COPY,        /* out (and out2) = a */
    TT_ACT_CREDIT       /* notify `peer` that `seq` segments of `stream` are consumed in total */
};

struct tt_action {
    uint8_t kind;       /* enum tt_action_kind */
    uint8_t stream;
    bool finish, direct;
    bool idle;          /* nothing else can run now: check for events before the next action */
    uint16_t peer, step;
    uint32_t tag, seq;
    uint64_t bytes;
    struct tt_place out, out2, a, b;
};

/* A step of the window. */
struct tt_exec_step {
    struct tt_step s;           /* refs in canonical form */
    uint64_t deps;              /* earlier steps of the window (by index) that conflict with this
                                   one */
    uint64_t done, issued;      /* bytes finished (put: source reusable) and begun; done <=
                                   issued */
    uint64_t fused;             /* put: bytes already in the peer's slots */
    uint32_t seq0;              /* stream number of its first segment */
    uint32_t round;             /* its round, from 1 */
    uint32_t out_of_order;      /* put: bit j: segment done/segment_bytes + j is finished */
    uint32_t joined;            /* put: bit j: the segment was sent with the next one, and
                                   finishes with it */
    uint16_t peer;
    int8_t writer_a, writer_b;  /* steps that write the pipes it reads; -1: none */
    int8_t reader;              /* step that reads the pipe it writes; -1: none (yet) */
    int8_t forward;             /* put that forwards its output (pipe or not); -1: none */
    uint8_t stream, stage;      /* stage: first staging segment; 0xff: none */
    uint8_t nstages;            /* number of staging segments: a power of two, at most depth */
    bool eager, arrived, over;
    bool to_dst;                /* put, wait: the data may be written directly to its destination,
                                   if the receiver permits it */
};

struct tt_exec_stream {
    uint32_t out_loaded, issued, credit;            /* segments of loaded puts; segments begun;
                                                       segments consumed by the peer */
    uint32_t flown;                                 /* bounded: segments begun or already in the
                                                       peer's slot */
    uint32_t in_loaded, arrived, consumed, reported;    /* segments of loaded waits; arrived;
                                                           consumed; reported to the peer */
};

struct tt_exec_peer {
    uint32_t rank;
    uint32_t nputs, nwaits;     /* streamed steps loaded so far */
    bool opened, in_direct;             /* CTS sent to the peer; its segments for DST land in
                                           place */
    bool ready, out_direct, out_mapped; /* CTS received from the peer; segments land in place
                                           there; its slots are mapped here */
    uint8_t in_depth, out_depth;        /* slots per stream at this rank and at the peer: powers
                                           of two */
    uint32_t whole_bytes;               /* maximum size of a put to its destination or to
                                           unmapped slots */
    struct tt_exec_stream stream[TT_EXEC_STREAMS_MAX];
};

struct tt_exec {
    struct tt_exec_conf conf;
    uint64_t round, nrounds;
    uint64_t stages;            /* bitmap of staging segments in use */
    uint32_t unstaged;          /* pipes of the window that may still need staging */
    uint64_t asleep;            /* steps of the window (by index) that cannot advance before an
                                   event */
    uint64_t deferred;          /* steps (by index) deferred until nothing else can run; a subset
                                   of asleep */
    uint64_t unopened;          /* newly loaded streamed waits (by index) whose peers may not
                                   have a CTS yet */
    uint32_t head, tail;        /* window of steps: [head, tail), index mod TT_EXEC_STEPS */
    uint32_t cursor;            /* next position of the scan in tt_exec_next */
    uint64_t consumed_of;       /* peers (by index; all from 63 on share a bit) whose streams may
                                   need a credit update */
    uint32_t credit_from;       /* first peer whose streams are scanned for credit updates */
    uint32_t npeers, peers_max;
    uint32_t flight;            /* maximum segments in flight per stream, wherever they land; 0:
                                   unlimited */
    uint64_t flight_bytes;      /* bounded: size of the longest segment */
    uint64_t most_in_flight;    /* bounded: maximum bytes in flight to one peer, in whole
                                   segments */
    uint32_t loaded;            /* steps loaded so far: if it grows, unexpected eager messages
                                   may have a wait now */
    uint8_t segment_shift;
    bool straight;              /* all steps are loaded, eager and of fixed length. The caller
                                   may then run them itself, in program order except for
                                   tt_exec_meanwhile, counting in `head` */
    bool progress;              /* some state has changed since the cursor last wrapped */
    bool patient;               /* set by the caller: see tt_exec_next */
    bool held;                  /* an action was held back in the last pass */
    bool credit_due;            /* some stream has unreported consumption */
    uint32_t peer_rank[TT_EXEC_NEAR_PEERS];     /* ranks of the first peers, for a fast search */
    struct tt_exec_peer *peer;          /* [peers_max], owned by the caller */
    struct tt_exec_step step[TT_EXEC_STEPS];
    /* The members below are not accessed while the program is straight: a copy of a straight
     * executor may end after its steps (tt_exec_straight_bytes). */
    uint64_t touching[64];      /* steps that use a grain of memory, by its number mod 64. Steps
                                   without a common grain do not conflict */
    uint64_t touching_all;      /* steps with too many grains for the table: they may conflict
                                   with any step */
    uint8_t grain_shift;                /* log2 of the grain size in bytes, from the first step
                                           with data; 64: none yet */
    uint64_t dependents[TT_EXEC_STEPS]; /* later steps that conflict with this one, or read the
                                           pipe that it writes */
    uint32_t flow[TT_EXEC_STEPS];       /* flow key of each step, to wake it */
};

/* Initializes an executor. peers[algo->npeers(coll)] belongs to the caller and must outlive x. */
void tt_exec_init(struct tt_exec *x, const struct tt_exec_conf *conf, struct tt_exec_peer *peers,
                  uint32_t peers_max);

/* For a straight-line program whose first step waits: returns a later copy that depends on no
 * unfinished step, or NULL. The caller performs it, sets `over`, and skips it later. */
struct tt_exec_step *tt_exec_meanwhile(struct tt_exec *x);

/* Resets a straight-line program that the caller has run itself, for a call of the same shape.
 * Nothing is rebuilt. */
void tt_exec_restart(struct tt_exec *x);

/* Returns the number of bytes at the beginning of a straight executor, all of whose steps are over,
 * that are sufficient to restart it. A copy of them must not use tt_exec_stream. */
size_t tt_exec_straight_bytes(const struct tt_exec *x);

/* Returns the next action that can be performed now; false: none until an event. The caller
 * performs it and calls tt_exec_taken (for OPEN, tt_exec_opened). Otherwise it calls tt_exec_left,
 * and a later pass returns the action again. With `patient` set, a result is held back while its
 * put waits for room at the peer, so that it can be written directly to the peer's slot. `held` is
 * set if there is no action for this reason. The peer may itself wait for the result that is held
 * back. Therefore the caller must not wait for an event, but retry, and clear `patient` soon. */
bool tt_exec_next(struct tt_exec *x, struct tt_action *a);
/* Reports that the action was performed (instant), or that a PUT was begun (not instant) and
 * tt_exec_sent will follow. */
void tt_exec_taken(struct tt_exec *x, const struct tt_action *a, bool instant);
void tt_exec_left(struct tt_exec *x, const struct tt_action *a);
/* Reports that the source of a PUT is reusable. `step` and `seq` are those of the action. Returns
 * false, without effect, if no such PUT is in progress. */
bool tt_exec_sent(struct tt_exec *x, uint16_t step, uint32_t seq);
/* Returns whether tt_exec_sent for PUT `step` could unblock a step. If not, it may be deferred
 * to a later event. */
bool tt_exec_sent_matters(const struct tt_exec *x, uint16_t step);
/* Returns whether all unfinished steps are PUTs that were fully begun. Then only tt_exec_sent can
 * advance them. */
bool tt_exec_only_unsent(const struct tt_exec *x);

/* Returns the number of slots with which a message of `bytes` needs the fewest puts, if the peer's
 * puts have at most whole_bytes. A power of two, at least the conf's depth; equal to it for bounded
 * algorithms. */
uint8_t tt_exec_depth_of(const struct tt_exec *x, uint64_t bytes, uint32_t whole_bytes);
/* Sets the number of slots (a power of two) of each stream from the peer (in) or to it. Call
 * before tt_exec_opened or tt_exec_ready, respectively. */
void tt_exec_deepen(struct tt_exec *x, uint16_t peer, bool in, uint8_t depth);
/* Allows puts of up to `bytes`, several segments at once, to the peer's destination or unmapped
 * slots. For wires with a high cost per put. Call before tt_exec_ready. */
void tt_exec_lengthen(struct tt_exec *x, uint16_t peer, uint32_t bytes);
/* Reports that the OPEN action was performed. direct: segments for (contiguous) DST land at their
 * destination. */
void tt_exec_opened(struct tt_exec *x, uint16_t peer, bool direct);
/* Reports that the peer has opened its flow. direct: as in its CTS; mapped: its slots can be
 * written with ordinary stores. */
void tt_exec_ready(struct tt_exec *x, uint16_t peer, bool direct, bool mapped);
/* Reports that in total `arrived` segments have landed in (peer, stream). Lower counts than before
 * are ignored. Returns whether the count is new. */
bool tt_exec_arrived(struct tt_exec *x, uint16_t peer, uint8_t stream, uint32_t arrived);
bool tt_exec_credit(struct tt_exec *x, uint16_t peer, uint8_t stream, uint32_t consumed);
/* Reports that an eager message with `tag` and `bytes` has arrived from `peer`. For a wait with
 * at_most, `bytes` becomes its length. MISMATCH (not logged): a different length is expected.
 * INVALID: its wait is not in the window (yet); retry when `loaded` has grown. */
tutti_status tt_exec_eager(struct tt_exec *x, uint16_t peer, uint32_t tag, uint64_t bytes);

/* Switches the single message of a send or receive from eager to streams. Both ends must do this,
 * or neither. No effect if the message has arrived, has been sent, or is streamed already. */
void tt_exec_stream(struct tt_exec *x);

/* Prefetches data that will be used soon: the peer (if not negative), the awake steps, and the
 * steps in the bitmap `also`. For callers with more executors than fit in the cache. */
void tt_exec_prefetch(const struct tt_exec *x, int peer, uint64_t also);

/* Returns the index of `rank` among the peers, or -1 if no step with it was loaded yet. */
int tt_exec_peer_of(const struct tt_exec *x, uint32_t rank);
bool tt_exec_finished(const struct tt_exec *x);
/* Returns whether the first `rounds` rounds have begun, and all waits with `tag` among them are
 * over. */
bool tt_exec_has_reached(const struct tt_exec *x, uint64_t rounds, uint32_t tag);
/* Returns the peer that the oldest unfinished step with a remote dependency waits for, to send,
 * open or make room. UINT32_MAX: all remaining work is local. */
uint32_t tt_exec_waits_for(const struct tt_exec *x);
/* Returns the step of tt_exec_waits_for, for messages, or else the oldest unfinished step. NULL
 * when finished. */
const struct tt_step *tt_exec_at(const struct tt_exec *x);
/* Returns the round of the step of tt_exec_at, from 1, or the last round if there is none. */
uint64_t tt_exec_round_at(const struct tt_exec *x);

/* Returns the number of segments in `bytes`, at least one. */
uint32_t tt_exec_segments(uint64_t bytes, uint64_t segment_bytes);

#endif
