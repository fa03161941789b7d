/* The executor: runs one rank's schedule of one operation. A pure state machine: events in, actions out; no clock, memory,
 * lock or address. The shell (op.c) performs actions on real memory and wires; the simulator performs them on its own.
 *
 * How bytes flow. A put of at most `eager_bytes` travels as one eager message. A longer one is cut into segments of
 * `segment_bytes`, which ride one of `streams` numbered streams of its (operation, peer) pair: put i of a pair rides stream
 * i mod streams, and the segments of a stream are numbered on. Both ends derive the same numbers from the same program.
 * Segment s of a stream lands in slot s mod `depth` of that stream at the receiver, and the sender may be at most `depth`
 * segments ahead of what the receiver has consumed. The receiver may have more slots than the plan says, as it tells when it opens: over
 * a long link a few hold less than is on its way. Or, where the receiver has opened its final buffer (direct), at
 * its destination, without that limit. Segments of a stream are consumed in order. An algorithm that is bounded limits both: what was
 * sent to a peer and is not consumed by it, as far as it has said, is never more than tt_coll_chunks * tt_coll_chunk_bytes, shared
 * evenly by the streams so that none keeps another from its room. All its messages are streamed, and all that is consumed is told.
 *
 * Steps advance segment by segment, each as far as the conflicting steps before it have advanced. What is fused: a pipe's
 * reader reads the landing slot itself; a reduction or arrival whose output the next put sends on writes a second copy
 * straight into the peer's slot, where that is mapped. Where what it makes goes nowhere else (a pipe), it has to wait for that slot:
 * such a pipe has no room of its own.
 *
 * Why nobody waits for ever. Programs are such that both ends of a message, and of a pipe, are in rounds of the same number, and
 * that steps cannot wait for each other in a circle, whatever the segmentation and the room (tt_segments_check). Take the earliest
 * round that some rank has not finished. What came before it is over everywhere, so each rank has it in its window or can load it,
 * and opens its flows; and in each stream its messages come first. What came after it holds nothing that it needs: slots are given in
 * the order of the stream, eager messages need none, memory that later steps touch waits for earlier ones; and of the staging that
 * pipes share, each pipe of the window is sure of one segment, as rounds are loaded and staging is allotted with that many
 * left. So a step of this round waits only for other steps of it: for their data, their room or their end, as
 * tt_segments_check knows. Those do not wait in a circle, so one of them can go on. What is optional is not waited for: a
 * second copy goes into a peer's slot if that is free.
 * tests/engine/test_deadlock.c looks for counterexamples. */
#ifndef TT_ENGINE_EXEC_H
#define TT_ENGINE_EXEC_H

#include "sched/algo.h"

#define TT_EXEC_STEPS 64        /* window of steps; at least 2 * TT_ROUND_STEPS_MAX */
#define TT_EXEC_STREAMS_MAX 4   /* a link has as many words for each flow */
#define TT_EXEC_DEPTH_MAX 16    /* of a plan */
#define TT_EXEC_STAGES 64       /* staging segments of one operation */
#define TT_EXEC_NEAR_PEERS 20   /* peers that are looked for in one place: those of a doubling on a million ranks */

struct tt_exec_conf {
    const struct tt_algo *algo;
    const struct tt_coll *coll;     /* alive as long as the executor */
    uint64_t segment_bytes;         /* a power of two, at least 8 and eager_bytes */
    uint64_t eager_bytes;
    uint8_t streams, depth;         /* depth: a power of two */
};

enum tt_place_kind {
    TT_AT_NONE,
    TT_AT_BUF,          /* ref: SRC, DST or WORK, advanced by `skip` bytes */
    TT_AT_SLOT,         /* landing slot `slot` of (peer, stream), here */
    TT_AT_REMOTE,       /* landing slot `slot` of (peer, stream) at the peer, mapped */
    TT_AT_STAGE,        /* staging segment `slot` */
    TT_AT_EAGER         /* the eager message that arrived as (peer, slot = its tag) */
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
    TT_ACT_OPEN,        /* tell `peer` that it may stream here; then tt_exec_opened */
    TT_ACT_EAGER,       /* send bytes at `a` as an eager message with `tag` */
    TT_ACT_PUT,         /* send bytes at `a` (kind REMOTE: they are there already) to `out`, as segment `seq` of (peer, stream), or as several of which
                           that is the last */
    TT_ACT_REDUCE,      /* out (and out2) = a op b */
    TT_ACT_COPY,        /* out (and out2) = a */
    TT_ACT_CREDIT       /* tell `peer` that `seq` segments of `stream` are consumed in all */
};

struct tt_action {
    uint8_t kind;       /* enum tt_action_kind */
    uint8_t stream;
    bool finish, direct;
    bool idle;          /* there was nothing else to do: before the next one is asked for, there may be news */
    uint16_t peer, step;
    uint32_t tag, seq;
    uint64_t bytes;
    struct tt_place out, out2, a, b;
};

