/* Fence and quiet for who may not wait: the proxies of devices. All under the baton; `rank` is one of the window's. */
#ifndef TT_WINDOW_ORDER_H
#define TT_WINDOW_ORDER_H

#include "window/window.h"

/* The next signals to the rank go behind all that was put to it. NOMEM (logged). */
tutti_status tt_window_fence_rank(struct tt_window *w, uint32_t rank);
/* OK if all has landed that this process had put to the rank before the first call; PENDING: not yet, call again. Else as tutti_window_quiet, with a
 * sentence where the window itself is to blame; PEER_LOST has none. *tick is 0 at the first call, and again when it is over. *failed is what has failed of the
 * caller's own puts, and is told once. */
tutti_status tt_window_quiet_rank(struct tt_window *w, uint32_t rank, uint64_t *tick, tutti_status *failed);
/* Whoever sleeps at the rank in a call of a window looks at memory. PENDING: there is no room now. PEER_LOST (not logged). */
tutti_status tt_window_wake_rank(struct tt_window *w, uint32_t rank);

#endif
