/* State in a dump besides the ring: progress of open operations, peers, lanes. The engine adds it
 * under its progress lock; the writer prints it. Bounded: TT_DUMP_OPS_MAX operations and
 * TT_DUMP_ROWS_MAX peers, of all engines together. */
#ifndef TT_TRACE_DUMP_STATE_H
#define TT_TRACE_DUMP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define TT_DUMP_OPS_MAX 4096u
#define TT_DUMP_ROWS_MAX 65536u
#define TT_DUMP_NOBODY UINT32_MAX

/* The event for which an operation waits. */
enum tt_dump_waits {
    TT_DUMP_WAITS_NONE,
    TT_DUMP_WAITS_START,        /* a first message of the operation, or a connection */
    TT_DUMP_WAITS_DATA,         /* further messages: the peer has started the operation */
    TT_DUMP_WAITS_CREDIT,       /* room at the peer */
    TT_DUMP_WAITS_CTS,          /* the peer's permission to send */
    TT_DUMP_WAITS_COMPLETION,   /* completion of its own puts */
    TT_DUMP_WAITS_MATCH         /* a message from any rank, or its own matching call */
};

/* Progress of one operation. */
struct tt_dump_op {
    uint64_t record;            /* number of its record */
    uint64_t step, steps;       /* rounds; steps 0: unknown, or not started */
    bool waits_known;           /* `waits` and `waits_rank` are valid */
    uint64_t waited;            /* ns: start of the application's wait; 0: it does not wait */
    uint32_t waits_rank;        /* job rank, or TT_DUMP_NOBODY */
    enum tt_dump_waits waits;
    uint32_t first_flow, nflows;
};

/* Transfers between an operation and one peer. Times are ticks; 0: none yet. */
struct tt_dump_flow {
    uint32_t rank;              /* job rank */
    uint64_t sent, received;    /* bytes */
    uint64_t first_out, last_out, first_in, last_in;
    uint64_t first_message;     /* of the peer about this operation, which proves its call. Unset
                                   for operations with eager messages only */
    uint64_t moved;             /* ns: last progress of an operation with eager messages only, some
                                   milliseconds too late; 0: unknown */
};

struct tt_dump_peer {
    uint32_t rank;
    char wire[8];
    const char *state;          /* "connected", "left", "lost" or "unknown"; static storage. The
                                   writer adds "alive" or "silent" */
    uint64_t last_heard, last_progress;     /* ns; 0: unknown */
};

/* Counters of one lane of a transport. */
struct tt_dump_lane {
    uint32_t rank, lane;
    char wire[8];
    bool is_up;
    uint64_t posts, completions, posted_bytes, completed_bytes;
    uint64_t last_post, last_completion;    /* ns; 0: none */
};

/* Result of the roll call for a rank with a control connection. */
struct tt_dump_life {
    uint32_t rank;
    bool is_silent;             /* it does not respond */
    uint64_t last_ns;           /* its last response; 0: none */
};

struct tt_dump_state {
    struct tt_dump_op *ops;
    struct tt_dump_flow *flows;
    struct tt_dump_peer *peers;
    struct tt_dump_life *lives;
    struct tt_dump_lane *lanes;
    uint32_t nops, nflows, npeers, nlives, nlanes;
    uint32_t ops_cap, flows_cap, peers_cap, lives_cap, lanes_cap;
    uint64_t roll_ns;           /* beginning of the roll call: later messages are signs of life; 0:
                                   none */
    bool clock_known;           /* the clock was compared with the clock of the job: */
    int64_t offset_ns;          /* job time = time + offset, */
    uint64_t error_ns;          /* with at most this error */
    uint32_t left_out;          /* rows beyond the maximum, or without memory */
};

/* Adds an operation. Returns false if it was omitted. An operation that was already added is not
 * changed. Its flows follow with tt_dump_add_flow. */
bool tt_dump_add_op(struct tt_dump_state *s, const struct tt_dump_op *op);
/* Adds a flow of the operation that was added last. */
void tt_dump_add_flow(struct tt_dump_state *s, const struct tt_dump_flow *flow);
void tt_dump_add_peer(struct tt_dump_state *s, const struct tt_dump_peer *peer);
/* Returns the operation with this record, or NULL. */
const struct tt_dump_op *tt_dump_find_op(const struct tt_dump_state *s, uint64_t record);
void tt_dump_add_lane(struct tt_dump_state *s, const struct tt_dump_lane *lane);
void tt_dump_add_life(struct tt_dump_state *s, const struct tt_dump_life *life);
/* Returns the result of the roll call for a rank, or NULL. */
const struct tt_dump_life *tt_dump_find_life(const struct tt_dump_state *s, uint32_t rank);
void tt_dump_state_fini(struct tt_dump_state *s);

#endif
