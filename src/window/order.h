/* Fence and quiet for who may not wait: the proxies of devices. All under the baton; `rank` is one of the window's. */
#ifndef TT_WINDOW_ORDER_H
#define TT_WINDOW_ORDER_H

#include "window/window.h"

/* The next signals to the rank go behind all that was put to it. NOMEM (logged). */
tutti_status tt_window_fence_rank(struct tt_window *w, uint32_t rank);
/* OK if all that this process put to the rank has landed; PENDING: not yet, call again. Else as tutti_window_quiet, with a sentence where the window
 * itself is to blame; PEER_LOST has none. */
tutti_status tt_window_quiet_rank(struct tt_window *w, uint32_t rank);
/* Whoever sleeps at the rank in a call of a window looks at memory. PENDING: there is no room now. PEER_LOST (not logged). */
tutti_status tt_window_wake_rank(struct tt_window *w, uint32_t rank);

#endif
