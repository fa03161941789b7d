/* Flooding over the control overlay, as a pure state machine: who neighbours whom, what is forwarded, what is delivered. The
 * overlay (overlay.c) gives it frames and connection ends, and carries out what it says.
 *
 * Rank r is linked with r + 2^k and r - 2^k (mod nranks) for every k: at most 2 log2(nranks) links, and any rank is at most
 * log2(nranks) hops away. A frame carries its origin and a sequence number; who sees it first forwards it over all other links,
 * then delivers it. Links keep order and carry everything from the start (also what was said before they were
 * up), so what comes from one origin comes in order on every path: one number per origin suffices against duplicates. */
#ifndef TT_BOOT_FLOOD_H
#define TT_BOOT_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"
#include "boot/frame.h"

#define TT_FLOOD_LINKS_MAX 40       /* enough for 2^20 ranks */
#define TT_FLOOD_BODY_BYTES (4 + 8 + TT_OVERLAY_BYTES)

/* Types of frames on a link; the handshake's are in overlay.c. */
enum { TT_FLOOD_DATA = 1, TT_FLOOD_LOST = 2, TT_FLOOD_GOODBYE = 3 };

enum tt_flood_event_kind {
    TT_FLOOD_EV_ORIGINATE,          /* payload[bytes] of this rank goes to all */
    TT_FLOOD_EV_FRAME,              /* `frame` came over `link` */
    TT_FLOOD_EV_ENDED               /* `link` is gone, or never came to be */
};

struct tt_flood_event {
    uint8_t kind;
    uint32_t link;
    struct tt_frame frame;
    const void *payload;
    uint16_t bytes;
};

struct tt_flood_act {
    uint64_t send;                  /* links that get out[out_bytes], a whole frame */
    uint64_t drop;                  /* links to close */
    size_t out_bytes;
    uint8_t out[TT_FRAME_HEADER_BYTES + TT_FLOOD_BODY_BYTES];
    bool deliver;
    struct tt_overlay_event event;
};

struct tt_flood {
    uint32_t rank, nranks, nlinks;
    uint32_t peers[TT_FLOOD_LINKS_MAX];     /* rank at the other end */
    uint64_t open;                  /* links that carry, or soon will */
    uint64_t sequence;              /* of this rank's last */
    uint64_t *seen;                 /* [nranks] the highest of each origin */
    bool *lost;                     /* [nranks] */
};

/* Fills peers[TT_FLOOD_LINKS_MAX] with the neighbours of `rank`, without duplicates, and returns how many. */
uint32_t tt_flood_neighbours(uint32_t rank, uint32_t nranks, uint32_t *peers);
/* The only allocation. NOMEM without it. */
tutti_status tt_flood_init(struct tt_flood *f, uint32_t rank, uint32_t nranks);
void tt_flood_fini(struct tt_flood *f);
/* Writes what to do to *out. At most one event is delivered per step. */
void tt_flood_step(struct tt_flood *f, const struct tt_flood_event *ev, struct tt_flood_act *out);

#endif
