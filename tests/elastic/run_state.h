/* Shared by the files of the simulated run; tests include run.h. */
#ifndef TESTS_ELASTIC_RUN_STATE_H
#define TESTS_ELASTIC_RUN_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "elastic/coord.h"
#include "elastic/member.h"
#include "elastic/transfer.h"
#include "run.h"
#include "support/world.h"

#define PEERS_MAX 32                /* processes of a history, including dead ones */
#define CONNS_MAX 512
#define TAGS 4u                     /* used by programs */
#define RECORDS_BYTES (1u << 18)    /* capacity of the journal */
#define EPOCHS_MAX 256u
#define ROUNDS_MAX 1024u
#define OPS_MAX 2048u               /* recorded operations: (epoch, tag, n) */
#define HELD_MAX 64u
#define SYNCS_MAX 1024u
#define RESTARTS_MAX 16u
#define ARRAYS 4u                   /* of the shared state */
#define MS 1000000ull
#define LEASE_NS (300 * MS)
/* Limits of waiting bytes: in one direction of a connection to the coordinator; from all members to
 * one member. */
#define CONN_BYTES_MAX (4u << 10)
#define PEER_BYTES_MAX (128u << 10)

enum {
    TO_COORD = 1,
    TO_MEMBER,
    COORD_CLOSED,
    MEMBER_CLOSED,
    CONNECT,
    MEMBER_TICK,
    COORD_TICK,
    PEER,
    CONTRIBUTION,
    REACHED,
    PROGRAM,
    CANCEL,
    SPAWN,
    KILL,
    HALT,
    COORD_CRASH,
    COORD_START,
    CUT,
    MUTE,
    GARBAGE,
    LEAVE,
    REVOKE,
    SUSPECT,
    FILL,
    TRANSFER,
    TRANSFER_TICK,
    GONE,
    KILL_BETWEEN,
    PART_WAYS,
    DISK,
    SUSPECTS,
    INSIDE
};

enum phase {
    EPOCH,
    SYNC,
    STEP,
    IN_STEP,
    VALUE,
    CLOSE,
    OUT
}; /* CLOSE: an unsuccessful commit,
                                                                 before EPOCH */

struct conn {
    struct tt_coord_conn machine;
    int peer;
    bool member_open, coord_open;
    uint64_t up_ns, down_ns;                    /* arrival time of the last message in each
                                                   direction */
    uint64_t mute_up_ns, mute_down_ns;          /* until then no data passes */
    size_t up_bytes, down_bytes;                /* waiting bytes */
};

/* Scope of an operation; always ALL without replica groups. */
enum scope { SCOPE_ALL, SCOPE_ROLE, SCOPE_GROUP, SCOPES };

/* Received parts of other members, for the last operation of a tag and for the next one. */
struct parts {
    uint32_t from[2];                           /* by n & 1: bit of rank */
    uint64_t sum[2];
};

/* A tentative operation in state COMPLETE; n 0: none. */
struct kept {
    uint64_t n, sum;
    enum scope scope;
};

/* The members that have completed an operation. */
struct votes {
    uint32_t from[2];                           /* by n & 1: bits of the ranks whose part is
                                                   complete */
    struct tt_membership latest[2];
};

/* Messages between members: of the state machine; parts of operations; votes, i.e. completions of a
 * part, which the library exchanges by all-reduces. */
enum says { SAYS_MACHINE, SAYS_PART, SAYS_VOTE };

/* Without padding: traces hash all of its bytes. */
struct held {
    uint32_t from_peer, tag;
    uint64_t epoch, n, value, says;             /* says: enum says */
    uint8_t data[TT_PEERMSG_BYTES];             /* message of the state machine; for a vote: the
                                                   news of its sender */
};