/* One step of the window. */
struct tt_exec_step {
    struct tt_step s;           /* refs canonical */
    uint64_t done, issued;      /* bytes, prefixes: finished (put: source no longer needed) <= begun */
    uint64_t fused;             /* put: prefix that is in the peer's slots already */
    uint32_t seq0;              /* first segment's number in its stream */
    uint32_t round;             /* it is of; the first is 1 */
    uint32_t out_of_order;      /* put: bit j: segment done/segment_bytes + j has finished */
    uint32_t joined;            /* put: bit j: that segment went with the next one, and finishes with it */
    uint16_t peer;
    int8_t writer_a, writer_b;  /* the steps that write the pipes it reads, -1 none */
    int8_t reader;              /* the step that reads the pipe it writes, -1 none (yet) */
    int8_t forward;             /* the put that sends on what it writes (pipe or not), -1 none */
    uint8_t stream, stage;      /* stage: first staging segment, 0xff none */
    uint8_t nstages;            /* how many it has: a power of two, at most depth */
    bool eager, arrived, over;
    bool to_dst;                /* put, wait: its bytes may land at their destination, if the receiver opens it */
};

struct tt_exec_stream {
    uint32_t out_loaded, issued, credit;            /* segments in loaded puts; begun; consumed by the peer */
    uint32_t flown;                                 /* bounded: begun, or in the peer's slot already */
    uint32_t in_loaded, arrived, consumed, told;    /* segments in loaded waits; landed; consumed; told to the peer */
};

struct tt_exec_peer {
    uint32_t rank;
    uint32_t nputs, nwaits;     /* streamed ones loaded so far */
    bool opened, in_direct;             /* we have told the peer that it may stream; its DST segments land in place */
    bool ready, out_direct, out_mapped; /* the peer has told us; how it wants segments; its slots take plain stores */
    uint8_t in_depth, out_depth;        /* slots of a stream, here and there: a power of two */
    uint32_t whole_bytes;               /* what lands there, at its destination or in slots that are not mapped, may go in puts of so many bytes */
    struct tt_exec_stream stream[TT_EXEC_STREAMS_MAX];
};

struct tt_exec {
    struct tt_exec_conf conf;
    uint64_t round, nrounds;
    uint64_t stages;            /* bitmap of staging segments in use */
    uint32_t unstaged;          /* pipes of the window that may still need staging */
    uint64_t asleep;            /* steps of the window (by index) that need not be tried before something happens to them */
    uint64_t last;              /* of them (by index) those that go when nothing else can */
    uint64_t unopened;          /* streamed waits (by index) just loaded, whose peers may not know yet that they may stream here */
    uint32_t head, tail;        /* window of steps: [head, tail), index mod TT_EXEC_STEPS */
    uint32_t cursor;            /* where tt_exec_next goes on looking */
    uint64_t consumed_of;       /* peers (by index, those from 63 as one) whose streams are looked at for credit that is due */
    uint32_t credit_from;       /* first peer whose streams are looked at for credit that is due */
    uint32_t npeers, peers_max;
    uint32_t flight;            /* segments of a stream that may be on their way to a peer, wherever they land; 0: as many as there are */
    uint64_t flight_bytes;      /* bounded: of the longest segment */
    uint64_t most_in_flight;    /* bounded: bytes, whole segments counted, that were on their way to one peer at once */
    uint32_t loaded;            /* steps loaded so far: when it grows, eager messages may have found their wait */
    uint8_t segment_shift;
    bool straight;              /* all of it is loaded and eager, and of known length. The shell may then run the steps itself, in program order but for
                                   what tt_exec_meanwhile finds, counting them in `head`; there is nothing to decide */
    bool progress;              /* something changed since the cursor last wrapped */
    bool patient;               /* the caller's: see tt_exec_next */
    bool held;                  /* something was held back in the last pass */
    bool credit_due;            /* some stream has consumed more than it has told */
    uint32_t peer_rank[TT_EXEC_NEAR_PEERS];     /* rank of the first peers: found without looking at each of them */
    uint64_t deps[TT_EXEC_STEPS];       /* earlier steps of the window (by index) whose ranges conflict with this one */
    uint64_t touching[64];      /* the steps that read or write a grain of memory, by its number mod 64: steps without a common one do not meet */
    uint64_t touching_all;      /* those, in place of that, which touch so much that they may meet any */
    uint8_t grain_shift;                /* log2 of a grain's bytes, from the first step that has any; 64: there was none */
    uint64_t dependents[TT_EXEC_STEPS]; /* later ones that conflict with this one, or read the pipe that it writes */
    uint32_t flow[TT_EXEC_STEPS];       /* whom a streamed step goes with and how, to wake it */
    struct tt_exec_step step[TT_EXEC_STEPS];
    struct tt_exec_peer *peer;  /* [peers_max], the caller's */
};

/* Begins. peers[algo->npeers(coll)] is the caller's, alive as long as x. */
void tt_exec_init(struct tt_exec *x, const struct tt_exec_conf *conf, struct tt_exec_peer *peers, uint32_t peers_max);

/* Of a straight program whose first step waits: a copy behind it that needs nothing of what is still to be done; NULL: there is none. Who does it
 * sets `over`, and passes by later. */
