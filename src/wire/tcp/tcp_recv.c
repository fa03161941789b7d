/* From the kernel to memory. Between frames a lane reads a limited amount (tt_tcp_lane.read_bytes)
 * into its buffer: one system call reads many small frames. Within a payload it reads the rest
 * directly to its destination, plus a piece of buffer for the following headers. A large payload is
 * thus copied once, by the kernel, without a system call for its header.
 *
 * DQPLB's receiver (dqplb.h) records which messages have arrived: in order with one lane, in any
 * order with several. Puts are unordered, so a signal is raised when its message arrives. A signal
 * after a fence whose prefix is incomplete is parked at its message's place in the window. This
 * cannot overflow, since at most a window is in flight. A get after a fence is held likewise, in a
 * ring with space for all gets of a peer. */
#include "wire/tcp/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "base/status.h"
#include "reduce/reduce.h"

#define TAIL_BYTES 1024u    /* read beyond a payload */
#define WORD_BYTES 8u       /* largest size that is stored at once */
#define KEPT_BYTES 1024u    /* parsed bytes that may stay in the socket and be read again */
#define VAIN_MAX 32         /* peeks */
#define UNANSWERED_MAX 6    /* reads: a connection starts with a window of ten packets */
#define READS_MAX 8         /* maximum reads per call, for fairness among lanes */

/* ---- memory and signals ---- */

/* Finds the memory that a frame names. */
static enum tt_rput_found find_target(const struct tt_tcp_link *link, const struct tt_frame *f,
                                      uint8_t **mem, struct tt_rput_region **region)
{
    const struct tt_rput_target at = { f->region, f->generation, f->offset, f->bytes };

    return tt_rput_find(&link->tcp->regions, link->mine, link->tcp->conf.link_bytes, &at, false,
                        mem, region);
}

/* Raises the frame's signal, if its word still exists. Returns false if the peer is faulty. */
static bool tcp_raise_signal(const struct tt_tcp_link *link, const struct tt_frame *f)
{
    const struct tt_rput_target at = { f->signal_region, f->signal_generation, f->signal_offset,
                                       0 };
    uint64_t *word;
    enum tt_rput_found found;

    if (f->signal_op == TT_SIGNAL_NONE)
        return true;
    found =
        tt_rput_find_word(&link->tcp->regions, link->mine, link->tcp->conf.link_bytes, &at, &word);
    if (found == TT_RPUT_FOUND)
        tt_rput_raise(word, f->signal_op, f->signal_value);
    return found != TT_RPUT_BROKEN;
}

/* ---- the window ---- */

/* Stores the signal until its prefix is complete. Parked signals form a list ordered by number. */
static void park(struct tt_tcp_link *link, const struct tt_frame *f)
{
    const uint32_t place = f->word % TT_TCP_WINDOW;
    uint32_t *at = &link->parked;

    while (*at != TT_TCP_NOBODY && tt_dqplb_ahead(f->word, link->window[*at].frame.word) < 0)
        at = &link->window[*at].next;
    link->window[place] = (struct tt_tcp_parked){ .next = *at, .frame = *f };
    *at = place;
}

static bool serve_get(struct tt_tcp_link *link, const struct tt_frame *f)
{
    struct tt_frame answer = { .kind = TT_FRAME_GOT, .token = f->token };
    uint8_t *mem = NULL;
    const enum tt_rput_found found = find_target(link, f, &mem, NULL);

    if (found == TT_RPUT_FOUND)
        answer.bytes = f->bytes;
    else
        answer.flags = TT_FRAME_GONE;
    return found != TT_RPUT_BROKEN && tt_tcp_reply(link, &answer, mem, answer.bytes);
}

/* Serves a get, at once or when the messages that it must observe have arrived. Gets arrive in
 * order over one lane, so `after` does not decrease. Returns false if the peer is faulty. */
static bool take_get(struct tt_tcp_link *link, const struct tt_frame *f)
{
    const int32_t ahead =
        f->flags & TT_FRAME_FENCED ? tt_dqplb_ahead(link->receiver.expected, f->after) : 0;

    if (ahead <= 0)
        return serve_get(link, f);
    if (!link->held_gets || ahead > (int32_t)TT_DQPLB_WINDOW_MAX ||
        link->held_tail - link->held_head == TT_TCP_REQUESTS)
        return false;
    link->held_gets[link->held_tail++ % TT_TCP_REQUESTS] = *f;
    return true;
}

