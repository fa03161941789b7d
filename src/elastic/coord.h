/* The coordinator as a pure state machine: it decides who is in the view. No socket, clock, thread or allocation: events and time come
 * in, actions go out through `emit`, in the order in which they must be carried out. What has to survive a crash goes out as
 * TT_COORD_ACT_LOG before anything that depends on it; the shell makes a record durable before it carries out the next action. If it cannot
 * (a disk error), it carries out none of the actions that follow, and ends this coordinator as a crash would.
 * After a restart the records are fed to tt_coord_replay, and the run goes on: members connect again and say where they stand.
 *
 * What is decided here, and what is not: views, rounds (calls that all members make: epoch, agree, commit), and, once a member is lost,
 * the verdict on each operation that was open; and what becomes of shared state when members sync it (coord_sync.c). Operations that nobody disturbs never come here (elastic/member.h).
 *
 * docs/elastic-protocol.md tells the whole protocol; tests/elastic/ runs it in a simulated world with faults. */
#ifndef TT_ELASTIC_COORD_H
#define TT_ELASTIC_COORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elastic/message.h"
#include "elastic/mismatch.h"
#include "elastic/ring_order.h"

#define TT_COORD_NO_RANK UINT32_MAX
#define TT_COORD_ATTEMPTS 3         /* proposals in which somebody could not reach a newcomer, until it is refused */

/* States of a member. tt_coord_member_states (elastic/states.h) has every legal change. */
enum tt_coord_state {
    TT_COORD_UNKNOWN,       /* not in the table */
    TT_COORD_WAITING,       /* a newcomer, until the members vote it in */
    TT_COORD_CANDIDATE,     /* a newcomer in a proposed view: all are connecting to it */
    TT_COORD_IN_VIEW,
    TT_COORD_LOST,          /* in the view until it changes, but dead to everybody */
    TT_COORD_STATES
};

/* States of a round: a call that all members of the view make, one after the other. tt_coord_round_states (elastic/states.h) has every legal change. */
enum tt_coord_round_state {
    TT_COORD_ROUND_NONE,        /* not begun */
    TT_COORD_ROUND_UNSURE,      /* after a restart: whether it is over already, as SAME, until all that live have come back */
    TT_COORD_ROUND_OPEN,        /* calls come in */
    TT_COORD_ROUND_PROPOSED,    /* a view with newcomers is proposed, and all are connecting to each other */
    TT_COORD_ROUND_DECIDED,
    TT_COORD_ROUND_STATES
};

/* States of a sync of one scope. tt_coord_sync_states (elastic/states.h) has every legal change. */
enum tt_coord_sync_state {
    TT_COORD_SYNC_NONE,         /* not begun, or over: the next one is not begun */
    TT_COORD_SYNC_OFFERED,      /* somebody has offered; it may have withdrawn since, and come again */
    TT_COORD_SYNC_MOVING,       /* a plan is out; those who receive have not all voted */
    TT_COORD_SYNC_STATES
};

/* A connection as the coordinator sees it. The shell owns it, from OPEN until it said CLOSED or carried out TT_COORD_ACT_CLOSE. */
struct tt_coord_conn {
    uint64_t member;        /* 0: a stranger so far */
};

enum tt_coord_event_kind { TT_COORD_EV_OPEN, TT_COORD_EV_FRAME, TT_COORD_EV_CLOSED, TT_COORD_EV_TICK };

struct tt_coord_event {
    uint8_t kind;
    struct tt_coord_conn *conn;     /* NULL: TICK */
    const void *data;               /* FRAME: data[bytes], one message */
    size_t bytes;
};

enum tt_coord_act_kind {
    TT_COORD_ACT_SEND,      /* data[bytes] is copied by the shell */
    TT_COORD_ACT_CLOSE,     /* once everything before it is sent; conn gets no further event or action */
    TT_COORD_ACT_LOG        /* append data[bytes] to the journal, durably, before anything that follows */
};

struct tt_coord_act {
    uint8_t kind;
    struct tt_coord_conn *conn;
    const void *data;
    size_t bytes;
};