struct peer {
    struct run *run;
    struct tt_member m;
    struct tt_surroundings_seat *view, *proposed;
    uint8_t (*results)[TT_SETTLED_BYTES];
    bool alive, over;
    int conn;                                   /* -1: none */
    uint32_t attempt;
    uint64_t die_after;                         /* number of actions before its death; 0: not
                                                   planned */
    bool dying;                                 /* during an event: its further messages are lost */
    uint64_t parted_ns[PEERS_MAX];              /* by peer: until then no data from this peer
                                                   arrives there */
    size_t waiting_bytes;                       /* of messages from others */
    uint64_t halted_ns, tick_ns;
    uint64_t slowness;                          /* factor of the peer's delays */
    enum phase phase;
    bool planned;                               /* a PROGRAM event is scheduled */
    uint64_t step_in_view;
    uint32_t nopen;
    uint8_t ended[TAGS];                        /* enum tt_op_state of this step's operations */
    bool refused;                               /* an operation of this step could not be started */
    bool tears;                                 /* some members omit an operation of this step */
    bool tentative[TAGS];                       /* the last operation of the tag is tentative */
    bool settles[TAGS];                         /* the last operation of the tag is small:
                                                   completing its part settles it */
    enum scope scope[TAGS];                     /* scope of the last operation of the tag */
    bool owes[TAGS];                            /* a tentative operation was attempted, and no later
                                                   one had the consent of all members */
    struct kept kept[TAGS][2];                  /* by n & 1 */
    bool taken_back;                            /* an operation was restored since the last commit
                                                   of this view */
    struct tt_membership news;                        /* of this step */
    struct parts parts[TAGS];
    struct votes votes[TAGS];
    bool known;                                 /* the peer has completed a sync, and has the
                                                   state */
    bool liar;                                  /* replies falsely */
    uint64_t back;                              /* attempt number of the peer's last call that was
                                                   taken back with a mismatch, from the journal */
    bool strays;                                /* the peer is about to make a call or start an
                                                   operation that others do not; or did so in: */
    uint64_t strayed_in;                        /* this epoch */
    bool dropped;                               /* the peer's group is incomplete: its call waits
                                                   like a newcomer's */
    uint32_t most;                              /* for a newcomer: the maximum view size that it
                                                   accepts, until its deadline; 0: any */
    bool parts_at_final;                        /* the peer leaves in order after the next operation
                                                   that is final here */
    uint64_t reached_in;                        /* the last proposal to which it replied */
    uint32_t reached;                           /* bit of peer, in the last proposal to which it
                                                   replied */
    uint64_t was[PEERS_MAX];                    /* ids of the previous view */
    uint32_t nwas;
    uint32_t group, role;
    uint64_t state, finals_quiet;               /* finals_quiet: steps since the end of faults,
                                                   in this view */
    /* shared state (run_sync.c): its arrays, and the current sync */
    uint64_t revision;
    uint8_t *arrays[ARRAYS], *stages[ARRAYS];   /* bytes[] of the run each */
    bool diverged, jumps, odd;                  /* the content differs from the others'; the peer
                                                   reports a higher revision; it has other keys */
    uint8_t last_sync;                          /* result of the last sync: enum tt_round_status */
    bool instead, transferring;
    struct tt_hash had;                         /* the content offered */
    uint64_t sync_number;
    struct tt_transfer transfer;
    uint64_t transfer_tick_ns;
    struct tt_transfer_item items[ARRAYS];
    uint8_t list[16 * ARRAYS], coming[16 * ARRAYS];
    struct held held[HELD_MAX];
    uint32_t nheld;
    struct tt_ring_link links[PEERS_MAX];       /* the peer's measurements, by rank */
};

struct epoch_record {
    uint64_t epoch;
    uint32_t n;
    uint64_t ids[PEERS_MAX];
    uint8_t plan;                               /* enum tt_ring_plan */
    uint8_t secret[TT_COOKIE_BYTES];            /* as received by the first member that entered the
                                                   view */
    bool known[2];                              /* by role, if roles sync separately */
    uint64_t state[2];
    bool torn;                                  /* some members have omitted an operation that
                                                   others have started */
};

struct sync_record {
    uint64_t epoch, number, value;
    uint32_t scope;
    uint8_t what;
    struct tt_hash content;
};

