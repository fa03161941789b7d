/* The coordinator as a pure state machine: it decides the membership. It has no socket, clock,
 * thread or allocation. Events and time are inputs; actions are output through `emit`, in the order
 * in which they must be performed. State that must survive a crash is output as TT_COORD_ACT_LOG
 * before anything that depends on it. The caller makes the record durable before it performs the
 * next action. If it cannot (a disk error), it performs no further action, and stops this
 * coordinator as a crash would. After a restart the records are passed to tt_coord_replay, and the
 * run continues: members reconnect and report their state.
 *
 * The coordinator decides views, and rounds (calls that all members make: epoch, agree, commit).
 * After a loss it also decides the outcome of each open operation. coord_sync.c decides the result
 * of a sync of shared state. Operations without a failure do not involve the coordinator
 * (member.h).
 *
 * docs/elastic-protocol.md describes the whole protocol; tests/elastic/ runs it in a simulation
 * with faults. */
#ifndef TT_ELASTIC_COORD_H
#define TT_ELASTIC_COORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elastic/message.h"
#include "elastic/mismatch.h"
#include "ringorder/ring_order.h"

#define TT_COORD_NO_RANK UINT32_MAX
#define TT_COORD_ATTEMPTS 3 /* failed proposals before an unreachable newcomer is refused */

/* States of a member. tt_coord_member_states (elastic/states.h) contains every legal change. */
enum tt_coord_state {
    TT_COORD_UNKNOWN,       /* not in the table of members */
    TT_COORD_WAITING,       /* a newcomer, until the members admit it */
    TT_COORD_CANDIDATE,     /* a newcomer in a proposed view: the members are connecting to it */
    TT_COORD_IN_VIEW,
    TT_COORD_LOST,          /* in the view until it changes, but declared lost */
    TT_COORD_STATES
};

/* States of a round: one call that all members of the view make, in sequence.
 * tt_coord_round_states (elastic/states.h) contains every legal change. */
enum tt_coord_round_state {
    TT_COORD_ROUND_NONE,        /* not begun */
    TT_COORD_ROUND_UNSURE,      /* after a restart: whether it is already over (as SAME) is
                                   unknown until all live members have reconnected */
    TT_COORD_ROUND_OPEN,        /* calls are arriving */
    TT_COORD_ROUND_PROPOSED,    /* a view with newcomers is proposed, and the members are
                                   connecting */
    TT_COORD_ROUND_DECIDED,
    TT_COORD_ROUND_STATES
};

/* States of a sync of one scope. tt_coord_sync_states (elastic/states.h) contains every legal
 * change. */
enum tt_coord_sync_state {
    TT_COORD_SYNC_NONE,         /* not begun */
    TT_COORD_SYNC_OFFERED,      /* a member has offered; it may have withdrawn since */
    TT_COORD_SYNC_MOVING,       /* a plan was sent; not all receivers have voted */
    TT_COORD_SYNC_STATES
};

/* A connection as seen by the coordinator. Owned by the caller, from OPEN until CLOSED or
 * TT_COORD_ACT_CLOSE. */
struct tt_coord_conn {
    uint64_t member;        /* 0: not authenticated yet */
    uint64_t round_trip_ns; /* set by the caller after a measurement; 0: none. The coordinator uses
                               each value once, then sets it to 0 */
};

enum tt_coord_event_kind {
    TT_COORD_EV_OPEN,
    TT_COORD_EV_FRAME,
    TT_COORD_EV_CLOSED,
    TT_COORD_EV_TICK
};

struct tt_coord_event {
    uint8_t kind;
    struct tt_coord_conn *conn;     /* NULL for TICK */
    const void *data;       /* FRAME: data[bytes], one message */
    size_t bytes;
};

enum tt_coord_act_kind {
    TT_COORD_ACT_SEND,      /* data[bytes] must be copied */
    TT_COORD_ACT_CLOSE,     /* close conn when all earlier data was sent; conn has no further event
                               or action */
    TT_COORD_ACT_LOG        /* append data[bytes] to the journal, durably, before any following
                               action */
};

struct tt_coord_act {
    uint8_t kind;
    struct tt_coord_conn *conn;
    const void *data;
    size_t bytes;
};

