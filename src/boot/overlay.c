/* Sockets of the control overlay: carries frames between flood.c and the neighbours, non-blocking,
 * with one epoll descriptor. A new connection proves that both ends have the job's secret:
 *
 *   caller (lower rank)                 callee
 *     |  HELLO rank, nonce -------------> |
 *     |  <-------------- PROOF nonce, mac |      macs cover both nonces and both ranks
 *     |  CONFIRM mac -------------------> |      both: up
 *
 * The callee cannot distinguish a late caller from one that died before it connected. After a
 * second it therefore probes the caller's listener: a refused connection means that the caller is
 * dead.
 *
 * In large jobs a rank has only the addresses of the ranks before and after it. Once its link at
 * distance 2^k is decided (up or lost), it requests the record of the rank at distance 2^(k+1), a
 * neighbour of the rank at distance 2^k. A dead or slow rank on the path would delay all further
 * links in its direction. Therefore, if a record is not found in time, the user of the overlay
 * provides the endpoint. */
#include "boot/overlay.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/control_socket.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/prng.h"
#include "base/status.h"
#include "base/watched.h"
#include "boot/auth.h"
#include "boot/flood.h"
#include "boot/records.h"

#define OUT_BYTES_MAX (1u << 20)            /* send queue of one neighbour; about 2000 frames */
#define GUESTS_MAX \
    64 /* unauthenticated connections; a new one displaces
                                               the oldest */
#define GUEST_AGE_NS (10 * TT_SECOND)
#define ATTEMPT_NS (3 * TT_SECOND)          /* per address, if a neighbour has several */
#define STARVED_NS (2 * TT_SECOND)          /* then no free descriptor is expected any more */
#define PROBE_NS TT_SECOND
#define GOODBYE_NS TT_SECOND
#define SECRET_BYTES 16
#define EVENTS_PER_ROUND 64

_Static_assert(TT_RECORDS_FRAME_BYTES >= TT_FLOOD_BODY_BYTES, "links carry frames of both");

enum { HELLO = 16, PROOF = 17, CONFIRM = 18 };      /* frame types of the handshake */
#define HELLO_BYTES (4 + TT_NONCE_BYTES)
#define PROOF_BYTES (TT_NONCE_BYTES + TT_MAC_BYTES)

/* Source of an epoll event: one of these plus an index. */
enum {
    ON_LINK = 0,
    ON_GUEST = 1 << 8,
    ON_LISTENER = 2 << 8,
    ON_BACKLOG = 3 << 8,
    ON_OTHER = 4 << 8
};

enum link_state {
    LINK_CALLED,        /* waits for the peer's connection (and may be probing it) */
    LINK_CALLING,       /* connects, or will again at retry_ns */
    LINK_GREETING,      /* our hello is sent */
    LINK_UP,
    LINK_ENDED,         /* to be reported to the flood machine */
    LINK_GONE
};

enum link_endpoint {
    ENDPOINT_SET,       /* or to be set by the user */
    ENDPOINT_DUE,       /* to be requested once the link at half its distance is decided */
    ENDPOINT_REQUESTED
};

struct link {
    uint8_t state;
    uint8_t endpoint;           /* enum link_endpoint */
    bool met;                   /* it was up */
    int error;                  /* errno with which it ended before it was up; ETIMEDOUT: the
                                   deadline passed; 0: neither */
    bool watch_out;             /* waits for EPOLLOUT */
    bool slow;                  /* an address of this round did not refuse */
    int fd;                     /* -1: none */
    struct tt_framer in;
    uint8_t nonce[TT_NONCE_BYTES];
    struct tt_address addresses[1 + TT_ENDPOINT_ADDRS];
    size_t naddresses, next;
    uint64_t began_ns, retry_ns;
    uint8_t *out;               /* send queue: out[out_begin..out_end) */
    size_t out_begin, out_end, out_cap;
};

struct guest {
    int fd;                     /* -1: free */
    uint64_t opened_ns;
    struct tt_framer in;
    bool greeted;
    uint32_t link;
    uint8_t theirs[TT_NONCE_BYTES], ours[TT_NONCE_BYTES];
};

struct tt_overlay {
    struct tt_flood flood;
    bool doubles;               /* records are requested */
    struct tt_records records;
    void (*endpoint)(void *arg, uint32_t peer, const void *record, size_t bytes,
                     struct tt_endpoint *out);
    void *arg;
    uint64_t records_until_ns;
    struct tt_endpoint own;
    uint8_t secret[SECRET_BYTES];
    int epoll, backlog;
    struct tt_acceptor acceptor;        /* closed once every neighbour is decided */
    struct tt_acceptor near;            /* likewise; while lo is down */
    uint64_t starved_ns;        /* start of the time in which no attempt to connect got a
                                   descriptor; 0: the last one got one */
    bool backlogged;            /* the backlog descriptor is readable: there is work that epoll
                                   does not report */
    struct link links[TT_FLOOD_LINKS_MAX];
    struct guest guests[GUESTS_MAX];
    struct tt_overlay_event *early;     /* events received while settling */
    size_t nearly, early_cap, early_next;
};

