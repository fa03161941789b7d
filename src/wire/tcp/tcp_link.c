/* Links: lanes with their queues, the window and the link region. Created when the first lane is
 * agreed, and kept after a loss until the wire closes, though without queues and buffers. */
#include "wire/tcp/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/prng.h"
#include "base/status.h"
#include "base/watched.h"

#define LINGER_NS TT_SECOND

#define FAREWELL_READS 256

/* Keep-alive: the kernel probes an idle host after half of the time, then three times in the other
 * half. (TCP_USER_TIMEOUT would also end the link to a process that is stopped for this long on a
 * live host.) */
static void set_keep_alive(int fd, uint32_t silence_s)
{
    const int on = 1, idle_s = (int)(silence_s + 1) / 2, interval_s = (int)(silence_s + 5) / 6,
              count = 3;

    if (silence_s == 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* Buffer sizes are left to the kernel: setting them would disable its autotuning. */
bool tt_tcp_tune(const struct tt_tcp *t, int fd, bool one_of_many)
{
    static const int on = 1, unsent_bytes = 256 << 10;
    const bool loopback = tt_tcp_socket_is_loopback(fd);

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    set_keep_alive(fd, t->conf.silence_s);
    if (loopback)       /* bbr, a common default, takes up to twice the time there */
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    if (one_of_many)
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
    return loopback;
}

bool tt_tcp_watch(struct tt_tcp *t, int fd, uint32_t events, void *what)
{
    struct epoll_event ev = { .events = events, .data.ptr = what };

    return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0 ||
           (errno == EEXIST && epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, fd, &ev) == 0);
}

struct tt_tcp_link *tt_tcp_link_create(struct tt_tcp *t, uint32_t peer)
{
    struct tt_tcp_link *link = calloc(1, sizeof *link);

    if (!link)
        return NULL;
    link->tcp = t;
    link->peer = link->news.peer = peer;
    link->state = TT_TCP_OPENING;
    link->parked = TT_TCP_NOBODY;
    tt_random_bytes(&link->nonce, sizeof link->nonce);
    if (!tt_sparse_set(&t->links, peer, link)) {
        free(link);
        return NULL;
    }
    return link;
}

static bool queue_init(struct tt_tcp_queue *q, uint32_t depth)
{
    q->ring = malloc(depth * sizeof *q->ring);
    q->depth = depth;
    return q->ring != NULL;
}

/* Initializes lane selection and the receiver. A single lane is ordered, so only the next message
 * may arrive. Its bulk queue serves all classes, and part of it is reserved for inline frames. */
static void lanes_init(struct tt_tcp_link *link)
{
    const bool several = link->nlanes > 1;

    tt_dqplb_lanes_init(&link->load, link->nlanes,
                        several ? TT_TCP_QUEUE_DEPTH : TT_TCP_QUEUE_DEPTH - TT_TCP_RESERVED);
    link->load.choice = TT_DQPLB_EMPTIEST;
    link->load.bytes_max = tt_tcp_lane_bytes(link);
    if (link->on_demand)
        tt_tcp_fill_lanes(link);
    for (uint32_t i = 0; i < link->nlanes; i++)
        tt_dqplb_lanes_down(&link->load, i);
    tt_dqplb_receiver_init(&link->receiver, several ? TT_TCP_WINDOW : 1, 0, link->came);
}

/* Allocates what a lane needs, once. On failure tcp_link_free cleans up. */
static bool lane_furnish(struct tt_tcp_lane *lane)
{
    if (!lane->buffer)
        lane->buffer = malloc(TT_TCP_BUFFER_BYTES);
    lane->read_bytes = TT_TCP_READ_BYTES;
    return lane->buffer && (lane->queues[TT_TCP_BULK].ring ||
                            queue_init(&lane->queues[TT_TCP_BULK], TT_TCP_QUEUE_DEPTH));
}

/* Allocates what a connected link needs. On failure tcp_link_free cleans up. */
bool tt_tcp_link_furnish(struct tt_tcp_link *link, uint32_t nlanes)
{
    link->lanes = calloc(nlanes, sizeof *link->lanes);
    if (!link->lanes)
        return false;
    link->nlanes = nlanes;
    link->on_demand = link->tcp->lanes_free && nlanes > link->tcp->conf.lanes;
    if (nlanes > 1)
        link->tcp->wire.caps &= ~(uint32_t)TT_WIRE_CAP_ORDERED;
    for (uint32_t i = 1; i < nlanes && !link->beside; i++)
        if (tt_tcp_rail_of(link->tcp, link->peer, i) == tt_tcp_rail_of(link->tcp, link->peer, 0))
            link->beside = i;
    for (uint32_t i = 0; i < nlanes; i++)
        link->lanes[i] =
            (struct tt_tcp_lane){ .watch = TT_TCP_LANE, .fd = -1, .link = link, .number = i };
    lanes_init(link);
    for (uint32_t i = 0; i < (link->on_demand ? 1 : nlanes); i++)
        if (!lane_furnish(&link->lanes[i]))
            return false;
    if (!queue_init(&link->lanes[0].queues[TT_TCP_REPLY], TT_TCP_REPLIES))
        return false;
    if (nlanes > 1) {
        link->window = calloc(TT_TCP_WINDOW, sizeof *link->window);
        link->held_gets = calloc(TT_TCP_REQUESTS, sizeof *link->held_gets);
        if (!link->window || !link->held_gets ||
            !queue_init(&link->lanes[0].queues[TT_TCP_URGENT], TT_TCP_QUEUE_DEPTH))
            return false;
    }
    link->mine = calloc(1, link->tcp->conf.link_bytes + 1);
    link->inline_ring = malloc(TT_TCP_INLINE_BYTES);
    link->remotes = malloc(TT_TCP_REMOTES * sizeof *link->remotes);
    return link->mine && link->inline_ring && link->remotes;
}

static void lane_clear(struct tt_tcp_lane *lane)
{
    for (int c = 0; c < TT_TCP_CLASSES; c++) {
        struct tt_tcp_queue *q = &lane->queues[c];

        for (; q->head != q->tail; q->head++)
            free(q->ring[q->head & (q->depth - 1)].copy);
    }
    tt_dqplb_lanes_down(&lane->link->load, lane->number);
    lane->begun = false;
}

/* Frees what only a link with connections needs. */
static void tcp_link_strip(struct tt_tcp_link *link)
{
    for (uint32_t i = 0; i < link->nlanes; i++) {
        struct tt_tcp_lane *lane = &link->lanes[i];

        lane_clear(lane);
        for (int c = 0; c < TT_TCP_CLASSES; c++) {
            free(lane->queues[c].ring);
            lane->queues[c] = (struct tt_tcp_queue){ 0 };
        }
        free(lane->buffer);
        lane->buffer = NULL;
    }
    free(link->window);
    free(link->held_gets);
    free(link->inline_ring);
    free(link->remotes);
    link->window = NULL;
    link->held_gets = NULL;
    link->inline_ring = NULL;
    link->remotes = NULL;
}

void tt_tcp_links_strip(struct tt_tcp *t)
{
    struct tt_tcp_link *link;
    uint32_t at = 0;

    t->lost = false;
    while ((link = tt_sparse_next(&t->links, &at)))
        if (link->state == TT_TCP_LOST)
            tcp_link_strip(link);
}

static void tcp_link_free(struct tt_tcp_link *link)
{
    tcp_link_strip(link);
    free(link->lanes);
    free(link->mine);
    free(link);
}

static void lane_close(struct tt_tcp_lane *lane)
{
    struct tt_tcp *t = lane->link->tcp;

    if (lane->fd < 0)
        return;
    tt_watched_remove(t->epoll_fd, lane->fd);
    if (lane->stream)
        tt_stream_destroy(lane->stream);
    else
        close(lane->fd);
    lane->fd = -1;
    lane->stream = NULL;
    tt_tcp_secure_more(lane, false);
    t->nblocked -= lane->blocked;
    t->nfar_blocked -= lane->blocked && lane->far_ns;
    lane->blocked = false;
    lane->region = NULL;
    lane->target = NULL;
    lane->left = 0;
    for (uint32_t i = 0; i < t->nactive; i++)
        if (t->active[i] == lane)
            t->active[i] = t->active[--t->nactive];
    lane_clear(lane);
}

/* Clears the state of an earlier connection of the lane. */
static void lane_reset(struct tt_tcp_lane *lane)
{
    lane->send_closed = lane->bye = lane->ended = lane->unready = false;
    lane->at = lane->have = 0;
    lane->peeks = lane->last_read_long = lane->quota_exhausted = false;
    lane->empty_peeks = lane->unanswered_reads = lane->short_quotas = 0;
    lane->last_bytes = lane->sent_bytes = 0;
    lane->pace = (struct tt_lane_pace){ 0 };
}

bool tt_tcp_lane_reserve(struct tt_tcp_lane *lane)
{
    struct tt_tcp *t = lane->link->tcp;
    struct tt_tcp_lane **grown;

    if (!lane_furnish(lane))
        return false;
    if (t->nactive < t->active_depth)
        return true;
    grown = realloc(t->active, (2 * t->active_depth + 8) * sizeof *grown);
    if (!grown)
        return false;
    t->active = grown;
    t->active_depth = 2 * t->active_depth + 8;
    return true;
}

bool tt_tcp_lane_open(struct tt_tcp_lane *lane, int fd, struct tt_stream *stream)
{
    struct tt_tcp *t = lane->link->tcp;
    struct tt_tcp_link *link = lane->link;

    if (!tt_tcp_lane_reserve(lane) || !tt_tcp_watch(t, fd, EPOLLIN, lane))
        return false;
    lane_reset(lane);
    lane->watching = EPOLLIN;
    tt_tcp_lanes_watch(t, true);
    lane->paced = !tt_tcp_tune(t, fd, link->nlanes > 1);
    lane->fd = fd;
    if (lane->number >= link->requested)
        link->requested = lane->number + 1;
    tt_tcp_pacing_open(lane);
    lane->stream = stream;
    t->active[t->nactive++] = lane;
    tt_tcp_length_open(lane);
    tt_tcp_secure_more(lane, stream != NULL);   /* data after the handshake may already be in the
                                                   stream */
    return true;
}

void tt_tcp_lane_ready(struct tt_tcp_lane *lane)
{
    struct tt_tcp_link *link = lane->link;

    lane->unready = false;
    lane->failures = 0;
    tt_dqplb_lanes_up(&link->load, lane->number);
    if (link->on_demand && link->beside && !link->load.lane[link->beside].down)
        link->load.keeps_first = true;
}

void tt_tcp_link_up(struct tt_tcp_link *link)
{
    struct tt_tcp *t = link->tcp;
    const struct tt_link up = {
        .mine = link->mine,
        .theirs = { .wire = &t->wire, .peer = link->peer, .bytes = link->theirs_bytes },
        .anymem = true,
        .round_trip_ns = tt_tcp_round_trip_ns(link)
    };

    link->state = TT_TCP_UP;
    tt_rput_news_up(&t->news, &link->news, &up);
}

void tt_tcp_link_lose(struct tt_tcp_link *link, tutti_status status, const char *why)
{
    struct tt_tcp *t = link->tcp;

    if (link->state == TT_TCP_LOST)
        return;
    tt_log(status == TUTTI_ERR_PEER_LOST || status == TUTTI_OK ? TT_LOG_INFO : TT_LOG_WARN,
           "tcp: the link to rank %u ended: %s", link->peer, why);
    for (uint32_t i = 0; i < link->nlanes; i++)
        lane_close(&link->lanes[i]);
    t->link_lost(link);
    tt_tcp_set_pending_lanes(link, 0);
    t->reserved -= link->reserved_dones;
    link->reserved_dones = 0;
    link->state = TT_TCP_LOST;
    t->lost = true;
    tt_rput_news_lost(&t->news, &link->news, status);
}

static bool is_ended(const struct tt_tcp_link *link)
{
    for (uint32_t i = 0; i < link->nlanes; i++)
        if (link->lanes[i].fd >= 0 && !link->lanes[i].ended)
            return false;
    return true;
}

void tt_tcp_lane_ended(struct tt_tcp_lane *lane)
{
    struct tt_tcp_link *link = lane->link;
    struct tt_tcp *t = link->tcp;

    lane->ended = true;
    tt_tcp_secure_more(lane, false);
    if (is_ended(link)) {
        tt_tcp_link_lose(link, TUTTI_OK, "closed by the peer");
        return;
    }
    tt_watched_remove(t->epoll_fd, lane->fd);
    for (uint32_t k = 0; k < t->nactive; k++)
        if (t->active[k] == lane)
            t->active[k] = t->active[--t->nactive];
}

void tt_tcp_lane_drop(struct tt_tcp_lane *lane)
{
    struct tt_tcp_link *link = lane->link;

    lane_close(lane);
    if (is_ended(link)) {
        tt_tcp_link_lose(link, TUTTI_OK, "closed by the peer");
        return;
    }
    tt_tcp_set_pending_lanes(link, link->promised + 1);
    if (link->initiator)
        link->tcp->lane_lost(lane);
}

/* Returns whether the other end has reset the connection. Unacknowledged data then stays
 * unacknowledged, and still counts as pending. */
static bool is_reset(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
           info.tcpi_state == TCP_CLOSE;
}

/* Returns whether data is being retransmitted and nothing has been received for the timeout. With
 * data in flight the kernel sends no probes, and retransmits for a quarter of an hour. */
static bool is_silent(const struct tt_tcp_lane *lane)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;

    return getsockopt(lane->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
           info.tcpi_unacked > 0 && info.tcpi_retransmits > 0 &&
           info.tcpi_last_ack_recv / 1000 >= lane->link->tcp->conf.silence_s &&
           info.tcpi_last_data_recv / 1000 >= lane->link->tcp->conf.silence_s;
}

void tt_tcp_links_expire(struct tt_tcp *t, uint64_t now_ns)
{
    if (t->conf.silence_s == 0 || now_ns < t->silence_ns)
        return;
    t->silence_ns = now_ns + t->conf.silence_s * TT_SECOND / 8;
    for (uint32_t i = t->nactive; i-- > 0;) {
        if (i >= t->nactive || !is_silent(t->active[i]))
            continue;           /* losing a link changes the list */
        if (t->active[i]->unready)
            tt_tcp_lane_drop(t->active[i]);
        else
            tt_tcp_link_lose(t->active[i]->link, TUTTI_ERR_PEER_LOST, "its host does not respond");
    }
}

/* Returns whether data of this lane is queued here, or unsent or unacknowledged in the kernel. */
static bool lane_unfinished(struct tt_tcp_lane *lane)
{
    int pending = 0;

    if (lane->send_closed || lane->fd < 0)
        return false;
    if (tt_tcp_queued(lane) || lane->blocked)
        tt_tcp_lane_flush(lane, UINT64_MAX);
    if (lane->send_closed || tt_tcp_queued(lane) || lane->blocked)
        return !lane->send_closed;
    return ioctl(lane->fd, SIOCOUTQ, &pending) == 0 && pending > 0 && !is_reset(lane->fd);
}

/* Sends a frame without queueing; the queues must be empty. Returns whether the kernel, or TLS, has
 * accepted it. */
static bool send_alone(struct tt_tcp_lane *lane, enum tt_frame_kind kind)
{
    const struct tt_frame f = { .kind = (uint8_t)kind };
    uint8_t header[TT_FRAME_BYTES];
    const struct iovec part = { .iov_base = header, .iov_len = sizeof header };

    tt_frame_write(&f, header);
    return tt_tcp_send(lane->fd, lane->stream, &part, 1, false) == sizeof header;
}

/* The frame fits into the buffer of a new socket. */
void tt_tcp_lane_welcome(struct tt_tcp_lane *lane)
{
    if (!send_alone(lane, TT_FRAME_READY)) {
        tt_tcp_lane_drop(lane);
        return;
    }
    tt_tcp_lane_ready(lane);
    tt_tcp_mark(lane);          /* TLS may hold the frame */
}

static void send_bye(struct tt_tcp_lane *lane)
{
    if (lane->fd >= 0 && !lane->send_closed && !tt_tcp_queued(lane))
        send_alone(lane, TT_FRAME_BYE);
    if (lane->fd >= 0)
        shutdown(lane->fd, SHUT_WR);
}

/* Waits and reads, since closing a connection with unread data resets it, which also discards data
 * in flight. */
static void tcp_linger(struct tt_tcp *t, uint64_t until_ns)
{
    bool more = true;

    while (more && tt_now_ns() < until_ns) {
        struct tt_tcp_link *link;
        uint32_t at = 0;

        more = false;
        while ((link = tt_sparse_next(&t->links, &at)))
            for (uint32_t k = 0; k < link->nlanes; k++)
                more |= lane_unfinished(&link->lanes[k]);
        if (more)
            poll(NULL, 0, 1);
    }
}

/* Reads first, since closing a connection with unread data resets it, and the kernel then discards
 * unsent data. */
static void lane_send_bye(struct tt_tcp_lane *lane)
{
    if (lane->fd >= 0)
        tt_tcp_lane_flush(lane, UINT64_MAX);
    if (lane->fd < 0)
        return;
    shutdown(lane->fd, SHUT_WR);
    for (int reads = 0; reads < FAREWELL_READS; reads++)
        if (recv(lane->fd, lane->link->tcp->trash, TT_TCP_TRASH_BYTES, MSG_DONTWAIT) <= 0)
            break;
}

void tt_tcp_links_close(struct tt_tcp *t)
{
    const uint64_t until_ns = tt_now_ns() + LINGER_NS;
    struct tt_tcp_link *link;
    uint32_t at = 0;

    tcp_linger(t, until_ns);
    while ((link = tt_sparse_next(&t->links, &at)))
        for (uint32_t k = 0; k < link->nlanes; k++)
            send_bye(&link->lanes[k]);
    tcp_linger(t, until_ns);
    for (at = 0; (link = tt_sparse_next(&t->links, &at));) {
        for (uint32_t k = 0; k < link->nlanes; k++) {
            lane_send_bye(&link->lanes[k]);
            lane_close(&link->lanes[k]);
        }
        tcp_link_free(link);
    }
    tt_sparse_fini(&t->links);
    t->dirty = NULL;            /* the last flush may have queued a response */
}

static uint64_t tcp_link_bytes(const struct tt_tcp_link *link)
{
    uint64_t bytes = sizeof *link + link->nlanes * sizeof *link->lanes;

    for (uint32_t i = 0; i < link->nlanes; i++)
        bytes += link->lanes[i].buffer ? TT_TCP_BUFFER_BYTES : 0;
    for (uint32_t i = 0; i < link->nlanes; i++)
        for (int c = 0; c < TT_TCP_CLASSES; c++)
            bytes += link->lanes[i].queues[c].depth * sizeof *link->lanes[i].queues[c].ring;
    if (link->mine)
        bytes += link->tcp->conf.link_bytes;
    if (link->remotes)
        bytes += TT_TCP_INLINE_BYTES + TT_TCP_REMOTES * sizeof *link->remotes;
    if (!link->window)
        return bytes;
    return bytes + TT_TCP_WINDOW * sizeof *link->window + TT_TCP_REQUESTS * sizeof *link->held_gets;
}

void tt_tcp_memory(const struct tt_wire *w, tutti_memory *m)
{
    const struct tt_tcp *t = (const struct tt_tcp *)w;
    tutti_memory_part links = { .purpose = "tcp: links",
                                .shared = 1,
                                .peer_bytes = tt_sparse_bytes(&t->links) };
    const tutti_memory_part own = { .purpose = "tcp: transport",
                                    .shared = 1,
                                    .fixed_bytes = sizeof *t + t->ndones * sizeof *t->dones +
                                                   TT_TCP_TRASH_BYTES +
                                                   tt_rput_regions_bytes(&t->regions) };
    const struct tt_tcp_link *link;
    uint32_t at = 0;

    while ((link = tt_sparse_next(&t->links, &at)))
        links.peer_bytes += tcp_link_bytes(link);
    tt_memory_add(m, &own);
    tt_memory_add(m, &links);
}
