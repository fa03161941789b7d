#include "window/peer.h"

#include <stdlib.h>

#include "base/status.h"

_Static_assert(2 * TT_MARK_BITS <= 50, "the rank and number of a mark fit below TT_COOKIE_MARK");

bool tt_window_mark(struct tt_windows *home, struct tt_window_peer *p,
                    const struct tt_engine_client_link *link)
{
    struct tt_wire *w = link->wire;
    const uint32_t number = tt_flush_next(&p->marks);
    const struct tt_desc d[2] = {
        { .kind = TT_DESC_FENCE, .peer = p->rank },
        {
            .kind = TT_DESC_PUT,
            .flags = TT_DESC_INLINE | TT_DESC_REMOTE,
            .peer = p->rank,
            .key = link->theirs,
            .signal_op = TT_SIGNAL_ADD,
            .signal_key = link->theirs,
            .signal_offset = link->word,
            .cookie =
                TT_CLIENT_COOKIE | TT_COOKIE_MARK | (uint64_t)p->rank << TT_MARK_BITS | number,
        },
    };

    if (w->ops->post(w, d, 2) != 2)
        return false;
    /* the mark precedes the queued puts */
    tt_flush_posted(&p->marks, p->oldest_queued < home->tick ? p->oldest_queued : home->tick);
    return true;
}

/* Puts older than their mark have landed, but their local completion may not have been reported
 * yet. */
bool tt_window_is_under_way(const struct tt_window_peer *p, uint64_t tick)
{
    if (p->oldest && p->oldest->tick < tick)
        return true;
    for (uint32_t i = 0; p->nasked && i < TT_WINDOW_REQUESTS_MAX; i++)
        if (p->asked[i].busy && p->asked[i].tick < tick)
            return true;
    return false;
}

void tt_window_peer_mark(struct tt_window_peer *p)
{
    p->fenced = p->wire_fenced = true;
    p->mail_fenced = p->nmail_changes > 0;
}

struct tt_window_peer *tt_window_peer_of(struct tt_windows *home, uint32_t rank)
{
    if (!home->peers[rank]) {
        home->peers[rank] = calloc(1, sizeof(struct tt_window_peer));
        if (!home->peers[rank])
            tt_fail(TUTTI_ERR_NOMEM, "window: out of memory for the state of rank %u", rank);
        else
            *home->peers[rank] =
                (struct tt_window_peer){ .rank = rank, .oldest_queued = UINT64_MAX };
    }
    return home->peers[rank];
}

struct tt_window *tt_window_find(const struct tt_windows *home, uint32_t id)
{
    struct tt_window *w = home->first;

    while (w && w->id != id)
        w = w->next;
    return w;
}

void tt_window_mark_done(struct tt_windows *home, const struct tt_done *d)
{
    const uint32_t rank = (uint32_t)(d->cookie >> TT_MARK_BITS) & TT_MARK_MASK;
    struct tt_window_peer *p = rank < home->nranks ? home->peers[rank] : NULL;

    if (p && d->kind == TT_DONE_REMOTE)
        tt_flush_landed(&p->marks, (uint32_t)d->cookie & TT_MARK_MASK);
}
