/* The state of other ranks. */
#include "engine/peers.h"

#include "base/status.h"

struct tt_peer *tt_peer_of(struct tt_engine *e, uint32_t rank)
{
    struct tt_peer *p = tt_peer_get(e, rank);

    if (p)
        return p;
    p = tt_slab_take(&e->peer_slab);
    if (!p || !tt_sparse_set(&e->peers, rank, p)) {
        tt_fail(TUTTI_ERR_NOMEM, "out of memory for the state of peer rank %u", rank);
        return NULL;            /* the slab frees the partial allocations */
    }
    p->rank = rank;
    return p;
}

