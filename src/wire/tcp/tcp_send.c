/* From descriptors to frames. Post converts descriptors to frames in the lanes' queues, then writes
 * each affected lane's queues (tcp_write.c).
 *
 * With one lane all frames are in one queue and arrive in post order. With several, inline frames
 * use the urgent queue of lane 0, between the bulk frames there. Each bulk frame goes to the lane
 * that DQPLB selects (dqplb_lanes.h): the one with the fewest queued bytes. TCP_NOTSENT_LOWAT
 * limits the kernel's buffering, so queued bytes show how fast a lane drains. A put that names its
 * lane becomes a bulk frame there; an inline one is copied. */
#include "wire/tcp/tcp.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "reduce/reduce.h"

/* minimum inline data that is offered to the kernel before it is copied */
#define BORROW_BYTES_MIN 2048

/* Returns n contiguous bytes of the link's inline ring, or NULL. Storing *end in inline_head frees
 * them. */
static uint8_t *inline_take(struct tt_tcp_link *link, uint64_t n, uint64_t *end)
{
    const uint64_t at = link->inline_tail % TT_TCP_INLINE_BYTES;
    const uint64_t skip = at + n > TT_TCP_INLINE_BYTES ? TT_TCP_INLINE_BYTES - at : 0;

    if (link->inline_tail + skip + n - link->inline_head > TT_TCP_INLINE_BYTES)
        return NULL;
    link->inline_tail += skip + n;
    *end = link->inline_tail;
    return link->inline_ring + (link->inline_tail - n) % TT_TCP_INLINE_BYTES;
}

/* ---- descriptors to frames ---- */

/* Reserves n completions for the link. Returns false if out of memory. */
static bool reserve_dones(struct tt_tcp_link *link, uint32_t n)
{
    struct tt_tcp *t = link->tcp;

    if (t->reserved + n > t->ndones) {
        const uint32_t more = 2 * t->ndones;
        struct tt_tcp_done *grown = malloc(more * sizeof *grown);

        if (!grown)
            return false;
        for (uint32_t i = t->done_head; i != t->done_tail; i++)
            grown[i & (more - 1)] = t->dones[i & (t->ndones - 1)];
        free(t->dones);
        t->dones = grown;
        t->ndones = more;
    }
    t->reserved += n;
    link->reserved_dones += n;
    return true;
}

/* Returns the lane for a bulk frame: the one that its put names (from 1 on), if that is up;
 * otherwise the next allowed lane. NULL: no space. */
static struct tt_tcp_lane *lane_for(struct tt_tcp_link *link, const struct tt_desc *d,
                                    uint64_t bytes)
{
    const bool few = d->flags & TT_DESC_FEW_LANES;
    uint32_t number = (d->lane - 1u) % link->nlanes;

    if (d->lane == 0 || few || link->load.lane[number].down)
        number = tt_dqplb_lanes_choose(&link->load, bytes, few ? d->lane : 0);
    else if (!tt_dqplb_lanes_has_room(&link->load, number, bytes))
        return NULL;
    return number == TT_DQPLB_NO_LANE ? NULL : &link->lanes[number];
}

/* Returns whether another numbered message may be in flight, and another remote completion
 * pending. */
static bool numbers_left(const struct tt_tcp_link *link, const struct tt_desc *d)
{
    if (link->next_number - link->acked >= tt_tcp_ahead(link))
        return false;
    return !(d->flags & TT_DESC_REMOTE) || link->remote_tail - link->remote_head < TT_TCP_REMOTES;
}

/* Makes the frame's signal, or get, wait for the puts before the fence. A single lane is ordered
 * anyway. */
static void frame_fence(const struct tt_tcp_link *link, struct tt_frame *f)
{
    if (!link->fenced || link->nlanes == 1)
        return;
    f->flags |= TT_FRAME_FENCED;
    f->after = tt_dqplb_word(link->fence, false, false);
}

/* Numbers the message for this lane, and fills in its signal. Nothing can fail after this. */
static void frame_number(const struct tt_tcp_lane *lane, const struct tt_desc *d,
                         enum tt_tcp_class class, struct tt_frame *f)
{
    struct tt_tcp_link *link = lane->link;
    const uint64_t number = link->next_number++;

