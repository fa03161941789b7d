/* Start-up: rank and size, the rendezvous, and the table of all addresses. Three parts:
 *   launch.c      reads the launcher's environment (pure, over a getenv function);
 *   tree.c        the rendezvous as a pure state machine; tree_node.c has its sockets, and meet.c
 *                 finds its server;
 *   overlay.c     the control overlay, a ring with chords, which floods losses, aborts, mismatches
 *                 and probes. */
#ifndef TT_BOOT_BOOT_H
#define TT_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/record_store.h"
#include "tutti/tutti.h"

/* Values that are not in the environment, and must be queried from the launcher's server. */
enum tt_launch_query {
    TT_QUERY_NONE,
    TT_QUERY_PMIX,              /* nranks, from the PMIx server */
    TT_QUERY_PMI_PORT           /* rank and nranks, from the PMI-1 server at PMI_PORT */
};

/* Rank, size and rendezvous, from a tutti_conf and the environment. The struct owns the strings. */
struct tt_launch {
    uint32_t rank, nranks;
    uint32_t nlocal;            /* ranks on this host, a hint of the launcher; 0: unknown */
    enum tt_launch_query query; /* unless NONE: nranks is 0 until tt_boot_launch has queried it */
    char rendezvous[256];       /* "tcp://…" or "file://…"; "" if the launcher has a key-value
                                   space (PMI, PMIx) instead */
    char rendezvous_from[80];   /* its source: "TUTTI_RENDEZVOUS", "conf.rendezvous", …; "": the
                                   launcher */
    char token[128];            /* "" if none */
    char interfaces[256];
    char wires[64];
    char security[16];          /* as set by the user; "" if not set */
    char host[32];              /* for tests, emulates several hosts on one; "": not used */
    int64_t timeout_ms;
    const char *launcher;       /* "tutti", "openmpi", "mpich", "prrte", "pmix", "slurm",
                                   "torchrun", "kubernetes", "conf", "single" */
};

/* Fills *out only from conf (may be NULL) and `get`, a function like getenv. INVALID: the error
 * names the missing or contradictory variables and their values. out->query is set to the values
 * that must still be queried. */
tutti_status tt_launch_read(struct tt_launch *out, const tutti_conf *conf,
                            const char *(*get)(const char *name));

/* As tt_launch_read, from this process's environment; then queries the launcher's server for
 * unknown values. Waits for the server up to the launch's timeout. The query is made once per
 * process. Any thread. */
tutti_status tt_boot_launch(struct tt_launch *out, const tutti_conf *conf);

#define TT_CARD_BYTES 1152
#define TT_BOOT_PLACE_BYTES 240
#define TT_BOOT_CONSTANTS_BYTES 1024
#define TT_BOOT_SETTINGS_BYTES 256

/* A rank's input to start-up. */
struct tt_boot_offer {
    const void *card;           /* opaque to boot; contains the addresses of its wires */
    size_t card_bytes;          /* at most TT_CARD_BYTES */
    const void *place;          /* opaque to boot. Each distinct place is sent once to all, so ranks
                                   in the same position of equal hosts should have equal places */
    size_t place_bytes;         /* at most TT_BOOT_PLACE_BYTES; 0: none */
    const void *constants;      /* opaque; rank 0's are distributed to all ranks */
    size_t constants_bytes;     /* at most TT_BOOT_CONSTANTS_BYTES */
    const char *settings;       /* text that must be equal on all ranks, cut to
                                   TT_BOOT_SETTINGS_BYTES - 1; NULL: "" */
    bool overlay_doubling;      /* TUTTI_OVERLAY_DOUBLING; equal on all ranks */
    tutti_status refuses;       /* this rank cannot start: the other ranks get this status and the
                                   cause; TUTTI_OK: it can */
    const char *cause;
};

/* Result of start-up: each rank's card, host and place, and the constants of rank 0. */
struct tt_table {
    uint32_t nranks, rank;
    uint8_t secret[16];         /* random, equal on all ranks, and not known outside of the job */
    struct tt_record_store records;     /* of all ranks; tt_boot_card reads them */
    uint8_t *layout;            /* [layout_bytes] hosts and places; struct tt_tree_walk reads it.
                                   NULL: start-up of a single rank without an id */
    size_t layout_bytes;
    uint8_t *constants;         /* [constants_bytes] */
    size_t constants_bytes;
};

struct tt_overlay;

/* Runs the rendezvous: blocks until all nranks have joined, or until the deadline. At the deadline,
 * each rank that joined fails with TIMEOUT, the number of joined ranks, and the missing ranks. If
 * settings differ, or a rank refuses, each rank fails with the cause; a rank that refuses returns
 * its own status without a message. On success the caller owns *table (tt_table_fini) and *overlay
 * (connected; tt_overlay_close). */
