/* Start-up as a tree: a pure state machine. No socket and no clock: events and time are inputs,
 * actions are passed to `emit`, and random numbers are arguments. A simulation with a seed
 * therefore replays any start-up. docs/start-up.md has the design and its costs.
 *
 * Every rank runs one node. The nodes of a host connect to its first rank (the leader), over a
 * local socket. A leader connects to the root, the node of the rendezvous address, which has no
 * rank. The root keeps children_max leaders. It redirects each further leader to one of them, which
 * becomes a server and redirects in the same way. The flat form is a tree of one level: each rank
 * is the leader of a host of its own, and children_max is at least the number of ranks.
 *
 *   child                                       parent
 *     |  <---------------------------- CHALLENGE  |   version, nonce, id of the start-up
 *     |  JOIN ----------------------------------> |   nonce, rank, host, address, settings, place,
 *     |                                           |   record
 *     |  <------------- WELCOME, or REDIRECT, or REFUSED
 *     |  UP ------------------------------------> |   a leader: reports of its host, and of others
 *     |  <---------------------------------- DOWN |   secret, constants, layout, addresses of the
 *     |                                           |   ranks before and after those of the child,
 *     |                                           |   table of the records of all ranks
 *     |  DONE ----------------------------------> |   all below have it
 *
 * A report lists the ranks of one host as runs of consecutive ranks with equal settings. It has the
 * addresses of the first and the last rank of each run, and the places (tree_layout.h) and address
 * records (cards) of all its ranks, if they have any. A leader can share the table with the ranks
 * of its host by other means (shares_table): then these ranks receive only its digest.
 *
 * A rank that cannot start joins as well, with the cause. When all have joined, the root fails the
 * start-up with this cause. Each frame has a proof (HMAC-SHA256 with the token) over both nonces,
 * its direction, number, type and contents. */
#ifndef TT_BOOT_TREE_H
#define TT_BOOT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"
#include "base/sparse.h"
#include "boot/auth.h"
#include "boot/endpoint.h"
#include "boot/frame.h"
#include "boot/tree_layout.h"
#include "boot/tree_report.h"
#include "tutti/tutti.h"

#define TT_TREE_VERSION 11              /* versions up to 4 had no tree */
#define TT_TREE_CHILDREN 128            /* default of children_max */
#define TT_TREE_CHILDREN_TABLE \
    8                           /* for start-ups with a table, of which a node sends a copy
                                           to each child */
#define TT_TREE_JOIN_BYTES 3700         /* maximum body of a frame before the proof of a token */
#define TT_TREE_SENTENCE_BYTES 512

enum tt_tree_where {
    TT_TREE_TO_ROOT,            /* the rendezvous address */
    TT_TREE_TO_LEADER,          /* the local socket of the host's first rank */
    TT_TREE_TO_SERVER           /* the address of a redirection */
};

enum tt_tree_state {
    TT_TREE_GATHERING,
    TT_TREE_PLACED,             /* the place is available */
    TT_TREE_FAILED              /* the cause is in status and sentence */
};

/* A connection. The caller owns those of children, from OPEN until CLOSED or until it has carried
 * out TT_TREE_ACT_CLOSE. body_max is the limit of its framer; it grows with the proof. */
struct tt_tree_conn {
    uint8_t stage, kind;
    bool done;
    uint16_t serve_port;            /* port of `address` for other leaders; 0: none */
    uint32_t rank;
    uint32_t nredirected;
    uint8_t server_nonce[TT_NONCE_BYTES], client_nonce[TT_NONCE_BYTES];
    uint32_t nsent, nreceived;
    uint64_t opened_ns;
    size_t body_max;
    struct tt_tree_address address;
    struct tt_tree_conn *next;
};

enum tt_tree_event_kind {
    TT_TREE_EV_OPEN,            /* conn: a child has connected; NULL: this node is connected.
                                   `nonce` is 16 random bytes */
    TT_TREE_EV_FRAME,           /* conn NULL: from the parent */
    TT_TREE_EV_CLOSED,          /* conn NULL: the connection to the parent ended, or failed;
                                   `absent`: no process listens there */
    TT_TREE_EV_TICK
};