/* What the last round, or a scope's last sync, came to; said again to whoever did not hear it. */
struct tt_coord_result {
    bool is_view;
    uint8_t what, differs;          /* differs: of a MISMATCH: enum tt_difference and bits; of a TIMEOUT: enum tt_kept_out */
    uint64_t round, epoch, value, also, id, other;
    struct tt_op_name op;           /* of a MISMATCH with TT_DIFFERS_INSIDE */
};

struct tt_coord_member {
    uint64_t id;
    uint8_t state;                  /* enum tt_coord_state */
    uint8_t loss;                   /* LOST: enum tt_loss */
    bool leaving;                   /* gave notice: the next epoch is without it */
    bool called;                    /* its call of this round is below; of a newcomer: it waits in `epoch` */
    bool ready, failed;             /* it has answered the proposal; somebody could not reach it */
    bool answered;                  /* the question */
    bool goes_back;                 /* its call is about to be taken back */
    bool cancels;                   /* and it takes its call back, which is answered once the coordinator knows which round it is */
    uint8_t what, flags;
    bool came;                      /* after a restart: it is back, and said: */
    uint8_t waits;                  /* in which call; 0: none */
    uint64_t next_round;            /* of which number, or that it calls next */
    uint8_t attempts;               /* proposals that failed on it */
    uint32_t group, role;
    uint32_t rank, next_rank;       /* in the view, in the proposal; TT_COORD_NO_RANK */
    uint32_t least, most;
    uint32_t edges;                 /* SUSPECTs by it and of it; of a candidate: newcomers that it did not reach, or that did not reach it */
    uint32_t costs;                 /* members that were lost by its word alone */
    uint64_t accused;               /* whom it suspected last */
    uint64_t gone[2];               /* who say that it is GONE; 0: nobody */
    uint8_t said[TT_ELASTIC_TAGS / 8];  /* tags that its answer has */
    uint64_t value;
    uint64_t heard_ns, closed_ns;   /* closed_ns: when its connection ended; TT_NEVER while there is one */
    uint64_t measured, told;        /* number of the measurement that it said last in this epoch; of the highest, also where it came too late to count */
    uint64_t tried;                 /* the round in which it last called something, also if that was taken back */
    uint64_t tried_sync;            /* likewise: the sync that it last offered for */
    uint64_t awaits;                /* of optimize: the measurement that it is for; 0: none */
    uint64_t attempt;               /* of its last call: CALL's `also`; 0: it has said none since the coordinator started */
    uint64_t back;                  /* of the last one that was taken back with a MISMATCH; 0: none. If it comes again the word of it was lost: */
    struct tt_coord_result back_why;
    uint32_t place;                 /* its rank in the order of the ring that waits, while one does */
    uint32_t group_place;           /* while the next view is chosen: of its group, among those that are whole in the view; TT_COORD_NO_RANK */
    uint8_t synced;                 /* bit of enum tt_sync_scope: it was in the last sync of that scope that ended well */
    uint16_t scope;                 /* of the sync that it called; the offer: strategy, flags, value (revision), and */
    struct tt_hash keys, hash;
    uint8_t strategy, part, vote;   /* enum tt_sync_strategy, tt_sync_part, tt_sync_vote */
    uint8_t cookie[TT_COOKIE_BYTES];
    struct tt_blob card;
    struct tt_coord_conn *conn;     /* NULL: none now */
};

struct tt_coord_conf {
    char run[TT_ELASTIC_TEXT_BYTES];    /* the run's name; whoever joins another one is refused */
    uint8_t secret[TT_COOKIE_BYTES];    /* fresh and unpredictable: the run's, by which members know each other. Where the journal has one, that
                                           one holds */
    uint64_t lease_ns;                  /* a member not heard of for so long is lost */
    uint64_t grace_ns;                  /* one whose connection ended has so long to come back */
    struct tt_coord_member *members;    /* [members_max], the caller's, as long as the coordinator lives */
    uint32_t members_max;
    uint32_t *order;                    /* [members_max], likewise */
    uint8_t *scratch;                   /* [TT_ELMSG_BYTES_MAX], likewise */
    void *ring_memory;              /* [tt_coord_ring_bytes(ring_peers_max)], aligned as malloc does, likewise */
    uint32_t ring_peers_max;        /* views of so many members at most can have the best ring looked for; at most TT_RING_PEERS_MAX */
    void (*emit)(void *context, const struct tt_coord_act *act);
    void *context;
};

