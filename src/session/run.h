/* A member's life around its state machine (elastic/member.h): what the files of this room share; nobody else includes this.
 *
 * One lock guards everything of a run but the data connections. A service thread holds the channel to the coordinator, the connections to
 * the other members and the timers; the program's threads come in by the public calls, act on the machine under the lock, and wait on
 * `changed`. Nobody holds the lock while a collective runs or a world is made. The engine's baton may be taken under the lock, never the
 * other way around. */
#ifndef TT_SESSION_RUN_H
#define TT_SESSION_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/acceptor.h"
#include "base/clock.h"
#include "comm/comm.h"
#include "elastic/member.h"
#include "elastic/mismatch.h"
#include "elastic/survey.h"
#include "elastic/transfer.h"
#include "secure/channel.h"
#include "session/card.h"
#include "session/news.h"
#include "session/said.h"
#include "tutti/elastic.h"
#include "wire/wire.h"

#define TT_RUN_COORDINATORS 16
#define TT_RUN_TROUBLES 16
#define TT_RUN_REQUESTS 32u             /* of one member that wait; it has at most TT_TRANSFER_WINDOW out, more only while plans change */
#define TT_RUN_STILL_NS TT_SECOND       /* a deadline that is noticed so late passed while we stood still */
#define TT_RUN_STRANGERS 64u            /* connections that have not proved themselves */

/* ---- the coordinator ---- */

/* Something is waited for, perhaps in vain: the log tells of it. */
struct tt_run_waiting {
    uint64_t since_ns;                  /* 0: it is not */
    uint64_t tell_ns;                   /* when it is told next */
};

enum tt_link_state { TT_LINK_DOWN, TT_LINK_WAITS, TT_LINK_CONNECTS, TT_LINK_UP, TT_LINK_BROKEN };

struct tt_coordinator_link {
    enum tt_link_state state;
    uint64_t connect_ns;                /* WAITS: when to connect */
    uint64_t give_up_ns;                /* CONNECTS */
    int fd;                             /* CONNECTS */
    struct tt_channel *channel;         /* UP, BROKEN */
    uint32_t events;                    /* that epoll looks for */
    uint32_t at;                        /* which address is tried */
    struct tt_run_waiting away;         /* no coordinator knows us */
    char why[300];                      /* what became of the last attempt */
};

/* ---- other members ---- */

/* A connection to or from a member. */
struct tt_peer_conn {
    struct tt_peer_conn *next;
    struct tt_peer_link *peer;          /* who it is; NULL: it called, and has not proved itself */
    bool connects;                      /* our end did; it goes with the peer */
    bool greeted, proved;               /* heard of the other end */
    bool stranger;                      /* it called, has not proved itself, and holds one of TT_RUN_STRANGERS places */
    uint8_t origin[16];                 /* where a stranger called from, as IPv6 has it */
    int fd;                             /* while it connects: no channel yet */
    struct tt_channel *channel;
    uint32_t events;
    uint32_t unsent_bytes;              /* what the system takes beyond what is on its way; 0: as much as it likes */
    uint64_t give_up_ns;                /* until proved */
    struct tt_said_end own, other;
    bool more;                          /* it has more messages than are heard in one turn */
    bool dead;                          /* to be freed at the end of this turn */
};

/* What a member has asked for and waits for, as it said it (transfer.h). */
struct tt_peer_requests {
    uint32_t first, n;
    struct tt_peer_request {
        uint8_t bytes, data[TT_TRANSFER_HEAD_BYTES];
    } ring[TT_RUN_REQUESTS];
};