    f->word = tt_dqplb_word(number, true, class == TT_TCP_URGENT);
    if (tt_trace_is_enabled())
        tt_tcp_trace(lane, TT_TRACE_POSTED, f->word, tt_frame_payload(f));
    if (d->flags & TT_DESC_REMOTE) {
        f->flags |= TT_FRAME_WANT_ACK;
        link->remotes[link->remote_tail++ % TT_TCP_REMOTES] =
            (struct tt_tcp_remote){ .number = number, .cookie = d->cookie };
    }
    if (d->signal_op == TT_SIGNAL_NONE)
        return;
    tt_assert(d->signal_op <= TT_SIGNAL_ADD && d->signal_offset % 8 == 0);
    f->signal_op = d->signal_op;
    f->signal_region = (uint32_t)d->signal_key->handle[0];
    f->signal_generation = (uint32_t)d->signal_key->handle[1];
    f->signal_offset = d->signal_offset;
    f->signal_value = d->signal_value;
    frame_fence(link, f);
}

static enum tt_tcp_class inline_class(const struct tt_tcp_link *link)
{
    return link->nlanes > 1 ? TT_TCP_URGENT : TT_TCP_BULK;
}

/* Queues an inline put entirely or not at all. A long one only reserves space in the inline ring,
 * and is copied if the kernel has not accepted it before post returns. */
static bool take_inline(struct tt_tcp_link *link, const struct tt_desc *d, struct tt_frame *f)
{
    struct tt_tcp_lane *lane = &link->lanes[0];
    const enum tt_tcp_class class = inline_class(link);
    const uint64_t payload = tt_frame_payload(f), bytes = TT_FRAME_BYTES + payload;
    const bool borrow = payload >= BORROW_BYTES_MIN;
    struct tt_tcp_out *out;
    uint64_t end;
    uint8_t *at;

    if (tt_tcp_queue_room(&lane->queues[class]) == 0)
        return false;
    at = inline_take(link, borrow ? payload : bytes, &end);
    if (!at)
        return false;
    if (f->kind != TT_FRAME_GET)
        frame_number(lane, d, class, f);
    out = tt_tcp_queue_push(lane, class);
    if (borrow) {
        tt_frame_write(f, out->header);
        out->head = TT_FRAME_BYTES;
        out->data = d->local;
        out->bytes = payload;
        out->room = at;
        link->has_borrowed = true;
    } else {
        tt_frame_write(f, at);
        if (payload > 0)
            memcpy(at + TT_FRAME_BYTES, d->local, payload);
        out->data = at;
        out->bytes = bytes;
    }
    out->inline_end = end;
    tt_dqplb_lanes_give(&link->load, lane->number, class == TT_TCP_BULK, bytes);
    tt_tcp_mark(lane);
    return true;
}

static bool take_bulk(struct tt_tcp_link *link, const struct tt_desc *d, struct tt_frame *f)
{
    const uint64_t bytes = TT_FRAME_BYTES + d->bytes;
    struct tt_tcp_lane *lane = lane_for(link, d, bytes);
    const bool report = !(d->flags & TT_DESC_INLINE);
    void *copy = NULL;
    struct tt_tcp_out *out;

    if (!lane)
        return false;
    if (!report && d->bytes > 0) {
        copy = malloc(d->bytes);
        if (!copy)
            return false;
        memcpy(copy, d->local, d->bytes);
    } else if (report && !reserve_dones(link, 1)) {
        return false;
    }
    frame_number(lane, d, TT_TCP_BULK, f);
    out = tt_tcp_queue_push(lane, TT_TCP_BULK);
    tt_frame_write(f, out->header);
    out->head = TT_FRAME_BYTES;
    out->copy = copy;
    out->data = copy ? copy : d->local;
    out->bytes = d->bytes;
    out->report = report;
    out->cookie = d->cookie;
    tt_dqplb_lanes_give(&link->load, lane->number, 1, bytes);
    tt_tcp_mark(lane);
    return true;
}

static bool take_put(struct tt_tcp_link *link, const struct tt_desc *d)
{
    struct tt_frame f = {
        .kind = TT_FRAME_PUT,
        .region = (uint32_t)d->key->handle[0],
        .generation = (uint32_t)d->key->handle[1],
        .offset = d->offset,
        .bytes = d->bytes,
    };
    const uint32_t remote = d->flags & TT_DESC_REMOTE ? 1 : 0;
    bool taken;

    if (!numbers_left(link, d) || !reserve_dones(link, remote))
        return false;
    tt_assert(!(d->flags & TT_DESC_INLINE) || d->bytes <= TT_INLINE_BYTES);
    if (d->flags & TT_DESC_INLINE &&
        (d->lane == 0 || d->flags & TT_DESC_FEW_LANES || link->nlanes == 1)) {
        taken = take_inline(link, d, &f);
    } else {
        taken = take_bulk(link, d, &f);
    }
    if (!taken) {
        link->reserved_dones -= remote;
        link->tcp->reserved -= remote;
    }
    return taken;
}

