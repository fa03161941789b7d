/* Fences of single ranks, and accesses that must follow them. All functions require the progress
 * lock. */
#ifndef TT_WINDOW_FENCE_H
#define TT_WINDOW_FENCE_H

#include "window/window.h"

/* Fences a peer: sets flags for each way to reach it, and adds a fence after the last queued
 * put. Constant time. */
void tt_window_peer_fence(struct tt_windows *home, struct tt_window_peer *p);
/* Fences the peer if a fence of all ranks was called since the last check. */
void tt_window_check_fences(struct tt_windows *home, struct tt_window_peer *p);
/* After a fence, orders the next messages to the peer, and all later ones, after the puts that
 * the wire had taken. False: no room now. */
bool tt_window_hold_mail(struct tt_windows *home, struct tt_window_peer *p);
/* Returns whether the processor may access the peer's mapped memory: everything put before the
 * fence of that tick (0: none) has landed. Posts a mark if necessary. */
bool tt_window_may_load(struct tt_windows *home, struct tt_window_peer *p,
                        const struct tt_engine_client_link *link, uint64_t fence_tick);

#endif
