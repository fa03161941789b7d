/* A member's activity around its state machine (elastic/member.h). Internal to this directory.
 *
 * One lock protects everything of a run except the data connections. A service thread handles
 * the connection to the coordinator, the control connections to other members, and the timers.
 * The program's threads enter by the public calls, act on the machine under the lock, and wait
 * on `changed`. The lock is not held during a collective or the creation of a world. The
 * engine's progress lock may be taken under this lock, but not the reverse. */
#ifndef TT_SESSION_RUN_H
#define TT_SESSION_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/acceptor.h"
#include "base/clock.h"
#include "base/fork.h"
#include "comm/comm.h"
#include "elastic/member.h"
#include "elastic/mismatch.h"
#include "elastic/survey.h"
#include "elastic/transfer.h"
#include "secure/channel.h"
#include "trace/oplog.h"
#include "session/card.h"
#include "session/membership_updates.h"
#include "session/messages.h"
#include "tutti/elastic.h"
#include "wire/wire.h"

#define TT_RUN_COORDINATORS 16
#define TT_RUN_TROUBLES 16
/* queued requests of one member; it has at most TT_TRANSFER_WINDOW in flight, and more only while
 * plans change */
#define TT_RUN_REQUESTS 32u
/* if a deadline is noticed this late, the process was suspended when it passed */
#define TT_RUN_STILL_NS TT_SECOND
#define TT_RUN_STRANGERS 64u            /* unauthenticated connections */

/* ---- the coordinator ---- */

/* A wait that may never succeed, and is therefore logged. */
struct tt_run_waiting {
    uint64_t since_ns;                  /* 0: not waiting */
    uint64_t tell_ns;                   /* time of the next log line */
};

enum tt_link_state { TT_LINK_DOWN, TT_LINK_WAITS, TT_LINK_CONNECTS, TT_LINK_UP, TT_LINK_BROKEN };

struct tt_coordinator_link {
    enum tt_link_state state;
    uint64_t connect_ns;                /* WAITS: time of the next attempt */
    uint64_t give_up_ns;                /* CONNECTS */
    int fd;                             /* CONNECTS */
    struct tt_channel *channel;         /* UP, BROKEN */
    uint32_t events;                    /* polled by epoll */
    uint64_t measured_ns;               /* time of the last measurement of the round trip */
    uint32_t at;                        /* index of the address in use */
    struct tt_run_waiting away;         /* not connected to a coordinator */
    char why[300];                      /* result of the last attempt */
};

/* ---- other members ---- */

/* A control connection to or from a member. */
struct tt_peer_conn {
    struct tt_peer_conn *next;
    struct tt_peer_link *peer;          /* NULL: an incoming connection that is not authenticated
                                           yet */
    bool connects;                      /* initiated by this end */
    bool greeted, proved;               /* HELLO and PROOF were received from the other end */
    bool stranger;                      /* incoming, not authenticated, and in one of the
                                           TT_RUN_STRANGERS slots */
    uint8_t origin[16];                 /* remote address of an unauthenticated peer, in IPv6
                                           form */
    int fd;                             /* while it connects: no channel yet */
    struct tt_channel *channel;
    uint32_t events;
    uint32_t unsent_bytes;              /* maximum unsent bytes in the kernel; 0: unlimited */
    uint64_t give_up_ns;                /* until authenticated */
    struct tt_message_end own, other;
    bool more;                          /* it has more messages than one pass handles */
    bool dead;                          /* freed at the end of this pass */
};

/* Pending requests of a member, as received (transfer.h). */
struct tt_peer_requests {
    uint32_t first, n;
    struct tt_peer_request {
        uint8_t bytes, data[TT_TRANSFER_HEAD_BYTES];
    } ring[TT_RUN_REQUESTS];
};

/* A member to which this one may need a connection. */
struct tt_peer_link {
    struct tt_peer_link *next;
    uint64_t id;
    struct tt_member_card card;
    enum tt_mark_place place;           /* where its mark was found when it became wanted */
    bool wanted;                        /* in the view, or proposed */
    struct tt_peer_conn *conn;          /* last authenticated connection; NULL: none */
    struct tt_peer_conn *trying;        /* latest outgoing connection that is not authenticated
                                           yet */
    uint32_t address;                   /* index of the next candidate */
    uint64_t try_ns;                    /* time of the next attempt */
    uint64_t beside_ns;                 /* trying: time of a parallel attempt at the next
                                           address; or TT_NEVER */
    uint64_t away_ns;                   /* time of the disconnect; TT_NEVER: connected */
    uint64_t suspect_ns;                /* time of the next report of suspicion */
    uint32_t refusals;                  /* consecutive refusals since its connection ended */
    uint64_t gone_ns;                   /* earliest time of the next report that it has ended */
    bool was_there;                     /* it was connected before */
    bool has_offer;
    struct tt_message offer;               /* for the latest epoch in which it made one */
    struct tt_peer_requests *requests;  /* NULL: none so far */
};

