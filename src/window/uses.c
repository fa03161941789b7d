/* Memory of this process used by windows: exposed to peers, or used by incomplete puts and gets. */
#include "base/checked.h"
#include "window/queue.h"
#include "window/window.h"

static bool exposes(const struct tt_windows *home, const void *mem, size_t bytes)
{
    for (const struct tt_window *w = home->first; w; w = w->next)
        if (tt_overlap(w->mem, w->bytes, mem, bytes))
            return true;
    return false;
}

/* Calls in progress. */
static bool attempts_use(const struct tt_windows *home, const void *mem, size_t bytes)
{
    for (const struct tt_call_check *a = home->attempts; a; a = a->next)
        if (a->uses && a->uses(a, mem, bytes))
            return true;
    return false;
}

/* Puts and gets that the wire has taken. */
static bool transfers_use(const struct tt_windows *home, const void *mem, size_t bytes)
{
    for (uint32_t i = 0; home->transfers_busy && i < home->ntransfers; i++) {
        const struct tt_window_transfer *t = home->transfers[i];

        for (uint32_t k = 0; t && k < t->nregions; k++)
            if (tt_overlap(t->regions[k]->mem, t->regions[k]->bytes, mem, bytes))
                return true;
    }
    return false;
}

/* Gets by message with a pending reply. */
static bool requests_use(const struct tt_window_peer *p, const void *mem, size_t bytes)
{
    for (uint32_t i = 0; p->nasked && i < TT_WINDOW_REQUESTS_MAX; i++) {
        const struct tt_window_pending *a = &p->asked[i];

        if (a->busy && a->verb == TT_WINDOW_GET && tt_overlap(a->to, a->bytes, mem, bytes))
            return true;
    }
    return false;
}

bool tt_windows_use(const struct tt_windows *home, const void *mem, size_t bytes)
{
    if (exposes(home, mem, bytes) || attempts_use(home, mem, bytes) ||
        transfers_use(home, mem, bytes))
        return true;
    for (uint32_t r = 0; r < home->nranks; r++) {
        const struct tt_window_peer *p = home->peers[r];

        if (p && (requests_use(p, mem, bytes) || tt_window_queue_uses(p, mem, bytes)))
            return true;
    }
    return false;
}