/* Result of the last round, or of a scope's last sync; sent again to members that missed it. */
struct tt_coord_result {
    bool is_view;
    uint8_t what, differs;          /* differs: for MISMATCH, enum tt_difference and bits; for
                                       TIMEOUT, enum tt_kept_out */
    uint64_t round, epoch, value, also, id, other;
    struct tt_op_name op;           /* for a MISMATCH with TT_DIFFERS_INSIDE */
};

struct tt_coord_member {
    uint64_t id;
    uint8_t state;                  /* enum tt_coord_state */
    uint8_t loss;                   /* LOST: enum tt_loss */
    bool leaving;                   /* has given notice: not in the next epoch */
    bool called;                    /* has called in this round (below: what, flags); a newcomer
                                       waits in `epoch` */
    bool ready, failed;             /* ready: has answered the proposal; failed: could not be
                                       reached by another member */
    bool answered;                  /* has answered the current question */
    bool goes_back;                 /* the member's call is being taken back */
    bool cancels;                   /* has cancelled its call; the coordinator responds when it has
                                       determined the round */
    uint8_t what, flags;
    bool came;                      /* after a restart: has reconnected, and reported: */
    uint8_t waits;                  /* the call in which it waits; 0: none */
    uint64_t next_round;            /* the round of that call, or of its next one */
    uint8_t attempts;               /* failed proposals */
    uint32_t group, role;
    uint32_t rank, next_rank;       /* rank in the view, and in the proposed view; TT_COORD_NO_RANK:
                                       none */
    uint32_t least, most;
    uint32_t edges;                 /* number of suspicions by and of this member; for a candidate:
                                       number of newcomers that could not connect to it, or to which
                                       it could not connect */
    uint32_t costs;                 /* number of members that were lost because of this member's
                                       reports alone */
    uint64_t accused;               /* the member that this one suspected last */
    uint64_t gone[2];               /* members that report this one as GONE; 0: none */
    uint8_t answered_tags[TT_ELASTIC_TAGS / 8];  /* bit per tag: contained in the member's answer */
    uint64_t value;
    uint64_t heard_ns, closed_ns;   /* closed_ns: end of the connection; TT_NEVER while connected */
    uint64_t round_trip_ns;         /* of its connections (patience.h); TT_NEVER: not measured since
                                       the coordinator started; treated as the longest */
    uint64_t measured, reported;        /* sequence numbers of measurements in this epoch: the last
                                           one reported in time, and the highest one reported */
    uint64_t tried;                 /* last round in which the member made a call, even if the call
                                       was taken back */
    uint64_t tried_sync;            /* last sync for which the member offered, even if the offer was
                                       taken back */
    uint64_t awaits;                /* for a call of optimize: the measurement for which it waits;
                                       0: none */
    uint64_t attempt;               /* attempt number of the member's last call (CALL's `also`); 0:
                                       none since the coordinator started */
    uint64_t back;                  /* attempt number of the last call that was taken back with a
                                       MISMATCH; 0: none. If the member repeats this call, it has
                                       not received the notification: */
    struct tt_coord_result back_why;
    uint32_t place;                 /* the member's rank in the pending ring order */
    uint32_t group_place;           /* while the next view is chosen: index of the member's group
                                       among the complete ones in the view; TT_COORD_NO_RANK:
                                       none */
    uint8_t synced;                 /* bits of enum tt_sync_scope: the scopes in whose last
                                       successful sync the member took part */
    uint16_t scope;                 /* scope of the member's sync call; its offer: strategy, flags,
                                       value (revision), keys and hash */
    struct tt_hash keys, hash;
    uint8_t strategy, part, vote;   /* enum tt_sync_strategy, tt_sync_part, tt_sync_vote */
    uint8_t cookie[TT_COOKIE_BYTES];
    struct tt_blob card;
    struct tt_coord_conn *conn;     /* NULL: not connected */
};

struct tt_coord_conf {
    char run[TT_ELASTIC_TEXT_BYTES];    /* the run's name; members of another run are refused */
    uint8_t secret[TT_COOKIE_BYTES];    /* random secret of the run, which authenticates members
                                           to each other. A secret in the journal takes
                                           precedence */
    uint64_t lease_ns;                  /* a near member without a message for this time is lost;
                                           distant ones have more time (patience.h) */
    uint64_t grace_ns;                  /* time that a disconnected near member has to reconnect */
    struct tt_coord_member *members;    /* [members_max], owned by the caller, must outlive the
                                           coordinator */
    uint32_t members_max;
    uint32_t *order;                    /* [members_max], owned as `members` */
    uint8_t *scratch;                   /* [TT_ELMSG_BYTES_MAX], owned as `members` */
    void *ring_memory;                  /* [tt_coord_ring_bytes(ring_peers_max)], aligned as by
                                           malloc, owned as `members` */
    uint32_t ring_peers_max;            /* maximum size of views whose ring order is optimized; at
                                           most TT_RING_PEERS_MAX */
    void (*emit)(void *context, const struct tt_coord_act *act);
    void *context;
};