/* ---- views ---- */

/* A world, and its members by job rank. */
struct tt_run_home {
    struct tt_world *world;
    uint64_t epoch;                     /* epoch in which it was created, which identifies it; 0:
                                           none */
    uint32_t n;
    uint64_t *ids;                      /* [n] */
};

/* The communicators of a view. */
struct tt_view_comms {
    uint64_t epoch;                     /* 0: none */
    uint32_t rank, nranks;
    tutti_comm *comm;                   /* the program's communicator */
    tutti_comm **tags;                  /* [run->ntags] of all members */
    tutti_comm **roles, **groups;       /* [run->ntags] each, of this member's role and group; NULL:
                                           no replica groups */
};

/* Backup of an operation's overwritten input and residuals, one after the other, in one of its
 * tag's copies. */
struct tt_saved {
    void *input, *feedback;
    size_t input_bytes, feedback_bytes; /* 0: not overwritten */
    uint32_t copy;                      /* index of the copy */
};

static inline bool tt_is_saved(const struct tt_saved *s)
{
    return s->input_bytes > 0 || s->feedback_bytes > 0;
}

/* An operation that has returned before its outcome. */
struct tt_deferred {
    tutti_elastic *op;                  /* the program's descriptor; NULL: none */
    uint64_t n;                         /* sequence number within the tag, as counted by the
                                           machine */
    bool done;                          /* the outcome is known: */
    uint8_t state;
    struct tt_saved saved;
};

/* Whether a tentative operation of a tag was tried, and no final operation or commit has
 * followed. */
enum tt_owing {
    TT_DEFERRED_NONE,
    TT_DEFERRED_REFUSED,                    /* refused here before it started; possibly on the other
                                           members, too, if they made the same call */
    TT_DEFERRED_PENDING
};

/* State of one tag's operation. */
struct tt_tag {
    bool in_use;
    const struct tt_operation *inside;  /* in the engine; NULL: none */
    uint64_t inside_ns;                 /* time of the next report to the coordinator */
    bool done;                          /* the outcome is known: */
    bool given;                         /* the outcome included the result, which is in `results` */
    uint8_t state;                      /* enum tt_op_state */
    uint64_t n;
    struct tt_membership news;
    uint64_t told_epoch, told_n;        /* last operation that exchanged updates */
    struct tt_deferred tentative;      /* the previous operation, if tentative */
    enum tt_owing owes, owed;           /* owed: value before the current operation */
    void *copy[2];                      /* backups of overwritten data, [copy_cap] each; the
                                           second is used while a tentative operation has the
                                           first */
    size_t copy_cap[2];
    uint8_t *parts;                     /* [parts_cap] contributors of a PARTIAL operation, by
                                           rank of its scope */
    size_t parts_cap;
    char why[TT_ERROR_BYTES];           /* error of the current operation */
    uint64_t late_here;                 /* last epoch in which a deadline passed here first */
    uint64_t late_in;                   /* last epoch in which the deadline passed while waiting
                                           for the outcome */
};

/* The shared state during a sync. */
struct tt_run_sync {
    tutti_run *run;
    tutti_state *state;
    struct tt_transfer transfer;
    struct tt_sync_array *arrays;       /* [narrays] each */
    uint64_t *dims;
    struct tt_hash *hashes;
    struct tt_transfer_item *items;
    uint8_t *list, *coming;             /* [narrays][16] */
    const char *unable;                 /* reason why this member cannot receive; NULL */
    void *piece;                        /* buffer for a piece of an array outside of host memory;
                                           NULL: all are in host memory */
};

