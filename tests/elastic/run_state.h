/* What the files of the simulated run share; tests see run.h. */
#ifndef TESTS_ELASTIC_RUN_STATE_H
#define TESTS_ELASTIC_RUN_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "elastic/coord.h"
#include "elastic/member.h"
#include "elastic/transfer.h"
#include "run.h"
#include "support/world.h"

#define PEERS_MAX 32                /* processes of a history, the dead counted in */
#define CONNS_MAX 512
#define TAGS 4u                     /* that programs use */
#define RECORDS_BYTES (1u << 18)    /* of the journal */
#define EPOCHS_MAX 256u
#define ROUNDS_MAX 1024u
#define OPS_MAX 2048u               /* remembered: (epoch, tag, n) */
#define HELD_MAX 64u
#define SYNCS_MAX 1024u
#define ANEWS_MAX 16u
#define ARRAYS 4u                   /* of the shared state */
#define MS 1000000ull
#define LEASE_NS (300 * MS)
/* What may wait at once: in one direction of a connection to the coordinator, and of what members sent, for one of them. */
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

enum phase { EPOCH, SYNC, STEP, IN_STEP, VALUE, CLOSE, OUT };    /* CLOSE: a commit that is not good, before EPOCH */

struct conn {
    struct tt_coord_conn machine;
    int peer;
    bool member_open, coord_open;
    uint64_t up_ns, down_ns;                    /* when the last message of each direction arrives */
    uint64_t mute_up_ns, mute_down_ns;          /* until when nothing gets through */
    size_t up_bytes, down_bytes;                /* that wait */
};

/* Among whom an operation is; without replica groups ALL. */
enum scope { SCOPE_ALL, SCOPE_ROLE, SCOPE_GROUP, SCOPES };

/* What came of other members' parts of the last operation of a tag, and of the next one. */
struct parts {
    uint32_t from[2];                           /* by n & 1: bit of rank */
    uint64_t sum[2];
};

/* A tentative operation that is COMPLETE; n 0: none. */
struct kept {
    uint64_t n, sum;
    enum scope scope;
};

/* Who has come to an operation's end as sessions do. */
struct votes {
    uint32_t from[2];                           /* by n & 1: bit of rank: its part is done */
    struct tt_news latest[2];
};

/* What members say to each other: the machine's own messages; parts of operations; that a part is done, where sessions' all-reduces say it. */
enum says { SAYS_MACHINE, SAYS_PART, SAYS_VOTE };

/* Without padding: traces are of all of its bytes. */
struct held {
    uint32_t from_peer, tag;
    uint64_t epoch, n, value, says;             /* says: enum says */
    uint8_t data[TT_PEERMSG_BYTES];             /* of the machine; of a vote: its sender's news */
};

struct peer {
    struct run *run;
    struct tt_member m;
    struct tt_seat *view, *proposed;
    uint8_t (*results)[TT_SETTLED_BYTES];
    bool alive, over;
    int conn;                                   /* -1: none */
    uint32_t attempt;
    uint64_t die_after;                         /* so many actions; 0: not */
    bool dying;                                 /* in the middle of an event: what it still does nobody hears */
    uint64_t parted_ns[PEERS_MAX];              /* by peer: until when nothing gets there from here */
    size_t waiting_bytes;                       /* that others sent it */
    uint64_t halted_ns, tick_ns;
    uint64_t slowness;                          /* a factor of its delays */
    enum phase phase;
    bool planned;                               /* a PROGRAM event is on its way */
    uint64_t step_in_view;
    uint32_t nopen;
    uint8_t ended[TAGS];                        /* of this step: enum tt_op_state */
    bool refused;                               /* an operation of this step could not begin */
    bool tears;                                 /* one of this step is left out by some */
    bool tentative[TAGS];                       /* the last operation of the tag is */
    bool settles[TAGS];                         /* the last operation of the tag is small: who has done its part settles it */
    enum scope scope[TAGS];                     /* and among whom */
    bool owes[TAGS];                            /* a tentative one was tried, and nothing since has had the word of all */
    struct kept kept[TAGS][2];                  /* by n & 1 */
    bool taken_back;                            /* one was restored since the last commit of this view */
    struct tt_news news;                        /* of this step */
    struct parts parts[TAGS];
    struct votes votes[TAGS];
    bool known;                                 /* it has been in a sync that ended well: it has the state */
    bool liar;                                  /* answers questions with lies */
    uint64_t back;                              /* the last of its calls that was taken back with a mismatch, as the journal has it: its attempt */
    bool strays;                                /* it is about to call what the others do not, or begin what they do not; and did so in: */
    uint64_t strayed_in;                        /* this epoch */
    bool dropped;                               /* its group broke: its call waits as a newcomer's */
    uint32_t most;                              /* as a newcomer: the largest view that it wants, until its deadline; 0: any */
    bool parts_at_final;                        /* it leaves in order after the next operation that is final here */
    uint64_t reached_in;                        /* the last proposal that it answered */
    uint32_t reached;                           /* bit of peer: in the last proposal that it answered */
    uint64_t was[PEERS_MAX];                    /* ids of the view before */
    uint32_t nwas;
    uint32_t group, role;
    uint64_t state, finals_quiet;               /* finals_quiet: steps since faults ended, in this view */
    /* shared state (run_sync.c): what it has, and the sync that is under way */
    uint64_t revision;
    uint8_t *arrays[ARRAYS], *stages[ARRAYS];   /* of the run's bytes[] each */
    bool diverged, jumps, odd;                  /* has not what the others have; says too high a revision; has other keys */
    uint8_t last_sync;                          /* what the last one came to: enum tt_round_status */
    bool instead, transferring;
    struct tt_hash had;                         /* the content that it had when it offered */
    uint64_t sync_number;
    struct tt_transfer transfer;
    uint64_t transfer_tick_ns;
    struct tt_transfer_item items[ARRAYS];
    uint8_t list[16 * ARRAYS], coming[16 * ARRAYS];
    struct held held[HELD_MAX];
    uint32_t nheld;
    struct tt_ring_link links[PEERS_MAX];       /* what it measured, by rank */
};

