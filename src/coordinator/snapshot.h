/* What a coordinator shows of itself: a copy of its state that other threads may read, and the board on which it hangs the latest one.
 * The coordinator makes a copy when somebody asks, and at most every TT_SNAPSHOT_EVERY_NS; nobody who looks can hold it up.
 * What members said (addresses aside) is as they said it: whoever prints it escapes it. */
#ifndef TT_COORDINATOR_SNAPSHOT_H
#define TT_COORDINATOR_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elastic/coord.h"
#include "tutti/tutti.h"

#define TT_SNAPSHOT_EVERY_NS 200000000ull
#define TT_SNAPSHOT_EVENTS 256u /* the latest that are kept */
#define TT_SNAPSHOT_EVENT_BYTES 256
#define TT_SNAPSHOT_ADDRESS_BYTES 64 /* "[2001:db8::1]:4711" */
#define TT_SNAPSHOT_BUCKETS 8u
#define TT_SNAPSHOT_STATES 16u
#define TT_SNAPSHOT_HASH_BYTES 40

/* One member of the run, in the order of ids. */
struct tt_snapshot_member {
    uint64_t id;
    uint8_t state; /* enum tt_coord_state */
    bool left; /* LOST: it left, and nothing is wrong */
    bool connected, leaving;
    bool called;  /* waits in a call of the round, and is not lost; `what` says which */
    uint8_t what; /* enum tt_call_kind */
    uint32_t group, role;
    uint32_t rank;      /* in the view; TT_COORD_NO_RANK */
    uint64_t silent_ns; /* since something was heard of it */
    char address[TT_SNAPSHOT_ADDRESS_BYTES]; /* of its connection; "": it has none now */
};

/* Something that happened, as a sentence. */
struct tt_snapshot_event {
    uint64_t number; /* from 1 with each start */
    int64_t unix_ms;
    char text[TT_SNAPSHOT_EVENT_BYTES];
};

/* Why a connection was ended by the coordinator. */
enum tt_snapshot_refusal {
    TT_REFUSAL_STRANGER, /* its handshake failed: no TLS, another token, another authority */
    TT_REFUSAL_GARBAGE,  /* it broke the framing, or sent more than a message may have */
    TT_REFUSAL_SLOW,     /* it did not join in time */
    TT_REFUSAL_CROWD,    /* too many had not joined yet */
    TT_REFUSAL_UNREAD,   /* it did not read what was sent to it */
    TT_REFUSAL_PROTOCOL, /* the state machine said no: another run, a seat that is taken, taken for dead, an illegal message */
    TT_REFUSAL_KINDS
};

/* Counted since this start. */
struct tt_snapshot_counters {
    uint64_t taken[TT_ELMSG_KINDS], sent[TT_ELMSG_KINDS]; /* messages by kind; [0]: those that were none */
    uint64_t taken_bytes, sent_bytes;                     /* of messages */
    uint64_t lost[TT_LOSSES];                             /* members of views, by enum tt_loss; those that left, too */
    uint64_t accepted;                                    /* connections */
    uint64_t refused[TT_REFUSAL_KINDS];
    uint64_t slowed;                /* times that a connection had to wait for its rate */
    uint64_t stalls;                /* times that the coordinator itself stood still; nobody was blamed for it */
    uint64_t records, record_bytes; /* written to the journal */
    uint64_t commits, commit_ns;    /* times it was made durable, and how long that took in all */
    uint64_t commit_most_ns;
    uint64_t commit_buckets[TT_SNAPSHOT_BUCKETS +
                            1]; /* commits of at most tt_snapshot_bucket_ns[i]; the last: longer ones. Not cumulative */
    uint64_t replaced;          /* times a shorter journal took the place of a long one */
};

extern const uint64_t tt_snapshot_bucket_ns[TT_SNAPSHOT_BUCKETS];

/* The state that members share, after its last sync. */
struct tt_snapshot_state {
    uint16_t scope; /* 0: of all members of the view; 1 + role: of those of that role */
    bool moving;    /* is being sent to members */
    uint64_t revision;
    char hash[TT_SNAPSHOT_HASH_BYTES];
};

/* The bandwidth between members, as it was measured last. */
struct tt_snapshot_links {
    uint32_t n;          /* 0: not measured yet */
    uint64_t *ids;       /* [n] members */
    double *bytes_per_s; /* [n][n] from row to column */
    uint32_t *order;     /* [n] the ring, as indices of ids: the best one, if it is worth changing to; else as it was */
    double *latency_s;   /* [n][n] one way; NULL: not known */
    double was_s, now_s; /* predicted of an all-reduce: as it was, in this order; 0: not known */
    bool waits;          /* for the next epoch, which adopts it */
    const char *shape;   /* tt_ring_shape_name: what is predicted to be fastest in this order */
};

struct tt_snapshot {
    char run[TT_ELASTIC_TEXT_BYTES];
    int64_t unix_ms, started_unix_ms;
    uint64_t starts, epoch, round, lease_ns, grace_ns;
    uint32_t nroles, members_max;
    bool proposing, asking, revoked;
    uint64_t revoker;           /* if it is revoked */
    struct tt_coord_cause cause; /* of this epoch */
    struct tt_coord_result last; /* round 0: none yet */
    struct tt_news news;
    uint32_t connections, strangers; /* open; of these, not joined yet */
    struct tt_snapshot_counters counters;
    struct tt_snapshot_links links;
    uint32_t nstates; /* 0: nothing was synced yet; of more scopes than there is room for the first */
    struct tt_snapshot_state states[TT_SNAPSHOT_STATES];
    uint32_t nmembers, nevents;
    struct tt_snapshot_member *members; /* [nmembers] */
    struct tt_snapshot_event *events;   /* [nevents], the oldest first */
};

/* What there is to show of a coordinator that stands by. */
struct tt_standby {
    char run[TT_ELASTIC_TEXT_BYTES];
    char leader[128];                   /* who leads, as it calls itself; "": not known */
    int64_t unix_ms, since_unix_ms;     /* when this is from; since when it stands by */
};

/* With room for so many, and those counts set; all else zero. NULL: no memory. The caller's. */
struct tt_snapshot *tt_snapshot_create(uint32_t nmembers, uint32_t nevents);
/* Also links' arrays, which are malloc'ed. NULL is fine. */
void tt_snapshot_destroy(struct tt_snapshot *s);

/* The board. Any thread. */
struct tt_board;
/* `wake(context)` is called from the asking thread when a newer snapshot is wanted; NULL: nobody is woken, what hangs is shown. */
tutti_status tt_board_create(struct tt_board **out, void (*wake)(void *context), void *context);
/* Nobody may hold or ask any more. NULL is fine. */
void tt_board_destroy(struct tt_board *b);
/* Whether somebody waits for a newer one. */
bool tt_board_is_wanted(struct tt_board *b);
/* Hangs s, which is the board's from now on. */
void tt_board_hang(struct tt_board *b, struct tt_snapshot *s);
/* Nothing comes any more: nobody waits from now on. What hangs is still shown. */
void tt_board_end(struct tt_board *b);
/* The latest, at most TT_SNAPSHOT_EVERY_NS old unless none comes within timeout_ns; NULL if there is none at all. Give it back with put. */
const struct tt_snapshot *tt_board_get(struct tt_board *b, uint64_t timeout_ns);
void tt_board_put(struct tt_board *b, const struct tt_snapshot *s);

#endif