/* Answers about one tag: claims about all members, and statements about the sender's own state.
 * Both are sequence numbers of operations. Without false answers, no claim exceeds any statement.
 * True statements differ by at most two, since an operation may be tentative or settled, and the
 * next one complete. */
#define TT_COORD_CLAIMS_SPAN 3u
struct tt_coord_claims {
    uint64_t claimed, stated;             /* the highest claim, and the lowest statement */
    uint64_t claimer, sayer;            /* claimer: a member with that claim; sayer: a member with
                                           that statement */
    /* [i]: number of members that claim `claimed` - i, and that state `stated` + i */
    uint32_t nclaimed[TT_COORD_CLAIMS_SPAN], nstated[TT_COORD_CLAIMS_SPAN];
};

/* Summary of the answers about one tag. */
struct tt_coord_tally {
    uint32_t entries;
    struct tt_coord_claims completed;   /* claimed by members for which it is FINAL, or that have
                                           begun an operation that requires it */
    struct tt_coord_claims begun;       /* claimed by members that have SETTLED it; stated by
                                           members that have begun and not RESTORED it */
};

/* Differences between this epoch's view and the previous one. For display only: not in the journal,
 * so all fields are 0 from a restart until the next epoch. */
struct tt_coord_cause {
    uint32_t came, lost, left, out; /* members: newcomers, lost, left, and those of incomplete
                                       groups */
    bool revoked;                   /* the previous epoch was revoked, */
    uint64_t revoker;               /* the member that revoked it first; 0: none, or unknown */
    bool ordered;                   /* a better ring order was adopted */
};

/* Shared state of a scope: the result of the last successful sync, and the sync in progress.
 * Outlives its members. */
struct tt_coord_scope {
    bool known;                     /* there is a state: revision, keys, hash */
    uint8_t state;                  /* enum tt_coord_sync_state, of the sync in progress */
    bool dirty;                     /* a decision may be possible */
    bool replan;                    /* a holder or receiver was lost, or has joined */
    uint64_t revision;
    struct tt_hash keys, hash;
    uint64_t epoch, number;         /* epoch of the last completed sync, and its sequence number in
                                       the epoch */
    struct tt_coord_result last;    /* result of the last round */
    uint64_t plan;                  /* number of the last plan, whose result is the following
                                       state: */
    uint64_t next_revision;
    struct tt_hash next_keys, next_hash;
};

/* Links between the members of the view, or between its replica groups, and the ring order
 * (coord_ring.c). The matrix is kept when the view changes, for display. */
struct tt_coord_ring {
    uint64_t number;                /* number of the measurement in this epoch; 0: none yet */
    uint32_t n, have;               /* number of measured members, or groups; number of members
                                       that have reported their links */
    uint64_t *ids;                  /* [n] ids by rank; for groups, the id of the first member */
    uint64_t *rate, *latency;       /* [n][n] for links from row to column */
    struct tt_ring_matrix matrix;   /* built from rate and latency */
    struct tt_ring_load load;
    uint64_t expected;              /* expected all-reduces */
    uint32_t gain_percent;
    void *search_memory;
    struct tt_ring_order *search;   /* NULL: the search is over, or has not begun */
    uint64_t steps, search_ns;      /* steps done; time of the next slice */
    bool waited_for;                /* `optimize` waits until the search has done enough steps */
    bool ordered;                   /* an order was found, */
    bool worth;                     /* and it is worth adopting */
    bool waits;                     /* the order is pending: the next epoch adopts it */
    uint32_t *order, *now;          /* [n] ranks, or indices of groups, by rank: the best order, and
                                       the current one */
    uint8_t shape, was_shape;       /* enum tt_ring_shape: the fastest in the best order, and the
                                       current one */
    uint64_t was_ns, best_ns;       /* predicted times of these */
};

