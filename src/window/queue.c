#include "window/queue.h"
#include "window/peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* maximum size of a peer's entries with their copies and lists, besides a larger one in front */
#define QUEUE_BYTES_MAX (4u << 20)

struct tt_window_queued {
    struct tt_window_queued *next;
    struct tt_window_put put;
    size_t bytes;               /* size of this struct with its lists and copies; 0: exceeds the
                                   limit */
    bool fenced;                /* a fence follows it, before the next entry */
    tutti_piece pieces[];       /* remaining pieces; copies of short sources follow */
};

/* Returns the remaining part of piece i. */
static tutti_piece remaining_piece(const struct tt_window_put *p, size_t i)
{
    tutti_piece piece = tt_window_piece_of(&p->shape, i);

    if (i > p->at)
        return piece;
    piece.offset += p->within;
    piece.src = (const uint8_t *)piece.src + p->within;
    piece.bytes -= p->within;
    return piece;
}

static bool is_copied(const struct tt_window_put *p, uint64_t bytes)
{
    return !p->direct && bytes <= TT_INLINE_BYTES;
}

/* Returns the size of the entry with its list and copies. */
static size_t queued_bytes_of(const struct tt_window_put *p)
{
    size_t bytes = sizeof(struct tt_window_queued);

    for (size_t i = p->at; i < p->shape.n; i++) {
        const tutti_piece piece = remaining_piece(p, i);

        bytes += sizeof piece + (is_copied(p, piece.bytes) ? piece.bytes : 0);
    }
    return bytes;
}

static void copy_put(struct tt_window_queued *q, const struct tt_window_put *p)
{
    const size_t n = p->shape.n - p->at;
    uint8_t *copy = (uint8_t *)&q->pieces[n];

    q->put = *p;
    for (size_t i = 0; i < n; i++) {
        q->pieces[i] = remaining_piece(p, p->at + i);
        if (!is_copied(p, q->pieces[i].bytes))
            continue;
        if (q->pieces[i].bytes)
            memcpy(copy, q->pieces[i].src, q->pieces[i].bytes);
        q->pieces[i].src = copy;
        copy += q->pieces[i].bytes;
    }
    q->put.shape = (struct tt_window_shape){ .n = n, .pieces = q->pieces };
    q->put.at = 0;
    q->put.within = 0;
}

/* ---- list of peers with a queue -------------------------------------------------------------- */

static void list_peer(struct tt_windows *home, struct tt_window_peer *peer)
{
    peer->next_queued = home->queued;
    peer->queued_at = &home->queued;
    if (peer->next_queued)
        peer->next_queued->queued_at = &peer->next_queued;
    home->queued = peer;
}

static void unlist_peer(struct tt_window_peer *peer)
{
    *peer->queued_at = peer->next_queued;
    if (peer->next_queued)
        peer->next_queued->queued_at = peer->queued_at;
}

/* ---- adding ---- */

/* An empty queue accepts any put: one that was begun must not wait, and its call cannot return
 * before its short sources are copied. A put above the limit is not counted, so that others fit
 * behind it. */
static bool queue_has_space(const struct tt_window_peer *peer, size_t bytes)
{
    return !peer->queue ||
           (peer->nqueued < TT_WINDOW_QUEUED && peer->queued_bytes + bytes <= QUEUE_BYTES_MAX);
}

tutti_status tt_window_queue_add(struct tt_window_put *p)
{
    struct tt_windows *home = p->attempt.window->home;
    struct tt_window_peer *peer =
        tt_window_peer_of(home, tt_window_job_rank(p->attempt.window, p->attempt.rank));
    const size_t bytes = queued_bytes_of(p);
    struct tt_window_queued *q;

    if (!peer)
        return TUTTI_ERR_NOMEM;
    if (!queue_has_space(peer, bytes))
        return TUTTI_PENDING;
    q = malloc(bytes);
    if (!q)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory: cannot queue a put of %zu bytes",
                       p->attempt.call, bytes);
    copy_put(q, p);
    q->next = NULL;
    q->bytes = bytes > QUEUE_BYTES_MAX ? 0 : bytes;
    q->fenced = false;
    q->put.queued = true;
    q->put.tick = home->tick;
    if (!home->queued)
        tt_engine_client_wake(home->engine);
    tt_engine_client_left_unfinished(home->engine);
    if (!peer->queue)
        list_peer(home, peer);
    *(peer->queue_last ? &peer->queue_last->next : &peer->queue) = q;
    peer->queue_last = q;
    peer->oldest_queued = peer->queue->put.tick;
    peer->nqueued++;
    peer->queued_bytes += q->bytes;
    p->transfer = NULL;         /* owned by the queue now */
    return TUTTI_OK;
}

void tt_window_queue_fence(struct tt_window_peer *peer)
{
    if (peer->queue_last)
        peer->queue_last->fenced = true;
}

bool tt_window_queue_precedes(const struct tt_window_put *p)
{
    const struct tt_window *w = p->attempt.window;
    const struct tt_window_peer *peer = w->home->peers[tt_window_job_rank(w, p->attempt.rank)];

    if (p->queued || p->begun || !peer || !peer->queue)
        return false;
    return !p->failed ||
           (p->rma.signal_op != TUTTI_SIGNAL_NONE && tt_window_is_queued(peer, p->fence_tick));
}

/* ---- removing -------------------------------------------------------------------------------- */

/* Removes *at from the queue; `before` is the entry before it. A fence after it then follows
 * that entry, or takes effect now if there is none. */
static void queue_remove(struct tt_window_peer *peer, struct tt_window_queued **at,
                         struct tt_window_queued *before)
{
    struct tt_window_queued *q = *at;

    *at = q->next;
    if (peer->queue_last == q)
        peer->queue_last = before;
    peer->oldest_queued = peer->queue ? peer->queue->put.tick : UINT64_MAX;
    peer->nqueued--;
    peer->queued_bytes -= q->bytes;
    if (!peer->queue)
        unlist_peer(peer);
    if (q->fenced && before)
        before->fenced = true;
    else if (q->fenced)
        tt_window_peer_mark(peer);
    tt_window_put_leave(&q->put);
    free(q);
}

void tt_window_queue_remove_first(struct tt_window_peer *peer)
{
    queue_remove(peer, &peer->queue, NULL);
}

struct tt_window_put *tt_window_queue_first(const struct tt_window_peer *peer)
{
    return &peer->queue->put;
}

bool tt_window_queue_uses(const struct tt_window_peer *peer, const void *mem, size_t bytes)
{
    const struct tt_window_queued *q = peer->queue;

    while (q && !tt_window_put_uses(&q->put, mem, bytes))
        q = q->next;
    return q;
}

void tt_window_queue_drop(struct tt_window *w)
{
    for (struct tt_window_peer *peer = w->home->queued, *next; peer; peer = next) {
        struct tt_window_queued **at = &peer->queue, *before = NULL;

        next = peer->next_queued;
        while (*at) {
            struct tt_window_put *p = &(*at)->put;

            if (p->attempt.window != w && p->signals != w) {
                before = *at;
                at = &before->next;
                continue;
            }
            if (p->transfer)
                p->transfer->counter = NULL;
            queue_remove(peer, at, before);
        }
    }
}