/* Measurement of the links between this member and the others, and its results. */
struct tt_run_survey {
    struct tt_survey machine;           /* for the epoch in its conf */
    struct tt_survey_peer peers[TT_RING_PEERS_MAX];
    struct tt_ring_link links[TT_RING_PEERS_MAX], told[TT_RING_PEERS_MAX];
    struct tt_ring_sample samples[TT_SURVEY_SAMPLES];
    uint8_t filler[TT_SURVEY_CHUNK_BYTES];
    struct tt_elmsg head;               /* header of the report to the coordinator */
    bool reported;                      /* the last results were reported */
};

/* Failure of a context, reported by the engine under its progress lock. */
struct tt_run_failure {
    uint32_t context;
    tutti_status status;
    char sentence[TT_MESSAGE_TEXT_BYTES];
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
    struct tt_mark mark;                /* its number is in the card */
    struct tt_outside outside;          /* announced address and ports of its data connections */
    uint32_t forks;                     /* number of forks before it joined */

    uint16_t trace;                     /* its ID in traces (trace/comms.h) */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool thread_runs, ending;
    int epoll, wake_fd;
    struct tt_acceptor acceptor;

    struct tt_member m;
    struct tt_surroundings_seat *seats;     /* [2 * TT_ELASTIC_MEMBERS_MAX]: members of the view,
                                               then proposed ones */
    uint8_t *scratch;
    uint8_t (*results)[TT_SETTLED_BYTES];   /* [TT_ELASTIC_TAGS] results of small operations;
                                               accessed only for used tags */
    bool over;
    tutti_status over_status;
    char over_why[TT_ERROR_BYTES];

    struct tt_coordinator_link link;
    struct tt_peer_link *peers;
    struct tt_peer_conn *conns;
    uint32_t nstrangers;
    uint64_t reach;                     /* proposal to answer; 0: none */
    uint64_t reach_ns;                  /* deadline of the answer */

    bool call_done;                     /* the current call has its result: */
    struct tt_member_act result;
    bool result_over;                   /* the epoch was over when it arrived, which may explain
                                           different calls */
    bool calling;                       /* a thread of the program is in a call that all members
                                           make */
    struct tt_run_waiting lacking;      /* that thread waits for newcomers, because too few
                                           members are left */
    struct tt_run_sync *sync;           /* of that thread; NULL: no sync */
    struct tt_run_survey *survey;       /* NULL: never measured */
    bool synced[2];                     /* by enum tt_sync_scope: a sync was successful before */

    struct tt_run_home home;
    struct tt_view_comms space;
    char stop_why[TT_MESSAGE_TEXT_BYTES];  /* first failure of the epoch, or the coordinator's
                                           message; "": none */
    bool stop_logged;                   /* a failure of the epoch was logged */
    bool offered;                       /* `offer` was sent, and is repeated on new connections */
    struct tt_message offer;
    tutti_member *members;              /* [nranks] of the space's view */
    tutti_member *asked;                /* [nasked] of the view that the program's last
                                           tutti_run_epoch returned */
    uint32_t nasked;
    struct tt_tag tags[TT_ELASTIC_TAGS];
    uint32_t noperations;               /* in progress */
    uint32_t ninside;                   /* of these, in the engine, using a communicator of the
                                           space */
    uint32_t nowing;                    /* tags with a tentative operation that was tried */
    bool recovering;                    /* an operation's thread forms the next view */
    bool dropped;                       /* and this member's replica group is not in that view */
    bool put_out;                       /* removed from the view with its replica group, and not
                                           admitted again yet */
    uint64_t expected;                  /* epoch to which this member was admitted after it had
                                           cancelled its call; the others wait for it there; 0:
                                           none */
    struct tt_membership heard;               /* update returned by poll, */
    uint64_t heard_n;                   /* and the first operation that had it, by number, then
                                           tag; 0: none */
    uint32_t heard_tag;
    tutti_run_stats_t stats;

    pthread_mutex_t trouble_lock;       /* a leaf lock */
    struct tt_run_failure troubles[TT_RUN_TROUBLES];
    uint32_t ntroubles;
};

static inline void tt_run_lock(tutti_run *run) { pthread_mutex_lock(&run->lock); }
static inline void tt_run_unlock(tutti_run *run) { pthread_mutex_unlock(&run->lock); }
/* Returns whether this process is a forked child: the run belongs to its parent. */
static inline bool tt_run_is_inherited(const tutti_run *run) { return run->forks != tt_forks(); }

/* run_state.c */
/* Waits for a change until deadline_ns. Returns false if the deadline has passed. The lock is held
 * before and after. */
