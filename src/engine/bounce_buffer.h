/* Pool of receive memory for segments from peers: cut from regions of one wire, and reused in LIFO
 * order, since recently used memory is cached. Most regions are allocated by the wire, so that
 * peers can map them if the wire supports that. The others are this process's own memory (`own`),
 * which only the wire writes. The caller holds the progress lock. */
#ifndef TT_ENGINE_BOUNCE_BUFFER_H
#define TT_ENGINE_BOUNCE_BUFFER_H

#include "wire/wire.h"

struct tt_bounce {
    struct tt_region *region;
    uint64_t offset, bytes;     /* bytes: a power of two, at least the requested size */
    bool own;                   /* not mapped by any peer */
};

struct tt_bounce_pool;

/* Returns NULL if out of memory. The pool must not be used after the wire is closed. */
struct tt_bounce_pool *tt_bounce_pool_create(struct tt_wire *wire);
/* Call it after closing the wire. */
void tt_bounce_pool_destroy(struct tt_bounce_pool *p);
/* own: memory that no peer maps; requires TT_WIRE_CAP_ANYMEM. */
tutti_status tt_bounce_get(struct tt_bounce_pool *p, uint64_t bytes, bool own,
                           struct tt_bounce *out);
void tt_bounce_put(struct tt_bounce_pool *p, const struct tt_bounce *l);
/* Returns the total size of the pool's regions; 0 if p is NULL. */
uint64_t tt_bounce_pool_bytes(const struct tt_bounce_pool *p);

#endif