static size_t link_body_max(const struct tt_overlay *o)
{
    return o->doubles ? TT_RECORDS_FRAME_BYTES : TT_FLOOD_BODY_BYTES;
}

/* ---- descriptors ---- */

static void overlay_watch(struct tt_overlay *o, int op, int fd, uint32_t events, uint32_t about)
{
    struct epoll_event ev = { .events = events, .data.u32 = about };

    epoll_ctl(o->epoll, op, fd, &ev);
}

static void close_link(struct tt_overlay *o, struct link *l)
{
    if (l->fd >= 0)
        tt_watched_close(o->epoll, l->fd);
    l->fd = -1;
    l->watch_out = false;
    tt_framer_fini(&l->in);
}

static void close_guest(struct tt_overlay *o, struct guest *g)
{
    tt_watched_close(o->epoll, g->fd);
    g->fd = -1;
    tt_framer_fini(&g->in);
}

static void set_backlog(struct tt_overlay *o, bool on)
{
    uint64_t v = 1;

    if (on == o->backlogged)
        return;
    o->backlogged = on;
    if ((on ? write(o->backlog, &v, sizeof v) : read(o->backlog, &v, sizeof v)) < 0)
        tt_assert(errno == EAGAIN);
}

/* Ends the link; the next step reports it to the flood machine. */
static void overlay_end_link(struct tt_overlay *o, uint32_t i, const char *why)
{
    struct link *l = &o->links[i];

    if (l->state == LINK_ENDED || l->state == LINK_GONE)
        return;
    tt_log(TT_LOG_INFO, "overlay: the link to rank %u ended: %s", o->flood.peers[i], why);
    l->state = LINK_ENDED;
    set_backlog(o, true);
}

/* ---- send ---- */

static void link_flush(struct tt_overlay *o, uint32_t i)
{
    struct link *l = &o->links[i];

    while (l->state == LINK_UP && l->out_begin < l->out_end) {
        const ssize_t n =
            send(l->fd, l->out + l->out_begin, l->out_end - l->out_begin, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (!l->watch_out)
                overlay_watch(o, EPOLL_CTL_MOD, l->fd, EPOLLIN | EPOLLOUT, ON_LINK | i);
            l->watch_out = true;
            return;
        }
        if (n < 0)
            return;     /* its last data can still be read; then the receive finds the end */
        l->out_begin += (size_t)n;
    }
    if (l->watch_out && l->state == LINK_UP) {
        overlay_watch(o, EPOLL_CTL_MOD, l->fd, EPOLLIN, ON_LINK | i);
        l->watch_out = false;
    }
}

/* Reserves n more bytes. Returns false beyond the limit, or if out of memory. */
static bool link_reserve(struct link *l, size_t n)
{
    size_t cap;
    uint8_t *out;

    if (l->out_begin > 0 && l->out_end + n > l->out_cap) {
        memmove(l->out, l->out + l->out_begin, l->out_end - l->out_begin);
        l->out_end -= l->out_begin;
        l->out_begin = 0;
    }
    if (l->out_end + n <= l->out_cap)
        return true;
    if (l->out_end + n > OUT_BYTES_MAX)
        return false;
    cap = l->out_cap ? 2 * l->out_cap : 4096;
    out = realloc(l->out, cap);
    if (!out)
        return false;
    l->out = out;
    l->out_cap = cap;
    return true;
}

static void queue(struct tt_overlay *o, uint32_t i, const uint8_t *frame, size_t bytes)
{
    struct link *l = &o->links[i];

    if (l->state == LINK_ENDED || l->state == LINK_GONE)
        return;
    if (!link_reserve(l, bytes)) {
        overlay_end_link(o, i, "the peer does not receive data");
        return;
    }
    memcpy(l->out + l->out_end, frame, bytes);
    l->out_end += bytes;
    link_flush(o, i);
}

static void records_event(struct tt_overlay *o, enum tt_records_event_kind kind, uint32_t i)
{
    const struct tt_records_event ev = { .kind = (uint8_t)kind, .link = i };

    if (o->doubles)
        tt_records_step(&o->records, &ev);
}

static void link_gone(struct tt_overlay *o, uint32_t i)
{
    close_link(o, &o->links[i]);
    o->links[i].state = LINK_GONE;
    records_event(o, TT_RECORDS_EV_ENDED, i);
}

/* Carries out the flood machine's actions: first sends, then drops. */
static void flood_carry_out(struct tt_overlay *o, const struct tt_flood_act *act)
{
    for (uint32_t i = 0; i < o->flood.nlinks; i++) {
        if (act->send & 1ull << i)
            queue(o, i, act->out, act->out_bytes);
        if (act->drop & 1ull << i)
            link_gone(o, i);
    }
}

/* ---- handshake ---- */