struct tt_tree_event {
    uint8_t kind;
    bool absent;
    struct tt_tree_conn *conn;
    struct tt_frame frame;
    uint8_t nonce[TT_NONCE_BYTES];
};

enum tt_tree_act_kind {
    TT_TREE_ACT_CONNECT,        /* to `where`; `address` and `port` if that is a server */
    TT_TREE_ACT_SEND,           /* the caller copies data[bytes]; conn NULL: to the parent */
    TT_TREE_ACT_CLOSE           /* after all earlier data is sent; no further event follows. conn
                                   must be valid until the step returns */
};

struct tt_tree_act {
    uint8_t kind, where;
    bool shares;                    /* SEND: the caller also passes the table (shares_table) */
    struct tt_tree_conn *conn;
    const struct tt_tree_address *address;
    uint16_t port;
    const void *data;
    size_t bytes;
};

struct tt_tree_conf {
    const char *token;              /* must outlive the node */
    bool root;                      /* the root has no rank; it needs a secret */
    uint8_t secret[TT_TREE_SECRET_BYTES];
    uint32_t rank, nranks;          /* root: nranks may be 0, then the first child sets it */
    uint32_t leader;                /* first rank of this host */
    uint32_t nlocal;                /* ranks on this host, from the launcher; 0: unknown */
    uint64_t process;               /* random; distinguishes two processes with one rank */
    struct tt_tree_address address;     /* of this rank's listener for neighbours; opaque */
    const char *settings;           /* text of all that must be equal on all ranks, cut to
                                       TT_TREE_SETTINGS_MAX; must outlive the node; NULL: "" */
    tutti_status refuses;           /* this rank cannot start; else TUTTI_OK */
    const char *cause;              /* cannot start: why, cut to TT_TREE_CAUSE_MAX; must outlive the
                                       node */
    const void *constants;          /* rank 0: distributed to all; must outlive the node */
    uint16_t constants_bytes;       /* at most TT_TREE_CONSTANTS_MAX */
    const void *place;              /* of this rank in its host (tree_layout.h); must outlive the
                                       node */
    uint8_t place_bytes;            /* at most TT_TREE_PLACE_MAX; 0: none */
    const void *card;               /* address record of this rank; must outlive the node */
    uint16_t card_bytes;            /* at most TT_TREE_CARD_MAX */
    uint8_t gathering[TT_NONCE_BYTES];      /* id of this start-up, random; sent in CHALLENGE */
    bool shares_table;              /* the caller passes the table to the ranks of this host */
    bool refuses_late;              /* connections after the result are closed: they belong to the
                                       next start-up */
    bool token_is_final;            /* a rejected token is an error; otherwise it is retried */
    uint32_t children_max;          /* leaders that connect to this node; 0: TT_TREE_CHILDREN */
    uint16_t serve_port;            /* other leaders can connect to this port of the host of
                                       `address`; 0: this node is no server */
    uint64_t began_ns, deadline_ns;     /* deadline_ns may be TT_NEVER */
};

/* The result of start-up on a rank. The pointers refer to memory of the node. */
struct tt_tree_place {
    uint8_t secret[TT_TREE_SECRET_BYTES];
    const uint8_t *constants;
    uint16_t constants_bytes;
    const uint8_t *layout;          /* hosts and places of all ranks: tree_layout.h, valid */
    size_t layout_bytes;
    struct tt_tree_address before, after;   /* of the ranks rank - 1 and rank + 1 (mod nranks) */
    const uint8_t *table;           /* of the records of all ranks: record_table.h, valid; NULL:
                                       there is none, or the leader shares it */
    size_t table_bytes;             /* 0: there is none */
    uint8_t table_digest[TT_MAC_BYTES];     /* of a shared table */
};

struct tt_tree {
    struct tt_tree_conf conf;
    struct tt_prng prng;
    uint8_t state;
    bool job_failed;                /* FAILED: the whole start-up; else only this rank */
    bool unreached;                 /* FAILED: the deadline has passed without a result */
    bool token_rejected;            /* FAILED: by the server */
    tutti_status status;            /* FAILED */
    char *sentence;                 /* FAILED; owned */
    struct tt_tree_place place;     /* PLACED; not on the root */
    uint64_t began_ns, deadline_ns;     /* of the earliest deadline, here or below */

