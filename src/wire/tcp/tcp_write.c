/* From the queues of lanes to the kernel. A lane's queues are written in one system call. What the
 * kernel does not accept stays queued until the socket is writable again. A queue is non-empty if
 * its lane is blocked, if a post is in progress or delayed in a batch (tt_wire.together), or if the
 * lane's quota was exhausted (tt_tcp_lane_write). */
#include "wire/tcp/tcp.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "base/clock.h"
#include "base/status.h"

/* a put of 31 pieces (src/window/put.c) and its signal, all with headers */
#define IOV_BATCH 64
#define VERY_SLOW_PIECE (16u << 10) /* lanes of up to 50 Mbit/s */
#define FIRST_QUOTA (1152u << 10)   /* 1 MiB with its headers */
#define SHORT_QUOTA (384u << 10)    /* bytes of the following quotas */
#define LOT (48u << 10)             /* minimum bytes of a read that start short quotas */
#define SHORT_QUOTAS_MAX 16u        /* number of short quotas after such a read */
/* the kernel's estimate is not lowered by shorter segments (524 with timestamps) */
#define SHORT_BYTES 512u

/* ---- lanes and completions ---- */

/* Sets the epoll events of a lane. */
static void lane_watch(struct tt_tcp_lane *lane, bool in, bool out)
{
    struct epoll_event ev = { .events = (in ? EPOLLIN : 0) | (out ? EPOLLOUT : 0),
                              .data.ptr = lane };

    if (lane->watching != ev.events &&
        epoll_ctl(lane->link->tcp->epoll_fd, EPOLL_CTL_MOD, lane->fd, &ev) == 0)
        lane->watching = ev.events;
}

void tt_tcp_lanes_watch(struct tt_tcp *t, bool on)
{
    t->polls = 0;
    if (on != t->wire.unheard)
        return;
    t->wire.unheard = !on;
    for (uint32_t i = 0; i < t->nactive; i++)
        lane_watch(t->active[i], on, t->active[i]->blocked);
}

void tt_tcp_complete(struct tt_tcp_link *link, uint8_t kind, uint64_t cookie, tutti_status status)
{
    struct tt_tcp *t = link->tcp;

    tt_assert(link->reserved_dones > 0);
    link->reserved_dones--;
    t->dones[t->done_tail++ & (t->ndones - 1)] = (struct tt_tcp_done){
        .kind = kind, .peer = link->peer, .cookie = cookie, .status = status
    };
}

/* ---- responses ---- */

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
    struct tt_tcp_out *out = tt_tcp_queue_push(lane, TT_TCP_REPLY);

    tt_frame_write(f, out->header);
    out->head = TT_FRAME_BYTES;
    out->data = data;
    out->bytes = bytes;
    tt_dqplb_lanes_give(&link->load, lane->number, 0, TT_FRAME_BYTES + bytes);
    return out;
}

/* Queues a redundant acknowledgement, followed by `more` others, written to frames[], which is
 * freed once they are sent. */
static void acknowledge_redundantly(struct tt_tcp_link *link, uint8_t *frames, uint32_t more)
{
    const struct tt_frame f = { .kind = TT_FRAME_ACK,
                                .word = tt_dqplb_word(link->ack_sent, false, false) };

    for (uint32_t i = 0; i < more; i++)
        tt_frame_write(&f, frames + (size_t)i * TT_FRAME_BYTES);
    queue_reply(link, &f, frames, (uint64_t)more * TT_FRAME_BYTES)->copy = frames;
}

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
    if (tt_tcp_queue_room(&link->lanes[0].queues[TT_TCP_REPLY]) < 2)
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

/* ---- segment lengths ---- */

/* On receipt of a segment, the kernel acknowledges at once if more than the longest segment seen
 * (its rcv_mss) is unacknowledged. It sends a packet, which on loopback the other end processes
 * before the send returns; that takes 1.5 to 2 us. A message of 1 KiB after one of 112 bytes
 * therefore takes as long as one of 10 KiB.
 *
 * A connection on loopback therefore starts with a segment longer than eager messages. The kernel
 * lowers its estimate after two equally long segments in a row, unless they are short. A message as
 * long as the previous one therefore gets one more frame. Both fillers are redundant
 * acknowledgements. The number of segments in flight is not affected: a reader that empties the
 * socket acknowledges every second segment (tcp_recv.c, "short messages"), and a connection starts
 * with a window of ten. */

/* Returns whether segment lengths matter. On paced lanes each byte takes time, and TLS is not read
 * in one piece. Lane 0 carries urgent frames, responses and, as a single lane, all short
 * messages. */