/* What members claim of all in their answers, and what each says of itself: the number of an operation of one tag. Nobody who tells the truth claims more than each
 * other says. What those say who tell the truth differs by at most two, as an operation may be tentative, or settled, and the next complete. */
#define TT_COORD_CLAIMS_SPAN 3u
struct tt_coord_claims {
    uint64_t claimed, said;         /* the highest, the lowest */
    uint64_t claimer, sayer;        /* one of each */
    uint32_t nclaimed[TT_COORD_CLAIMS_SPAN], nsaid[TT_COORD_CLAIMS_SPAN];  /* members whose claim is the highest - i; who say the lowest + i */
};

/* What the answers to a question say of one tag. */
struct tt_coord_tally {
    uint32_t entries;
    struct tt_coord_claims completed;   /* claimed by whom it is FINAL, or who has begun something that only begins then */
    struct tt_coord_claims begun;       /* claimed by who has SETTLED it; and said while it is not RESTORED */
};

/* How the view of this epoch came to differ from the one before. For people: it is in no journal, so after a restart all of it is 0 until the next
 * epoch. */
struct tt_coord_cause {
    uint32_t came, lost, left, out; /* members: newcomers, those that were lost, that left, whose group was not complete any longer */
    bool revoked;                   /* the epoch before had been, */
    uint64_t revoker;               /* first by this member; 0: not, or it is not known */
    bool ordered;                   /* a better order of the ring was adopted */
};

/* The shared state of a scope: what all had after the last sync that ended well, and the sync that is under way. Outlives its members. */
struct tt_coord_scope {
    bool known;                     /* there is a state: revision, keys, hash */
    uint8_t state;                  /* enum tt_coord_sync_state, of the sync that is under way */
    bool dirty;                     /* something happened that may lead to a decision */
    bool replan;                    /* who held or had received it is lost, or one of the last is new */
    uint64_t revision;
    struct tt_hash keys, hash;
    uint64_t epoch, number;         /* the last sync that ended: the how-manieth of which epoch */
    struct tt_coord_result last;    /* what it came to */
    uint64_t plan;                  /* number of the last plan, and what it leads to: */
    uint64_t next_revision;
    struct tt_hash next_keys, next_hash;
};

/* What lies between the members of the view, or between its replica groups, and the order of the ring (coord_ring.c). The matrix is kept when the view changes,
 * to be shown. */
struct tt_coord_ring {
    uint64_t number;                /* of the measurement, in this epoch; 0: none yet */
    uint32_t n, have;               /* members, or groups, of the view that was measured; how many members have said what comes to them */
    uint64_t *ids;                  /* [n] by the rank that they had; of a group, its first member's */
    uint64_t *rate, *latency;       /* [n][n] from row to column */
    struct tt_ring_matrix matrix;   /* of these */
    struct tt_ring_load load;
    uint64_t expected;              /* all-reduces that are to come */
    uint32_t gain_percent;
    void *search_memory;
    struct tt_ring_order *search;   /* NULL: it is over, or has not begun */
    uint64_t steps, search_ns;      /* that it has taken; when it goes on */
    bool waited_for;                /* until it has taken enough: `optimize` waits for that */
    bool ordered;                   /* something was found: */
    bool worth;                     /* and is worth changing to */
    bool waits;                     /* for the next epoch, which adopts it */
    uint32_t *order, *now;          /* [n] ranks, or numbers of groups by rank: the best ring; as they are */
    uint8_t shape, was_shape;       /* enum tt_ring_shape: what is fastest in the best order; what they are now */
    uint64_t was_ns, best_ns;       /* predicted of these */
};

