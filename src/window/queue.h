/* Non-blocking puts, signals and atomics for which the wire had no room: a bounded queue per peer,
 * processed by rma_progress.c. All functions require the progress lock. */
#ifndef TT_WINDOW_QUEUE_H
#define TT_WINDOW_QUEUE_H

#include "window/put.h"

/* Queues the rest of a put; the call of the put then returns. Sources of up to TT_INLINE_BYTES are
 * copied; longer ones must stay valid until the counter is incremented. The queue then owns the
 * put. PENDING: the peer's queue is full; an empty queue accepts any put. NOMEM (logged). */
tutti_status tt_window_queue_add(struct tt_window_put *p);
/* Adds a fence after the queued puts. When the last of them was posted, it calls
 * tt_window_peer_mark. */
void tt_window_queue_fence(struct tt_window_peer *peer);
/* Returns whether the put must wait for queued puts to its rank: a host's put for all, a
 * device's put only if it has a signal and a fence followed them. */
bool tt_window_queue_precedes(const struct tt_window_put *p);
/* Returns the oldest queued put to the peer, which has one. */
struct tt_window_put *tt_window_queue_first(const struct tt_window_peer *peer);
/* Removes this put. */
void tt_window_queue_remove_first(struct tt_window_peer *peer);
/* Returns whether a queued put will read some of the caller's mem[bytes]. */
bool tt_window_queue_uses(const struct tt_window_peer *peer, const void *mem, size_t bytes);
/* Drops the queued puts to the window, and those with a signal in it. */
void tt_window_queue_drop(struct tt_window *w);

#endif
