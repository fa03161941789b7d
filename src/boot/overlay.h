/* Opening of the control overlay by start-up. Its use by other rooms is in boot.h. */
#ifndef TT_BOOT_OVERLAY_H
#define TT_BOOT_OVERLAY_H

#include <stdbool.h>
#include <stdint.h>
#include "boot/boot.h"
#include "boot/endpoint.h"

struct tt_overlay_conf {
    uint32_t rank, nranks;
    const uint8_t *secret;              /* [16]; copied */
    int listener;                       /* taken over on success only; closed once every
                                           neighbour is connected or lost */
    int near;                           /* second listener (base/near.h), or -1; likewise */
    const struct tt_endpoint *own;      /* copied */
    /* Connects by doubling (records.h): this rank's record, which other ranks can request; copied.
     * NULL: no records are requested. */
    const void *record;
    uint16_t record_bytes;              /* at most TT_RECORD_BYTES */
    uint64_t records_until_ns;          /* then, neighbours without a record use the other source */
    /* Sets *out to the endpoint of a neighbour, from its record; record NULL: from another source,
     * as the record was not found in time. Not called once the overlay is settled. */
    void (*endpoint)(void *arg, uint32_t peer, const void *record, size_t bytes,
                     struct tt_endpoint *out);
    void *arg;
};

/* Starts connecting: the lower rank of each pair connects. The user then sets the endpoint of every
 * neighbour (tt_flood_neighbours) or, with a record, those of the ranks before and after this one.
 * Until tt_overlay_is_settled, it calls tt_overlay_settle when tt_overlay_fd is readable, and every
 * 100 ms. */
tutti_status tt_overlay_open(struct tt_overlay **out, const struct tt_overlay_conf *conf);
void tt_overlay_neighbour(struct tt_overlay *o, uint32_t peer, const struct tt_endpoint *endpoint);
/* Makes progress. With `give_up`, neighbours that are not connected count as lost. NOMEM: no
 * descriptor has been free for two seconds, and neighbours are not connected yet. */
tutti_status tt_overlay_settle(struct tt_overlay *o, bool give_up);
/* Returns whether each neighbour is connected or lost. */
bool tt_overlay_is_settled(const struct tt_overlay *o);

#endif
