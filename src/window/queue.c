#include "window/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define QUEUE_BYTES_MAX (4u << 20)  /* of copies and lists, per peer */

struct tt_window_queued {
    struct tt_window_queued *next;
    struct tt_window_put put;
    size_t bytes;               /* of this struct with its lists and copies */
    tutti_piece pieces[];       /* what is left of the put; copies of short sources follow */
};

/* What is left of piece i. */
static tutti_piece rest_of(const struct tt_window_put *p, size_t i)
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

/* Bytes of lists and copies; more than QUEUE_BYTES_MAX where it would be more. */
static size_t size_of(const struct tt_window_put *p)
{
    size_t bytes = sizeof(struct tt_window_queued);

    for (size_t i = p->at; i < p->shape.n && bytes <= QUEUE_BYTES_MAX; i++) {
        const tutti_piece piece = rest_of(p, i);

        bytes += sizeof piece + (is_copied(p, piece.bytes) ? piece.bytes : 0);
    }
    return bytes;
}

static void fill(struct tt_window_queued *q, const struct tt_window_put *p)
{
    const size_t n = p->shape.n - p->at;
    uint8_t *copy = (uint8_t *)&q->pieces[n];

    q->put = *p;
    for (size_t i = 0; i < n; i++) {
        q->pieces[i] = rest_of(p, p->at + i);
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

bool tt_window_queue_add(struct tt_window_put *p)
{
    struct tt_windows *home = p->attempt.window->home;
    struct tt_window_peer *peer = tt_window_peer_of(home, tt_window_job_rank(p->attempt.window, p->attempt.rank));
    const size_t bytes = size_of(p);
    struct tt_window_queued *q;

    if (!peer || peer->nqueued == TT_WINDOW_QUEUED || peer->queued_bytes + bytes > QUEUE_BYTES_MAX)
        return false;
    q = malloc(bytes);
    if (!q)
        return false;
    fill(q, p);
    q->next = NULL;
    q->bytes = bytes;
    q->put.queued = true;
    q->put.tick = home->tick;
    *(peer->queue_last ? &peer->queue_last->next : &peer->queue) = q;
    peer->queue_last = q;
    peer->oldest_queued = peer->queue->put.tick;
    peer->nqueued++;
    peer->queued_bytes += bytes;
    if (home->nqueued++ == 0)
        tt_guest_wake(home->engine);
    p->transfer = NULL;         /* the queue's now */
    return true;
}

bool tt_window_queue_precedes(const struct tt_window_put *p)
{
    const struct tt_window *w = p->attempt.window;
    const struct tt_window_peer *peer = w->home->peers[tt_window_job_rank(w, p->attempt.rank)];

    if (p->queued || p->begun || !peer || !peer->queue)
        return false;
    return !p->failed || (p->rma.signal_op != TUTTI_SIGNAL_NONE && peer->fence_left > 0);
}

/* Takes *at off the queue, whose entry before it is `before`. */
static void take_off(struct tt_windows *home, struct tt_window_peer *peer, struct tt_window_queued **at,
                     struct tt_window_queued *before)
{
    struct tt_window_queued *q = *at;

    *at = q->next;
    if (peer->queue_last == q)
        peer->queue_last = before;
    peer->oldest_queued = peer->queue ? peer->queue->put.tick : UINT64_MAX;
    peer->nqueued--;
    peer->queued_bytes -= q->bytes;
    home->nqueued--;
    tt_window_put_leave(&q->put);
    free(q);
}

/* The fence that came behind queued puts holds from where the last of them has been posted. */
static void count_down(struct tt_window_peer *peer)
{
    if (peer->fence_left > 0 && --peer->fence_left == 0)
        tt_window_peer_mark(peer);
}

/* Steps the oldest put of the peer. PENDING: it is not over. What failed is noted where the rank's quiet looks; a failed
 * communicator is reported by its own calls. */
static tutti_status step_first(struct tt_windows *home, struct tt_window_peer *peer)
{
    struct tt_window_put *p = &peer->queue->put;
    struct tt_window *w = p->attempt.window;
    tutti_status st = tt_context_status(w->comm->context, NULL, 0);

    if (!st)
        st = tt_window_put_go_on(p);
    if (st == TUTTI_PENDING)
        return st;
    if (!st && p->rma.counter)
        tt_window_count(p->rma.counter);
    else if (st && !tt_context_status(w->comm->context, NULL, 0))
        w->ways[p->attempt.rank].failed = st;
    if (st && p->transfer)
        p->transfer->counter = NULL;
    take_off(home, peer, &peer->queue, NULL);
    count_down(peer);
    return TUTTI_OK;
}

bool tt_window_queue_run(struct tt_windows *home)
{
    bool any = false;

    for (uint32_t r = 0; home->nqueued > 0 && r < home->nranks; r++)
        while (home->peers[r] && home->peers[r]->queue && step_first(home, home->peers[r]) == TUTTI_OK)
            any = true;
    if (any)
        tt_guest_wake(home->engine);
    return any;
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
    struct tt_windows *home = w->home;

    for (uint32_t r = 0; home->nqueued > 0 && r < home->nranks; r++) {
        struct tt_window_peer *peer = home->peers[r];
        struct tt_window_queued **at = peer ? &peer->queue : NULL, *before = NULL;
        uint32_t kept = 0;

        while (at && *at) {
            struct tt_window_put *p = &(*at)->put;

            if (p->attempt.window != w && p->signals != w) {
                before = *at;
                at = &before->next;
                kept++;
                continue;
            }
            if (p->transfer)
                p->transfer->counter = NULL;
            take_off(home, peer, at, before);
            if (kept < peer->fence_left)
                count_down(peer);
        }
    }
}