tutti_status tt_boot_rendezvous(const struct tt_launch *launch, const struct tt_boot_offer *offer,
                                uint64_t deadline_ns, struct tt_table *table,
                                struct tt_overlay **overlay);
void tt_table_fini(struct tt_table *table);
/* Returns the size of a rank's card, and sets *card, valid until the next call. *holder: equal for
 * two ranks exactly if they have proved that they share a host (samehost.h). `records` comes from a
 * struct tt_table; the caller may have moved it. One thread at a time. */
size_t tt_boot_card(struct tt_record_store *records, uint32_t rank, const uint8_t **card,
                    uint32_t *holder);

/* Creates an id: a listener in this process with a random token, served by a thread that ends when
 * all ranks have joined or at the deadline. The first rank that joins sets the number of ranks. */
tutti_status tt_id_serve(tutti_id *out, const struct tt_launch *launch, uint64_t deadline_ns);
/* Sets rendezvous and token of *launch from an id. */
tutti_status tt_id_read(const tutti_id *id, struct tt_launch *launch);

/* ---- the control overlay ----
 * Links to rank + 2^k and rank - 2^k (mod nranks). Every flood reaches every live rank once, also
 * if some are dead, as long as the overlay stays connected. Calls are serialized by the caller.
 * Frames are small. */

#define TT_OVERLAY_BYTES 512    /* maximum payload */

/* Subjects of payloads to one neighbour, each handled by another room. */
enum tt_overlay_topic { TT_OVERLAY_STATUS, TT_OVERLAY_ROLL_CALL, TT_OVERLAY_TOPICS };

enum tt_overlay_event_kind {
    TT_OVERLAY_FRAME,           /* a flooded payload of `origin` */
    TT_OVERLAY_DIRECT,          /* a payload of the neighbour `origin` for this rank alone */
    TT_OVERLAY_LOST             /* `origin` is lost: a neighbour's connection to it ended without
                                   GOODBYE */
};

struct tt_overlay_event {
    uint8_t kind;
    uint8_t topic;              /* DIRECT: enum tt_overlay_topic */
    bool unmet;                 /* LOST: this rank's link to it was never established; it may be
                                   alive */
    int error;                  /* unmet: errno of the last connection attempt; ETIMEDOUT: the
                                   deadline passed; 0: another rank reported the loss first */
    uint32_t origin;
    uint16_t bytes;
    uint8_t data[TT_OVERLAY_BYTES];
};

/* Returns an epoll descriptor that is readable when tt_overlay_next may have an event. */
int tt_overlay_fd(const struct tt_overlay *o);
/* Makes progress. Returns true and *ev if there is an event. LOST is reported once per rank, and
 * not after the rank's GOODBYE. */
bool tt_overlay_next(struct tt_overlay *o, struct tt_overlay_event *ev);
/* Sends payload[bytes] to every other rank. Never blocks: data for a slow neighbour is queued. A
 * neighbour whose queue exceeds its limit is dropped. */
void tt_overlay_flood(struct tt_overlay *o, const void *payload, uint16_t bytes);
/* Sends payload[bytes] to one neighbour. Never blocks. The same limit applies, so the caller must
 * bound the data that it sends without a response. False: the neighbour is not connected. */
bool tt_overlay_send(struct tt_overlay *o, enum tt_overlay_topic topic, uint32_t rank,
                     const void *payload, uint16_t bytes);
/* Returns the number n of neighbours, at most TT_OVERLAY_LINKS_MAX. *ranks[n] is owned by the
 * overlay. */
#define TT_OVERLAY_LINKS_MAX 40     /* sufficient for 2^20 ranks */
uint32_t tt_overlay_neighbours(const struct tt_overlay *o, const uint32_t **ranks);
/* Returns whether the control connection to this neighbour is up: it has neither ended nor received
 * GOODBYE. */
bool tt_overlay_is_connected(const struct tt_overlay *o, uint32_t rank);
/* Returns whether a rank is known to be lost. */
bool tt_overlay_is_lost(const struct tt_overlay *o, uint32_t rank);
/* Adds a descriptor: tt_overlay_fd is readable while fd is. Remove fd before closing it. SYSTEM
 * (logged) on failure. */
tutti_status tt_overlay_watch(struct tt_overlay *o, int fd);
void tt_overlay_unwatch(struct tt_overlay *o, int fd);
/* Sends GOODBYE to the neighbours, waits up to 1 s until it is sent, and closes. NULL is
 * allowed. */
void tt_overlay_close(struct tt_overlay *o);
/* Adds the overlay's memory to *m, by purpose (base/memory.h). */
void tt_overlay_memory(const struct tt_overlay *o, tutti_memory *m);

#endif
