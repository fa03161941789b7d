/* The state of a coordinator for other threads: a copy, and the board that holds the latest one.
 * The coordinator makes a copy on request, at most every TT_SNAPSHOT_EVERY_NS; readers cannot delay
 * it. Texts from members are not escaped (except addresses); code that prints them must escape
 * them. */
#ifndef TT_COORDINATOR_SNAPSHOT_H
#define TT_COORDINATOR_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elastic/coord.h"
#include "tutti/tutti.h"

#define TT_SNAPSHOT_EVERY_NS 200000000ull
#define TT_SNAPSHOT_EVENTS 256u /* number of stored events */
#define TT_SNAPSHOT_EVENT_BYTES 256
#define TT_SNAPSHOT_ADDRESS_BYTES 64 /* "[2001:db8::1]:4711" */
#define TT_SNAPSHOT_BUCKETS 8u
#define TT_SNAPSHOT_STATES 16u
#define TT_SNAPSHOT_HASH_BYTES 40

/* One member of the run, in the order of ids. */
struct tt_snapshot_member {
    uint64_t id;
    uint8_t state; /* enum tt_coord_state */
    bool left; /* LOST: it left in order */
    bool connected, leaving;
    bool called;  /* waits in a call of the round, and is not lost; see `what` */
    uint8_t what; /* enum tt_call_kind */
    uint32_t group, role;
    uint32_t rank;      /* in the view; TT_COORD_NO_RANK */
    uint64_t silent_ns; /* time since its last message */
    char address[TT_SNAPSHOT_ADDRESS_BYTES]; /* address of the member's connection; "": not
                                                connected */
};

/* An event, as text. */
struct tt_snapshot_event {
    uint64_t number; /* from 1 with each start */
    int64_t unix_ms;
    char text[TT_SNAPSHOT_EVENT_BYTES];
};

/* Reason for which the coordinator closed a connection. */
enum tt_snapshot_refusal {
    TT_REFUSAL_HANDSHAKE, /* the handshake failed: no TLS, a different token, or a different
                             authority */
    TT_REFUSAL_GARBAGE,  /* invalid framing, or a message that is too long */
    TT_REFUSAL_SLOW,     /* the peer did not join in time */
    TT_REFUSAL_TOO_MANY,    /* too many connections had not joined */
    TT_REFUSAL_UNREAD,   /* the peer did not read its messages */
    TT_REFUSAL_PROTOCOL, /* refused by the state machine: wrong run, seat in use, declared lost, or
                            illegal message */
    TT_REFUSAL_KINDS
};

/* Counters since this start. */
struct tt_snapshot_counters {
    uint64_t taken[TT_ELMSG_KINDS], sent[TT_ELMSG_KINDS]; /* messages by kind; [0]: invalid ones */
    uint64_t taken_bytes, sent_bytes;                     /* bytes of received and sent messages */
    uint64_t lost[TT_LOSSES];                             /* members of views, by enum tt_loss;
                                                             including those that left */
    uint64_t accepted;                                    /* connections */
    uint64_t refused[TT_REFUSAL_KINDS];
    uint64_t slowed;                /* delays of connections by the rate limit */
    uint64_t stalls;                /* stalls of the coordinator itself, which are excluded from
                                       leases */
    uint64_t records, record_bytes; /* written to the journal */
    uint64_t commits, commit_ns;    /* number of commits, and their total time */
    uint64_t commit_most_ns;
    /* commits of at most tt_snapshot_bucket_ns[i]; the last: longer ones. Not cumulative */
    uint64_t commit_buckets[TT_SNAPSHOT_BUCKETS + 1];
    uint64_t replaced;              /* replacements of a long journal by a short one */
};

extern const uint64_t tt_snapshot_bucket_ns[TT_SNAPSHOT_BUCKETS];

/* The shared state after its last sync. */
struct tt_snapshot_state {
    uint16_t scope; /* 0: of all members of the view; 1 + role: of those of that role */
    bool moving;    /* being sent to members */
    uint64_t revision;
    char hash[TT_SNAPSHOT_HASH_BYTES];
};

/* The last measured bandwidth between members. */
struct tt_snapshot_links {
    uint32_t n;          /* 0: not measured yet */
    uint64_t *ids;       /* [n] members */
    double *bytes_per_s; /* [n][n] from row to column */
    uint32_t *order;     /* [n] the ring, as indices of ids: the best one if a change is worthwhile,
                            otherwise the current one */
    double *latency_s;   /* [n][n] one way; NULL: unknown */
    double was_s, now_s; /* predicted times of an all-reduce: in the previous order, and in this
                            one; 0: unknown */
    bool waits;          /* the order is pending: the next epoch adopts it */
    const char *shape;   /* tt_ring_shape_name of the shape that is predicted to be fastest in this
                            order */
};

struct tt_snapshot {
    char run[TT_ELASTIC_TEXT_BYTES];
    int64_t unix_ms, started_unix_ms;
    uint64_t starts, epoch, round, lease_ns, grace_ns;
    uint32_t nroles, members_max;
    bool proposing, querying, revoked;
    uint64_t revoker;           /* valid if the epoch is revoked */
    struct tt_coord_cause cause; /* of this epoch */
    struct tt_coord_result last; /* round 0: none yet */
    struct tt_membership news;
    uint32_t connections, strangers; /* open connections, and those of them that have not joined
                                        yet */
    struct tt_snapshot_counters counters;
    struct tt_snapshot_links links;
    uint32_t nstates; /* 0: nothing was synced yet. Only the first TT_SNAPSHOT_STATES are
                         included */
    struct tt_snapshot_state states[TT_SNAPSHOT_STATES];
    uint32_t nmembers, nevents;
    struct tt_snapshot_member *members; /* [nmembers] */
    struct tt_snapshot_event *events;   /* [nevents], the oldest first */
};

/* The state of a standby coordinator. */
struct tt_standby {
    char run[TT_ELASTIC_TEXT_BYTES];
    char leader[128];                   /* name of the leader; "": unknown */
    int64_t unix_ms, since_unix_ms;     /* time of this state, and time since which it stands by */
};

/* Creates a snapshot with space for these numbers, which it sets; other fields are zero. NULL: out
 * of memory. Owned by the caller. */
struct tt_snapshot *tt_snapshot_create(uint32_t nmembers, uint32_t nevents);
/* Also frees the links' arrays, which are malloc'ed. s may be NULL. */
void tt_snapshot_destroy(struct tt_snapshot *s);

/* The board. Any thread. */
struct tt_board;
/* `wake(context)` is called in the reader's thread when a newer snapshot is needed; NULL: the
 * latest one is always returned. */
tutti_status tt_board_create(struct tt_board **out, void (*wake)(void *context), void *context);
/* No thread may use the board any more. b may be NULL. */
void tt_board_destroy(struct tt_board *b);
/* Returns whether a reader waits for a newer snapshot. */
bool tt_board_has_waiters(struct tt_board *b);
/* Publishes s, which then belongs to the board. */
void tt_board_hang(struct tt_board *b, struct tt_snapshot *s);
/* Call when no newer snapshots follow: readers do not wait any more, and get the last one. */
void tt_board_end(struct tt_board *b);
/* Returns the latest snapshot, at most TT_SNAPSHOT_EVERY_NS old unless none is published within
 * timeout_ns; NULL if there is none at all. Release it with tt_board_put. */
const struct tt_snapshot *tt_board_get(struct tt_board *b, uint64_t timeout_ns);
void tt_board_put(struct tt_board *b, const struct tt_snapshot *s);

#endif