/* A member that we may have to reach. */
struct tt_peer_link {
    struct tt_peer_link *next;
    uint64_t id;
    struct tt_member_card card;
    enum tt_mark_place place;           /* where its mark was when it became wanted */
    bool wanted;                        /* in the view, or proposed */
    struct tt_peer_conn *conn;          /* the last that proved itself; NULL: none */
    struct tt_peer_conn *trying;        /* ours that has not yet, the latest */
    uint32_t address;                   /* which candidate is next */
    uint64_t try_ns;                    /* when to try next */
    uint64_t beside_ns;                 /* trying: when to try the next beside it, if it is not connected by then; TT_NEVER */
    uint64_t away_ns;                   /* since when there is no connection; TT_NEVER: there is */
    uint64_t suspect_ns;                /* when it is suspected next */
    uint32_t refusals;                  /* in a row, since its connection ended: its system says that nobody listens there */
    uint64_t gone_ns;                   /* when it is said next that it is gone */
    bool was_there;                     /* once */
    bool has_offer;
    struct tt_said offer;               /* for the latest epoch that it made one for */
    struct tt_peer_requests *requests;  /* NULL: it never had one */
};

/* ---- views ---- */

/* A world and who is in it by job rank. */
struct tt_home {
    struct tt_world *world;
    uint64_t epoch;                     /* in which it was made: its name; 0: none */
    uint32_t n;
    uint64_t *ids;                      /* [n] */
};

/* The communicators of a view. */
struct tt_space {
    uint64_t epoch;                     /* 0: none */
    uint32_t rank, nranks;
    tutti_comm *comm;                   /* the program's */
    tutti_comm **tags;                  /* [run->ntags] of all members */
    tutti_comm **roles, **groups;       /* likewise, of this one's role and of its group; NULL: there are no replica groups */
};

/* Input that an operation overwrites, and its numbers for error feedback: a copy of both, one behind the other, is in one of its tag's. */
struct tt_saved {
    void *input, *feedback;
    size_t input_bytes, feedback_bytes; /* 0: not overwritten */
    uint32_t copy;                      /* which */
};

static inline bool tt_is_saved(const struct tt_saved *s) { return s->input_bytes > 0 || s->feedback_bytes > 0; }

/* An operation that has returned, and whose verdict its program has not been told. */
struct tt_tentative {
    tutti_elastic *op;                  /* the program's; NULL: none */
    uint64_t n;                         /* as the machine counts the tag's */
    bool done;                          /* it has its verdict: */
    uint8_t state;
    struct tt_saved saved;
};

/* Whether a tentative operation of a tag was tried, and nothing since has had the word of all. */
enum tt_owing {
    TT_OWES_NOTHING,
    TT_OWES_REFUSED,                    /* it was refused here, before anything of it happened: at the others, too, if they called the same */
    TT_OWES
};

/* What one tag's operation is at. */
struct tt_tag {
    bool in_use;
    const struct tt_operation *inside;  /* in the engine; NULL: none */
    uint64_t inside_ns;                 /* when the coordinator is told of it next */
    bool done;                          /* it has its verdict: */
    bool given;                         /* with its result, which the machine has */
    uint8_t state;                      /* enum tt_op_state */
    uint64_t n;
    struct tt_news news;
    uint64_t told_epoch, told_n;        /* the last that brought news */
    struct tt_tentative tentative;      /* the one before it */
    enum tt_owing owes, owed;           /* owed: before the operation that is under way */
    void *copy[2];                      /* of what is overwritten, [copy_cap] each; the second where a tentative operation has the first */
    size_t copy_cap[2];
    uint8_t *parts;                     /* [parts_cap] who contributes to a PARTIAL one, by rank of its scope */
    size_t parts_cap;
    char why[TT_ERROR_BYTES];           /* what went wrong with the operation under way */
    uint64_t late_here;                 /* the last epoch in which a deadline passed in one here, and not at another member first */
    uint64_t late_in;                   /* the last epoch in which the deadline of one passed while it waited for the verdict */
};