bool tt_run_wait(tutti_run *run, uint64_t deadline_ns);
/* As tt_run_wait. A deadline that passed while the process or its host was suspended is replaced by
 * a new one, after the default timeout. */
bool tt_run_wait_awake(tutti_run *run, uint64_t *deadline_ns);
/* Returns OK, or the reason why this member is not in the run any more. The caller holds the
 * lock. */
tutti_status tt_run_check(tutti_run *run);
/* Returns PEER_LOST with a message. Logged as a warning, because the run survives it. */
tutti_status tt_run_lost(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As tt_run_lost, for a call whose epoch is over, with the reason; `more` is appended. The caller
 * holds the lock. */
tutti_status tt_run_epoch_over(const tutti_run *run, const char *name, const char *more);
/* Ends the epoch for all members because of this error. PENDING: the error is that of another
 * member, which reports it. The caller holds the lock. */
void tt_run_end_epoch(tutti_run *run, tutti_status status);
/* Common checks of all calls. INVALID: run, or the argument `given`, is NULL; FORKED in the
 * child of a fork. Takes no lock. */
tutti_status tt_run_check_call(const tutti_run *run, const void *given, const char *argument,
                               const char *name);
/* Checks that *out is a struct that begins with its size, and has `wanted` bytes. Otherwise
 * returns the error. */
tutti_status tt_run_check_out(const tutti_run *run, const void *out, const char *type,
                              size_t wanted, const char *name);
/* Returns the deadline of a call. */
uint64_t tt_run_deadline(const tutti_run *run, int64_t timeout_ms);
/* Returns whether the process was suspended at the deadline: now_ns is much later. */
bool tt_run_was_stalled(uint64_t deadline_ns, uint64_t now_ns);
/* Returns whether a wait must be logged now: after a second, then at intervals that double up to a
 * minute. *waited_ns: duration of the wait. */
bool tt_run_should_log_wait(struct tt_run_waiting *w, bool waits, uint64_t now_ns,
                            uint64_t *waited_ns);
/* Returns the rank of a member in the machine's view, or UINT32_MAX if it is not in it. */
uint32_t tt_run_rank_of(const tutti_run *run, uint64_t id);
/* Called when no coordinator has decided an outcome before the deadline, while others may have
 * it. This member leaves the run, because its state would differ. The caller holds the lock. */
void tt_run_give_up(tutti_run *run, const char *what);
/* Called when this member cannot continue like the others. It leaves the run with this error. The
 * caller holds the lock. */
void tt_run_break(tutti_run *run, tutti_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* poller.c: the descriptors that the service thread polls */
/* Add, change or remove fd in the poller. data: returned with each event. */
bool tt_poller_watch(tutti_run *run, int fd, uint32_t events, void *data);
void tt_poller_change(tutti_run *run, int fd, uint32_t events, void *data);
void tt_poller_unwatch(tutti_run *run, int fd);
/* Wakes the service thread. */
void tt_run_wake(tutti_run *run);

/* settings.c: applies the caller's settings, and those of the environment for unset ones.
 * Resolves names, until the run's timeout. */
tutti_status tt_run_take_conf(tutti_run *run, const tutti_run_conf *conf);

/* service.c */
tutti_status tt_service_start(tutti_run *run);
void tt_service_stop(tutti_run *run);

/* link.c: the connection to the coordinator. The caller holds the lock. */
void tt_link_connect(tutti_run *run, uint64_t delay_ns);
void tt_link_disconnect(tutti_run *run);
void tt_link_send(tutti_run *run, const void *data, size_t bytes);
/* Handles events of the connection's socket. */
void tt_link_event(tutti_run *run);
void tt_link_tick(tutti_run *run, uint64_t now_ns);
uint64_t tt_link_next_ns(const tutti_run *run);
#define TT_LINK_TRIED_BYTES 700u
/* Prints the addresses of coordinators: "10.0.0.1:29401, 10.0.0.2:29401". */
void tt_link_tried(const tutti_run *run, char tried[TT_LINK_TRIED_BYTES]);
/* Notifies the machine of a broken connection. */
void tt_link_settle(tutti_run *run);
void tt_link_close(tutti_run *run);

/* peer_send.c: sending to other members. The caller holds the lock. */
/* maximum unsent bytes of a connection in the kernel, except during a measurement; the rest is
 * queued in the channel, where it is counted */
#define TT_PEER_UNSENT_BYTES (128u << 10)
struct tt_peer_link *tt_peers_find(tutti_run *run, uint64_t id);
/* Returns the ID of this host in a new world: equal for two members of the view exactly if their
 * marks prove that they share a host. */
uint64_t tt_peers_host(const tutti_run *run);
/* Marks a connection as closed: tt_peers_settle frees it. */
static inline void tt_peer_conn_end(struct tt_peer_conn *c) { c->dead = true; }
/* Sends a message; closes the connection if that fails. */
void tt_peer_conn_send(tutti_run *run, struct tt_peer_conn *c, const struct tt_message *s);
/* Has the poller wait for the events that the channel needs now. */
void tt_peer_conn_update_events(tutti_run *run, struct tt_peer_conn *c);
/* Limits the unsent bytes of the connection in the kernel. */
void tt_peer_conn_set_unsent(struct tt_peer_conn *c, uint32_t bytes);
/* Sends a message to all members of the view. */
void tt_peers_broadcast(tutti_run *run, const struct tt_message *s);
/* Sends a message with these two parts to a member of the view if it is connected, else drops
 * it. The amount is bounded: control messages, requests, and one piece at a time. */
void tt_peers_send(tutti_run *run, uint64_t id, const void *head, size_t head_bytes,
                   const void *body, size_t body_bytes);
/* Sets whether links are being measured. */
void tt_peers_measure(tutti_run *run, bool measuring);
/* Resumes sending to that member: it may need data after its queued messages. */
void tt_peers_resume_send(tutti_run *run, uint64_t id);

/* peers.c: control connections to other members. The caller holds the lock. */
void tt_peers_accept(tutti_run *run, uint64_t now_ns);
void tt_peers_event(tutti_run *run, struct tt_peer_conn *c);
void tt_peers_tick(tutti_run *run, uint64_t now_ns);
uint64_t tt_peers_next_ns(const tutti_run *run);
/* Connects to the members of the view and of the proposal, and closes other connections. */
void tt_peers_update(tutti_run *run, uint64_t now_ns);
/* Begins to connect to the proposed members. */
void tt_peers_reach(tutti_run *run, uint64_t now_ns);
/* Frees closed connections. */
void tt_peers_settle(tutti_run *run);
void tt_peers_close(tutti_run *run);

/* rounds.c: makes a call and waits for its result. The lock is held before and after. If the
 * member leaves the run, returns the status of tt_run_check. */
tutti_status tt_round_call(tutti_run *run, const struct tt_elmsg *call, uint64_t deadline_ns,
                           const char *name, struct tt_member_act *result);

/* As tt_round_call, after the machine has accepted the call. */
tutti_status tt_round_finish(tutti_run *run, uint64_t deadline_ns, const char *name,
                             struct tt_member_act *result);
/* Returns why a call that all members make is not permitted now. */
tutti_status tt_round_refuse(tutti_run *run, const char *name);
/* Returns INVALID (logged), naming the call in progress. The caller holds the lock. */
tutti_status tt_round_collides(const tutti_run *run, const char *name);
/* Part of the service thread: logs that an epoch waits for newcomers because too few members are
 * left. The caller holds the lock. */
void tt_round_tick(tutti_run *run, uint64_t now_ns);
uint64_t tt_round_next_ns(const tutti_run *run);

/* sync.c: the service thread's part of a sync, if there is one. The caller holds the lock. */
/* The machine has a plan. */
void tt_state_plan(tutti_run *run);
/* Handles a member's message (see tt_transfer_peer). False: protocol violation. */
bool tt_state_receive(tutti_run *run, uint64_t id, const void *data, size_t bytes);
/* A new connection to a member was made. */
void tt_state_connected(tutti_run *run, uint64_t id);
void tt_state_tick(tutti_run *run);
uint64_t tt_state_next_ns(const tutti_run *run);

/* optimize.c: the service thread's part of a measurement, if there is one. The caller holds the
 * lock. */
/* Handles a member's message (see tt_survey_receive). False: protocol violation. */
bool tt_measure_receive(tutti_run *run, uint64_t id, const void *data, size_t bytes);
/* Called when all messages to that member were sent. Returns whether more was sent. */
bool tt_measure_room(tutti_run *run, uint64_t id);
/* Returns the limit on that member's unsent bytes in the kernel, for the data sent by
 * tt_measure_room. */
uint32_t tt_measure_unsent(const tutti_run *run, uint64_t id);
/* A new connection to a member was made. */
void tt_measure_connected(tutti_run *run, uint64_t id);
/* Discards the measurement. */
void tt_measure_drop(tutti_run *run);
void tt_measure_tick(tutti_run *run);
uint64_t tt_measure_next_ns(const tutti_run *run);

/* An operation in progress. Steps: begin, then perform and vote (in the engine, without the lock),
 * then judge, which waits for the outcome. */
struct tt_operation {
    tutti_elastic *op;
    uint32_t tag;
    uint64_t epoch;
    uint64_t deadline_ns;               /* of the whole call, excluding the wait for the outcome */
    uint32_t nranks;
    tutti_comm *comm;                   /* of all members, for the outcome */
    tutti_comm *scope;                  /* of the participants */
    uint32_t nscope, contributors;
    int root;
    const size_t *counts, *displs;      /* of v collectives, by current ranks */
    size_t *mapped;                     /* malloc'd copies of these, if they differ from the
                                           caller's */
    tutti_call call;
    struct tt_tag *kept;                /* its tag */
    bool tentative;
    bool settles;                       /* the first member with the result settles it */
    struct tt_saved saved;
    struct tt_membership mine;                /* latest update when this member's part was
                                                 complete */
    uint64_t news[TT_MEMBERSHIP_WORDS];       /* the same, encoded */
    uint64_t newest[TT_MEMBERSHIP_WORDS];     /* of all members */
    uint8_t part;                       /* for PARTIAL: 1 if this member contributes */
    tutti_status failed;                /* error on this member; its message is in the tag */
    uint64_t seen_ns;                   /* last clock reading, before each of its calls */
    uint64_t record;                    /* ID of its record in the trace; 0: none */
};

/* Calls of the run in the trace (run_trace.c). Open it when the member has its id and the run's
 * secret. The caller does not hold the lock. */
void tt_run_trace_open(tutti_run *run);
void tt_run_trace_close(tutti_run *run);
/* The run has a new view, of ids[n]. */
void tt_run_trace_view(tutti_run *run, const uint64_t *ids, uint32_t n, uint32_t rank);
/* Records that a member was lost or left, and why. */
void tt_run_trace_lost(const tutti_run *run, uint64_t id, enum tt_loss loss);
/* Records a call. Returns the ID of its record, for tt_run_trace_end. */
uint64_t tt_run_trace_begin(const tutti_run *run, enum tt_oplog_kind kind, uint64_t seq);
uint64_t tt_run_trace_operation(const tutti_run *run, const struct tt_operation *o);
/* Records the end of a call, and dumps the trace if it failed. The caller may hold the lock. */
void tt_run_trace_end(uint64_t record, tutti_status st);

/* operation_state.c */
/* Returns the name of the public call in which this thread runs operations, for messages:
 * tutti_run_collective, unless another one was entered. */
const char *tt_operation_call(void);
/* Enters another call, or leaves it (NULL). */
void tt_operation_enter_call(const char *name);
/* Returns whether the operation is repeated after a loss. */
static inline bool tt_operation_retries(const tutti_elastic *op) { return op->mode != TUTTI_ABORT; }
/* Returns the remaining timeout for its next call on a communicator, as in tutti_call. */
int64_t tt_operation_left_ms(const struct tt_operation *o);
/* The operation has left the engine. The caller holds the lock. */
void tt_operation_leave_engine(tutti_run *run, const struct tt_operation *o);
/* As tt_operation_leave_engine, for a tentative operation: its tag is free. */
void tt_operation_leave(tutti_run *run, struct tt_operation *o);

/* backup.c */
/* Copies the input and residuals that the operation overwrites to its tag. NOMEM. */
tutti_status tt_saved_take(struct tt_operation *o);
/* Restores the backup; releases the lock meanwhile. */
void tt_saved_restore(tutti_run *run, const struct tt_tag *t, const struct tt_saved *saved);

/* operation.c */
/* Part of the service thread: reports operations to the coordinator that have lasted for half a
 * lease, and again every half lease. The caller holds the lock. */
void tt_operation_tick(tutti_run *run, uint64_t now_ns);
/* Checks the operation's fields; INVALID. Local. */
tutti_status tt_operation_check(const tutti_run *run, const tutti_elastic *op, uint32_t tag);
/* Sets the status of an operation that was not started. The status of a pending tentative
 * operation, passed again, is kept. */
void tt_operation_refused(tutti_elastic *op, tutti_status st);
/* Begins an operation; on success tt_operation_judge must follow. PEER_LOST: the epoch is over.
 * TIMEOUT: another thread still forms the next view. The caller holds the lock. */
tutti_status tt_operation_begin(tutti_run *run, struct tt_operation *o, tutti_elastic *op,
                                uint32_t tag, uint64_t deadline_ns);
/* Runs the collective, without the lock. request: NULL, or receives the request. */
tutti_status tt_operation_perform(struct tt_operation *o, tutti_request **request);
/* This member's part is complete. False: tt_operation_judge must follow now, because the operation
 * is settled, the epoch is over, or this is the only member. The caller holds the lock. */
bool tt_operation_complete(tutti_run *run, struct tt_operation *o);
tutti_status tt_operation_vote(struct tt_operation *o, tutti_request **request);
/* All members' parts are complete. The caller holds the lock. */
void tt_operation_voted(tutti_run *run, struct tt_operation *o);
/* The operation failed here. The caller holds the lock. */
void tt_operation_fail(tutti_run *run, struct tt_operation *o, tutti_status st);
/* Waits for the outcome, and restores the input if required. Also delivers the outcome of the
 * tag's previous tentative operation. The caller holds the lock. */
tutti_status tt_operation_judge(tutti_run *run, struct tt_operation *o);
/* Returns whether the deadline of the tag's operation of that epoch passed while it waited for
 * the outcome; and the error that is returned instead of repeating it. The caller holds the
 * lock. */
bool tt_operation_is_late(const tutti_run *run, uint32_t tag, uint64_t epoch);
tutti_status tt_operation_too_late(void);
/* Forms the next view after the end of an epoch, unless another thread does or did. The caller
 * holds the lock. */
tutti_status tt_operation_recover(tutti_run *run, const tutti_elastic *op, uint64_t epoch,
                                  uint64_t deadline_ns);
/* Returns the caller's status: an ABORTED that only prevents a repetition becomes PEER_LOST,
 * unless this member left the run. The run's lock must not be held. */
tutti_status tt_operation_caller_status(tutti_run *run, tutti_status st);

/* deferred_commit.c: operations with a later outcome. The caller holds the lock, except in the
 * first two functions. */
/* Returns whether such a collective may be tentative: no member has its result before all have
 * begun it. */
bool tt_deferred_fits(const tutti_elastic *op);
/* Returns whether this operation is tentative in the current view. */
bool tt_deferred_is(const tutti_run *run, const tutti_elastic *op);
/* Returns why this operation may not follow in its tag, or OK. */
tutti_status tt_deferred_follows(const tutti_run *run, const tutti_elastic *op, uint32_t tag);
/* A tentative operation of the tag was tried; or a final operation or commit followed, for one
 * tag or for all. */
void tt_deferred_set_pending(tutti_run *run, uint32_t tag);
void tt_deferred_clear_pending(tutti_run *run, uint32_t tag);
void tt_deferred_clear_all(tutti_run *run);
/* The current operation was refused before it started. */
void tt_deferred_refused(tutti_run *run, const struct tt_operation *o);
/* Returns whether some tag has a tried tentative operation that was not refused. */
bool tt_deferred_tried(const tutti_run *run);
/* Returns why this operation, or the call `name` of all members (op NULL), is not permitted
 * while operations are tentative; or OK. */
tutti_status tt_deferred_refuse(const tutti_run *run, const tutti_elastic *op, const char *name);
/* Completes this member's part of a tentative operation, which then returns; the previous one is
 * final. False: the epoch is over, and the outcome must be decided. */
bool tt_deferred_keep(tutti_run *run, struct tt_operation *o);
/* Delivers the outcome of the tag's tentative operation, if known: sets its status, and restores
 * its input; releases the lock meanwhile. */
void tt_deferred_deliver(tutti_run *run, uint32_t tag);
/* Waits until the outcome is known. Call it after a commit, or when the epoch is over. */
void tt_deferred_await(tutti_run *run, uint32_t tag, uint64_t deadline_ns);
/* Performs a commit. Afterwards no operation is tentative, unless it fails. */
tutti_status tt_deferred_commit(tutti_run *run, int good, uint64_t deadline_ns, const char *name,
                                bool *outcome);
/* As tt_deferred_commit, before the view changes, if there were tentative operations. */
tutti_status tt_deferred_close(tutti_run *run, uint64_t deadline_ns, const char *name);

/* subgroup.c */
/* Sets the participants, and the root and counts by their ranks: o->scope, nscope, root, counts,
 * displs. ABORTED: the root, or the receiver of a block, was lost. The caller holds the lock. */
tutti_status tt_subgroup_take(const tutti_run *run, struct tt_operation *o);
/* Returns whether the scope is a part of the members: a role or a group. */
static inline bool tt_subgroup_is_part(const tutti_run *run, const tutti_elastic *op)
{
    return op->scope != TUTTI_SCOPE_ALL && run->m.conf.nroles > 1;
}
/* Frees the arrays of tt_subgroup_take; they may be NULL. */
void tt_subgroup_drop(struct tt_operation *o);

/* optional_contribution.c */
/* Exchanges which members contribute, before a PARTIAL operation is performed. See
 * tt_operation_perform. */
tutti_status tt_partial_exchange(struct tt_operation *o, tutti_request **request);
/* Called after the exchange: sets the number of contributors, and the divisor of an average. */
void tt_partial_apply(struct tt_operation *o);

/* view.c */
struct tt_view_result {
    bool changed;                       /* the view differs from the previous one */
    bool too_few;                       /* failed because fewer than `least` members remain */
};
/* Returns PEER_LOST (logged) if fewer than `least` members are in the view. The caller holds the
 * lock. */
tutti_status tt_view_suffices(const tutti_run *run, uint32_t least, const char *name);
/* Forms the next view after a loss, without newcomers; repeats until its members are connected.
 * All members make the same call, whether the loss interrupted an operation or an epoch. Lock as
 * above. */
tutti_status tt_view_again(tutti_run *run, uint32_t least, uint64_t deadline_ns, const char *name,
                           struct tt_view_result *out);

/* Forms an epoch for the program, which then uses the resulting view. Lock as above. */
tutti_status tt_view_call(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                          uint64_t deadline_ns, const char *name, tutti_view *out);
/* Copies the current view. The caller holds the lock. */
void tt_view_show(const tutti_run *run, tutti_view *out, bool changed);

/* home.c: the world of a run */
/* Returns the job rank of a member, or h->n if the world does not have it. */
uint32_t tt_run_home_rank(const struct tt_run_home *h, uint64_t id);
/* Returns whether the world can be used for the view, as far as this member can determine. */
bool tt_run_home_fits(tutti_run *run);
/* Returns a member of the view to which the world has lost its connection; 0: none. The progress
 * lock must not be held. */
uint64_t tt_run_home_lost(tutti_run *run);
void tt_run_home_leave(struct tt_run_home *h);

/* view_comms.c */
/* Opens the communicators of a view in its world. */
tutti_status tt_view_comms_open(struct tt_view_comms *s, struct tt_world *world,
                                const struct tt_run_home *home, const uint64_t *ids,
                                uint32_t nranks, uint32_t rank, uint64_t epoch, uint32_t ntags,
                                int64_t timeout_ms);
/* Opens the communicators of this member's role and group. members[s->nranks]: those of the view.
 * The communicators are closed with s, also on failure. */
tutti_status tt_view_comms_open_scopes(struct tt_view_comms *s, struct tt_world *world,
                                       const struct tt_run_home *home, const tutti_member *members,
                                       uint32_t ntags, int64_t timeout_ms);
void tt_view_comms_close(struct tt_view_comms *s, uint32_t ntags);
/* Begin and end a call that may change the view; meanwhile no call on the program's communicator
 * begins. False: a call or a request is in progress. In an ended epoch they are waited for
 * instead. The caller holds the lock. */
bool tt_view_comms_seal(tutti_run *run);
void tt_view_comms_unseal(tutti_run *run);
/* Returns the constants of this host. Measured on first use in this process, which is before it
 * joins, when no member waits for it. */
const struct tt_constants *tt_view_comms_constants(void);
/* Returns the hooks by which an engine reports failures to the run. */
struct tt_engine_hooks tt_view_comms_hooks(tutti_run *run);
/* Handles the engine's reports. The caller holds the lock. */
void tt_view_comms_read_reports(tutti_run *run);
/* Another member reports that a context failed there. */
void tt_view_comms_failed(tutti_run *run, const struct tt_message *s);

#endif
