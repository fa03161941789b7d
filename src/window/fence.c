#include "window/fence.h"

#include "window/peer.h"
#include "window/queue.h"

void tt_window_peer_fence(struct tt_windows *home, struct tt_window_peer *p)
{
    tt_window_peer_mark(p);
    tt_window_queue_fence(p);
    p->fence_tick = ++home->tick;
}

void tt_window_check_fences(struct tt_windows *home, struct tt_window_peer *p)
{
    if (p->fences_seen == home->fences)
        return;
    p->fences_seen = home->fences;
    tt_window_peer_fence(home, p);
}

bool tt_window_hold_mail(struct tt_windows *home, struct tt_window_peer *p)
{
    /* transfers may be in progress */
    if (p->wire_fenced && !tt_flush_is_quiet(&p->marks, UINT64_MAX) &&
        !tt_engine_client_fence(home->engine, p->rank))
        return false;
    p->wire_fenced = false;
    return true;
}

bool tt_window_may_load(struct tt_windows *home, struct tt_window_peer *p,
                        const struct tt_engine_client_link *link, uint64_t fence_tick)
{
    if (fence_tick && tt_flush_needs_mark(&p->marks, fence_tick))
        tt_window_mark(home, p, link);
    if (fence_tick &&
        (!tt_flush_is_quiet(&p->marks, fence_tick) || tt_window_is_under_way(p, fence_tick)))
        return false;
    if (p->fence_tick == fence_tick)
        p->fence_tick = 0;
    return true;
}
