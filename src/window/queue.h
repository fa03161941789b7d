/* Non-blocking puts for which the wire had no room: a bounded queue per peer, emptied by whoever makes progress. All
 * under the baton. */
#ifndef TT_WINDOW_QUEUE_H
#define TT_WINDOW_QUEUE_H

#include "window/put.h"

/* Queues what is left of the put, whose caller goes on: sources of up to TT_INLINE_BYTES are copied, longer ones stay the
 * caller's until the counter grows. The queue then owns the put. False: the peer's queue is full, or memory is short. */
bool tt_window_queue_add(struct tt_window_put *p);
/* A fence comes behind what is queued now: when the last of that has been posted, tt_window_peer_mark. */
void tt_window_queue_fence(struct tt_window_peer *peer);
/* Whether the put must wait for puts that are queued for its rank: a host's for all, a device's only if it signals and
 * a fence came after them. */
bool tt_window_queue_precedes(const struct tt_window_put *p);
/* Steps the queues of all peers that have one. True: something was taken. */
bool tt_window_queue_run(struct tt_windows *home);
/* Whether a queued put will read some of the caller's mem[bytes]. */
bool tt_window_queue_uses(const struct tt_window_peer *peer, const void *mem, size_t bytes);
/* Drops what goes to the window, or signals there. */
void tt_window_queue_drop(struct tt_window *w);

#endif
