/* The table of point-to-point calls, by rank, communicator, peer, tag and direction. */
#ifndef TT_ANALYZE_P2P_H
#define TT_ANALYZE_P2P_H

#include "analyze/dumps.h"

/* Raises the number of calls of *key to key->ncalled. Returns false without memory. */
bool tt_dumps_p2p_note(struct tt_dumps *d, const struct tt_dumps_p2p *key);
/* Returns 1 + the highest seq of the sends (receives) of a rank to (from) a peer; 0: none. */
uint64_t tt_dumps_p2p_called(const struct tt_dumps *d, uint32_t rank, uint32_t comm, uint32_t peer,
                             int64_t tag, bool is_send);

#endif
