/* Memory that peers' segments land in: cut from regions of one wire, kept for reuse (the last given back is the first given
 * out: it is warm). Most of it the wire allocates, so that peers can map it where wires have that; some is this process's own, which the wire brings
 * segments to. Under the baton. */
#ifndef TT_ENGINE_LANDING_H
#define TT_ENGINE_LANDING_H

#include "wire/wire.h"

struct tt_landing {
    struct tt_region *region;
    uint64_t offset, bytes;     /* bytes: a power of two, at least what was asked for */
    bool own;                   /* no peer maps it */
};

struct tt_landing_pool;

/* NULL without memory. The wire must outlive the pool's use, and not the pool. */
struct tt_landing_pool *tt_landing_pool_create(struct tt_wire *wire);
/* After the wire was closed. */
void tt_landing_pool_destroy(struct tt_landing_pool *p);
/* own: of memory that no peer maps; only where the wire has ANYMEM. */
tutti_status tt_landing_get(struct tt_landing_pool *p, uint64_t bytes, bool own, struct tt_landing *out);
void tt_landing_put(struct tt_landing_pool *p, const struct tt_landing *l);
/* Of all regions that it has; 0 for NULL. */
uint64_t tt_landing_pool_bytes(const struct tt_landing_pool *p);

#endif