static void overlay_proof(const struct tt_overlay *o, uint8_t mac[TT_MAC_BYTES],
                          const char *purpose, const uint8_t *caller_nonce,
                          const uint8_t *callee_nonce, uint32_t caller, uint32_t callee)
{
    uint8_t said[2 * TT_NONCE_BYTES + 8];
    struct tt_writer w;

    tt_writer_init(&w, said, sizeof said);
    tt_write_bytes(&w, caller_nonce, TT_NONCE_BYTES);
    tt_write_bytes(&w, callee_nonce, TT_NONCE_BYTES);
    tt_write_u32(&w, caller);
    tt_write_u32(&w, callee);
    tt_mac(mac, o->secret, sizeof o->secret, purpose, said, sizeof said);
}

/* A handshake frame fits into an empty socket buffer; if not, the connection is closed. */
static bool send_whole(int fd, uint8_t type, const void *body, size_t bytes)
{
    uint8_t frame[TT_FRAME_HEADER_BYTES + 128];

    tt_assert(bytes <= 128);
    tt_frame_header(frame, type, bytes);
    memcpy(frame + TT_FRAME_HEADER_BYTES, body, bytes);
    return send(fd, frame, TT_FRAME_HEADER_BYTES + bytes, MSG_NOSIGNAL) ==
           (ssize_t)(TT_FRAME_HEADER_BYTES + bytes);
}

static void link_is_up(struct tt_overlay *o, uint32_t i)
{
    o->links[i].state = LINK_UP;
    o->links[i].met = true;
    link_flush(o, i);
    records_event(o, TT_RECORDS_EV_UP, i);
}

/* ---- outgoing connections ---- */

/* Returns whether the caller of this link has received our proof: it may have confirmed, and closed
 * its listener. */
static bool is_being_called(const struct tt_overlay *o, uint32_t i)
{
    if (o->links[i].state != LINK_CALLED)
        return false;
    for (const struct guest *g = o->guests; g < o->guests + GUESTS_MAX; g++)
        if (g->fd >= 0 && g->greeted && g->link == i)
            return true;
    return false;
}

/* This address failed: tries the next. If every address of a round refused to connect, the peer is
 * dead. A connection that was established and then ended (EAGAIN) may have been displaced by
 * unauthenticated ones: it is retried. */
static void next_address(struct tt_overlay *o, uint32_t i, int err, uint64_t now_ns)
{
    struct link *l = &o->links[i];

    close_link(o, l);
    tt_framer_init(&l->in, link_body_max(o));
    l->slow |= err == ETIMEDOUT || err == EAGAIN || err == EINTR || err == EMFILE || err == ENFILE;
    if (l->state != LINK_CALLED)
        l->state = LINK_CALLING;
    if (++l->next < l->naddresses)
        return;
    if (!l->slow && !is_being_called(o, i)) {
        l->error = err;
        overlay_end_link(o, i, strerror(err));
    }
    l->next = 0;
    l->slow = false;
    l->retry_ns = now_ns + (l->state == LINK_CALLED ? PROBE_NS : 100 * TT_MS);
}

static void begin_attempt(struct tt_overlay *o, uint32_t i, uint64_t now_ns)
{
    struct link *l = &o->links[i];

    l->began_ns = now_ns;
    l->fd = tt_connect_begin(&l->addresses[l->next]);
    if (l->fd >= 0 || (errno != EMFILE && errno != ENFILE))
        o->starved_ns = 0;
    else if (!o->starved_ns)
        o->starved_ns = now_ns;
    if (l->fd < 0) {
        next_address(o, i, errno, now_ns);
        return;
    }
    tt_control_socket(l->fd);
    overlay_watch(o, EPOLL_CTL_ADD, l->fd, EPOLLOUT, ON_LINK | i);
}

/* Handles the result of a connection attempt. A probe is then complete; a caller sends HELLO. */
static void overlay_connected(struct tt_overlay *o, uint32_t i, uint64_t now_ns)
{
    struct link *l = &o->links[i];
    const int err = tt_connect_result(l->fd);
    uint8_t body[HELLO_BYTES];
    struct tt_writer w;

    if (err) {
        next_address(o, i, err, now_ns);
        return;
    }
    if (l->state == LINK_CALLED) {
        close_link(o, l);
        tt_framer_init(&l->in, link_body_max(o));
        l->next = 0;
        l->slow = false;
        l->retry_ns = now_ns + PROBE_NS;
        return;
    }
    tt_random_bytes(l->nonce, sizeof l->nonce);
    tt_writer_init(&w, body, sizeof body);
    tt_write_u32(&w, o->flood.rank);
    tt_write_bytes(&w, l->nonce, sizeof l->nonce);
    if (!send_whole(l->fd, HELLO, body, sizeof body)) {
        next_address(o, i, EAGAIN, now_ns);
        return;
    }
    overlay_watch(o, EPOLL_CTL_MOD, l->fd, EPOLLIN, ON_LINK | i);
    l->state = LINK_GREETING;
}

