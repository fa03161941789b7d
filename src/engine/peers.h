/* The state of other ranks. The caller holds the progress lock. */
#ifndef TT_ENGINE_PEERS_H
#define TT_ENGINE_PEERS_H

#include "engine/state.h"

/* As tt_peer_get, but creates the state if necessary. NULL: out of memory (logged). */
struct tt_peer *tt_peer_of(struct tt_engine *e, uint32_t rank);
/* Releases the handle of a flow from the peer. */
static inline void tt_peer_free_handle(struct tt_peer *p, int handle)
{
    p->handles->used[handle / 64] &= ~(1ull << (handle % 64));
    p->handles->nused--;
    p->handles->gen[handle]++;
}

/* Returns the index of one of the engine's wires. */
static inline uint32_t tt_op_wire_index(const struct tt_engine *e, const struct tt_wire *w)
{
    uint32_t i = 0;

    while (e->wire[i] != w)
        i++;
    return i;
}

#endif
