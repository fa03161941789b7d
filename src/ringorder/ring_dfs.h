/* Depth-first search for a ring of permitted links only. Suitable for few links, where most paths
 * soon have no possible successor. Runs in slices. Pure. */
#ifndef TT_RINGORDER_RING_DFS_H
#define TT_RINGORDER_RING_DFS_H

#include <stddef.h>
#include "base/prng.h"
#include "ringorder/ring_matrix.h"

/* In memory of the caller. */
struct tt_ring_dfs {
    uint32_t n, words, length;
    uint64_t *to, *from;    /* [n][words] possible successors and predecessors */
    uint64_t *left;         /* [n][words] untried peers at each position */
    uint64_t *free;         /* [words] peers that are not on the path */
    uint32_t *way;          /* [n] the path: peers, `length` of them */
};

enum tt_ring_dug { TT_RING_DIGGING, TT_RING_DUG, TT_RING_NO_RING };

size_t tt_ring_dfs_bytes(uint32_t n);
/* Initializes in memory[tt_ring_dfs_bytes(c->n)], aligned to 8, with the links of slow <= limit.
 * Begins at a random peer; n from 2 to PEERS_MAX. */
void tt_ring_dfs_init(struct tt_ring_dfs *d, const struct tt_ring_costs *c, uint64_t limit,
                      struct tt_prng *random, void *memory);
/* Advances or backtracks by one peer: n^2 / 16 operations. DUG: way[n] is a ring; NO_RING: provably
 * none exists. Must not be called after either result. */
enum tt_ring_dug tt_ring_dfs_step(struct tt_ring_dfs *d);

#endif