struct tt_coord {
    struct tt_coord_conf conf;
    uint64_t now_ns;
    uint64_t starts;                /* how often it started, this time counted in: the upper half of question, proposal and news numbers */
    uint64_t last_id, epoch, round;
    uint8_t secret[TT_COOKIE_BYTES];
    uint8_t round_state;            /* enum tt_coord_round_state */
    uint64_t view_round;            /* in which the view was decided */
    uint32_t nroles;                /* members of a replica group; 0 until the first member says it */
    uint32_t nmembers;
    struct tt_coord_result last;
    uint8_t plan;                   /* enum tt_ring_plan, of the view */
    uint64_t proposal;
    uint64_t proposal_ns, suspicion_ns;     /* when it must be answered; when suspicions are judged; TT_NEVER */
    uint64_t due_ns;                /* nothing is due before; may be too early */
    bool dirty;                     /* something changed that may lead to a decision */
    bool gone;                      /* somebody is to be swept out */
    bool revoked;                   /* this epoch, */
    uint8_t revocation;             /* enum tt_revocation: and why */
    uint64_t revoked_epoch, revoker;    /* the last that was; by whom first, 0: who said so had heard of it; */
    uint64_t unreached;             /* of CUT: whom that one could not reach, 0: it did not say */
    struct tt_coord_result apart;   /* of APART: the mismatch */
    uint64_t witness;               /* who was asked last whether it has begun an operation */
    struct tt_coord_cause cause;    /* of this epoch */
    bool asking, decided;           /* a question is out; its verdicts are decided */
    bool changed;                   /* somebody was lost, or the epoch revoked, since the question went out */
    uint64_t question;
    struct tt_op_entry verdicts[TT_ELASTIC_TAGS];   /* by tag: while asking, what is known so far */
    struct tt_coord_tally tallies[TT_ELASTIC_TAGS];
    struct tt_op_entry words[TT_ELASTIC_TAGS];      /* by tag: the last that is FINAL, or SETTLED, by the words of who left this view; n 0: none */
    struct tt_coord_scope scopes[TT_SYNC_SCOPES];
    bool syncing;                   /* some scope is dirty */
    struct tt_coord_ring ring;
    struct tt_news news;
    bool stale_news;                /* something changed that news may tell of */
    uint64_t covered, rounds_covered, syncs_covered;    /* bit i: changes[i] of tt_coord_member_states, _round_states, _sync_states was taken; for tests */
    /* Of what is SETTLED in these; what is not in use is not initialized. */
    uint8_t verdict_results[TT_ELASTIC_TAGS][TT_SETTLED_BYTES], word_results[TT_ELASTIC_TAGS][TT_SETTLED_BYTES];
};

static inline bool tt_coord_is_unsure(const struct tt_coord *c)
{
    return c->round_state == TT_COORD_ROUND_UNSURE;
}
static inline bool tt_coord_is_proposing(const struct tt_coord *c)
{
    return c->round_state == TT_COORD_ROUND_PROPOSED;
}

/* Bytes of memory for the rings of views of up to so many members. */
size_t tt_coord_ring_bytes(uint32_t peers_max);

/* Begins, and logs a LOG_START; feed the journal's records to replay in between: init, replay each, start. */
void tt_coord_init(struct tt_coord *c, const struct tt_coord_conf *conf, uint64_t now_ns);
/* One record of the journal. False if it makes no sense there: the journal is damaged, and must not be used. */
bool tt_coord_replay(struct tt_coord *c, const void *data, size_t bytes);
void tt_coord_start(struct tt_coord *c, uint64_t now_ns);
/* Writes the records that lead to the state as it is (through `emit`, as LOG): a shorter journal in place of a long one.
 * Not before there is one. */
void tt_coord_snapshot(struct tt_coord *c);

void tt_coord_step(struct tt_coord *c, const struct tt_coord_event *ev, uint64_t now_ns);
/* When the next TICK is due at the latest; TT_NEVER. */
uint64_t tt_coord_next_ns(const struct tt_coord *c);

/* NULL if there is none of that id. */
const struct tt_coord_member *tt_coord_find(const struct tt_coord *c, uint64_t id);
uint32_t tt_coord_count(const struct tt_coord *c, uint8_t state);

#endif
