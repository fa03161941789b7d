/* Flooding over the control overlay as a pure state machine: neighbours, forwarding and delivery.
 * overlay.c passes frames and ends of connections to it, and carries out its actions.
 *
 * Rank r is linked with r + 2^k and r - 2^k (mod nranks) for every k: at most 2 log2(nranks) links,
 * and at most log2(nranks) hops to any rank. A frame has its origin and a sequence number. Its
 * first receiver forwards it over all other links, then delivers it. Links are ordered and carry
 * all frames from the start, including those from before they were up. Frames of one origin
 * therefore arrive in order on every path, and one sequence number per origin detects duplicates.
 *
 * A direct frame is sent to one neighbour only. */
#ifndef TT_BOOT_FLOOD_H
#define TT_BOOT_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"
#include "boot/frame.h"

#define TT_FLOOD_LINKS_MAX TT_OVERLAY_LINKS_MAX
#define TT_FLOOD_BODY_BYTES (4 + 8 + TT_OVERLAY_BYTES)

/* Frame types of a link; those of the handshake are in overlay.c. */
enum {
    TT_FLOOD_DATA = 1,
    TT_FLOOD_LOST = 2,
    TT_FLOOD_GOODBYE = 3,
    TT_FLOOD_DIRECT = 6         /* plus enum tt_overlay_topic (4 and 5: records.h) */
};

enum tt_flood_event_kind {
    TT_FLOOD_EV_ORIGINATE,          /* send payload[bytes] of this rank to all */
    TT_FLOOD_EV_DIRECT,             /* the same to the neighbour of `link` only */
    TT_FLOOD_EV_FRAME,              /* `frame` arrived over `link` */
    TT_FLOOD_EV_ENDED               /* `link` has ended, or could not be established */
};

struct tt_flood_event {
    uint8_t kind;
    uint8_t topic;                  /* DIRECT: enum tt_overlay_topic */
    uint32_t link;
    struct tt_frame frame;
    const void *payload;
    uint16_t bytes;
};

struct tt_flood_act {
    uint64_t send;                  /* links to which out[out_bytes], a whole frame, is sent */
    uint64_t drop;                  /* links to close */
    size_t out_bytes;
    uint8_t out[TT_FRAME_HEADER_BYTES + TT_FLOOD_BODY_BYTES];
    bool deliver;
    struct tt_overlay_event event;
};

struct tt_flood {
    uint32_t rank, nranks, nlinks;
    uint32_t peers[TT_FLOOD_LINKS_MAX];     /* rank at the other end */
    uint64_t open;                  /* links that are up or still connecting */
    uint64_t sequence;              /* of this rank's last frame */
    uint64_t *seen;                 /* [nranks], highest sequence number of each origin */
    bool *lost;                     /* [nranks] */
};

/* Fills peers[TT_FLOOD_LINKS_MAX] with the neighbours of `rank`, without duplicates. Returns their
 * number. */
uint32_t tt_flood_neighbours(uint32_t rank, uint32_t nranks, uint32_t *peers);
/* Makes the only allocation; NOMEM if it fails. */
tutti_status tt_flood_init(struct tt_flood *f, uint32_t rank, uint32_t nranks);
void tt_flood_fini(struct tt_flood *f);
/* Writes the resulting actions to *out. At most one event is delivered per step. */
void tt_flood_step(struct tt_flood *f, const struct tt_flood_event *ev, struct tt_flood_act *out);

#endif