/* Serves the held gets that the prefix releases. Returns false if the peer is faulty. */
static bool release_gets(struct tt_tcp_link *link)
{
    while (link->held_head != link->held_tail) {
        const struct tt_frame *f = &link->held_gets[link->held_head % TT_TCP_REQUESTS];

        if (tt_dqplb_ahead(link->receiver.expected, f->after) > 0)
            break;
        link->held_head++;
        if (!serve_get(link, f))
            return false;
    }
    return true;
}

/* Raises the signals and serves the gets that the prefix releases. `after` grows with the number,
 * so the front of the list is always next. */
static bool unpark(struct tt_tcp_link *link)
{
    while (link->parked != TT_TCP_NOBODY) {
        const struct tt_tcp_parked *p = &link->window[link->parked];

        if (tt_dqplb_ahead(link->receiver.expected, p->frame.after) > 0)
            break;
        link->parked = p->next;
        if (!tcp_raise_signal(link, &p->frame))
            return false;
    }
    return release_gets(link);
}

/* Records that a numbered message has arrived over the lane (or was discarded, without its signal).
 * Returns false if the peer is faulty. */
static bool message_landed(const struct tt_tcp_lane *lane, const struct tt_frame *f)
{
    struct tt_tcp_link *link = lane->link;
    const uint64_t number =
        link->receiver.expected + (uint32_t)tt_dqplb_ahead(link->receiver.expected, f->word);

    if (tt_trace_is_enabled())
        tt_tcp_trace(lane, TT_TRACE_ARRIVED, f->word, 0);
    if (tt_dqplb_received(&link->receiver, lane->number, f->word) < 0)
        return false;
    if (f->flags & TT_FRAME_WANT_ACK && link->ack_want <= number)
        link->ack_want = number + 1;
    if (f->flags & TT_FRAME_FENCED && tt_dqplb_ahead(link->receiver.expected, f->after) > 0)
        park(link, f);
    else if (!tcp_raise_signal(link, f))
        return false;
    return unpark(link);
}

/* ---- frames ---- */

static void target_clear(struct tt_tcp_lane *lane)
{
    lane->region = NULL;
    lane->target = NULL;
}

static bool begin_put(struct tt_tcp_lane *lane, const struct tt_frame *f)
{
    const enum tt_rput_found found = find_target(lane->link, f, &lane->target, &lane->region);

    lane->dropped = found != TT_RPUT_FOUND;
    return found != TT_RPUT_BROKEN;
}

/* Returns the request of a response frame, or NULL. */
static struct tt_tcp_request *request_of_frame(struct tt_tcp_link *link, const struct tt_frame *f)
{
    struct tt_tcp_request *q = &link->requests[f->token % TT_TCP_REQUESTS];

    if (!q->busy || q->token != f->token || q->kind != f->kind)
        return NULL;
    return q;
}

/* Processes an acknowledgement of all messages before the number with these 24 bits. Returns false
 * if it is invalid. */
static bool acknowledged(struct tt_tcp_link *link, uint32_t prefix)
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

static void request_end(struct tt_tcp_link *link, struct tt_tcp_request *q, tutti_status status)
{
    q->busy = false;
    tt_tcp_complete(link, TT_DONE_LOCAL, q->cookie, status);
    if (q->remote)
        tt_tcp_complete(link, TT_DONE_REMOTE, q->cookie, status);
}

static bool serve_atomic(const struct tt_tcp_lane *lane, const struct tt_frame *f)
{
    struct tt_tcp_link *link = lane->link;
    struct tt_frame answer = { .kind = TT_FRAME_OLD, .token = f->token }, silent = *f;
    uint64_t *word;
    const struct tt_rput_target at = { f->region, f->generation, f->offset, 0 };
    const enum tt_rput_found found =
        tt_rput_find_word(&link->tcp->regions, link->mine, link->tcp->conf.link_bytes, &at, &word);

    if (found == TT_RPUT_BROKEN)
        return false;
    if (found == TT_RPUT_FOUND) {
        answer.bytes = __atomic_fetch_add(word, f->bytes, __ATOMIC_ACQ_REL);
    } else {
        answer.flags = TT_FRAME_GONE;
        silent.signal_op = TT_SIGNAL_NONE;
    }
    return tt_tcp_reply(link, &answer, NULL, 0) && message_landed(lane, &silent);
}

static bool begin_got(struct tt_tcp_lane *lane, const struct tt_frame *f)
{
    const struct tt_tcp_request *q = request_of_frame(lane->link, f);

    if (!q || lane != lane->link->lanes || (!(f->flags & TT_FRAME_GONE) && f->bytes != q->bytes))
        return false;
    lane->target = q->local;
    lane->dropped = f->flags & TT_FRAME_GONE;
    return true;
}

