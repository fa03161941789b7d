/* Fence and quiet for callers that must not wait: the proxies of devices. The caller holds the
 * progress lock; `rank` is a rank of the window. */
#ifndef TT_WINDOW_ORDER_H
#define TT_WINDOW_ORDER_H

#include "window/window.h"

/* Orders the next signals to the rank after all earlier puts to it. NOMEM (logged). */
tutti_status tt_window_fence_rank(struct tt_window *w, uint32_t rank);
/* OK: everything that this process had put to the rank before the first call has landed.
 * PENDING: not yet, call again. Other errors as tutti_window_quiet, with a message for failures
 * of the window itself; PEER_LOST has none. *tick must be 0 in the first call, and is 0 again at
 * the end. *failed is the failure of the caller's own puts, reported once. */
tutti_status tt_window_quiet_rank(struct tt_window *w, uint32_t rank, uint64_t *tick,
                                  tutti_status *failed);
/* Wakes threads of the rank that sleep in a call of a window. PENDING: no room now. PEER_LOST
 * (not logged). */
tutti_status tt_window_wake_rank(struct tt_window *w, uint32_t rank);

#endif