struct epoch_record {
    uint64_t epoch;
    uint32_t n;
    uint64_t ids[PEERS_MAX];
    uint8_t plan;                               /* enum tt_ring_plan */
    uint8_t secret[TT_COOKIE_BYTES];            /* as the first that entered knows it */
    bool known[2];                              /* by role, where roles sync apart */
    uint64_t state[2];
    bool torn;                                  /* some have left out an operation that others have made */
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
    uint32_t completed;                         /* bit of rank: its part is done */
    bool has_news;
    struct tt_news news;
    bool promised;                              /* the coordinator has heard that it is final, by one that left */
    bool restored;                              /* at somebody */
    uint32_t settled;                           /* bit of rank: there */
};

struct round_record {
    uint64_t epoch, round, value, votes;        /* votes: of all that called, ANDed */
    uint32_t voters;                            /* bit of rank */
    uint32_t heard;                             /* likewise: who knows its end; 0: nobody */
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
    bool crashing;                              /* in the middle of a step: what it still says is lost */
    uint64_t crash_after;                       /* so many actions; 0: not */
    uint64_t coord_tick_ns;
    uint8_t *records;                           /* {u32 bytes, data} */
    uint8_t *longer;                            /* those that a shorter journal is to take the place of */
    size_t nrecords;
    uint64_t disk_ns;                           /* until when the disk refuses some of what is written */
    enum run_faults faults_of;
    bool votes;                                 /* members come to the end of operations as sessions do, and not by the machine's messages */
    struct conn conns[CONNS_MAX];
    int nconns;
    struct peer peers[PEERS_MAX];
    uint32_t npeers;
    uint64_t quiet_ns;                          /* no fault begins or lasts after this */
    uint32_t least, nroles;
    struct epoch_record epochs[EPOCHS_MAX];
    uint32_t nepochs;
    struct op_record *ops;
    uint32_t nops;
    struct round_record rounds[ROUNDS_MAX];
    uint32_t nrounds;
    struct sync_record syncs[SYNCS_MAX];
    uint32_t nsyncs;
    bool by_role;                               /* roles sync apart */
    bool tainted, reset;                        /* some have not told the truth, or strayed; a state took the place of the last one */
    uint64_t bytes[ARRAYS], total;              /* of the arrays, of all */
    uint8_t *blocks;                            /* [PEERS_MAX][2][total] */
    struct {
        bool is;
        uint64_t revision, epoch, number;
        uint8_t *data;                          /* [total]: what all had then */
    } last[2];                                  /* sync that ended well, by role; what a checkpoint would have */
    struct {
        uint64_t epoch, number;
        uint32_t part;
    } anew[ANEWS_MAX];                          /* the last syncs in which somebody said `instead`: who hears of one may have called without, or long before others began anew */
    uint32_t nanew;
    uint64_t events, faults, finals, restored, received, bad_pieces;   /* faults: that did something */
    uint64_t tentative_finals, tentative_restored;  /* of those, where the program had gone on */
    uint64_t scoped_finals, scoped_restored;    /* of those, among a role or a group */
    uint64_t left_out;                          /* operations that members of a role or a group did not make, as all others did */
    uint64_t parted, kept_for;                  /* members that left in order; operations that are final at others by their word alone */
    uint64_t gone, shrunk, bounded;             /* words that a process has ended; views after calls that admit nobody, or with a bound that newcomers met */
    uint64_t outcomes;                          /* bit of enum tt_round_status: a sync came to it */
    uint64_t backs_again;                       /* calls that were taken back, and came again as the word of it was lost */
    uint64_t backs, revokers;                   /* calls that were taken back as others synced; words of who revoked */
    uint64_t strayed, aparts;                   /* programs that strayed; words that some call where others are in an operation */
    uint64_t orders;                            /* members that entered a view whose ranks follow a ring that was found */
    uint64_t killed_between, parted_ways, disk_errors;
    uint64_t voted;                             /* operations that were final as sessions make them */
    uint64_t settled, given;                    /* small ones that were settled; by their result that came with a verdict */
    size_t conn_bytes_most, peer_bytes_most;
    uint64_t trace;                             /* a hash of all that has happened */
    bool failed, done;
    char why[1600];
    struct picture *picture;                    /* NULL: none is wanted */
};

