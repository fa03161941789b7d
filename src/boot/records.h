/* Address records on demand, over the links of the control overlay: a pure state machine, without
 * sockets, clock or locks.
 *
 * A rank needs the records of few others. It requests one at its first use. A request is forwarded
 * from neighbour to neighbour, each nearer to the owner of the record: at most log2(nranks) hops,
 * since the links of a rank have distances of powers of two. The response takes the same path back,
 * and each rank on the path keeps a copy. Equal requests share one path: if all ranks request the
 * same record, its owner sends it once to each of its neighbours.
 *
 * The distance decreases with each hop, so a request cannot loop. If a link ends, its requests take
 * the next best link. If no link leads nearer, a request of another rank waits for a nearer link
 * that is still connecting: at start-up, a neighbour's links may be up before this rank's. A
 * request of this rank does not wait, since a link may need its record to connect. Otherwise the
 * request fails, and the rank that made it tries up to two more links. */
#ifndef TT_BOOT_RECORDS_H
#define TT_BOOT_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/sparse.h"
#include "boot/flood.h"

#define TT_RECORD_BYTES 1408u           /* maximum size of a record */
#define TT_RECORDS_KEPT 64u             /* default number of copies, besides those of neighbours */
#define TT_RECORDS_FRAME_BYTES (6u + TT_RECORD_BYTES)

/* Types of frames, after those of flood.h. */
enum { TT_RECORDS_REQUEST = 4, TT_RECORDS_RESPONSE = 5 };

enum tt_records_event_kind {
    TT_RECORDS_EV_WANTED,       /* this rank needs the record of `rank` */
    TT_RECORDS_EV_UP,           /* `link` is connected */
    TT_RECORDS_EV_ENDED,        /* `link` has ended permanently */
    TT_RECORDS_EV_FRAME         /* from `link` */
};

struct tt_records_event {
    uint8_t kind;
    uint32_t link, rank;
    struct tt_frame frame;
};

enum tt_records_act_kind {
    TT_RECORDS_ACT_SEND,        /* data[bytes], a whole frame, over `link` */
    TT_RECORDS_ACT_FOUND,       /* the record of `rank`: data[bytes], valid until the next step */
    TT_RECORDS_ACT_FAILED       /* `rank` is not reachable over any link */
};

struct tt_records_act {
    uint8_t kind;
    uint32_t link, rank;
    const void *data;
    size_t bytes;
};

struct tt_records {
    uint32_t rank, nranks, nlinks;
    uint32_t peers[TT_FLOOD_LINKS_MAX];
    uint64_t open;                  /* links that are up */
    uint64_t connecting;            /* links that may still come up; at first all */
    uint8_t *own;
    uint16_t own_bytes;
    struct tt_sparse known;         /* by rank: copies */
    struct tt_sparse wanted;        /* by rank: open requests */
    uint32_t kept_max, nkept;       /* copies of ranks that are not neighbours */
    struct tt_record *oldest, *newest;
    uint64_t nrequests, nresponses; /* sent */
    void (*emit)(void *context, const struct tt_records_act *act);
    void *context;
};

/* Initializes everything but `emit` and `context`, which the caller sets. Copies record[bytes].
 * kept_max 0: TT_RECORDS_KEPT. NOMEM if out of memory. */
tutti_status tt_records_init(struct tt_records *s, uint32_t rank, uint32_t nranks,
                             const void *record, uint16_t bytes, uint32_t kept_max);
void tt_records_fini(struct tt_records *s);
/* If out of memory, a request fails, and a copy is not kept. Returns false if the frame is invalid;
 * then the caller ends the link. */
bool tt_records_step(struct tt_records *s, const struct tt_records_event *ev);
/* For doubling: returns the links whose neighbours' records can be requested, if the links
 * `decided` are up or have ended. For a decided link at distance 2^k, this is the one at
 * 2^(k+1). */
uint64_t tt_records_due(const struct tt_records *s, uint64_t decided);
/* Returns the memory of the kept records, in bytes. */
size_t tt_records_bytes(const struct tt_records *s);
/* Returns the link to `peer`, or UINT32_MAX. */
uint32_t tt_records_link(const struct tt_records *s, uint32_t peer);

#endif