/* Processes the callee's PROOF. */
static void handle_proof(struct tt_overlay *o, uint32_t i, const struct tt_frame *f,
                         uint64_t now_ns)
{
    struct link *l = &o->links[i];
    const uint32_t caller = o->flood.rank, callee = o->flood.peers[i];
    uint8_t expected[TT_MAC_BYTES], confirm[TT_MAC_BYTES];

    if (f->type != PROOF || f->bytes != PROOF_BYTES) {
        next_address(o, i, EAGAIN, now_ns);
        return;
    }
    overlay_proof(o, expected, "tutti overlay callee", l->nonce, f->body, caller, callee);
    overlay_proof(o, confirm, "tutti overlay caller", l->nonce, f->body, caller, callee);
    if (!tt_mac_equal(expected, f->body + TT_NONCE_BYTES))
        next_address(o, i, EAGAIN, now_ns);     /* another process is at that address */
    else if (!send_whole(l->fd, CONFIRM, confirm, sizeof confirm))
        next_address(o, i, EAGAIN, now_ns);
    else
        link_is_up(o, i);
}

/* ---- incoming connections ---- */

static void evict_oldest_guest(struct tt_overlay *o)
{
    struct guest *oldest = &o->guests[0];

    for (struct guest *g = o->guests; g < o->guests + GUESTS_MAX; g++)
        if (g->opened_ns < oldest->opened_ns)
            oldest = g;
    close_guest(o, oldest);
}

static struct guest *free_guest(struct tt_overlay *o)
{
    for (struct guest *g = o->guests; g < o->guests + GUESTS_MAX; g++)
        if (g->fd < 0)
            return g;
    evict_oldest_guest(o);
    return free_guest(o);
}

static int accept_one(struct tt_overlay *o)
{
    int fd = tt_accept(&o->acceptor);

    if (fd < 0 && o->near.listener >= 0)
        fd = tt_accept(&o->near);
    if (fd >= 0)
        tt_control_socket(fd);
    return fd;
}

static void overlay_accept(struct tt_overlay *o, uint64_t now_ns)
{
    for (int n = 0; n < EVENTS_PER_ROUND; n++) {
        const int fd = accept_one(o);
        struct guest *g;

        if (fd < 0)
            return;
        g = free_guest(o);
        *g = (struct guest){ .fd = fd, .opened_ns = now_ns };
        tt_framer_init(&g->in, PROOF_BYTES);
        overlay_watch(o, EPOLL_CTL_ADD, fd, EPOLLIN, ON_GUEST | (uint32_t)(g - o->guests));
    }
}

/* Returns the link over which `rank` may connect to this rank: that of a lower, unconnected
 * neighbour. TT_FLOOD_LINKS_MAX: none. */
static uint32_t link_of_caller(const struct tt_overlay *o, uint32_t rank)
{
    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        if (o->flood.peers[i] == rank && o->links[i].state == LINK_CALLED)
            return i;
    return TT_FLOOD_LINKS_MAX;
}

static bool handle_hello(struct tt_overlay *o, struct guest *g, const struct tt_frame *f)
{
    uint8_t body[PROOF_BYTES];
    struct tt_reader r;
    uint32_t caller;

    tt_reader_init(&r, f->body, f->bytes);
    caller = tt_read_u32(&r);
    tt_read_bytes(&r, g->theirs, sizeof g->theirs);
    g->link = link_of_caller(o, caller);
    if (f->type != HELLO || f->bytes != HELLO_BYTES || g->link == TT_FLOOD_LINKS_MAX)
        return false;
    tt_random_bytes(g->ours, sizeof g->ours);
    memcpy(body, g->ours, TT_NONCE_BYTES);
    overlay_proof(o, body + TT_NONCE_BYTES, "tutti overlay callee", g->theirs, g->ours, caller,
                  o->flood.rank);
    g->greeted = true;
    return send_whole(g->fd, PROOF, body, sizeof body);
}

/* Authenticates the connection: it becomes the link, with the data already received. */
static bool handle_confirm(struct tt_overlay *o, struct guest *g, const struct tt_frame *f)
{
    struct link *l = &o->links[g->link];
    uint8_t expected[TT_MAC_BYTES];

    overlay_proof(o, expected, "tutti overlay caller", g->theirs, g->ours, o->flood.peers[g->link],
                  o->flood.rank);
    if (f->type != CONFIRM || f->bytes != TT_MAC_BYTES || !tt_mac_equal(expected, f->body) ||
        l->state != LINK_CALLED)
        return false;
    close_link(o, l);      /* a probe */
    l->fd = g->fd;
    l->in = g->in;
    l->in.body_max = link_body_max(o);
    g->fd = -1;
    overlay_watch(o, EPOLL_CTL_MOD, l->fd, EPOLLIN, ON_LINK | g->link);
    set_backlog(o, true);       /* frames may be waiting in the framer */
    link_is_up(o, g->link);
    return true;
}

static bool read_into_framer(int fd, struct tt_framer *in, bool *ended)
{
    size_t room;
    uint8_t *at = tt_framer_space(in, &room);
    const ssize_t n = at ? recv(fd, at, room, 0) : 0;

    *ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (n > 0)
        tt_framer_added(in, (size_t)n);
    return n > 0;
}