static bool end_old(struct tt_tcp_link *link, const struct tt_frame *f)
{
    struct tt_tcp_request *q = request_of_frame(link, f);
    const bool gone = f->flags & TT_FRAME_GONE;

    if (!q)
        return false;
    if (!gone && q->local)
        memcpy(q->local, &f->bytes, sizeof f->bytes);
    request_end(link, q, gone ? TUTTI_ERR_ABORTED : TUTTI_OK);
    return true;
}

/* Sets the size of the next read between frames to suit payloads like the current one, unless it is
 * short. */
static void tune_read_bytes(struct tt_tcp_lane *lane)
{
    if (lane->left > TT_TCP_READ_MORE - TT_TCP_BRIEF_BYTES)
        lane->read_bytes = TT_TCP_READ_LESS;
    else if (lane->left > TT_TCP_READ_BYTES - TT_TCP_BRIEF_BYTES)
        lane->read_bytes = TT_TCP_READ_MORE;
    else if (lane->left >= TAIL_BYTES)
        lane->read_bytes = TT_TCP_READ_BYTES;
}

/* The peer requests more lanes. It may request fewer than are wanted already. */
static bool take_lanes(struct tt_tcp_link *link, uint32_t wanted)
{
    if (!link->initiator || wanted > link->nlanes)
        return false;
    if (wanted > link->wanted)
        link->wanted = wanted;
    link->tcp->lanes_wanted |= link->wanted > link->requested;
    return true;
}

/* Processes a header: finds the destination of its payload, or executes it if it has none. Returns
 * false if the peer is faulty. */
static bool frame_begin(struct tt_tcp_lane *lane)
{
    const struct tt_frame *f = &lane->frame;

    lane->left = tt_frame_payload(f);
    if (lane->unready != (f->kind == TT_FRAME_READY))
        return false;           /* READY must be the first frame of an unready lane, and is invalid
                                   elsewhere */
    tune_read_bytes(lane);
    switch (f->kind) {
    case TT_FRAME_PUT:
        return begin_put(lane, f);
    case TT_FRAME_GOT:
        return begin_got(lane, f);
    case TT_FRAME_VOID:
        return message_landed(lane, f);
    case TT_FRAME_ACK:
        return acknowledged(lane->link, f->word);
    case TT_FRAME_GET:
        return take_get(lane->link, f);
    case TT_FRAME_ATOMIC:
        return serve_atomic(lane, f);
    case TT_FRAME_BYE:
        lane->bye = true;
        return true;
    case TT_FRAME_LANES:
        return take_lanes(lane->link, f->token);
    case TT_FRAME_READY:
        tt_tcp_lane_ready(lane);
        return true;
    default:
        return end_old(lane->link, f);
    }
}

/* The payload is complete. */
static bool frame_end(struct tt_tcp_lane *lane)
{
    struct tt_frame *f = &lane->frame;
    struct tt_tcp_request *q;

    target_clear(lane);
    if (f->kind == TT_FRAME_PUT) {
        if (lane->dropped) {
            f->signal_op = TT_SIGNAL_NONE;
            f->flags &= TT_FRAME_WANT_ACK;
        }
        return message_landed(lane, f);
    }
    if (f->kind == TT_FRAME_GOT) {
        q = request_of_frame(lane->link, f);
        request_end(lane->link, q, lane->dropped ? TUTTI_ERR_ABORTED : TUTTI_OK);
    }
    return true;
}

/* n bytes of the payload have reached their destination. */
static bool payload_came(struct tt_tcp_lane *lane, uint64_t n)
{
    lane->left -= n;
    if (lane->target)
        lane->target += n;
    return lane->left > 0 || frame_end(lane);
}

/* A put of at most one word, which a waiting reader must not see partly written: it is applied as a
 * whole. */
static bool put_is_word(const struct tt_frame *f)
{
    return f->kind == TT_FRAME_PUT && f->bytes <= WORD_BYTES;
}

/* Removes parsed bytes from the lane's buffer. */
static void drop_parsed(struct tt_tcp_lane *lane)
{
    memmove(lane->buffer, lane->buffer + lane->at, lane->have - lane->at);
    lane->have -= lane->at;
    lane->at = 0;
}

/* Processes the buffer; an incomplete header, or word with its header, remains. Returns false if
 * the peer is faulty. */
