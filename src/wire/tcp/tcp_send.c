/* From descriptors to the kernel. Post converts descriptors to frames in the lanes' queues, then
 * writes each affected lane's queues in one system call. What the kernel does not accept stays
 * queued until the socket is writable again. A queue is non-empty if its lane is blocked, if a post
 * is in progress or delayed in a batch (tt_wire.together), or if the lane's quota was exhausted
 * (tt_tcp_lane_write).
 *
 * With one lane all frames are in one queue and arrive in post order. With several, inline frames
 * use the urgent queue of lane 0, between the bulk frames there. Each bulk frame goes to the lane
 * that DQPLB selects (dqplb_lanes.h): the one with the fewest queued bytes. TCP_NOTSENT_LOWAT
 * limits the kernel's buffering, so queued bytes show how fast a lane drains. A put that names its
 * lane becomes a bulk frame there; an inline one is copied. */
#include "wire/tcp/tcp.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "base/status.h"
#include "reduce/reduce.h"

/* 31 pieces with their headers, and the signal of a put with that many (src/window/put.c) */
#define IOV_BATCH 64
/* minimum inline data that is offered to the kernel before it is copied */
#define BORROW_BYTES_MIN 2048
#define VERY_SLOW_PIECE (16u << 10) /* lanes of up to 50 Mbit/s */

/* ---- queues ---- */

static uint32_t queue_room(const struct tt_tcp_queue *q)
{
    return q->depth - (q->tail - q->head);
}

static struct tt_tcp_out *queue_at(const struct tt_tcp_queue *q, uint32_t i)
{
    return &q->ring[i & (q->depth - 1)];
}

/* Appends a cleared entry; the caller has checked for space. */
static struct tt_tcp_out *queue_push(struct tt_tcp_lane *lane, enum tt_tcp_class class)
{
    struct tt_tcp_queue *q = &lane->queues[class];
    struct tt_tcp_out *out = queue_at(q, q->tail++);

    out->data = NULL;
    out->bytes = out->inline_end = 0;
    out->copy = NULL;
    out->room = NULL;
    out->head = 0;
    out->report = out->ack = false;
    return out;
}

void tt_tcp_mark(struct tt_tcp_lane *lane)
{
    struct tt_tcp *t = lane->link->tcp;

    if (lane->dirty || lane->blocked)
        return;
    lane->dirty = true;
    lane->next_dirty = t->dirty;
    t->dirty = lane;
}

/* Queues a frame with data[bytes]. */
static struct tt_tcp_out *queue_reply(struct tt_tcp_link *link, const struct tt_frame *f,
                                      const uint8_t *data, uint64_t bytes)
{
    struct tt_tcp_lane *lane = &link->lanes[0];
    struct tt_tcp_out *out = queue_push(lane, TT_TCP_REPLY);

    tt_frame_write(f, out->header);
    out->head = TT_FRAME_BYTES;
    out->data = data;
    out->bytes = bytes;
    tt_dqplb_lanes_give(&link->load, lane->number, 0, TT_FRAME_BYTES + bytes);
    return out;
}

void tt_tcp_acknowledge_redundantly(struct tt_tcp_link *link, uint8_t *frames, uint32_t more)
{
    const struct tt_frame f = { .kind = TT_FRAME_ACK,
                                .word = tt_dqplb_word(link->ack_sent, false, false) };

    for (uint32_t i = 0; i < more; i++)
        tt_frame_write(&f, frames + (size_t)i * TT_FRAME_BYTES);
    queue_reply(link, &f, frames, (uint64_t)more * TT_FRAME_BYTES)->copy = frames;
}

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

/* ---- from the queues to the kernel ---- */

/* Returns the queue to send from next, given the read positions. */
static int next_class(const struct tt_tcp_lane *lane, const uint32_t heads[TT_TCP_CLASSES])
{
    for (int c = 0; c < TT_TCP_CLASSES; c++)
        if (heads[c] != lane->queues[c].tail)
            return c;
    return -1;
}