static void serve_guest(struct tt_overlay *o, struct guest *g)
{
    struct tt_frame f;
    bool ended;

    if (g->fd < 0)
        return;
    read_into_framer(g->fd, &g->in, &ended);
    while (g->fd >= 0 && tt_framer_next(&g->in, &f))
        if (!(g->greeted ? handle_confirm(o, g, &f) : handle_hello(o, g, &f)))
            close_guest(o, g);
    if (g->fd >= 0 && (ended || g->in.bad))
        close_guest(o, g);
}

/* ---- progress ---- */

static void serve_link(struct tt_overlay *o, uint32_t i, uint32_t events, uint64_t now_ns)
{
    struct link *l = &o->links[i];
    struct tt_frame f;
    bool ended = false;

    if (l->fd < 0)
        return;
    if (l->state == LINK_CALLED || l->state == LINK_CALLING) {
        overlay_connected(o, i, now_ns);
        return;
    }
    if (l->state == LINK_UP && events & EPOLLOUT)
        link_flush(o, i);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    if (l->state == LINK_GREETING) {
        read_into_framer(l->fd, &l->in, &ended);
        if (tt_framer_next(&l->in, &f))
            handle_proof(o, i, &f, now_ns);
        else if (ended || l->in.bad)
            next_address(o, i, EAGAIN, now_ns);
    } else if (l->state == LINK_UP) {
        read_into_framer(l->fd, &l->in, &ended);
        if (ended)
            overlay_end_link(o, i, "the connection closed");
    }
}

static bool is_decided(const struct link *l)
{
    return l->state == LINK_UP || l->state == LINK_GONE;
}

bool tt_overlay_is_settled(const struct tt_overlay *o)
{
    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        if (!is_decided(&o->links[i]))
            return false;
    return true;
}

/* Starts due attempts, ends those that time out, and drops silent unauthenticated connections. */
static void overlay_handle_timeouts(struct tt_overlay *o, uint64_t now_ns)
{
    for (uint32_t i = 0; i < o->flood.nlinks; i++) {
        struct link *l = &o->links[i];

        if (is_decided(l) || l->state == LINK_ENDED || l->naddresses == 0 || is_being_called(o, i))
            continue;
        if (l->fd < 0 && now_ns >= l->retry_ns)
            begin_attempt(o, i, now_ns);
        else if (l->fd >= 0 && l->naddresses > 1 && now_ns - l->began_ns > ATTEMPT_NS)
            next_address(o, i, ETIMEDOUT, now_ns);
    }
    for (struct guest *g = o->guests; g < o->guests + GUESTS_MAX; g++)
        if (g->fd >= 0 && now_ns - g->opened_ns > GUEST_AGE_NS)
            close_guest(o, g);
}

/* Serves each ready descriptor once. Returns true if there was any. */
static bool serve_descriptors(struct tt_overlay *o, uint64_t now_ns)
{
    struct epoll_event evs[EVENTS_PER_ROUND];
    const int n = epoll_wait(o->epoll, evs, EVENTS_PER_ROUND, 0);
    bool any = false;

    for (int k = 0; k < n; k++) {
        const uint32_t about = evs[k].data.u32 & ~0xffu, i = evs[k].data.u32 & 0xffu;

        if (about == ON_LINK)
            serve_link(o, i, evs[k].events, now_ns);
        else if (about == ON_GUEST)
            serve_guest(o, &o->guests[i]);
        else if (about == ON_LISTENER)
            overlay_accept(o, now_ns);
        any |= about != ON_BACKLOG && about != ON_OTHER;
    }
    return any;
}

/* Handles a frame of records.h. Returns false if it is another frame, or invalid. */
static bool step_records(struct tt_overlay *o, uint32_t i, const struct tt_frame *f)
{
    const struct tt_records_event ev = { .kind = TT_RECORDS_EV_FRAME, .link = i, .frame = *f };

    return o->doubles && (f->type == TT_RECORDS_REQUEST || f->type == TT_RECORDS_RESPONSE) &&
           tt_records_step(&o->records, &ev);
}

/* Passes the next waiting frame or end to the flood machine. Returns true if it delivers an event,
 * and sets *out. */
static bool step_flood(struct tt_overlay *o, struct tt_overlay_event *out)
{
    struct tt_flood_event ev;
    struct tt_flood_act act;

    for (uint32_t i = 0; i < o->flood.nlinks; i++) {
        struct link *l = &o->links[i];

        while (l->state == LINK_UP || l->state == LINK_ENDED) {
            ev = (struct tt_flood_event){ .kind = TT_FLOOD_EV_FRAME, .link = i };
            if (!tt_framer_next(&l->in, &ev.frame)) {
                if (l->state == LINK_UP && !l->in.bad)
                    break;
                ev.kind = TT_FLOOD_EV_ENDED;
            }
            if (ev.kind == TT_FLOOD_EV_FRAME && step_records(o, i, &ev.frame))
                continue;
            tt_flood_step(&o->flood, &ev, &act);
            if (ev.kind == TT_FLOOD_EV_ENDED)       /* also after GOODBYE */
                link_gone(o, i);
            flood_carry_out(o, &act);
            if (act.deliver) {
                *out = act.event;
                return true;
            }
        }
    }
    return false;
}