struct tt_coord {
    struct tt_coord_conf conf;
    uint64_t now_ns;
    uint64_t starts;                /* number of starts, including this one: the upper half of
                                       question, proposal and update numbers */
    uint64_t last_id, epoch, round;
    uint8_t secret[TT_COOKIE_BYTES];
    uint8_t round_state;            /* enum tt_coord_round_state */
    uint64_t view_round;            /* round that decided the view */
    uint32_t nroles;                /* members of a replica group; 0 until the first member
                                       declares it */
    uint32_t nmembers;
    struct tt_coord_result last;
    uint8_t plan;                   /* enum tt_ring_plan of the view */
    uint64_t proposal;
    uint64_t proposal_ns, suspicion_ns;     /* deadline of the answers to the proposal; time at
                                               which suspicions are evaluated; TT_NEVER: none */
    uint64_t due_ns;                /* lower bound of the time at which the next timer is due */
    bool dirty;                     /* a decision may be possible */
    bool gone;                      /* a member must be removed from the table */
    bool revoked;                   /* whether this epoch was revoked, */
    uint8_t revocation;             /* enum tt_revocation: the reason */
    uint64_t revoked_epoch, revoker;    /* last revoked epoch; the member that revoked it first,
                                           0: unknown; */
    uint64_t unreached;             /* for CUT: the member that the revoker could not reach; 0:
                                       unknown */
    struct tt_coord_result apart;   /* for APART: the mismatch */
    uint64_t witness;               /* the last member that was queried whether it has begun an
                                       operation */
    struct tt_coord_cause cause;    /* cause of this epoch */
    bool querying, decided;           /* a question was sent; its outcomes are decided */
    bool changed;                   /* a member was lost, or the epoch revoked, after the
                                       question was sent */
    uint64_t question;
    struct tt_op_entry outcomes[TT_ELASTIC_TAGS];   /* by tag: during a question, the merged
                                                       answers */
    struct tt_coord_tally tallies[TT_ELASTIC_TAGS];
    struct tt_op_entry words[TT_ELASTIC_TAGS];      /* by tag: the last FINAL or SETTLED
                                                       operation reported by members that left
                                                       this view; n 0: none */
    struct tt_coord_scope scopes[TT_SYNC_SCOPES];
    bool syncing;                   /* a scope is dirty */
    struct tt_coord_ring ring;
    struct tt_membership news;
    bool stale_news;                /* an update may be due */
    uint64_t covered, rounds_covered, syncs_covered;    /* bit i: changes[i] of
                                                           tt_coord_member_states, _round_states,
                                                           _sync_states has occurred; for tests */
    /* Results of the SETTLED operations in outcomes and words; unused entries are not
     * initialized. */
    uint8_t outcome_results[TT_ELASTIC_TAGS][TT_SETTLED_BYTES],
        word_results[TT_ELASTIC_TAGS][TT_SETTLED_BYTES];
};

static inline bool tt_coord_is_unsure(const struct tt_coord *c)
{
    return c->round_state == TT_COORD_ROUND_UNSURE;
}
static inline bool tt_coord_is_proposing(const struct tt_coord *c)
{
    return c->round_state == TT_COORD_ROUND_PROPOSED;
}

/* Returns the memory for ring orders of views with up to peers_max members, in bytes. */
size_t tt_coord_ring_bytes(uint32_t peers_max);

/* Initializes the coordinator, and logs LOG_START. Between init and start, pass the journal's
 * records to replay. */
void tt_coord_init(struct tt_coord *c, const struct tt_coord_conf *conf, uint64_t now_ns);
/* Applies a record of the journal. False if it is invalid in this state: the journal is damaged,
 * and must not be used. */
bool tt_coord_replay(struct tt_coord *c, const void *data, size_t bytes);
void tt_coord_start(struct tt_coord *c, uint64_t now_ns);
/* Emits records that lead to the current state (through `emit`, as LOG), to replace a long
 * journal. Call only if a journal exists. */
void tt_coord_snapshot(struct tt_coord *c);

void tt_coord_step(struct tt_coord *c, const struct tt_coord_event *ev, uint64_t now_ns);
/* Returns the time by which the next TICK is required, or TT_NEVER. */
uint64_t tt_coord_next_ns(const struct tt_coord *c);

/* Returns NULL if there is no member with that id. */
const struct tt_coord_member *tt_coord_find(const struct tt_coord *c, uint64_t id);
uint32_t tt_coord_count(const struct tt_coord *c, uint8_t state);

#endif