static int iov_add(struct iovec *iov, int n, const uint8_t *data, uint64_t bytes)
{
    if (bytes == 0)
        return n;
    if (n > 0 && (uint8_t *)iov[n - 1].iov_base + iov[n - 1].iov_len == data) {
        iov[n - 1].iov_len += bytes;
        return n;
    }
    iov[n] = (struct iovec){ .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
    return n + 1;
}

/* Lists what the lane has to send, in order. Returns the number of iov entries, and their bytes in
 * *total. */
static int queues_gather(const struct tt_tcp_lane *lane, struct iovec *iov, uint64_t *total)
{
    uint32_t heads[TT_TCP_CLASSES];
    uint64_t skip = lane->sent;
    int c, n = 0;

    *total = 0;
    for (c = 0; c < TT_TCP_CLASSES; c++)
        heads[c] = lane->queues[c].head;
    c = lane->begun ? lane->current : next_class(lane, heads);
    for (; c >= 0 && n + 2 <= IOV_BATCH; c = next_class(lane, heads)) {
        const struct tt_tcp_out *out = queue_at(&lane->queues[c], heads[c]++);
        const uint64_t of_head = skip < out->head ? out->head - skip : 0;
        const uint64_t of_data = out->bytes - (skip > out->head ? skip - out->head : 0);

        n = iov_add(iov, n, out->header + out->head - of_head, of_head);
        n = iov_add(iov, n, out->data + (out->bytes - of_data), of_data);
        *total += of_head + of_data;
        skip = 0;
    }
    return n;
}

void tt_tcp_trace(const struct tt_tcp_lane *lane, enum tt_trace_kind kind, uint32_t word,
                  uint64_t bytes)
{
    const struct tt_tcp_link *link = lane->link;

    tt_trace_add(
        &(struct tt_trace_event){ .wire = "tcp",
                                  .bytes = bytes,
                                  .peer = link->peer,
                                  .number = word & TT_DQPLB_SEQ_MASK,
                                  .kind = (uint8_t)kind,
                                  .lane = (uint8_t)lane->number,
                                  .rail = tt_tcp_rail_of(link->tcp, link->peer, lane->number) });
}

/* Traces a frame that the kernel has accepted, if it is numbered. */
static void trace_sent(const struct tt_tcp_lane *lane, const struct tt_tcp_out *out)
{
    struct tt_frame f;

    if (tt_frame_read(&f, out->inline_end && out->head == 0 ? out->data : out->header) &&
        (f.kind == TT_FRAME_PUT || f.kind == TT_FRAME_VOID || f.kind == TT_FRAME_ATOMIC))
        tt_tcp_trace(lane, TT_TRACE_COMPLETED, f.word, 0);
}

static void out_sent(struct tt_tcp_lane *lane, struct tt_tcp_out *out)
{
    struct tt_tcp_link *link = lane->link;

    if (tt_trace_is_enabled())
        trace_sent(lane, out);
    if (out->inline_end)
        link->inline_head = out->inline_end;
    if (out->ack)
        link->ack_queued = false;
    if (out->report)
        tt_tcp_complete(link, TT_DONE_LOCAL, out->cookie, TUTTI_OK);
    free(out->copy);
}

static void lane_drained(struct tt_tcp_lane *lane, uint32_t frames, uint64_t bytes)
{
    tt_assert(tt_dqplb_lanes_done(&lane->link->load, lane->number, frames, bytes));
}

/* Removes n bytes, which the kernel has accepted, in the order of gather. */
static void queues_advance(struct tt_tcp_lane *lane, uint64_t n)
{
    uint32_t heads[TT_TCP_CLASSES];

    lane_drained(lane, 0, n);
    while (n > 0) {
        struct tt_tcp_queue *q;
        struct tt_tcp_out *out;
        uint64_t rest;

        if (!lane->begun) {
            for (int c = 0; c < TT_TCP_CLASSES; c++)
                heads[c] = lane->queues[c].head;
            lane->current = (uint8_t)next_class(lane, heads);
            lane->begun = true;
            lane->sent = 0;
        }
        q = &lane->queues[lane->current];
        out = queue_at(q, q->head);
        rest = out->head + out->bytes - lane->sent;
        if (n < rest) {
            lane->sent += n;
            return;
        }
        n -= rest;
        q->head++;
        if (lane->current == TT_TCP_BULK)
            lane_drained(lane, 1, 0);
        lane->begun = false;
        lane->sent = 0;
        out_sent(lane, out);
    }
}

static void set_blocked(struct tt_tcp_lane *lane, bool blocked)
{
    struct tt_tcp *t = lane->link->tcp;

    if (lane->blocked == blocked)
        return;
    lane->blocked = blocked;
    t->nblocked += blocked ? 1 : -1u;
    if (lane->far_ns)
        t->nfar_blocked += blocked ? 1 : -1u;
}

/* Shortens iov to `bytes`, which must be available. Returns the number of entries left. */
static int iov_cut(struct iovec *iov, uint64_t bytes)
{
    int n = 0;

    while (iov[n].iov_len < bytes)
        bytes -= iov[n++].iov_len;
    iov[n].iov_len = bytes;
    return n + 1;
}

/* Urgent frames use lane 0 and wait there for a started bulk frame; on a very slow link the peer
 * stalls meanwhile. If another lane over the same rail is very slow, lane 0 gets no bulk frames
 * until that lane is fast again. The other lanes are then faster. */
static void reserve_first_lane(struct tt_tcp_link *link)
{
    const uint64_t piece = link->lanes[link->beside].pace.bytes;

    if (piece == 0)
        link->load.keeps_first = false;
    else if (piece <= VERY_SLOW_PIECE)
        link->load.keeps_first = true;
}

/* Reads the lane's rate from the kernel. */
static void measure_rate(struct tt_tcp_lane *lane)
{
    struct tt_tcp_link *link = lane->link;
    struct tcp_info info = { 0 };
    socklen_t bytes = sizeof info;

    if (getsockopt(lane->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return;
    tt_lane_pace_look(&lane->pace, info.tcpi_bytes_acked,
                      info.tcpi_busy_time - info.tcpi_rwnd_limited);
    if (link->beside && lane == &link->lanes[link->beside])
        reserve_first_lane(link);
}

uint64_t tt_tcp_lane_flush(struct tt_tcp_lane *lane, uint64_t most)
{
    struct iovec iov[IOV_BATCH];
    uint64_t total, offered;
    ssize_t n;
    int nparts;

    set_blocked(lane, false);
    while (lane->fd >= 0 && !lane->send_closed && most > 0) {
        const uint64_t pace = lane->pace.bytes, piece = pace && pace < most ? pace : most;
        bool apart;

        nparts = queues_gather(lane, iov, &total);
        if (tt_tcp_length_is_again(lane, total)) {
            tt_tcp_acknowledge_redundantly(lane->link, NULL, 0);
            nparts = queues_gather(lane, iov, &total);
        }
        offered = total;
        if (total > piece) {
            nparts = iov_cut(iov, piece);
            total = piece;
        }
        apart = pace && total > pace / 2;       /* must not be joined with later data */
        if (nparts == 0) {
            if (lane != lane->link->lanes || !tt_tcp_acknowledge(lane->link))
                break;
            continue;
        }
        n = tt_tcp_send(lane->fd, lane->stream, iov, nparts, apart);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            lane->send_closed = true;      /* earlier data of the peer may be unread: reading it finds
                                       the end */
            break;
        }
        if (n > 0) {
            most -= (uint64_t)n;
            queues_advance(lane, (uint64_t)n);
            lane->unanswered_reads = 0;
            lane->sent_bytes += (uint64_t)n;
            tt_tcp_length_sent(lane, (uint64_t)n);
            if (lane->paced && tt_lane_pace_sent(&lane->pace, (uint64_t)n, offered))
                measure_rate(lane);
        }
        if ((uint64_t)n != total) {     /* also for n = -1 */
            set_blocked(lane, true);
            break;
        }
    }
    if (lane->stream && tt_tcp_secure_holds(lane))
        set_blocked(lane, true);
    if (lane->fd >= 0)
        tt_tcp_lane_watch(lane, lane->watching & EPOLLIN, lane->blocked);
    if (lane->blocked)
        /* the layout may have changed */
        lane->link->load.bytes_max = tt_tcp_lane_bytes(lane->link);
    if (lane->blocked && lane->far_ns)
        tt_tcp_pacing_blocked(lane);
    return most;
}

/* ---- descriptors to frames ---- */

/* Reserves n completions for the link. */
static bool reserve_dones(struct tt_tcp_link *link, uint32_t n)
{
    if (!tt_tcp_dones_reserve(link->tcp, n))
        return false;
    link->reserved_dones += n;
    return true;
}

/* Returns the lane for a bulk frame: the one that its put names (from 1 on), if that is up, or the
 * next of those allowed. NULL: no space. */
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

    if (queue_room(&lane->queues[class]) == 0)
        return false;
    at = inline_take(link, borrow ? payload : bytes, &end);
    if (!at)
        return false;
    if (f->kind != TT_FRAME_GET)
        frame_number(lane, d, class, f);
    out = queue_push(lane, class);
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
    out = queue_push(lane, TT_TCP_BULK);
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

/* Writes every marked lane's queues. Lanes marked meanwhile wait for the next flush. */
static void flush_marked(struct tt_tcp *t, bool all)
{
    struct tt_tcp_lane *next = t->dirty;

    t->dirty = NULL;
    while (next) {
        struct tt_tcp_lane *lane = next;

        next = lane->next_dirty;
        lane->dirty = false;
        if (lane->fd < 0 || lane->blocked)
            continue;
        if (all)
            tt_tcp_lane_flush(lane, UINT64_MAX);
        else
            tt_tcp_lane_write(lane);
    }
}

void tt_tcp_flush(struct tt_tcp *t)
{
    flush_marked(t, false);
}

/* Copies the unsent part of inline data that is still the caller's. */
static void keep_borrowed(struct tt_tcp_link *link)
{
    struct tt_tcp_lane *lane = &link->lanes[0];
    struct tt_tcp_queue *q = &lane->queues[inline_class(link)];

    link->has_borrowed = false;
    for (uint32_t i = q->head; i != q->tail; i++) {
        struct tt_tcp_out *out = queue_at(q, i);
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
        tt_tcp_flush(t);
        if (!queue_desc(t, &desc[taken]))
            break;
        taken++;
    }
    if (post_may_wait(t, desc, taken))
        return taken;
    tt_tcp_flush(t);
    for (int i = 0; i < taken; i++) {
        struct tt_tcp_link *link = desc[i].flags & TT_DESC_INLINE && desc[i].bytes
                                       ? tt_sparse_get(&t->links, desc[i].key->peer)
                                       : NULL;

        if (link && link->has_borrowed)
            keep_borrowed(link);
    }
    return taken;
}

/* ---- responses ---- */

static struct tt_tcp_out *push_reply(struct tt_tcp_link *link, const struct tt_frame *f,
                                     const uint8_t *data, uint64_t bytes)
{
    struct tt_tcp_out *out = queue_reply(link, f, data, bytes);

    tt_tcp_mark(&link->lanes[0]);
    return out;
}

bool tt_tcp_reply(struct tt_tcp_link *link, const struct tt_frame *f, const void *data,
                  uint64_t bytes)
{
    /* the last entry is reserved for the acknowledgement */
    if (queue_room(&link->lanes[0].queues[TT_TCP_REPLY]) < 2)
        return false;
    push_reply(link, f, data, bytes);
    return true;
}

bool tt_tcp_acknowledge(struct tt_tcp_link *link)
{
    const uint64_t prefix = link->receiver.expected;
    const bool wanted = link->ack_want > link->ack_sent;
    const bool window = prefix - link->ack_sent >= tt_tcp_ahead(link) / 4;
    const struct tt_frame f = { .kind = TT_FRAME_ACK, .word = tt_dqplb_word(prefix, false, false) };

    if (link->ack_queued || prefix == link->ack_sent || (!wanted && !window))
        return false;
    push_reply(link, &f, NULL, 0)->ack = true;
    link->ack_queued = true;
    link->ack_sent = prefix;
    return true;
}

bool tt_tcp_acknowledged(struct tt_tcp_link *link, uint32_t prefix)
{
    const int32_t more = tt_dqplb_ahead(link->acked, prefix);

    if (more < 0 || (uint32_t)more > link->next_number - link->acked)
        return false;
    link->acked += (uint32_t)more;
    if (link->fence <= link->acked)
        link->fenced = false;
    while (link->remote_head != link->remote_tail) {
        const struct tt_tcp_remote *r = &link->remotes[link->remote_head % TT_TCP_REMOTES];

        if (r->number >= link->acked)
            break;
        link->remote_head++;
        tt_tcp_complete(link, TT_DONE_REMOTE, r->cookie, TUTTI_OK);
    }
    return true;
}

/* ---- deregistered sources ---- */

/* The rest of a partly sent frame must follow, or the stream loses alignment: copies it. */
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
    lane_drained(lane, 0, out->bytes);
    out->data = NULL;
    out->bytes = 0;
}

static void queue_sources_gone(struct tt_tcp_lane *lane, enum tt_tcp_class class, uintptr_t begin,
                               uintptr_t end)
{
    struct tt_tcp_queue *q = &lane->queues[class];

    for (uint32_t i = q->head; i != q->tail && lane->fd >= 0; i++) {
        struct tt_tcp_out *out = queue_at(q, i);
        const uintptr_t data = (uintptr_t)out->data;

        if (out->inline_end || out->copy || out->bytes == 0 || data >= end ||
            data + out->bytes <= begin)
            continue;
        if (tt_tcp_region_covers(lane->link->tcp, out->data, out->bytes))
            continue;   /* still in another region */
        if (lane->begun && lane->current == class && i == q->head)
            out_copy(lane, out);
        else
            out_void(lane, out);
    }
}

void tt_tcp_sources_gone(struct tt_tcp *t, const void *mem, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)mem, end = begin + bytes;

    flush_marked(t, true);
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
