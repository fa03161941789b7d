/* Start-up of a job in simulated time: the real state machines of all ranks and of the root
 * (boot/tree.h), over a simulated network. docs/start-up.md has results.
 *
 * Model. A message arrives after a latency: 5 us (with a described network, the latency and the
 * time of its bytes on the link of the two hosts) and a random part. Messages of a connection
 * arrive in order. A process handles one message at a time, in message_ns, and byte_ns for each
 * byte of it and of those that it sends. A listener has a backlog: a connection that arrives at a
 * full one fails after a second. A lost message arrives 0.2 s later, a lost connection request one
 * second. Timers take no time. The same configuration and seed give the same result, unless
 * `measured` is set.
 *
 * Aborts if out of memory: about 10 KB per rank. One thread at a time. */
#ifndef TT_SIM_START_H
#define TT_SIM_START_H

#include "boot/tree.h"
#include "sim/net.h"
#include "sim/queue.h"

#define TT_START_NONE UINT32_MAX
#define TT_START_CARD_BYTES 32u
#define TT_START_RACK_HOSTS 4u      /* of TT_START_PLACES_IN_RACKS */
#define TT_START_BACKLOG 128u       /* default */
#define TT_START_MESSAGE_NS 20000u  /* default */
#define TT_START_LATENCY_NS 5000u   /* minimum without a described network */
#define TT_START_DROPPED_NS 1000000000u     /* until TCP sends a connection request again */
#define TT_START_LOST_NS 200000000u         /* until TCP sends other data again */

/* Places of the ranks (tree_layout.h). */
enum tt_start_places {
    TT_START_PLACES_NONE,
    TT_START_PLACES_ALIKE,      /* equal on ranks at the same position of all hosts */
    TT_START_PLACES_IN_RACKS,   /* equal on ranks at the same position of all hosts of a rack */
    TT_START_PLACES_ANY         /* most ranks have different places, and some have none */
};

/* Faults of the code, for tests of the tools that must find them. */
enum tt_start_plant {
    TT_START_PLANT_NONE,
    TT_START_PLANT_LOOP,        /* a process with leaders below it wakes up every 100 us until it
                                   has the result */
    TT_START_PLANT_QUADRATIC    /* the root compares each new report with all earlier ones */
};

/* Kinds of steps of a process. */
enum tt_start_step {
    TT_START_ACCEPT,            /* a child has connected */
    TT_START_CONNECT,           /* this process has connected */
    TT_START_CHALLENGE,
    TT_START_JOIN,
    TT_START_WELCOME,
    TT_START_REDIRECT,
    TT_START_UP,
    TT_START_DOWN,
    TT_START_DONE,
    TT_START_REFUSED,           /* and all other frames */
    TT_START_CLOSED,            /* a connection has ended */
    TT_START_TICK,
    TT_START_STEPS
};

/* Returns "accept", "join", ...; "?" for an invalid value. */
const char *tt_start_step_name(enum tt_start_step step);

/* Zero is the default of all but nranks and per_host. */
struct tt_start_conf {
    uint32_t nranks, per_host;  /* per_host: ranks per host; the last host may have fewer */
    uint32_t nextra;            /* further processes, which the caller initializes */
    uint32_t children_max;      /* of each node; 0: TT_TREE_CHILDREN */
    uint32_t leader;            /* position of the leader among the ranks of its host */
    bool cards;                 /* ranks have address records, of up to TT_START_CARD_BYTES */
    bool hinted;                /* the launcher provides the number of ranks per host */
    bool cyclic;                /* rank r is on host r mod nhosts; else consecutive ranks */
    enum tt_start_places places;
    uint32_t place_bytes;       /* 0: 60; at most TT_TREE_PLACE_MAX, at least 48 unless the places
                                   are alike, then at least 31 */
    uint32_t constants_bytes;   /* 0: 600; at most TT_TREE_CONSTANTS_MAX */
    uint32_t backlog;           /* 0: TT_START_BACKLOG */
    uint64_t latency_ns;        /* maximum of the random part; at least 1 */
    uint64_t start_ns;          /* ranks start within this time, at random; at least 1 */
    uint64_t message_ns;        /* 0: TT_START_MESSAGE_NS */
    double byte_ns;
    double loss;                /* share of lost messages, from 0 to less than 1 */
    uint64_t timeout_ns;        /* 0: 20 s; of each rank */
    uint64_t end_ns;            /* 0: 60 s; later events do not happen */
    bool no_retries;            /* a process whose connection was dropped never starts */
    bool measured;              /* each step also takes the processor time that it took here */
    enum tt_start_plant plant;
    const struct tt_net_conf *net;      /* latencies and rates by distance; its layout must have
                                           nranks. NULL: equal everywhere. Must outlive the
                                           simulation */
    uint64_t seed;
    /* Called from time to time, if set. nplaced: number of ranks that have their result. */
    void (*progress)(void *arg, uint64_t now_ns, uint32_t nplaced);
    void *arg;
};