static bool parse_buffer(struct tt_tcp_lane *lane)
{
    while (lane->have - lane->at >= TT_FRAME_BYTES) {
        uint64_t n;

        if (!tt_frame_read(&lane->frame, lane->buffer + lane->at))
            return false;
        if (put_is_word(&lane->frame) && lane->have - lane->at - TT_FRAME_BYTES < lane->frame.bytes)
            break;
        lane->at += TT_FRAME_BYTES;
        if (!frame_begin(lane))
            return false;
        n = lane->have - lane->at < lane->left ? lane->have - lane->at : lane->left;
        if (lane->target && n > 0)
            tt_copy(lane->target, NULL, lane->buffer + lane->at, n, false);
        lane->at += (uint32_t)n;
        if (!payload_came(lane, n))
            return false;
    }
    if (lane->peeks)
        return true;            /* the buffer must match the socket */
    drop_parsed(lane);
    return true;
}

/* ---- short messages ---- */

/* Short messages, several of which arrive before this end sends, are read by MSG_PEEK and removed
 * from the socket later.
 *
 * If a read empties the socket, and two short segments have arrived since this end last sent, the
 * kernel acknowledges them before the read returns. It sends a packet, which on loopback the other
 * end processes on the reader's CPU. The second of two messages then takes nearly twice as long as
 * the first. While a byte remains in the socket, the acknowledgement waits for data of ours or for
 * its timer. The data is removed when several peeks have found nothing new, or before the sender
 * has to wait for the acknowledgement.
 *
 * A process that exits with unread data resets its connections, and the other end's kernel may then
 * lose its last messages. Therefore no data remains unread on connections that leave the machine,
 * nor while data of ours is in this kernel.
 *
 * While a lane peeks, its buffer holds the start of the socket's data, parsed or not: the next
 * read, of either kind, returns it again. */

bool tt_tcp_peeked_take(struct tt_tcp_lane *lane)
{
    ssize_t taken = lane->have;

    if (!lane->peeks)
        return true;
    if (lane->have)
        /* known to be available; with MSG_TRUNC nothing is copied */
        taken = recv(lane->fd, lane->buffer, lane->have, MSG_TRUNC | MSG_DONTWAIT);
    if (taken != (ssize_t)lane->have) {
        errno = taken >= 0 || errno == EAGAIN ? EPROTO : errno;     /* these bytes were available
                                                                       before */
        return false;
    }
    lane->peeks = false;
    drop_parsed(lane);
    return true;
}

/* Returns whether the other end's kernel has all that this end has sent; a few bytes always fit
 * there. */
static bool sent_is_delivered(struct tt_tcp_lane *lane)
{
    int pending = 0;

    if (lane->sent_bytes > TT_TCP_BRIEF_BYTES &&
        (ioctl(lane->fd, SIOCOUTQ, &pending) != 0 || pending > 0))
        return false;
    if (lane->sent_bytes > TT_TCP_BRIEF_BYTES)
        lane->sent_bytes = 0;
    return true;
}

/* Returns whether the next read should leave its data in the socket. */
static bool should_peek(struct tt_tcp_lane *lane)
{
    return !lane->bye && lane->unanswered_reads > 0 && lane->unanswered_reads < UNANSWERED_MAX &&
           lane->empty_peeks < VAIN_MAX && !lane->last_read_long &&
           (lane->peeks || lane->have == 0) && lane->link->tcp->nactive <= TT_TCP_FEW_LANES &&
           !lane->link->tcp->wire.crowded && !lane->paced && sent_is_delivered(lane);
}

/* Like recv, for a read between frames. Appends to the buffer, but does not advance `have`. *room:
 * capacity of the read. */
static ssize_t read_between(struct tt_tcp_lane *lane, size_t *room)
{
    uint32_t again, most;
    bool peek;
    ssize_t n;

    if (lane->at > KEPT_BYTES && !tt_tcp_peeked_take(lane))
        return -1;
    peek = should_peek(lane);
    again = lane->peeks ? lane->have : 0;
    /* bytes to request; `again` of these were read before */
    most =
        again + lane->read_bytes < TT_TCP_READ_MORE ? again + lane->read_bytes : TT_TCP_READ_MORE;
    n = recv(lane->fd, lane->buffer + lane->have - again, most,
             MSG_DONTWAIT | (peek ? MSG_PEEK : 0));
    *room = most - again;
    if (n < 0 || (n == 0 && again == 0))
        return n;
    lane->peeks = peek;
    if (n <= (ssize_t)again) {
        lane->empty_peeks += peek;
        if (!peek)
            drop_parsed(lane);
        errno = n < (ssize_t)again ? EPROTO : EAGAIN;
        return -1;
    }
    lane->empty_peeks = 0;
    lane->unanswered_reads += lane->unanswered_reads < UNANSWERED_MAX;
    lane->last_read_long = n > (ssize_t)TT_TCP_BRIEF_BYTES;
    return n - again;
}