/* Gets and atomics: a request frame, sent like an inline put, and an entry to match its
 * response. */
static bool take_request(struct tt_tcp_link *link, const struct tt_desc *d)
{
    const bool get = d->kind == TT_DESC_GET;
    const uint32_t remote = d->flags & TT_DESC_REMOTE ? 1 : 0;
    const uint32_t token = link->next_token;
    struct tt_tcp_request *q = &link->requests[token % TT_TCP_REQUESTS];
    struct tt_frame f = {
        .kind = get ? TT_FRAME_GET : TT_FRAME_ATOMIC,
        .region = (uint32_t)d->key->handle[0],
        .generation = (uint32_t)d->key->handle[1],
        .offset = d->offset,
        .bytes = get ? d->bytes : d->operand,
        .token = token,
    };

    tt_assert(get ? d->signal_op == TT_SIGNAL_NONE : d->offset % 8 == 0);
    if (q->busy || !numbers_left(link, d) || !reserve_dones(link, 1 + remote))
        return false;
    if (get)
        frame_fence(link, &f);
    if (!take_inline(link, d, &f)) {
        link->reserved_dones -= 1 + remote;
        link->tcp->reserved -= 1 + remote;
        return false;
    }
    link->next_token++;
    *q = (struct tt_tcp_request){
        .busy = true,
        .kind = get ? TT_FRAME_GOT : TT_FRAME_OLD,
        .remote = get && remote,
        .token = token,
        .local = d->local,
        .bytes = get ? d->bytes : (d->local ? sizeof(uint64_t) : 0),
        .cookie = d->cookie,
    };
    return true;
}

/* Queues one descriptor. Returns false if it does not fit now. */
static bool queue_desc(struct tt_tcp *t, const struct tt_desc *d)
{
    const uint32_t peer = d->kind == TT_DESC_FENCE ? d->peer : d->key->peer;
    struct tt_tcp_link *link = tt_sparse_get(&t->links, peer);

    if (!link || link->state == TT_TCP_OPENING)
        return d->kind == TT_DESC_FENCE;    /* no earlier put to this peer */
    if (link->state == TT_TCP_LOST)
        return true;
    switch (d->kind) {
    case TT_DESC_PUT:
        return take_put(link, d);
    case TT_DESC_GET:
    case TT_DESC_ATOMIC:
        return take_request(link, d);
    default:
        tt_assert(d->kind == TT_DESC_FENCE);
        link->fence = link->next_number;
        link->fenced = true;
        return true;
    }
}

/* Copies the unsent part of inline data that is still the caller's. */
static void keep_borrowed(struct tt_tcp_link *link)
{
    struct tt_tcp_lane *lane = &link->lanes[0];
    struct tt_tcp_queue *q = &lane->queues[inline_class(link)];

    link->has_borrowed = false;
    for (uint32_t i = q->head; i != q->tail; i++) {
        struct tt_tcp_out *out = tt_tcp_queue_at(q, i);
        const bool begun = lane->begun && lane->current == inline_class(link) && i == q->head;
        const uint64_t gone = begun && lane->sent > out->head ? lane->sent - out->head : 0;

        if (!out->room)
            continue;
        tt_copy(out->room + gone, NULL, out->data + gone, out->bytes - gone, false);
        out->data = out->room;
        out->room = NULL;
    }
}

/* Returns whether these descriptors may be delayed, so that one system call sends them with later
 * ones. Several calls mean several passes through the network stack, while a receiver that has
 * emptied the socket competes for it. */
static bool post_may_wait(const struct tt_tcp *t, const struct tt_desc *desc, int n)
{
    if (!t->wire.together)
        return false;
    for (int i = 0; i < n; i++)
        if ((desc[i].flags & TT_DESC_INLINE &&
             !(t->wire.gathers && desc[i].bytes < BORROW_BYTES_MIN)) ||
            (desc[i].kind != TT_DESC_PUT && desc[i].kind != TT_DESC_FENCE))
            return false;
    return n > 0;
}

/* A put does not fit: requests more lanes for its link, if they are opened on demand. */
static void put_waits(struct tt_tcp *t, const struct tt_desc *d)
{
    struct tt_tcp_link *link =
        d->kind == TT_DESC_PUT && !(d->flags & TT_DESC_INLINE) && d->bytes > 0
            ? tt_sparse_get(&t->links, d->key->peer)
            : NULL;

    if (link && link->state == TT_TCP_UP)
        tt_tcp_want_lanes(link);
}