static bool length_matters(const struct tt_tcp_lane *lane)
{
    return lane->number == 0 && !lane->paced && !lane->stream;
}

/* Returns whether a segment of this length should and may be lengthened. */
static bool length_is_again(const struct tt_tcp_lane *lane, uint64_t bytes)
{
    const struct tt_tcp_queue *q = &lane->queues[TT_TCP_REPLY];

    return lane->last_bytes && bytes == lane->last_bytes && length_matters(lane) &&
           tt_tcp_queue_room(q) > TT_TCP_REQUESTS + 2;     /* for responses */
}

/* Records the length of a write. */
static void length_sent(struct tt_tcp_lane *lane, uint64_t bytes)
{
    if (bytes >= SHORT_BYTES)
        lane->last_bytes = bytes;
}

/* ---- writes ---- */

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
        const struct tt_tcp_out *out = tt_tcp_queue_at(&lane->queues[c], heads[c]++);
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
        out = tt_tcp_queue_at(q, q->head);
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

    if (link->on_demand)
        return;     /* lanes on demand never use lane 0 for bulk data once there are several */
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
        if (length_is_again(lane, total)) {
            acknowledge_redundantly(lane->link, NULL, 0);
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
            /* earlier data of the peer may be unread: the read after it detects the end */
            lane->send_closed = true;
            break;
        }
        if (n > 0) {
            most -= (uint64_t)n;
            queues_advance(lane, (uint64_t)n);
            lane->unanswered_reads = 0;
            lane->sent_bytes += (uint64_t)n;
            length_sent(lane, (uint64_t)n);
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
        lane_watch(lane, lane->watching & EPOLLIN, lane->blocked);
    if (lane->blocked)
        /* the layout may have changed */
        lane->link->load.bytes_max = tt_tcp_lane_bytes(lane->link);
    if (lane->blocked && lane->far_ns)
        lane->try_ns = tt_now_ns() + lane->far_ns;
    return most;
}

void tt_tcp_length_open(struct tt_tcp_lane *lane)
{
    uint8_t *frames = length_matters(lane) ? malloc(TT_TCP_LONG_BYTES) : NULL;

    if (!frames)
        return;
    acknowledge_redundantly(lane->link, frames, TT_TCP_LONG_BYTES / TT_FRAME_BYTES);
    tt_tcp_lane_flush(lane, UINT64_MAX);
}

/* ---- quotas ---- */

/* Limits the bytes that a near lane writes to the kernel in one poll (its quota). The kernel
 * accepts several megabytes. If both ends first send and then read, data in flight is evicted from
 * the cache. 64 MiB each way then take 39 ms, but 30 to 31 ms if each end alternates between
 * sending some and reading (bare sockets, two cores that share 8 MiB). In one direction, a limit
 * makes no difference (17 ms), and 1 MiB in one call is faster than in pieces.
 *
 * While both send much data, near peers therefore write with short quotas: a lane whose quota is
 * exhausted continues in the next poll. This needs continuous polling (tt_wire.unheard). Before a
 * thread sleeps, the kernel gets all data, or reports when it can accept more. */

static uint64_t quota_bytes(struct tt_tcp_lane *lane)
{
    if (!lane->quota_exhausted)
        return FIRST_QUOTA;
    if (lane->short_quotas == 0)
        return UINT64_MAX;
    lane->short_quotas--;
    return SHORT_QUOTA;
}

void tt_tcp_lane_write(struct tt_tcp_lane *lane)
{
    const struct tt_tcp *t = lane->link->tcp;

    if (lane->paced || !t->wire.unheard) {
        lane->quota_exhausted = false;
        tt_tcp_lane_flush(lane, UINT64_MAX);
        return;
    }
    if (lane->quota_poll != t->npolls) {
        lane->quota_poll = t->npolls;
        lane->quota_left = quota_bytes(lane);
    }
    if (lane->quota_left > 0)
        lane->quota_left = tt_tcp_lane_flush(lane, lane->quota_left);
    lane->quota_exhausted =
        lane->fd >= 0 && !lane->send_closed && (lane->quota_left == 0 || tt_tcp_queued(lane) > 0);
    if (lane->quota_exhausted)
        tt_tcp_mark(lane);
}

void tt_tcp_lane_takes(struct tt_tcp_lane *lane, uint64_t bytes)
{
    if (bytes >= LOT)
        lane->short_quotas = SHORT_QUOTAS_MAX;
}

void tt_tcp_flush(struct tt_tcp *t, bool all)
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