/* Returns whether an action ended a link that step_flood had already passed. */
static bool has_ended(const struct tt_overlay *o)
{
    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        if (o->links[i].state == LINK_ENDED)
            return true;
    return false;
}

/* For the loss of a neighbour: sets whether its link was ever established, and the cause. */
static void add_loss_cause(const struct tt_overlay *o, struct tt_overlay_event *ev)
{
    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        if (o->flood.peers[i] == ev->origin) {
            ev->unmet = !o->links[i].met;
            ev->error = ev->unmet ? o->links[i].error : 0;
        }
}

static bool overlay_next_event(struct tt_overlay *o, struct tt_overlay_event *ev)
{
    do {
        if (step_flood(o, ev)) {
            ev->unmet = false;
            ev->error = 0;
            if (ev->kind == TT_OVERLAY_LOST)
                add_loss_cause(o, ev);
            set_backlog(o, true);
            return true;
        }
    } while (serve_descriptors(o, tt_now_ns()) || has_ended(o));
    set_backlog(o, false);
    return false;
}

bool tt_overlay_next(struct tt_overlay *o, struct tt_overlay_event *ev)
{
    if (o->early_next < o->nearly) {
        *ev = o->early[o->early_next++];
        return true;
    }
    if (o->early) {
        free(o->early);
        o->early = NULL;
        o->nearly = o->early_next = o->early_cap = 0;
    }
    return overlay_next_event(o, ev);
}

/* Keeps an event for later. If out of memory, it is dropped, which is logged. */
static void keep_event(struct tt_overlay *o, const struct tt_overlay_event *ev)
{
    if (o->nearly == o->early_cap) {
        const size_t cap = o->early_cap ? 2 * o->early_cap : 8;
        struct tt_overlay_event *early = realloc(o->early, cap * sizeof *early);

        if (!early) {
            tt_log(TT_LOG_ERROR, "overlay: out of memory for an event from rank %u", ev->origin);
            return;
        }
        o->early = early;
        o->early_cap = cap;
    }
    o->early[o->nearly++] = *ev;
}

/* Fails if connections are missing that will get no descriptor. */
static tutti_status check_descriptors(const struct tt_overlay *o)
{
    const bool starved = (o->starved_ns && tt_now_ns() - o->starved_ns > STARVED_NS) ||
                         tt_acceptor_is_starved(&o->acceptor) || tt_acceptor_is_starved(&o->near);
    uint32_t missing = 0;

    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        missing += !is_decided(&o->links[i]) && o->links[i].fd < 0;
    return starved && missing
               ? tt_fail_descriptors("overlay: cannot connect to other ranks", missing)
               : TUTTI_OK;
}

/* ---- endpoints by doubling ---- */

static bool needs_endpoint(const struct link *l)
{
    return l->endpoint != ENDPOINT_SET && !is_decided(l) && l->state != LINK_ENDED;
}

/* Sets the endpoint of link i from a record; NULL: not found. */
static void use_record(struct tt_overlay *o, uint32_t i, const void *record, size_t bytes)
{
    struct tt_endpoint endpoint;

    if (!needs_endpoint(&o->links[i]))
        return;
    o->endpoint(o->arg, o->flood.peers[i], record, bytes, &endpoint);
    tt_overlay_neighbour(o, o->flood.peers[i], &endpoint);
}

static void records_on_act(void *context, const struct tt_records_act *act)
{
    struct tt_overlay *o = context;

    switch ((enum tt_records_act_kind)act->kind) {
    case TT_RECORDS_ACT_SEND:
        queue(o, act->link, act->data, act->bytes);
        break;
    case TT_RECORDS_ACT_FOUND:
        use_record(o, tt_records_link(&o->records, act->rank), act->data, act->bytes);
        break;
    case TT_RECORDS_ACT_FAILED:
        use_record(o, tt_records_link(&o->records, act->rank), NULL, 0);
        break;
    }
}

/* Requests the record of the neighbour of link i. */
static void request_record(struct tt_overlay *o, uint32_t i)
{
    const struct tt_records_event ev = { .kind = TT_RECORDS_EV_WANTED, .rank = o->flood.peers[i] };

    o->links[i].endpoint = ENDPOINT_REQUESTED;
    tt_records_step(&o->records, &ev);
}

static uint64_t decided_links(const struct tt_overlay *o)
{
    uint64_t decided = 0;

    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        if (is_decided(&o->links[i]) || o->links[i].state == LINK_ENDED)
            decided |= 1ull << i;
    return decided;
}

static void request_records(struct tt_overlay *o, uint64_t now_ns)
{
    const uint64_t due = o->doubles ? tt_records_due(&o->records, decided_links(o)) : 0;
    const bool late = now_ns >= o->records_until_ns;

    for (uint32_t i = 0; i < o->flood.nlinks; i++) {
        if (!needs_endpoint(&o->links[i]))
            continue;
        if (late)
            use_record(o, i, NULL, 0);
        else if (o->links[i].endpoint == ENDPOINT_DUE && due >> i & 1)
            request_record(o, i);
    }
}