struct op_record {
    uint64_t epoch, n;
    uint32_t tag;
    uint32_t completed;                         /* bit of rank whose part is done */
    bool has_news;
    struct tt_membership news;
    bool promised;                              /* a leaving member has reported to the coordinator
                                                   that the operation is final */
    bool restored;                              /* on some member */
    uint32_t settled;                           /* bits of the ranks on which it is settled */
};

struct round_record {
    uint64_t epoch, round, value, votes;        /* votes: of all calls, combined by AND */
    uint32_t voters;                            /* bit of rank */
    uint32_t heard;                             /* bits of the ranks that have received the result;
                                                   0: none */
    uint8_t what;
};

struct run {
    struct world w;
    struct tt_coord c;
    struct tt_coord_member members[PEERS_MAX + 8];
    uint32_t order[PEERS_MAX + 8];
    uint8_t *scratch, *member_scratch;
    void *ring_memory;
    bool coord_up;
    bool crashing;                              /* during a step: its further messages are lost */
    uint64_t crash_after;                       /* number of actions before it; 0: not planned */
    uint64_t coord_tick_ns;
    uint8_t *records;                           /* {u32 bytes, data} */
    uint8_t *longer;                            /* those to be replaced by a shorter journal */
    size_t nrecords;
    uint64_t disk_ns;                           /* until then the disk refuses some writes */
    enum run_faults faults_of;
    bool votes;                                 /* operations become final by votes, and not by
                                                   messages of the state machine */
    struct conn conns[CONNS_MAX];
    int nconns;
    struct peer peers[PEERS_MAX];
    uint32_t npeers;
    uint64_t quiet_ns;                          /* no fault starts or lasts after this */
    uint32_t least, nroles;
    struct epoch_record epochs[EPOCHS_MAX];
    uint32_t nepochs;
    struct op_record *ops;
    uint32_t nops;
    struct round_record rounds[ROUNDS_MAX];
    uint32_t nrounds;
    struct sync_record syncs[SYNCS_MAX];
    uint32_t nsyncs;
    bool by_role;                               /* roles sync separately */
    bool tainted, reset;                        /* some members have lied or strayed; another state
                                                   has replaced the last one */
    uint64_t bytes[ARRAYS], total;              /* sizes of the arrays, and their total */
    uint8_t *blocks;                            /* [PEERS_MAX][2][total] */
    struct {
        bool is;
        uint64_t revision, epoch, number;
        uint8_t *data;                          /* [total]: the data of all members after that
                                                   sync */
    } last[2];                                  /* the last successful sync, by role; a checkpoint
                                                   has its content */
    struct {
        uint64_t epoch, number;
        uint32_t part;
    } restarts[RESTARTS_MAX];                   /* the last syncs with `instead`: a member that
                                                   receives one may have called without it, or
                                                   long before others restarted */
    uint32_t nrestarts;
    uint64_t events, faults, finals, restored, received, bad_pieces;   /* faults: only those with an
                                                                          effect */
    uint64_t tentative_finals, tentative_restored;  /* of the finals and restored, those of programs
                                                       that had continued */
    uint64_t scoped_finals, scoped_restored;    /* of the finals and restored, those in the scope of
                                                   a role or a group */
    uint64_t left_out;                          /* operations omitted by members of a role or a
                                                   group, but started by all others */
    uint64_t parted, kept_for;                  /* members that left in order; operations that are
                                                   final on others only because of their reports */
    uint64_t gone, shrunk, bounded;             /* reports that a process has ended; views after
                                                   calls without newcomers, or with a limit that
                                                   newcomers respected */
    uint64_t outcomes;                          /* bit i: some sync ended with tt_round_status i */
    uint64_t backs_again;                       /* calls taken back and repeated because the
                                                   notification was lost */
    uint64_t backs, revokers;                   /* calls taken back because others synced;
                                                   reports of revoking members */
    uint64_t strayed, aparts;                   /* programs that strayed; reports that some members
                                                   call while others are in an operation */
    uint64_t orders;                            /* members that entered a view whose ranks follow
                                                   a found ring */
    uint64_t killed_between, parted_ways, disk_errors;
    uint64_t voted;                             /* operations that became final by votes */
    uint64_t settled, given;                    /* small operations that were settled; of these, by
                                                   a result delivered with an outcome */
    size_t conn_bytes_most, peer_bytes_most;
    uint64_t trace;                             /* a hash of all events */
    bool failed, done;
    char why[1600];
    struct picture *picture;                    /* NULL: not drawn */
};