    struct tt_tree_conn up;
    uint8_t up_stage, where;
    bool alone;                     /* its leader is unreachable: this rank reports itself */
    uint32_t avoid;                 /* a server that did not respond, or TT_TREE_NONE. The root
                                       keeps such a leader as its child */
    uint64_t now_ns;                /* of the current step */
    uint64_t attempt_ns, retry_ns, backoff_ns, joined_ns, flush_ns, leader_ns;

    struct tt_tree_conn *children;
    bool children_ended;            /* some entries of the list must be removed */
    uint32_t nleaders;              /* of the children */
    struct tt_tree_seat *seats;     /* ranks of this host; the first is this rank */
    uint32_t nseats, seats_cap, generation;
    bool host_changed, pending;     /* to be reported to the parent */
    const char *why;                /* cause of the last failed attempt, or NULL */
    struct tt_sparse reports;       /* by reporter: struct tt_tree_report */
    uint8_t *down;                  /* contents of DOWN; root: none */
    size_t down_bytes;
    struct tt_sparse entries;       /* PLACED: by reporter, entries of `down` */

    struct tt_tree_ranks *ranks;    /* root */
    uint32_t nundone;               /* PLACED: ranks and reporters that were lost without DONE */
    uint64_t undone_ns;             /* time until which the node waits for these */
    uint32_t nrefused;
    char *refusal;                  /* cause of the last refusal; owned, may be NULL */

    void (*emit)(void *context, const struct tt_tree_act *act);
    void *context;
};

/* Initializes everything but `emit` and `context`, which the caller sets. The node connects in its
 * first step. `seed` is for the jitter of retries. */
void tt_tree_init(struct tt_tree *t, const struct tt_tree_conf *conf, uint64_t seed);
void tt_tree_fini(struct tt_tree *t);
/* `now_ns` never decreases. Allocates only for frames with a proof. If out of memory, the node
 * closes the connection, and the peer retries. */
void tt_tree_step(struct tt_tree *t, const struct tt_tree_event *ev, uint64_t now_ns);
/* Returns the time of the next TICK that this node needs, or TT_NEVER. */
uint64_t tt_tree_wake_ns(const struct tt_tree *t);
/* Return the framer's limits: the maximum body of a frame of the parent, and of a child. */
size_t tt_tree_body_max(uint32_t nranks);
size_t tt_tree_up_bytes_max(uint32_t nranks);
/* PLACED without the shared table: checks table[bytes], and uses it from now on; it must be valid
 * until tt_tree_fini. Returns false if it is not the table of this start-up. */
bool tt_tree_use_table(struct tt_tree *t, const uint8_t *table, size_t bytes);
/* Returns whether the parent has accepted this node, and is connected. */
bool tt_tree_is_joined(const struct tt_tree *t);
/* Returns whether this node has its result, and no other node needs it any more. A child that was
 * lost before it had its place may reconnect within a few seconds. */
bool tt_tree_is_over(const struct tt_tree *t);
/* Returns whether the child has sent no proof for `age_ns`: the caller may drop it, and then passes
 * CLOSED. */
bool tt_tree_conn_is_unauthenticated(const struct tt_tree_conn *c, uint64_t now_ns,
                                     uint64_t age_ns);
/* Root: number of ranks that have joined. */
uint32_t tt_tree_njoined(const struct tt_tree *t);
/* Root: returns whether ranks wait for others, including `rank`, in a start-up of nranks. */
bool tt_tree_waits_for(const struct tt_tree *t, uint32_t nranks, uint32_t rank);
/* Root: writes the missing ranks in the format of tt_ranks_name. */
void tt_tree_name_missing(const struct tt_tree *t, char *out, size_t cap);
/* Root: fails a start-up that cannot succeed: all ranks that have joined get PEER_LOST with the
 * message. */
void tt_tree_give_up(struct tt_tree *t, const char *sentence);

#endif