/* The shared state, while it is synced. */
struct tt_run_sync {
    tutti_run *run;
    tutti_state *state;
    struct tt_transfer transfer;
    struct tt_sync_array *arrays;       /* [narrays] each */
    uint64_t *dims;
    struct tt_hash *hashes;
    struct tt_transfer_item *items;
    uint8_t *list, *coming;             /* [narrays][16] */
    const char *unable;                 /* why this one could not receive; NULL */
    void *piece;                        /* of an array that is not in host memory, on its way there; NULL: all are */
};

/* What lies between this member and the others, while it is measured, and as it was told. */
struct tt_run_survey {
    struct tt_survey machine;            /* of the epoch that its conf has */
    struct tt_survey_peer peers[TT_RING_PEERS_MAX];
    struct tt_ring_link links[TT_RING_PEERS_MAX], told[TT_RING_PEERS_MAX];
    struct tt_ring_sample samples[TT_SURVEY_SAMPLES];
    uint8_t filler[TT_SURVEY_CHUNK_BYTES];
    struct tt_elmsg head;               /* of what the coordinator is told */
    bool reported;                      /* it has been told what was measured last */
};

/* What the engine told of a context, under its baton. */
struct tt_run_trouble {
    uint32_t context;
    tutti_status status;
    char sentence[TT_SAID_TEXT_BYTES];
};

struct tutti_run {
    /* set by join */
    char *wires, *interfaces;
    uint32_t lanes, ntags;
    int64_t timeout_ms;
    struct tt_secure *secure;
    struct tt_address coordinators[TT_RUN_COORDINATORS];
    uint32_t ncoordinators;
    struct tt_member_card card;
    struct tt_mark mark;                /* whose number the card has */
    struct tt_outside outside;          /* of its data connections */
    uint32_t forks;                     /* before it was joined */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool thread_runs, ending;
    int epoll, wake_fd;
    struct tt_acceptor acceptor;

    struct tt_member m;
    struct tt_seat *seats;              /* [2 * TT_ELASTIC_MEMBERS_MAX]: the view's, the proposed ones */
    uint8_t *scratch;
    uint8_t (*results)[TT_SETTLED_BYTES];   /* [TT_ELASTIC_TAGS] of small operations; touched only as far as tags have some */
    bool over;
    tutti_status over_status;
    char over_why[TT_ERROR_BYTES];

    struct tt_coordinator_link link;
    struct tt_peer_link *peers;
    struct tt_peer_conn *conns;
    uint32_t nstrangers;
    uint64_t reach;                     /* the proposal that is to be answered; 0: none */
    uint64_t reach_ns;                  /* by when */

    bool call_done;                     /* the call that is waited for has its result: */
    struct tt_member_act result;
    bool result_over;                   /* and the epoch was over when that came: it may be why members called different things */
    bool calling;                       /* a program's thread is in a call that all members make */
    struct tt_run_waiting lacking;      /* that thread waits for newcomers, as too few are left */
    struct tt_run_sync *sync;           /* of that thread; NULL: it does not sync */
    struct tt_run_survey *survey;         /* NULL: nothing was ever measured */
    bool synced[2];                     /* by enum tt_sync_scope: a sync of it was good once */

    struct tt_home home;
    struct tt_space space;
    char stop_why[TT_SAID_TEXT_BYTES];  /* what the first failure of the epoch said, or the coordinator; "": nothing did */
    bool stop_logged;                   /* the log has told of a failure of the epoch */
    bool offered;                       /* `offer` is out, and is said to who connects anew */
    struct tt_said offer;
    tutti_member *members;              /* [nranks] of the space's view */
    tutti_member *asked;                /* [nasked] of the view that the program's last epoch returned */
    uint32_t nasked;
    struct tt_tag tags[TT_ELASTIC_TAGS];
    uint32_t noperations;               /* that run */
    uint32_t ninside;                   /* of these, in the engine, with a communicator of the space */
    uint32_t nowing;                    /* tags that owe */
    bool recovering;                    /* an operation's thread makes the next view */
    bool dropped;                       /* and it found that this one's replica group is not in it */
    bool put_out;                       /* of the view, with its replica group, and not yet in another */
    uint64_t expected;                  /* the epoch to which this one was admitted after it had taken its call back, in which the others wait for
                                           it; 0: none */
    struct tt_news heard;               /* what poll says, */
    uint64_t heard_n;                   /* and the first operation that brought it, by number, then tag; 0: none */
    uint32_t heard_tag;
    tutti_run_stats_t stats;

