/* What the files of the coordinator's loop share; nobody else includes this. */
#ifndef TT_COORDINATOR_INSIDE_H
#define TT_COORDINATOR_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/acceptor.h"
#include "coordinator/chronicle.h"
#include "coordinator/coordinator.h"
#include "coordinator/listen.h"
#include "coordinator/rate.h"
#include "secure/channel.h"

#define TT_STRANGERS_MAX 1024u      /* connections that have not joined */
#define TT_LEAVERS_MAX 256u         /* that are told why, and closed */
#define TT_ORIGINS 512u             /* addresses whose rate of connections is remembered */

/* What an entry of the epoll set is: the first field of what its pointer leads to. */
enum tt_source { TT_SOURCE_WAKE, TT_SOURCE_DOOR, TT_SOURCE_CONN };

struct tt_door {
    enum tt_source source;
    struct tt_acceptor acceptor;
    char text[TT_LISTEN_TEXT_BYTES];
};

enum tt_conn_state {
    TT_CONN_STRANGER,   /* has not joined */
    TT_CONN_MEMBER,
    TT_CONN_LEAVER,     /* the machine is done with it: what waits is sent, then it is closed */
    TT_CONN_ENDED,      /* is freed at the end of the turn; the machine hears of it if it has not let go of it */
    TT_CONN_STATES
};

struct tt_conn {
    enum tt_source source;
    enum tt_conn_state state;
    struct tt_coord_conn core;          /* what the machine knows it by */
    struct tt_channel *channel;
    TAILQ_ENTRY(tt_conn) place;         /* in the list of its state, the oldest first */
    TAILQ_ENTRY(tt_conn) waiting;       /* in the list of those that are read again by themselves */
    bool waits, let_go;                 /* let_go: the machine said CLOSE */
    bool clogged;                       /* is not read until it has read what was sent to it */
    uint32_t watched;                   /* events it is in the epoll set for */
    uint64_t since_ns;                  /* in this state */
    uint64_t again_ns;                  /* waits: when it is read again */
    struct tt_rate rate;                /* of what it says */
    uint8_t origin[16];
    char address[TT_LISTEN_TEXT_BYTES];
};
TAILQ_HEAD(tt_conn_list, tt_conn);

/* How often an address may connect. */
struct tt_origin {
    uint8_t who[16];
    struct tt_rate rate;                /* each_ns 0: unused */
};

/* An action of the machine that waits for the journal. */
struct tt_deed {
    struct tt_conn *conn;
    struct tt_parcel *parcel;           /* NULL: close */
    bool owns;                          /* the first of those that share the parcel */
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

    pthread_mutex_t lock;               /* of why and why_text */
    tutti_status why;
    char why_text[256];

    /* From here on the thread's alone. */
    struct tt_coord core;
    uint64_t clock_ns;                  /* as of this turn */
    uint64_t core_ns;                   /* the machine's time: without those in which we stood still ourselves */
    struct tt_conn_list conns[TT_CONN_STATES];
    uint32_t counts[TT_CONN_STATES];
    struct tt_conn_list waiting;
    struct tt_origin origins[TT_ORIGINS];
    struct tt_deed *deeds;              /* [ndeeds] of [deeds_room] */
    size_t ndeeds, deeds_room;
    uint8_t *last;                      /* [TT_ELMSG_BYTES_MAX] what is sent last in this turn, */
    size_t last_bytes;
    struct tt_parcel *last_parcel;      /* and what it is in; NULL: nothing yet */
    uint32_t nrecords;                  /* of this turn, not durable yet */
    uint64_t journal_records;           /* in the journal, as far as it was written since it was last replaced */
    bool replacing;                     /* records are of a shorter journal, and tell nothing new */
    const struct tt_conn *speaker;      /* whose message the machine is at; NULL */
    tutti_status failed;                /* the coordinator is to end */
    int64_t started_unix_ms;
    struct tt_chronicle chronicle;
    uint64_t revoked_epoch;             /* the last that the chronicle has as revoked */
    struct epoll_event *events;         /* [nevents_max] of one turn: all connections at once */
    int nevents_max;
};

/* conns.c: who is connected */
/* Takes who waits at the door. */
void tt_conns_welcome(struct tt_coordinator *c, struct tt_door *door);
/* The socket is ready for `events`. */
void tt_conns_ready(struct tt_coordinator *c, struct tt_conn *conn, uint32_t events);
/* What is due at this time, by itself: reading on, deadlines. */
void tt_conns_due(struct tt_coordinator *c);
/* When that is next; TT_NEVER. */
uint64_t tt_conns_next_ns(const struct tt_coordinator *c);
/* Sends to conn, if it still is one; the machine's CLOSE. */
void tt_conns_send(struct tt_coordinator *c, struct tt_conn *conn, struct tt_parcel *parcel);
void tt_conns_let_go(struct tt_coordinator *c, struct tt_conn *conn);
/* Tells the machine of those that ended, which may lead to deeds; whether there were any. */
bool tt_conns_tell(struct tt_coordinator *c);
/* Frees those that ended; no deed may be left that is for one. */
void tt_conns_bury(struct tt_coordinator *c);
void tt_conns_drop_all(struct tt_coordinator *c);

/* deeds.c: what the machine decided */
/* tt_coord_conf's emit; context: the coordinator. */
void tt_deeds_emit(void *context, const struct tt_coord_act *act);
/* A step of the machine at this time. */
void tt_deeds_step(struct tt_coordinator *c, const struct tt_coord_event *ev);
/* Makes the records durable, then carries the rest out. Sets c->failed if it cannot; nothing was carried out then. */
void tt_deeds_do(struct tt_coordinator *c);
/* Forgets them. */
void tt_deeds_drop(struct tt_coordinator *c);
/* Reads the journal into the machine, starts it, and commits that. */
tutti_status tt_deeds_begin(struct tt_coordinator *c);

/* show.c: the snapshot */
void tt_show(struct tt_coordinator *c);

#endif