static tutti_status open_records(struct tt_overlay *o, const struct tt_overlay_conf *conf)
{
    const tutti_status st =
        tt_records_init(&o->records, conf->rank, conf->nranks, conf->record, conf->record_bytes, 0);

    if (st)
        return st;
    o->records.emit = records_on_act;
    o->records.context = o;
    o->endpoint = conf->endpoint;
    o->arg = conf->arg;
    o->records_until_ns = conf->records_until_ns;
    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        o->links[i].endpoint = ENDPOINT_DUE;
    return TUTTI_OK;
}

tutti_status tt_overlay_settle(struct tt_overlay *o, bool give_up)
{
    struct tt_overlay_event ev;

    for (uint32_t i = 0; give_up && i < o->flood.nlinks; i++)
        if (!is_decided(&o->links[i])) {
            o->links[i].error = ETIMEDOUT;
            overlay_end_link(o, i, "not connected before the deadline");
        }
    while (overlay_next_event(o, &ev))
        keep_event(o, &ev);
    request_records(o, tt_now_ns());    /* after the events, which may decide links */
    overlay_handle_timeouts(o, tt_now_ns());
    if (tt_overlay_is_settled(o) && o->acceptor.listener >= 0) {
        tt_acceptor_fini(&o->acceptor);
        tt_acceptor_fini(&o->near);
        for (struct guest *g = o->guests; g < o->guests + GUESTS_MAX; g++)
            if (g->fd >= 0)
                close_guest(o, g);
    }
    if (o->nearly > 0)
        set_backlog(o, true);
    return check_descriptors(o);
}

int tt_overlay_fd(const struct tt_overlay *o)
{
    return o->epoll;
}

void tt_overlay_flood(struct tt_overlay *o, const void *payload, uint16_t bytes)
{
    const struct tt_flood_event ev = { .kind = TT_FLOOD_EV_ORIGINATE,
                                       .payload = payload,
                                       .bytes = bytes };
    struct tt_flood_act act;

    tt_flood_step(&o->flood, &ev, &act);
    flood_carry_out(o, &act);
}

/* Returns the link to a neighbour; TT_FLOOD_LINKS_MAX: none. */
static uint32_t link_of(const struct tt_overlay *o, uint32_t rank)
{
    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        if (o->flood.peers[i] == rank)
            return i;
    return TT_FLOOD_LINKS_MAX;
}

bool tt_overlay_send(struct tt_overlay *o, enum tt_overlay_topic topic, uint32_t rank,
                     const void *payload, uint16_t bytes)
{
    const struct tt_flood_event ev = { .kind = TT_FLOOD_EV_DIRECT,
                                       .topic = (uint8_t)topic,
                                       .link = link_of(o, rank),
                                       .payload = payload,
                                       .bytes = bytes };
    struct tt_flood_act act;

    if (!tt_overlay_is_connected(o, rank))
        return false;
    tt_flood_step(&o->flood, &ev, &act);
    flood_carry_out(o, &act);
    return true;
}

uint32_t tt_overlay_neighbours(const struct tt_overlay *o, const uint32_t **ranks)
{
    *ranks = o->flood.peers;
    return o->flood.nlinks;
}

bool tt_overlay_is_connected(const struct tt_overlay *o, uint32_t rank)
{
    const uint32_t i = link_of(o, rank);

    return i < o->flood.nlinks && o->links[i].state == LINK_UP && o->flood.open & 1ull << i;
}

bool tt_overlay_is_lost(const struct tt_overlay *o, uint32_t rank)
{
    return rank < o->flood.nranks && o->flood.lost[rank];
}

tutti_status tt_overlay_watch(struct tt_overlay *o, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u32 = ON_OTHER };

    return epoll_ctl(o->epoll, EPOLL_CTL_ADD, fd, &ev) == 0
               ? TUTTI_OK
               : tt_fail_call(errno, "overlay", "epoll_ctl");
}