/* run.c */
/* Makes the peer leave in order, before any other event. */
void part_soon(struct run *r, struct peer *p);
__attribute__((format(printf, 2, 3))) void broken(struct run *r, const char *fmt, ...);
uint64_t delay(struct run *r, const struct peer *p, uint64_t most_ns);
int index_of(const struct run *r, const struct peer *p);
struct peer *peer_of_id(struct run *r, uint64_t id);
void spawn(struct run *r);
void after_member(struct run *r, struct peer *p);
/* Called before each message from or to a member: returns whether it has been killed, possibly just
 * now, while others have received its earlier messages. */
bool is_killed_before(struct run *r, struct peer *p);
/* Sends data[bytes] to a member, or from one to the coordinator (TO_COORD). `to` is the index of a
 * peer or of a connection, depending on `kind`. */
void send_along(struct run *r, uint64_t at_ns, int kind, int to, const void *data, size_t bytes);
/* Returns the time at which a message can pass from one member to another: at_ns, or the end of a
 * partition. */
uint64_t past_parting(const struct peer *from, const struct peer *to, uint64_t at_ns);

/* run_program.c: actions and invariants of members */
void plan_program(struct run *r, struct peer *p, uint64_t most_ns);
void on_program(struct run *r, struct peer *p);
void on_member_act(void *context, const struct tt_member_act *act);
void on_peer_message(struct run *r, struct peer *p, const struct held *h);
void check_mismatch(struct run *r, struct peer *p, const struct tt_member_act *act);
/* A started operation. Without padding, like `held`. */
struct begun {
    uint64_t epoch, n, tag;
};
/* Reports that the peer still waits in that operation, if it does. */
void on_inside(struct run *r, struct peer *p, const struct begun *b);
uint32_t liars_of(struct run *r, const struct peer *p);

/* run_sync.c: shared state */
void sync_begin(struct run *r);                 /* of a history */
void sync_spawn(struct run *r, struct peer *p);
/* changes p->state; the result does not depend on the order of changes */
void sync_apply(struct run *r, struct peer *p, uint64_t change);
void call_sync(struct run *r, struct peer *p);
void on_sync_plan(struct run *r, struct peer *p);
void on_synced(struct run *r, struct peer *p, const struct tt_member_act *act);
void on_transfer(struct run *r, struct peer *p, const uint8_t *data, size_t bytes);
void on_transfer_tick(struct run *r, struct peer *p);
/* Returns whether the peer may be out of the view because of its reported state, `text`. */
bool may_be_out(const struct run *r, const struct peer *p, const char *text);

/* run_picture.c: a drawing of the history, if TUTTI_TEST_PICTURE names a file for the history of
 * TUTTI_TEST_SEED */
#define COORDINATOR (-1)        /* lane of the coordinator; other lanes are indices of peers */
enum picture_mark {
    PICTURE_UP,
    PICTURE_DOWN,
    PICTURE_FAULT,
    PICTURE_VIEW,
    PICTURE_CALL,
    PICTURE_FINAL,
    PICTURE_RESTORED
};
void picture_begin(struct run *r, uint64_t seed);
/* The last scheduled event is a message from one lane to another, arriving at at_ns. */
void picture_message(struct run *r, int from, int to, uint64_t at_ns, const char *what);
/* An event was processed; marks it if it is a message. */
void picture_arrived(struct run *r, const struct happening *h);
__attribute__((format(printf, 4, 5))) void picture_mark(struct run *r, int lane,
                                                        enum picture_mark kind, const char *fmt,
                                                        ...);
/* The last scheduled event is h, delayed. */
void picture_later(struct run *r, const struct happening *h);
/* Writes the file. A failure fails the run. */
void picture_end(struct run *r, uint64_t seed);

#endif