struct tt_exec_step *tt_exec_meanwhile(struct tt_exec *x);

/* Begins a straight program again that the shell has run itself, for a call of the same shape: nothing is built anew. */
void tt_exec_restart(struct tt_exec *x);

/* The next action that can be done now; false: none until an event. The caller either does it and calls
 * tt_exec_taken (or, for OPEN, tt_exec_opened), or leaves it (tt_exec_left) and will be offered it again by a later pass.
 * With `patient` set, what a put could send on without reading it again, had its peer but room, is held back, and `held` says that
 * this is why there is nothing to do. Rooms come free as the peer gets on; but it may be waiting for what is held back here, so
 * the caller must not wait for an event: it asks again, and clears `patient` before long. */
bool tt_exec_next(struct tt_exec *x, struct tt_action *a);
/* The action is done (instant), or, for PUT with `instant` false, begun: tt_exec_sent comes later. */
void tt_exec_taken(struct tt_exec *x, const struct tt_action *a, bool instant);
void tt_exec_left(struct tt_exec *x, const struct tt_action *a);
/* A PUT's source is reusable. `step` and `seq` as in its action. False: no such PUT is begun; nothing changes. */
bool tt_exec_sent(struct tt_exec *x, uint16_t step, uint32_t seq);
/* Whether a step could go on when that is said of PUT `step`. If not, it may be said later, with what comes next. */
bool tt_exec_sent_matters(const struct tt_exec *x, uint16_t step);
/* Whether nothing is left but PUTs that have begun as a whole: only tt_exec_sent goes on then. */
bool tt_exec_only_unsent(const struct tt_exec *x);

/* How many slots a stream needs so that a message of `bytes` from a peer whose puts may be of whole_bytes lands in as few of them as can be: a power of
 * two, at least the conf's depth, which it is where what is under way is bounded. */
uint8_t tt_exec_depth_of(const struct tt_exec *x, uint64_t bytes, uint32_t whole_bytes);
/* Each stream from the peer (in), or to it, has so many slots (a power of two) instead of the conf's. Before it is opened, or before it is ready. */
void tt_exec_deepen(struct tt_exec *x, uint16_t peer, bool in, uint8_t depth);
/* What lands there, at its destination or in slots that stores do not reach, may go in puts of up to so many bytes, several segments at once: for a wire
 * to which a put is work, however short it is. Before it is ready. */
void tt_exec_lengthen(struct tt_exec *x, uint16_t peer, uint32_t bytes);
/* OPEN was done. direct: segments for (contiguous) DST land at their destination. */
void tt_exec_opened(struct tt_exec *x, uint16_t peer, bool direct);
/* The peer has opened: direct as it said; mapped: its slots can be written with plain stores. */
void tt_exec_ready(struct tt_exec *x, uint16_t peer, bool direct, bool mapped);
/* `arrived` segments in all have landed in (peer, stream); lower counts than before are ignored. True if news. */
bool tt_exec_arrived(struct tt_exec *x, uint16_t peer, uint8_t stream, uint32_t arrived);
bool tt_exec_credit(struct tt_exec *x, uint16_t peer, uint8_t stream, uint32_t consumed);
/* An eager message with `tag` came from `peer` with `bytes`, which is how long a wait that says at_most is from then on. MISMATCH (not logged): it is
 * expected with another length; INVALID:
 * it is not in the window (yet): offer it again when tt_exec_awaits says so. */
tutti_status tt_exec_eager(struct tt_exec *x, uint16_t peer, uint32_t tag, uint64_t bytes);

/* The one message of a send or receive, which was to be eager, is streamed instead. Both ends do so, or neither. Nothing if it is no
 * longer to come, or is streamed already. */
void tt_exec_stream(struct tt_exec *x);

/* Fetches into the cache what will be looked at soon: peer, unless that is negative, steps that are awake, and those in the bitmap `also`. For
 * who runs so many executors that they do not fit there. */
void tt_exec_prefetch(const struct tt_exec *x, int peer, uint64_t also);

/* Index of `rank` among the peers; -1 if no step with it has been loaded yet. */
int tt_exec_peer_of(const struct tt_exec *x, uint32_t rank);
bool tt_exec_finished(const struct tt_exec *x);
/* Whether the first `rounds` rounds have begun, and all that is awaited with `tag` has come. */
bool tt_exec_has_come(const struct tt_exec *x, uint64_t rounds, uint32_t tag);
/* The peer that the oldest of the unfinished steps waits for which waits for one: to send, to open, or to make room. UINT32_MAX if
 * all that is left is ours to do. */
uint32_t tt_exec_waits_for(const struct tt_exec *x);
/* Where it is, for reports: that step, or if all that is left is ours the oldest unfinished; NULL when finished. */
const struct tt_step *tt_exec_at(const struct tt_exec *x);
/* The round of that step, counted from 1; the last one if there is none. */
uint64_t tt_exec_round_at(const struct tt_exec *x);

/* Segments that `bytes` make: at least one. */
uint32_t tt_exec_segments(uint64_t bytes, uint64_t segment_bytes);

#endif