/* Queues what fits. A descriptor that does not fit is retried after a flush: the queues of an
 * unblocked lane may be full only of this call's frames. */
int tt_tcp_post(struct tt_wire *w, const struct tt_desc *desc, int n)
{
    struct tt_tcp *t = tt_tcp_of(w);
    int taken = 0;

    while (taken < n) {
        if (queue_desc(t, &desc[taken])) {
            taken++;
            continue;
        }
        tt_tcp_flush(t, false);
        if (!queue_desc(t, &desc[taken])) {
            put_waits(t, &desc[taken]);
            break;
        }
        taken++;
    }
    if (post_may_wait(t, desc, taken))
        return taken;
    tt_tcp_flush(t, false);
    for (int i = 0; i < taken; i++) {
        struct tt_tcp_link *link = desc[i].flags & TT_DESC_INLINE && desc[i].bytes
                                       ? tt_sparse_get(&t->links, desc[i].key->peer)
                                       : NULL;

        if (link && link->has_borrowed)
            keep_borrowed(link);
    }
    return taken;
}

/* ---- deregistered sources ---- */

/* Copies the unsent rest of a partly sent frame: it must be sent, or the stream loses alignment. */
static void out_copy(struct tt_tcp_lane *lane, struct tt_tcp_out *out)
{
    const uint64_t gone = lane->sent > out->head ? lane->sent - out->head : 0;
    const uint64_t rest = out->bytes - gone;
    void *copy = malloc(rest);

    if (!copy) {
        tt_tcp_link_lose(lane->link, TUTTI_ERR_NOMEM,
                         "out of memory for the rest of a put whose source was deregistered");
        return;
    }
    memcpy(copy, out->data + gone, rest);
    if (gone > 0) {
        lane->sent = 0; /* still begun: the header and earlier bytes are sent */
        out->head = 0;
    }
    out->copy = copy;
    out->data = copy;
    out->bytes = rest;
}

/* A frame that is not sent yet shrinks to its header: its number must arrive, its bytes and signal
 * must not. */
static void out_void(struct tt_tcp_lane *lane, struct tt_tcp_out *out)
{
    struct tt_frame f;

    tt_assert(tt_frame_read(&f, out->header));
    if (f.kind == TT_FRAME_GOT) {
        f.flags |= TT_FRAME_GONE;
    } else {
        f.kind = TT_FRAME_VOID;
        f.flags &= TT_FRAME_WANT_ACK;
        f.signal_op = TT_SIGNAL_NONE;
    }
    f.bytes = 0;
    tt_frame_write(&f, out->header);
    tt_assert(tt_dqplb_lanes_done(&lane->link->load, lane->number, 0, out->bytes));
    out->data = NULL;
    out->bytes = 0;
}

static void queue_sources_gone(struct tt_tcp_lane *lane, enum tt_tcp_class class, uintptr_t begin,
                               uintptr_t end)
{
    struct tt_tcp_queue *q = &lane->queues[class];

    for (uint32_t i = q->head; i != q->tail && lane->fd >= 0; i++) {
        struct tt_tcp_out *out = tt_tcp_queue_at(q, i);
        const uintptr_t data = (uintptr_t)out->data;

        if (out->inline_end || out->copy || out->bytes == 0 || data >= end ||
            data + out->bytes <= begin)
            continue;
        if (tt_rput_covers(&lane->link->tcp->regions, out->data, out->bytes))
            continue;   /* the bytes are also in another region */
        if (lane->begun && lane->current == class && i == q->head)
            out_copy(lane, out);
        else
            out_void(lane, out);
    }
}

void tt_tcp_sources_gone(struct tt_tcp *t, const void *mem, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)mem, end = begin + bytes;

    tt_tcp_flush(t, true);
    if (t->nblocked == 0)
        return;     /* nothing is queued */
    for (uint32_t i = 0; i < t->nactive; i++) {
        struct tt_tcp_lane *lane = t->active[i];
        struct tt_tcp_link *link = lane->link;

        if (!lane->blocked)
            continue;
        queue_sources_gone(lane, TT_TCP_REPLY, begin, end);
        queue_sources_gone(lane, TT_TCP_BULK, begin, end);
        if (link->state == TT_TCP_LOST)
            i = UINT32_MAX; /* the list changed: restart */
    }
}
