/* Internal to the coordinator's loop. */
#ifndef TT_COORDINATOR_INTERNAL_H
#define TT_COORDINATOR_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/acceptor.h"
#include "coordinator/event_log.h"
#include "coordinator/coordinator.h"
#include "coordinator/listen.h"
#include "coordinator/rate.h"
#include "secure/channel.h"

#define TT_STRANGERS_MAX 1024u      /* connections that have not joined */
#define TT_LEAVERS_MAX 256u         /* connections that are being closed after a reason was sent */
#define TT_ORIGINS 512u             /* addresses with a rate limiter */

/* The kind of an entry in the epoll set. It is the first field of the object to which the entry's
 * pointer refers. */
enum tt_source { TT_SOURCE_WAKE, TT_SOURCE_DOOR, TT_SOURCE_CONN };

struct tt_door {
    enum tt_source source;
    struct tt_acceptor acceptor;
    char text[TT_LISTEN_TEXT_BYTES];
};

enum tt_conn_state {
    TT_CONN_UNAUTHENTICATED,   /* has not joined */
    TT_CONN_MEMBER,
    TT_CONN_LEAVER,     /* closed by the machine: its socket is closed after the queue has been
                           sent */
    TT_CONN_ENDED,      /* freed at the end of the iteration; the machine is notified unless it has
                           closed the connection */
    TT_CONN_STATES
};

struct tt_conn {
    enum tt_source source;
    enum tt_conn_state state;
    struct tt_coord_conn core;          /* identifies the connection for the state machine */
    struct tt_channel *channel;
    TAILQ_ENTRY(tt_conn) place;         /* in the list of its state, the oldest first */
    TAILQ_ENTRY(tt_conn) waiting;       /* in the list of connections with a scheduled read */
    bool waits, let_go;                 /* let_go: the machine emitted CLOSE */
    bool clogged;                       /* not read until the peer has read its messages */
    uint32_t watched;                   /* events in the epoll set */
    uint64_t since_ns;                  /* time at which its state began */
    uint64_t again_ns;                  /* waits: time of the scheduled read */
    uint64_t measure_ns;                /* time of the next measurement of the round trip */
    struct tt_rate rate;                /* rate of the connection's messages */
    uint8_t origin[16];
    char address[TT_LISTEN_TEXT_BYTES];
};
TAILQ_HEAD(tt_conn_list, tt_conn);

/* The connection rate of an address. */
struct tt_origin {
    uint8_t who[16];
    struct tt_rate rate;                /* each_ns 0: unused */
};

/* An action of the machine, deferred until the journal is durable. */
struct tt_deed {
    struct tt_conn *conn;
    struct tt_parcel *parcel;           /* NULL: close */
    bool owns;                          /* the first of the actions that share the parcel */
};

struct tt_coordinator {
    struct tt_coordinator_conf conf;
    char run[TT_ELASTIC_TEXT_BYTES];
    struct tt_secure *secure;
    struct tt_journal *journal;
    struct tt_board *board;
    pthread_t thread;
    int epoll, wake, ended;             /* wake, ended: eventfds */
    struct tt_door doors[TT_LISTEN_MAX];
    uint32_t ndoors;
    enum tt_source wake_source;
    atomic_bool stop;

    pthread_mutex_t lock;               /* protects why and why_text */
    tutti_status why;
    char why_text[256];

    /* The following fields are used only by the thread. */
    struct tt_coord core;
    uint64_t clock_ns;                  /* time at the start of this iteration of the loop */
    uint64_t core_ns;                   /* the machine's time, which excludes stalls of this
                                           process */
    struct tt_conn_list conns[TT_CONN_STATES];
    uint32_t counts[TT_CONN_STATES];
    struct tt_conn_list waiting;
    struct tt_origin origins[TT_ORIGINS];
    struct tt_deed *deeds;              /* [ndeeds] of [deeds_room] */
    size_t ndeeds, deeds_room;
    uint8_t *last;                      /* [TT_ELMSG_BYTES_MAX] last message of this iteration, */
    size_t last_bytes;
    struct tt_parcel *last_parcel;      /* and its parcel; NULL: none yet */
    uint32_t nrecords;                  /* number of records of this iteration: not durable yet */
    uint64_t journal_records;           /* number of records written to the journal since it was
                                           last replaced */
    bool replacing;                     /* records belong to a shorter journal, and are not
                                           reported as events */
    const struct tt_conn *sender;      /* sender of the message being handled; NULL */
    tutti_status failed;                /* error that stops the coordinator */
    int64_t started_unix_ms;
    struct tt_event_log chronicle;
    uint64_t revoked_epoch;             /* last epoch reported as revoked */
    struct epoll_event *events;         /* [nevents_max] events of one iteration: enough for all
                                           connections */
    int nevents_max;
};

/* conns.c: connections */
/* Accepts the connections waiting at the listener. */
void tt_conns_accept(struct tt_coordinator *c, struct tt_door *door);
/* Handles a socket that is ready for `events`. */
void tt_conns_on_events(struct tt_coordinator *c, struct tt_conn *conn, uint32_t events);
/* Handles due timers: scheduled reads, deadlines. */
void tt_conns_due(struct tt_coordinator *c);
/* Returns the time of the next timer, or TT_NEVER. */
uint64_t tt_conns_next_ns(const struct tt_coordinator *c);
/* Performs the deferred actions of the machine: sends messages and closes connections. */
void tt_conns_perform(struct tt_coordinator *c);
/* Reports ended connections to the machine, which may lead to actions; returns whether there
 * were any. */
bool tt_conns_report_ended(struct tt_coordinator *c);
/* Frees ended connections; there must be no actions for them. */
void tt_conns_free_ended(struct tt_coordinator *c);
void tt_conns_drop_all(struct tt_coordinator *c);

/* group_commit.c: deferred actions */
/* The `emit` function in tt_coord_conf; context: the coordinator. */
void tt_group_commit_emit(void *context, const struct tt_coord_act *act);
/* Runs a step of the machine at the current time. */
void tt_group_commit_step(struct tt_coordinator *c, const struct tt_coord_event *ev);
/* Makes the records durable. On failure sets c->failed, and returns false: the deferred actions
 * must not be performed. */
bool tt_group_commit_records(struct tt_coordinator *c);
/* Discards the actions, and shortens the journal if it is long. */
void tt_group_commit_finish(struct tt_coordinator *c);
/* Discards the actions. */
void tt_group_commit_drop(struct tt_coordinator *c);
/* Reads the journal into the machine, starts the machine, and commits its first records. */
tutti_status tt_group_commit_begin(struct tt_coordinator *c);

/* show.c: the snapshot */
void tt_show(struct tt_coordinator *c);

#endif
