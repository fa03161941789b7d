/* Collection of a report from all ranks over the links of the control overlay: a pure state
 * machine, without sockets, clock or locks.
 *
 * The root sends a query to its neighbours. For each rank, the first neighbour that queries it is
 * its parent; the rank sends the query to all other neighbours. So each link carries one query in
 * each direction, or a query and the acceptance (TAKEN) of a child; either one is a sign of life.
 * A rank sends its report to its parent, merged with those of its children, when each neighbour has
 * shown that it has another parent, has sent its report, or is silent. Thus dead or stopped ranks
 * cause a delay, but never hide other ranks, as long as the overlay stays connected.
 *
 *   parent                 child
 *     | QUERY ------------> |
 *     | <------------ TAKEN |
 *     | <------------- ROWS |   at most TT_COLLECT_WINDOW frames without MORE
 *     | MORE -------------> |
 *     | <-------------- END |
 *
 * Each level of the tree has an earlier deadline than the level above it. A rank takes part in at
 * most TT_COLLECT_MAX collections at once, and answers further queries with BUSY. */
#ifndef TT_STATUS_COLLECT_H
#define TT_STATUS_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"
#include "status/report.h"

#define TT_COLLECT_MAX 4u               /* maximum number of collections at once */
#define TT_COLLECT_WINDOW 32u           /* frames of rows that may be sent without MORE */
#define TT_COLLECT_DONE_MAX 64u         /* completed collections that are remembered */
#define TT_COLLECT_MS_MAX 600000u
#define TT_COLLECT_DIR_BYTES 256u
#define TT_COLLECT_NEVER UINT64_MAX

/* The content of a collection. */
enum tt_collect_what {
    TT_COLLECT_ALL,                     /* the positions of all ranks */
    TT_COLLECT_RANK,                    /* details of one rank */
    TT_COLLECT_RATES,                   /* as ALL, with the rates of communicators */
    TT_COLLECT_DUMP,                    /* no rows: each process writes a trace dump */
    TT_COLLECT_WHATS
};

struct tt_collect_query {
    uint8_t what;                       /* enum tt_collect_what */
    uint32_t target;                    /* TT_COLLECT_RANK: the rank */
    uint32_t timeout_ms;                /* 1 to TT_COLLECT_MS_MAX */
    char dir[TT_COLLECT_DIR_BYTES];     /* TT_COLLECT_DUMP: directory of the dumps, an absolute
                                           path; "": TUTTI_TRACE_DIR of each process */
    uint64_t number;                    /* identifies the collection in its job; set by
                                           tt_collect */
};

/* Returns whether the fields of a received query are valid, except the timeout. */
bool tt_collect_query_is_valid(const struct tt_collect_query *q);

/* Functions that the machine needs from its caller. */
struct tt_collect_ops {
    /* Sends data[bytes] to a neighbour. False: its link is not up. */
    bool (*send)(void *arg, uint32_t neighbour, const void *data, uint16_t bytes);
    /* Fills out[TT_OVERLAY_LINKS_MAX] with the neighbours whose links are up. */
    uint32_t (*neighbours)(void *arg, uint32_t *out);
    bool (*is_lost)(void *arg, uint32_t rank);
    /* Adds the data that this rank reports. */
    void (*snapshot)(void *arg, const struct tt_collect_query *q, struct tt_status_report *r);
    /* Called when the collection that this rank has begun is complete. *r is valid in the call. */
    void (*done)(void *arg, struct tt_status_report *r);
};

struct tt_collection;

struct tt_collect {
    uint32_t rank, nranks;
    const struct tt_collect_ops *ops;
    void *arg;
    struct tt_collection *open[TT_COLLECT_MAX];
    uint64_t number;                    /* of this rank's last collection */
    struct {
        uint32_t root;
        uint64_t number;                /* 0: unused */
    } over[TT_COLLECT_DONE_MAX];        /* the last completed collections */
    uint32_t nover;
};

/* Initializes the machine. *ops must stay valid. */
void tt_collect_init(struct tt_collect *c, uint32_t rank, uint32_t nranks,
                     const struct tt_collect_ops *ops, void *arg);
void tt_collect_fini(struct tt_collect *c);
/* Begins a collection with this rank as its root; `done` is called for it, possibly before the
 * return. False: one of this rank is in progress, or there are too many, or no memory. */
bool tt_collect_begin(struct tt_collect *c, const struct tt_collect_query *q, uint64_t now_ns);
/* Handles a payload of a neighbour. False: it is invalid. */
bool tt_collect_receive(struct tt_collect *c, uint32_t from, const void *data, size_t bytes,
                        uint64_t now_ns);
/* Handles the loss of a rank: nothing from it is awaited any more. */
void tt_collect_lose(struct tt_collect *c, uint32_t rank);
/* Handles expired deadlines. Call it when tt_collect_due has passed. */
void tt_collect_tick(struct tt_collect *c, uint64_t now_ns);
/* Returns the time of the next deadline, or TT_COLLECT_NEVER. */
uint64_t tt_collect_due(const struct tt_collect *c);
/* Returns the allocated bytes. */
size_t tt_collect_bytes(const struct tt_collect *c);

#endif
