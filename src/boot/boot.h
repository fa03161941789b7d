/* Start-up: who am I, where do we meet, and the table of everybody's addresses. Three parts:
 *  launch.c      reads the environment of whatever launcher started us (pure over a getenv function);
 *  rendezvous.c  the protocol as a pure state machine; meet.c feeds it sockets or a file;
 *  overlay.c     the control overlay: ring and chords over which losses, aborts, mismatches and probes are flooded. */
#ifndef TT_BOOT_BOOT_H
#define TT_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* What the environment leaves open, because only the launcher's server knows it. */
enum tt_launch_query {
    TT_QUERY_NONE,
    TT_QUERY_PMIX,              /* nranks, from the PMIx server */
    TT_QUERY_PMI_PORT           /* rank and nranks, from the PMI-1 server at PMI_PORT */
};

/* Rank, size and rendezvous, completed from a tutti_conf and the environment. Strings are owned by the struct. */
struct tt_launch {
    uint32_t rank, nranks;
    enum tt_launch_query query; /* not NONE: nranks is 0 until tt_boot_launch has asked */
    char rendezvous[256];       /* "tcp://…" or "file://…"; "" if the launcher gives a key-value space (pmi) instead */
    const char *rendezvous_from;    /* what said so: "TUTTI_RENDEZVOUS", "conf.rendezvous", …; NULL: the launcher */
    char token[128];            /* "" for none */
    char interfaces[256];
    char wires[64];
    char security[16];          /* as the user says it; "" for none */
    int64_t timeout_ms;
    const char *launcher;       /* "tutti", "openmpi", "mpich", "prrte", "pmix", "slurm", "torchrun", "conf", "single" */
};

/* Fills *out from conf (may be NULL) and getenv-like `get`, without any other input. INVALID with names and values
 * where variables are missing or contradict each other. out->query says what is still unknown. */
tutti_status tt_launch_read(struct tt_launch *out, const tutti_conf *conf, const char *(*get)(const char *name));

/* As above, from the environment of this process; then queries the launcher's server for what that leaves open.
 * Waits for the server until the launch's own timeout. The query happens once per process; any thread may call. */
tutti_status tt_boot_launch(struct tt_launch *out, const tutti_conf *conf);

#define TT_CARD_BYTES 1152

/* What every rank learns of every other: its card (opaque to boot: addresses of its wires). */
struct tt_table {
    uint32_t nranks, rank;
    uint8_t secret[16];         /* random, the same on all ranks, known to nobody else */
    uint32_t *holders;          /* [nranks] equal for two ranks exactly if they proved that they share a host (samehost.h) */
    uint16_t *card_bytes;       /* [nranks] */
    uint8_t (*cards)[TT_CARD_BYTES];    /* [nranks] */
};

struct tt_overlay;

/* Meets the others: blocks until all nranks are there, or until the deadline, when each rank that came says how many
 * came and which did not (TIMEOUT). On success *table is the caller's (tt_table_fini), and *overlay too (connected;
 * tt_overlay_close). */
tutti_status tt_boot_meet(const struct tt_launch *launch, const void *card, size_t card_bytes, uint64_t deadline_ns,
                          struct tt_table *table, struct tt_overlay **overlay);
void tt_table_fini(struct tt_table *table);

/* Ids: a listener in this process with a random token, served by a thread that ends when all came or at the deadline. The
 * number of ranks is learned from the first that comes. */
tutti_status tt_id_serve(tutti_id *out, const struct tt_launch *launch, uint64_t deadline_ns);
/* Turns an id into rendezvous and token of *launch. */
tutti_status tt_id_read(const tutti_id *id, struct tt_launch *launch);

/* ---- the control overlay -------------------------------------------------------------------------
 * Links to rank + 2^k and rank - 2^k (mod nranks). Every flood reaches every living rank once, also when some are dead, as
 * long as the overlay stays connected. All calls from one thread at a time (the caller locks). Frames are small. */

#define TT_OVERLAY_BYTES 512    /* largest payload */

enum tt_overlay_event_kind {
    TT_OVERLAY_FRAME,           /* a flooded payload from `origin` */
    TT_OVERLAY_LOST             /* `origin` is gone (a neighbour of it saw its connection end without goodbye) */
};

struct tt_overlay_event {
    uint8_t kind;
    bool unmet;                 /* LOST: this rank's link to it never came about; whether it lives is not known */
    int error;                  /* unmet: the errno of the last attempt to connect; 0: the deadline passed first */
    uint32_t origin;
    uint16_t bytes;
    uint8_t data[TT_OVERLAY_BYTES];
};

/* An epoll descriptor: readable when tt_overlay_next may find something. */
int tt_overlay_fd(const struct tt_overlay *o);
/* Makes progress; true and *ev if an event came. LOST comes once per rank. A rank that said goodbye is not lost. */
bool tt_overlay_next(struct tt_overlay *o, struct tt_overlay_event *ev);
/* Sends payload[bytes] to every other rank. Never blocks; what a slow neighbour does not take is queued (bounded; a
 * neighbour that lets the bound overflow is dropped). */
void tt_overlay_flood(struct tt_overlay *o, const void *payload, uint16_t bytes);
/* Says goodbye to the neighbours, waits (bounded, 1 s) until that is on its way, closes. NULL is fine. */
void tt_overlay_close(struct tt_overlay *o);
/* Adds its memory, by purpose (base/memory.h). */
void tt_overlay_memory(const struct tt_overlay *o, tutti_memory *m);

#endif