/* ---- lanes ---- */

/* Reads once. *room is the capacity of the read. */
static ssize_t read_lane(struct tt_tcp_lane *lane, size_t *room)
{
    struct tt_tcp *t = lane->link->tcp;
    struct iovec iov[2];

    if (lane->stream)
        return tt_tcp_secure_read(lane, room);
    if (lane->left == 0)
        return read_between(lane, room);
    if (!tt_tcp_peeked_take(lane))
        return -1;
    iov[0] = (struct iovec){ .iov_base = lane->target, .iov_len = lane->left };
    if (!lane->target) {
        iov[0].iov_base = t->trash;
        iov[0].iov_len = lane->left < TT_TCP_TRASH_BYTES ? lane->left : TT_TCP_TRASH_BYTES;
    }
    if (iov[0].iov_len < lane->left) {
        *room = iov[0].iov_len;
        return recv(lane->fd, iov[0].iov_base, iov[0].iov_len, MSG_DONTWAIT);
    }
    iov[1] = (struct iovec){ .iov_base = lane->buffer, .iov_len = TAIL_BYTES };
    *room = lane->left + TAIL_BYTES;
    return readv(lane->fd, iov, 2);
}

/* Distributes n received bytes: first to the payload, then to the buffer. Returns false if the peer
 * is faulty. */
static bool distribute_bytes(struct tt_tcp_lane *lane, uint64_t n)
{
    if (lane->left > 0) {
        const uint64_t payload = n < lane->left ? n : lane->left;

        n -= payload;
        if (!payload_came(lane, payload))
            return false;
    }
    lane->have += (uint32_t)n;
    return parse_buffer(lane);
}

static const char *receive_error(const struct tt_tcp_lane *lane)
{
    return lane->stream && *tt_stream_why(lane->stream) ? tt_stream_why(lane->stream)
                                                        : strerror(errno);
}

void tt_tcp_lane_receive(struct tt_tcp_lane *lane)
{
    struct tt_tcp_link *link = lane->link;
    size_t room;

    for (int reads = 0; reads < READS_MAX; reads++) {
        const ssize_t n = read_lane(lane, &room);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0 && lane->unready) {
            tt_tcp_lane_drop(lane);
            return;
        }
        if (n <= 0 && lane->bye) {
            tt_tcp_lane_ended(lane);
            return;
        }
        if (n <= 0) {
            tt_tcp_link_lose(link, TUTTI_ERR_PEER_LOST,
                             n == 0 ? "connection closed by the peer without a teardown"
                                    : receive_error(lane));
            return;
        }
        tt_tcp_lane_takes(lane, (uint64_t)n);
        if (!distribute_bytes(lane, (uint64_t)n)) {
            tt_tcp_link_lose(link, TUTTI_ERR_PROTOCOL, "protocol error: invalid frame");
            return;
        }
        if (link->state == TT_TCP_LOST)
            return;
        if ((size_t)n < room)
            break;
    }
    tt_tcp_acknowledge(link);
}

/* Returns whether mem[bytes] is being deregistered: it overlaps r, which is out of the table, and
 * no other region covers it. */
static bool is_being_deregistered(const struct tt_tcp *t, const struct tt_rput_region *r,
                                  const uint8_t *mem, uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)r->public.mem, end = begin + r->public.bytes,
                    at = (uintptr_t)mem;

    return at < end && at + bytes > begin && !tt_rput_covers(&t->regions, mem, bytes);
}

void tt_tcp_targets_gone(struct tt_tcp *t, const struct tt_rput_region *r)
{
    for (uint32_t i = 0; i < t->nactive; i++) {
        struct tt_tcp_lane *lane = t->active[i];
        struct tt_tcp_link *link = lane->link;
        const bool answer = !lane->region && lane->frame.kind == TT_FRAME_GOT;

        if (lane->region == r ||
            (answer && is_being_deregistered(t, r, lane->target, lane->left))) {
            target_clear(lane);
            lane->dropped = true;
        }
        for (uint32_t q = 0; lane == link->lanes && q < TT_TCP_REQUESTS; q++)
            if (link->requests[q].busy &&
                is_being_deregistered(t, r, link->requests[q].local, link->requests[q].bytes))
                link->requests[q].local = NULL;
    }
}