void tt_overlay_unwatch(struct tt_overlay *o, int fd)
{
    epoll_ctl(o->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- open and close ---- */

tutti_status tt_overlay_open(struct tt_overlay **out, const struct tt_overlay_conf *conf)
{
    struct tt_overlay *o = calloc(1, sizeof *o);
    tutti_status st;

    if (!o)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the control overlay");
    st = tt_flood_init(&o->flood, conf->rank, conf->nranks);
    if (st)
        goto free_o;
    o->own = *conf->own;
    o->doubles = conf->record != NULL;
    o->acceptor.listener = o->near.listener = -1;
    memcpy(o->secret, conf->secret, SECRET_BYTES);
    for (struct guest *g = o->guests; g < o->guests + GUESTS_MAX; g++)
        g->fd = -1;
    for (uint32_t i = 0; i < o->flood.nlinks; i++) {
        o->links[i].fd = -1;
        o->links[i].state = conf->rank < o->flood.peers[i] ? LINK_CALLING : LINK_CALLED;
        tt_framer_init(&o->links[i].in, link_body_max(o));
    }
    if (o->doubles)
        st = open_records(o, conf);
    if (st)
        goto fini_flood;
    o->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (o->epoll < 0) {
        st = tt_fail_call(errno, "overlay", "epoll_create1");
        goto fini_records;
    }
    o->backlog = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (o->backlog < 0) {
        st = tt_fail_call(errno, "overlay", "eventfd");
        goto close_epoll;
    }
    overlay_watch(o, EPOLL_CTL_ADD, o->backlog, EPOLLIN, ON_BACKLOG);
    if (conf->listener >= 0) {
        st = tt_acceptor_init(&o->acceptor, "overlay", conf->listener, o->epoll,
                              (epoll_data_t){ .u32 = ON_LISTENER });
        if (st)
            goto close_backlog;
    }
    if (conf->near >= 0 && tt_acceptor_init(&o->near, "overlay", conf->near, o->epoll,
                                            (epoll_data_t){ .u32 = ON_LISTENER }) != TUTTI_OK)
        close(conf->near);      /* logged; ranks of other hosts can still connect */
    *out = o;
    return TUTTI_OK;

close_backlog:
    close(o->backlog);
close_epoll:
    close(o->epoll);
fini_records:
    if (o->doubles)
        tt_records_fini(&o->records);
fini_flood:
    tt_flood_fini(&o->flood);
free_o:
    free(o);
    return st;
}

void tt_overlay_neighbour(struct tt_overlay *o, uint32_t peer, const struct tt_endpoint *endpoint)
{
    for (uint32_t i = 0; i < o->flood.nlinks; i++) {
        struct link *l = &o->links[i];

        if (o->flood.peers[i] != peer)
            continue;
        l->endpoint = ENDPOINT_SET;
        l->naddresses = tt_endpoint_candidates(&o->own, endpoint, l->addresses);
        l->retry_ns = l->state == LINK_CALLED ? tt_now_ns() + PROBE_NS : 0;
        if (l->naddresses == 0) {
            l->error = EADDRNOTAVAIL;
            overlay_end_link(o, i, "the peer has no address that another host can reach");
        }
    }
}

/* Returns whether all sent data and the FIN are acknowledged, or never will be. */
static bool link_is_delivered(struct tt_overlay *o, uint32_t i)
{
    struct link *l = &o->links[i];
    uint8_t ignored[4096];
    int left = 0;
    ssize_t n;

    if (l->state != LINK_UP)
        return true;
    link_flush(o, i);
    if (l->out_begin < l->out_end) {
        n = recv(l->fd, ignored, sizeof ignored, 0);
        return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    }
    shutdown(l->fd, SHUT_WR);
    do
        n = recv(l->fd, ignored, sizeof ignored, 0);    /* closing with unread bytes would reset
                                                           the connection and lose data in flight */
    while (n > 0);
    if (n == 0 || errno != EAGAIN)
        return true;
    return ioctl(l->fd, SIOCOUTQ, &left) != 0 || left == 0;
}

static void send_goodbye(struct tt_overlay *o)
{
    const uint64_t give_up_ns = tt_now_ns() + GOODBYE_NS;
    uint8_t frame[TT_FRAME_HEADER_BYTES];
    bool all;

    tt_frame_header(frame, TT_FLOOD_GOODBYE, 0);
    for (uint32_t i = 0; i < o->flood.nlinks; i++)
        if (o->links[i].state == LINK_UP)
            queue(o, i, frame, sizeof frame);
    for (;;) {
        all = true;
        for (uint32_t i = 0; i < o->flood.nlinks; i++)
            all &= link_is_delivered(o, i);
        if (all || tt_now_ns() >= give_up_ns)
            return;
        poll(NULL, 0, 1);
    }
}

void tt_overlay_memory(const struct tt_overlay *o, tutti_memory *m)
{
    const struct tt_flood *f = &o->flood;
    tutti_memory_part part = {
        .purpose = "job: control overlay",
        .shared = 1,
        .fixed_bytes = sizeof *o + o->early_cap * sizeof *o->early,
        .rank_bytes = f->nranks * (sizeof *f->seen + sizeof *f->lost),
    };

    for (uint32_t i = 0; i < f->nlinks; i++)
        part.fixed_bytes += o->links[i].out_cap;
    if (o->doubles)
        part.fixed_bytes += tt_records_bytes(&o->records);
    tt_memory_add(m, &part);
}

void tt_overlay_close(struct tt_overlay *o)
{
    if (!o)
        return;
    send_goodbye(o);
    for (uint32_t i = 0; i < o->flood.nlinks; i++) {
        close_link(o, &o->links[i]);
        free(o->links[i].out);
    }
    for (struct guest *g = o->guests; g < o->guests + GUESTS_MAX; g++)
        if (g->fd >= 0)
            close_guest(o, g);
    tt_acceptor_fini(&o->acceptor);
    tt_acceptor_fini(&o->near);
    close(o->backlog);
    close(o->epoll);
    if (o->doubles)
        tt_records_fini(&o->records);
    tt_flood_fini(&o->flood);
    free(o->early);
    free(o);
}
