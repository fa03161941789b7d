/* The state of the other ranks, and marks in their streams of puts. All functions require the
 * progress lock. */
#ifndef TT_WINDOW_PEER_H
#define TT_WINDOW_PEER_H

#include "window/window.h"

/* Bit of the cookies of marks. The cookies of transfers use lower bits. */
#define TT_COOKIE_MARK (1ull << 50)

/* NULL (logged): out of memory. */
struct tt_window_peer *tt_window_peer_of(struct tt_windows *home, uint32_t rank);
struct tt_window *tt_window_find(const struct tt_windows *home, uint32_t id);
/* Sets the flags of tt_window_peer_fence again, because the last put that was queued before a fence
 * was posted only now. */
void tt_window_peer_mark(struct tt_window_peer *p);
/* Returns whether a transfer or request to the peer is incomplete that began before the tick. */
bool tt_window_is_under_way(const struct tt_window_peer *p, uint64_t tick);
/* Posts the mark whose landing shows that all earlier puts have landed. False: no room now. */
bool tt_window_mark(struct tt_windows *home, struct tt_window_peer *p,
                    const struct tt_engine_client_link *link);
/* Handles the completion of a mark. */
void tt_window_mark_done(struct tt_windows *home, const struct tt_done *d);
/* Returns whether puts to the peer are queued that were called before the tick. */
static inline bool tt_window_is_queued(const struct tt_window_peer *p, uint64_t tick)
{
    return p->oldest_queued < tick;
}

#endif
