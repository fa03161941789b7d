/* Collection of a report from all ranks over the links of the control overlay: a pure state
 * machine, without sockets, clock or locks.
 *
 * The root sends a query to its neighbours. A rank takes the first neighbour that queries it as its
 * parent, and sends the query to all others. So each link carries one query in each direction, or
 * a query and the acceptance (TAKEN) of a child; either one is a sign of life. When each neighbour
 * has shown that it has another parent, has sent its report, or is silent, the rank sends its own
 * report, merged with those of its children, to its parent. Ranks that are dead or stopped thus
 * cost a delay, but never hide others, as long as the overlay stays connected.
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

#define TT_COLLECT_MAX 4u               /* collections at once */
#define TT_COLLECT_WINDOW 32u           /* frames of rows without MORE */
#define TT_COLLECT_DONE_MAX 64u         /* remembered collections that are over */
#define TT_COLLECT_MS_MAX 600000u
#define TT_COLLECT_DIR_BYTES 256u
#define TT_COLLECT_NEVER UINT64_MAX

/* What is collected. */
enum tt_collect_what {
    TT_COLLECT_ALL,                     /* the positions of all ranks */
    TT_COLLECT_RANK,                    /* one rank in depth */
    TT_COLLECT_RATES,                   /* the same as ALL, and the rates of communicators */
    TT_COLLECT_DUMP,                    /* none: each process writes a trace dump */
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

/* Returns whether the fields of a query that others have sent are valid, except the timeout. */
bool tt_collect_query_is_valid(const struct tt_collect_query *q);

/* What the machine needs from its surroundings. */
struct tt_collect_ops {
    /* Sends data[bytes] to a neighbour. False: its link is not up. */
    bool (*send)(void *arg, uint32_t neighbour, const void *data, uint16_t bytes);
    /* Fills out[TT_OVERLAY_LINKS_MAX] with the neighbours whose links are up. */
    uint32_t (*neighbours)(void *arg, uint32_t *out);
    bool (*is_lost)(void *arg, uint32_t rank);
    /* Adds what this rank reports. */
    void (*snapshot)(void *arg, const struct tt_collect_query *q, struct tt_status_report *r);
    /* The collection that this rank has begun is complete. *r is valid during the call. */
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
    } over[TT_COLLECT_DONE_MAX];        /* the last ones */
    uint32_t nover;
};

/* Initializes the machine. *ops must stay valid. */
void tt_collect_init(struct tt_collect *c, uint32_t rank, uint32_t nranks,
                     const struct tt_collect_ops *ops, void *arg);
void tt_collect_fini(struct tt_collect *c);
/* Begins a collection with this rank as its root; `done` is called for it, perhaps at once. False:
 * one of this rank is in progress, or there are too many, or no memory. */
bool tt_collect_begin(struct tt_collect *c, const struct tt_collect_query *q, uint64_t now_ns);
/* Handles a payload of a neighbour. False: it is invalid. */
bool tt_collect_receive(struct tt_collect *c, uint32_t from, const void *data, size_t bytes,
                        uint64_t now_ns);
/* A rank is lost: nothing of it is awaited any more. */
void tt_collect_lose(struct tt_collect *c, uint32_t rank);
/* Handles passed deadlines. Call it when tt_collect_due has passed. */
void tt_collect_tick(struct tt_collect *c, uint64_t now_ns);
/* Returns the time of the next deadline, or TT_COLLECT_NEVER. */
uint64_t tt_collect_due(const struct tt_collect *c);
/* Returns the allocated bytes. */
size_t tt_collect_bytes(const struct tt_collect *c);

#endif