struct tt_start_conn {
    struct tt_tree_conn machine;        /* must be first: pointers to it are converted to this
                                           struct */
    uint32_t id, child, parent;         /* child TT_START_NONE: a process that is no rank */
    bool here, there;                   /* open at the parent, at the child */
    uint64_t arrives_ns[2];             /* time of the last arrival at each end, for order */
};

struct tt_start_place {
    uint8_t bytes, data[TT_TREE_PLACE_MAX];
};

struct tt_start_message {
    int what;
    struct tt_start_conn *conn;
    uint8_t *data;
    size_t bytes;
    struct tt_start_message *next;
};

struct tt_start_work {
    uint64_t ns;
    uint32_t n;
};

struct tt_start_process {
    struct tt_tree tree;
    struct tt_start *sim;
    uint32_t index;
    bool started, dead, dropped;        /* dropped: dead by no_retries */
    struct tt_start_conn *up;
    uint32_t parent;                    /* the last one that accepted it, or TT_START_NONE */
    uint32_t nopening, nopening_most;   /* connections in the backlog */
    uint32_t nqueued, nqueued_most;     /* messages to be handled */
    /* 0: not yet. reported: the last report before the result; done: DONE is sent */
    uint64_t start_ns, joined_ns, reported_ns, ended_ns, done_ns;
    uint64_t busy_ns, spent_ns, tick_ns;        /* busy until; spent in the current step; next tick
                                                   */
    uint64_t received, sent, nconns;    /* bytes; connections that reached it */
    uint32_t nattempts, ndropped;       /* its own connection requests; dropped by its backlog */
    uint32_t nidle;                     /* ticks without an action */
    uint32_t nacts;
    struct tt_start_work work[TT_START_STEPS];
    struct tt_start_message *first, **last;     /* received, to be handled */
};

/* An event; `kind` and its arguments are internal, except those of tt_start_plan. */
struct tt_start_event {
    uint8_t kind;
    int a, b;
    uint8_t *data;
    size_t bytes;
};

enum tt_start_fault {
    TT_START_KILL,              /* of process `index` */
    TT_START_RESET,             /* a random connection breaks */
    TT_START_STRANGER           /* a process without the token connects to process `index` */
};

struct tt_start {
    struct tt_start_conf conf;
    struct tt_prng prng;
    uint64_t now_ns, nevents;
    struct tt_queue queue;
    struct tt_start_event *events;      /* [events_cap]; free entries are a list, linked by `a` */
    uint32_t events_cap, events_free;
    uint32_t nranks, nprocesses, root;  /* the ranks, then the root, then extra processes */
    uint32_t nplaced;
    struct tt_start_process *processes;
    struct tt_start_conn **conns;
    uint32_t nconns, conns_cap;
    uint32_t *leader;                   /* [nranks] */
    uint8_t secret[TT_TREE_SECRET_BYTES], constants[TT_TREE_CONSTANTS_MAX];
    uint64_t resets_in;                 /* one in this number of messages breaks its connection, in
                                           the first 10 s; 0: none */
    uint64_t ndropped, nlost, nmessages;
    uint8_t (*cards)[TT_START_CARD_BYTES];      /* [nranks]: address records, or NULL */
    struct tt_start_place *places;      /* [nranks], or NULL */
};

/* Creates the processes, none of which has started. */
struct tt_start *tt_start_create(const struct tt_start_conf *conf);
void tt_start_destroy(struct tt_start *s);
/* Handles one event. Returns false at the end. */
bool tt_start_next(struct tt_start *s);
void tt_start_run(struct tt_start *s);

/* Returns the configuration of the node of a rank that starts now. For tests that change it. */
struct tt_tree_conf tt_start_conf_of(const struct tt_start *s, uint32_t rank);
/* (Re)initializes a process, which starts `start_ns` from now: if `conf` has a deadline, its begin
 * and its deadline are delayed by this time, too. The caller must have released the node of an
 * earlier initialization. */
void tt_start_init_process(struct tt_start *s, uint32_t index, const struct tt_tree_conf *conf,
                           uint64_t start_ns);
/* Plans a fault. `at_ns` may be in the past. */
void tt_start_plan(struct tt_start *s, uint64_t at_ns, enum tt_start_fault fault, uint32_t index);
void tt_start_kill(struct tt_start *s, uint32_t index);
/* The size of a rank's address record. */
uint16_t tt_start_card_bytes(uint32_t rank);

#endif