    pthread_mutex_t trouble_lock;       /* a leaf */
    struct tt_run_trouble troubles[TT_RUN_TROUBLES];
    uint32_t ntroubles;
};

static inline void tt_run_lock(tutti_run *run) { pthread_mutex_lock(&run->lock); }
static inline void tt_run_unlock(tutti_run *run) { pthread_mutex_unlock(&run->lock); }
/* Waits for a change, at most until deadline_ns; false once that has passed. The lock is held before and after. */
bool tt_run_wait(tutti_run *run, uint64_t deadline_ns);
/* The same, but a deadline that passes while this process stands still (stopped, or its machine suspended), so that nobody can tell it anything,
 * begins anew, as of a call that says nothing of time. */
bool tt_run_wait_awake(tutti_run *run, uint64_t *deadline_ns);
/* OK, or why this member is none any more. Under the lock. */
tutti_status tt_run_check(tutti_run *run);
/* PEER_LOST, with a sentence: of what a run survives, so it is a warning in the log, and no error. */
tutti_status tt_run_lost(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same of a call whose epoch is over, and why it is; `more` follows. Under the lock. */
tutti_status tt_run_epoch_over(const tutti_run *run, const char *name, const char *more);
/* The epoch is to be over for all, as that went wrong here; PENDING: it went wrong at another member, which will say what did. Under the lock. */
void tt_run_end_epoch(tutti_run *run, tutti_status status);
/* What every call begins with: INVALID where run, or what it is given as `argument`, is NULL; FORKED in the child of a fork. Takes no lock. */
tutti_status tt_run_check_call(const tutti_run *run, const void *given, const char *argument, const char *name);
/* Why a call cannot tell in *out what it is asked for: a struct that begins with its size, and is to have `wanted` bytes. */
tutti_status tt_run_check_out(const tutti_run *run, const void *out, const char *type, size_t wanted, const char *name);
/* The deadline of a call. */
uint64_t tt_run_deadline(const tutti_run *run, int64_t timeout_ms);
/* Whether a deadline is so long over that this process stood still when it passed: who runs notices it sooner. */
bool tt_run_stood_still(uint64_t deadline_ns, uint64_t now_ns);
void tt_run_wake(tutti_run *run);
/* Whether it is to be told now that something is waited for: after a second, and again after as long as it has lasted, or a minute. *waited_ns: for how
 * long that has been. */
bool tt_run_tells_wait(struct tt_run_waiting *w, bool waits, uint64_t now_ns, uint64_t *waited_ns);
/* The rank of a member in the machine's view; UINT32_MAX: it is not in it. */
uint32_t tt_run_rank_of(const tutti_run *run, uint64_t id);
/* No coordinator has told before the deadline what became of something that others may have: this member leaves, as it would go on with another
 * state than they. Under the lock. */
void tt_run_give_up(tutti_run *run, const char *what);
/* This member cannot go on as the others do, for that reason, and leaves. Under the lock. */
void tt_run_break(tutti_run *run, tutti_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What the machine emits. */
void tt_run_act(void *context, const struct tt_member_act *act);

/* settings.c: the settings of the caller, and of the environment where conf has none. Names are resolved until the run's timeout. */
tutti_status tt_run_take_conf(tutti_run *run, const tutti_run_conf *conf);

/* service.c */
tutti_status tt_service_start(tutti_run *run);
void tt_service_stop(tutti_run *run);
/* Watches fd for `events`, or no longer. data: what the event brings back. */
bool tt_service_watch(tutti_run *run, int fd, uint32_t events, void *data);
void tt_service_change(tutti_run *run, int fd, uint32_t events, void *data);
void tt_service_forget(tutti_run *run, int fd);

/* link.c: the channel to the coordinator. Under the lock. */
void tt_link_connect(tutti_run *run, uint64_t delay_ns);
void tt_link_disconnect(tutti_run *run);
void tt_link_send(tutti_run *run, const void *data, size_t bytes);
/* Its socket is ready. */
void tt_link_event(tutti_run *run);
void tt_link_tick(tutti_run *run, uint64_t now_ns);
uint64_t tt_link_next_ns(const tutti_run *run);
#define TT_LINK_TRIED_BYTES 700u
/* "10.0.0.1:29401, 10.0.0.2:29401": where coordinators are looked for. */
void tt_link_tried(const tutti_run *run, char tried[TT_LINK_TRIED_BYTES]);
/* What broke is told to the machine. */
void tt_link_settle(tutti_run *run);
void tt_link_close(tutti_run *run);

/* peers.c: the connections to other members. Under the lock. */
void tt_peers_accept(tutti_run *run, uint64_t now_ns);
void tt_peers_event(tutti_run *run, struct tt_peer_conn *c);
void tt_peers_tick(tutti_run *run, uint64_t now_ns);
uint64_t tt_peers_next_ns(const tutti_run *run);
/* Whoever is in the view or proposed is wanted; the others' connections end. */
void tt_peers_want(tutti_run *run, uint64_t now_ns);
/* Begins to reach who is proposed. */
void tt_peers_reach(tutti_run *run, uint64_t now_ns);
struct tt_peer_link *tt_peers_find(tutti_run *run, uint64_t id);
/* The number of this host in a new world: equal for two members of the view exactly if they share a host, as their marks prove. */
uint64_t tt_peers_host(const tutti_run *run);
/* To everybody in the view. */
void tt_peers_say(tutti_run *run, const struct tt_said *s);
/* One message of both parts, to one of the view that is connected now; else it is lost. What there is to say is bounded: control messages, requests,
 * and a piece at a time. */
void tt_peers_send(tutti_run *run, uint64_t id, const void *head, size_t head_bytes, const void *body,
                   size_t body_bytes);
/* Whether links are measured now. */
void tt_peers_measure(tutti_run *run, bool measuring);
/* There may be something to send to that member once all before it has gone. */
void tt_peers_look_again(tutti_run *run, uint64_t id);
/* What ended is freed. */
void tt_peers_settle(tutti_run *run);
void tt_peers_close(tutti_run *run);

/* rounds.c: Makes a call and waits for what it came to. The lock is held before and after. Statuses of the member's own end: what
 * tt_run_check says. */
tutti_status tt_round_call(tutti_run *run, const struct tt_elmsg *call, uint64_t deadline_ns, const char *name,
                           struct tt_member_act *result);

/* The same after the machine has taken the call. */
tutti_status tt_round_finish(tutti_run *run, uint64_t deadline_ns, const char *name, struct tt_member_act *result);
/* Why a call that all members make may not be made now. */
tutti_status tt_round_refuse(tutti_run *run, const char *name);
/* INVALID (logged): what is under way. Under the lock. */
tutti_status tt_round_collides(const tutti_run *run, const char *name);
/* The service thread's part: the log tells of an epoch that waits for newcomers as too few members are left. Under the lock. */
void tt_round_tick(tutti_run *run, uint64_t now_ns);
uint64_t tt_round_next_ns(const tutti_run *run);

/* sync.c: what the service thread has to do with a sync, if there is one. Under the lock. */
/* The machine has a plan. */
void tt_state_plan(tutti_run *run);
/* Of a member, as tt_transfer_peer has it. False: it must not say that. */
bool tt_state_hear(tutti_run *run, uint64_t id, const void *data, size_t bytes);
/* There is a new connection to a member. */
void tt_state_connected(tutti_run *run, uint64_t id);
void tt_state_tick(tutti_run *run);
uint64_t tt_state_next_ns(const tutti_run *run);

/* optimize.c: what the service thread has to do with a measurement, if there is one. Under the lock. */
/* Of a member, as tt_survey_peer_says has it. False: it must not say that. */
bool tt_measure_hear(tutti_run *run, uint64_t id, const void *data, size_t bytes);
/* All that was said to that member has gone. Whether there was something more to say. */
bool tt_measure_room(tutti_run *run, uint64_t id);
/* After that: how many bytes the system shall hold for that member beyond what is on its way. */
uint32_t tt_measure_unsent(const tutti_run *run, uint64_t id);
/* There is a new connection to a member. */
void tt_measure_connected(tutti_run *run, uint64_t id);
/* What is measured is of no use any longer. */
void tt_measure_drop(tutti_run *run);
void tt_measure_tick(tutti_run *run);
uint64_t tt_measure_next_ns(const tutti_run *run);

/* operation.c */
/* An operation on its way: begin, (perform, vote: in the engine, without the lock), judge. */
struct tt_operation {
    tutti_elastic *op;
    uint32_t tag;
    uint64_t epoch;
    uint64_t deadline_ns;               /* of the whole call; what the verdict takes is beyond it */
    uint32_t nranks;
    tutti_comm *comm;                   /* of all members, who vote */
    tutti_comm *scope;                  /* of those among whom it is */
    uint32_t nscope, contributors;
    int root;
    const size_t *counts, *displs;      /* of v collectives, by the ranks of now */
    size_t *mapped;                     /* malloc'd, where these are not the caller's */
    tutti_call call;
    struct tt_tag *kept;                /* its tag */
    bool tentative;
    bool settles;                       /* who has its result has settled it */
    struct tt_saved saved;
    struct tt_news mine;                /* news, when our part was done */
    uint64_t news[TT_NEWS_WORDS];       /* the same, as the others get it */
    uint64_t newest[TT_NEWS_WORDS];     /* of all members */
    uint8_t part;                       /* likewise, of a PARTIAL one: 1 if this one contributes */
    tutti_status failed;                /* what went wrong on this member; its sentence is in the tag */
    uint64_t seen_ns;                   /* when the clock was last looked at: before each of its calls */
};
/* The call that this thread makes operations by, as its program knows it: what is said of them begins with it. tutti_run_collective, unless another one was entered. */
const char *tt_operation_call(void);
/* Another one begins, or (NULL) has ended. */
void tt_operation_enter_call(const char *name);
/* The service thread's part: the coordinator is told of operations that have lasted for half a lease, and again with each half. Under the lock. */
void tt_operation_tick(tutti_run *run, uint64_t now_ns);
/* Whether it runs again after a loss. */
static inline bool tt_operation_retries(const tutti_elastic *op) { return op->mode != TUTTI_ABORT; }
/* INVALID: it makes no sense as it is. Local. */
tutti_status tt_operation_check(const tutti_run *run, const tutti_elastic *op, uint32_t tag);
/* Its status says why nothing has happened; that of one which is tentative stays, as it was given once more. */
void tt_operation_refused(tutti_elastic *op, tutti_status st);
/* Under the lock. On success it is the machine's until it was judged. PEER_LOST: the epoch is over. TIMEOUT: another thread still makes the next view. */
tutti_status tt_operation_begin(tutti_run *run, struct tt_operation *o, tutti_elastic *op, uint32_t tag,
                                uint64_t deadline_ns);
/* How long the next of its calls on a communicator may take, as tutti_call has it. */
int64_t tt_operation_left_ms(const struct tt_operation *o);
/* Without the lock. request: NULL, or where the running call goes. */
tutti_status tt_operation_perform(struct tt_operation *o, tutti_request **request);
/* Our part is done. False: it is settled, or the epoch is over, or nobody else is there, and it is to be judged. Under the lock. */
bool tt_operation_complete(tutti_run *run, struct tt_operation *o);
tutti_status tt_operation_vote(struct tt_operation *o, tutti_request **request);
/* All parts are done. Under the lock. */
void tt_operation_voted(tutti_run *run, struct tt_operation *o);
/* It failed here. Under the lock. */
void tt_operation_fail(tutti_run *run, struct tt_operation *o, tutti_status st);
/* It is out of the engine, and the tag is free. Under the lock. */
void tt_operation_leave(tutti_run *run, struct tt_operation *o);
/* What was saved is put back; the lock is given away for it. */
void tt_saved_restore(tutti_run *run, const struct tt_tag *t, const struct tt_saved *saved);
/* Waits for its verdict, and restores its input if that is what came of it. The same of the tentative one before it, whose verdict is told then.
 * Under the lock. */
tutti_status tt_operation_judge(tutti_run *run, struct tt_operation *o);
/* Whether the deadline of the tag's operation of that epoch passed while it waited for the verdict; what is told then instead of trying it again. Under the lock. */
bool tt_operation_is_late(const tutti_run *run, uint32_t tag, uint64_t epoch);
tutti_status tt_operation_too_late(void);
/* The epoch is over: makes the next one, unless another thread does or did. Under the lock. */
tutti_status tt_operation_recover(tutti_run *run, const tutti_elastic *op, uint64_t epoch, uint64_t deadline_ns);
/* What the caller is told: ABORTED, where it is that the operation cannot be tried again, is a loss to it, unless this member is out of the run. Not
 * under the run's lock. */
tutti_status tt_operation_told(tutti_run *run, tutti_status st);

/* tentative.c: operations whose verdict comes later. Under the lock, but for the first two. */
/* Whether such a collective may be tentative: nobody has its result before all have begun it. */
bool tt_tentative_fits(const tutti_elastic *op);
/* Whether this one is, in the view as it is. */
bool tt_tentative_is(const tutti_run *run, const tutti_elastic *op);
/* Why this operation may not be the next of its tag; OK. */
tutti_status tt_tentative_follows(const tutti_run *run, const tutti_elastic *op, uint32_t tag);
/* A tentative operation of the tag is tried; all have had their say, of one tag or of all. */
void tt_tentative_owe(tutti_run *run, uint32_t tag);
void tt_tentative_owe_no_more(tutti_run *run, uint32_t tag);
void tt_tentative_owe_nothing(tutti_run *run);
/* Nothing has happened of the operation that is under way. */
void tt_tentative_refused(tutti_run *run, const struct tt_operation *o);
/* Whether some tag owes for one that was not refused. */
bool tt_tentative_tried(const tutti_run *run);
/* Why this operation, or the call `name` that all members make (op NULL), may not be while something is tentative; OK. */
tutti_status tt_tentative_refuse(const tutti_run *run, const tutti_elastic *op, const char *name);
/* Our part of a tentative operation is done, and it may return. The one before it is final, which is told. False: the epoch is over, and it is to be
 * judged. */
bool tt_tentative_keep(tutti_run *run, struct tt_operation *o);
/* Tells what became of the tag's tentative operation, if that is known: its status is written, its input restored, for which the lock is given away. */
void tt_tentative_tell(tutti_run *run, uint32_t tag);
/* Waits until it is known: the epoch is over. */
void tt_tentative_await(tutti_run *run, uint32_t tag, uint64_t deadline_ns);
/* The call, after which nothing is tentative any more, unless it fails. */
tutti_status tt_tentative_commit(tutti_run *run, int good, uint64_t deadline_ns, const char *name, bool *verdict);
/* The same before the view changes, where something is owed. */
tutti_status tt_tentative_close(tutti_run *run, uint64_t deadline_ns, const char *name);

/* scope.c */
/* Among whom it is, and its root and counts by their ranks: o->scope, nscope, root, counts, displs. ABORTED: the root is lost, or others that blocks were for.
 * Under the lock. */
tutti_status tt_scope_take(const tutti_run *run, struct tt_operation *o);
/* Whether that is a part of the members: those of a role, or of a group. */
static inline bool tt_scope_is_part(const tutti_run *run, const tutti_elastic *op)
{
    return op->scope != TUTTI_SCOPE_ALL && run->m.conf.nroles > 1;
}
/* Frees what that took. NULL pointers are fine. */
void tt_scope_drop(struct tt_operation *o);

/* partial.c */
/* Before a PARTIAL operation is performed: says whether this one contributes, and hears of the others. As tt_operation_perform. */
tutti_status tt_partial_ask(struct tt_operation *o, tutti_request **request);
/* All have said it: how many contribute, and what an average is divided by. */
void tt_partial_heard(struct tt_operation *o);

/* view.c */
struct tt_view_result {
    bool changed;                       /* another view than before */
    bool too_few;                       /* it failed because fewer than `least` are left */
};
/* One epoch, to the view in which all have met. Under the lock, which is given away while it waits. */
tutti_status tt_view_epoch(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most, uint64_t deadline_ns,
                           const char *name, struct tt_view_result *out);

/* PEER_LOST (logged): fewer are in the view. Under the lock. */
tutti_status tt_view_suffices(const tutti_run *run, uint32_t least, const char *name);
/* The next view after a loss, without newcomers, again until its members have met: the same call on all members, whether the loss interrupted
 * an operation or another epoch. Likewise. */
tutti_status tt_view_again(tutti_run *run, uint32_t least, uint64_t deadline_ns, const char *name,
                           struct tt_view_result *out);

/* An epoch as programs know it: the view that comes of it is the one that they know then. Likewise. */
tutti_status tt_view_call(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most, uint64_t deadline_ns,
                          const char *name, tutti_view *out);
/* The view as it is. Under the lock. */
void tt_view_show(const tutti_run *run, tutti_view *out, bool changed);

/* space.c */
/* Whether the world will do for the view, as far as this member knows. */
bool tt_home_fits(tutti_run *run);
/* A member of the view to which the world has lost its connection; 0: none. Not under the engine's baton. */
uint64_t tt_home_lost(tutti_run *run);
void tt_home_leave(struct tt_home *h);
/* The communicators of a view in its world. */
tutti_status tt_space_open(struct tt_space *s, struct tt_world *world, const struct tt_home *home, const uint64_t *ids,
                           uint32_t nranks, uint32_t rank, uint64_t epoch, uint32_t ntags, int64_t timeout_ms);
/* And those of this one's role and group, of members[s->nranks]. What was opened is closed with s, also if this fails. */
tutti_status tt_space_open_scopes(struct tt_space *s, struct tt_world *world, const struct tt_home *home,
                                  const tutti_member *members, uint32_t ntags, int64_t timeout_ms);
void tt_space_close(struct tt_space *s, uint32_t ntags);
/* Before a call that may change the view, and after it: on the program's communicator no call begins meanwhile. False: one is under way, or a request is
 * open that is not over; of an epoch that is over, who ends the view waits for them. Under the lock. */
bool tt_space_seal(tutti_run *run);
void tt_space_unseal(tutti_run *run);
/* What this host's work costs: measured when it is first asked for in this process, which is before it joins, as nobody waits for it then. */
const struct tt_constants *tt_space_constants(void);
/* Whether a context's id is one of this epoch's. */
bool tt_space_has(uint64_t epoch, uint32_t context);
/* Hooks of its engine that report to the run. */
struct tt_engine_hooks tt_space_hooks(tutti_run *run);
/* What was reported. Under the lock. */
void tt_space_hear(tutti_run *run);
/* Another member says that a context failed there. */
void tt_space_failed(tutti_run *run, const struct tt_said *s);

#endif