/* run.c */
/* It leaves in order, before anything else happens. */
void part_soon(struct run *r, struct peer *p);
__attribute__((format(printf, 2, 3))) void broken(struct run *r, const char *fmt, ...);
uint64_t delay(struct run *r, const struct peer *p, uint64_t most_ns);
int index_of(const struct run *r, const struct peer *p);
struct peer *peer_of_id(struct run *r, uint64_t id);
void spawn(struct run *r);
void after_member(struct run *r, struct peer *p);
/* Before each thing that a member says or is told: whether it has been killed, perhaps just now, while others have heard what it said before. */
bool is_killed_before(struct run *r, struct peer *p);
/* data[bytes] is on its way to a member or, TO_COORD, from one: `to` is a peer or a connection. */
void send_along(struct run *r, uint64_t at_ns, int kind, int to, const void *data, size_t bytes);
/* When what is sent at `at_ns` gets from one member to another: later while nothing gets through. */
uint64_t past_parting(const struct peer *from, const struct peer *to, uint64_t at_ns);

/* run_program.c: what members do, and what must hold of it */
void plan_program(struct run *r, struct peer *p, uint64_t most_ns);
void on_program(struct run *r, struct peer *p);
void on_member_act(void *context, const struct tt_member_act *act);
void on_peer_message(struct run *r, struct peer *p, const struct held *h);
void check_mismatch(struct run *r, struct peer *p, const struct tt_member_act *act);
/* An operation that it has begun. Without padding, as `held`. */
struct begun {
    uint64_t epoch, n, tag;
};
/* It has been in that for a while, if it still is. */
void on_inside(struct run *r, struct peer *p, const struct begun *b);
uint32_t liars_of(struct run *r, const struct peer *p);

/* run_sync.c: shared state */
void sync_begin(struct run *r);                 /* of a history */
void sync_spawn(struct run *r, struct peer *p);
void sync_apply(struct run *r, struct peer *p, uint64_t change);    /* p->state changed by that; in any order the same comes out */
void call_sync(struct run *r, struct peer *p);
void on_sync_plan(struct run *r, struct peer *p);
void on_synced(struct run *r, struct peer *p, const struct tt_member_act *act);
void on_transfer(struct run *r, struct peer *p, const uint8_t *data, size_t bytes);
void on_transfer_tick(struct run *r, struct peer *p);
/* Whether it may be out for what it said of its state. */
bool may_be_out(const struct run *r, const struct peer *p, const char *text);

/* run_picture.c: the history as a picture, where TUTTI_TEST_PICTURE names a file for that of TUTTI_TEST_SEED */
#define COORDINATOR (-1)                        /* its lane; others are indices of peers */
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
/* What was planned last is a message from one lane to another, to arrive at at_ns. */
void picture_message(struct run *r, int from, int to, uint64_t at_ns, const char *what);
/* Somebody takes what happens, if it is a message. */
void picture_arrived(struct run *r, const struct happening *h);
__attribute__((format(printf, 4, 5))) void picture_mark(struct run *r, int lane, enum picture_mark kind,
                                                        const char *fmt, ...);
/* What was planned last is this once more, later. */
void picture_later(struct run *r, const struct happening *h);
/* Writes the file. The run is broken where that fails. */
void picture_end(struct run *r, uint64_t seed);

#endif
