/* Connection set-up. The initiator connects to the peer's candidate addresses in turn and sends
 * HELLO. The acceptor responds with WELCOME, and the initiator with CONFIRM. Only then is the link
 * up at the acceptor, so a connection that its initiator has abandoned has no effect. Further lanes
 * follow in the same way, with the nonce of the first.
 *
 * A further lane is complete with a fourth message, the acceptor's frame READY. Before it, the
 * initiator sends no data there: the acceptor may close the connection, because the link ends,
 * without having read CONFIRM. The initiator then treats the lane as not opened. A lane that does
 * not connect is tried again, after increasing pauses.
 *
 * Both ends may start at once. The lower rank's connection wins. Having sent HELLO, it delays the
 * response to the other's HELLO (STANDBY), and accepts it only if its own attempt fails. The higher
 * rank responds at once, and drops its own attempt when the other's is confirmed.
 *
 * A connection that has not proved the job's secret may send only the bytes of one HELLO, and has a
 * deadline. At most STRANGERS_MAX of these exist; the oldest is dropped first. */
#include "wire/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/near.h"
#include "base/prng.h"
#include "base/status.h"
#include "base/watched.h"

#define STRANGERS_MAX 64
#define STRANGER_NS (5 * TT_SECOND)     /* timeout for a HELLO */
#define CONNECT_NS (3 * TT_SECOND)      /* timeout of a connection attempt */
/* timeout for a WELCOME if there is another candidate; doubled in each round */
#define WELCOME_NS (5 * TT_SECOND)
#define PAUSE_NS (50 * TT_MS)           /* before all candidates are tried again */
#define STARVED_NS (2 * TT_SECOND)
#define ROUNDS_MAX 3                    /* maximum rounds of failed attempts */
/* pause before a failed further lane is tried again; doubled with each failure, up to 64 s */
#define LANE_PAUSE_NS TT_SECOND
/* timeout for the WELCOME of a further lane: a middlebox may drop its connection without notice */
#define LANE_WELCOME_NS (30 * TT_SECOND)
#define LANE_DOUBLINGS 6

enum greeting_state {
    CONNECTING,     /* ours: waiting for the connection */
    SAID_HELLO,     /* ours: waiting for WELCOME */
    PAUSED,         /* ours: no connection, retry at the deadline */
    STRANGER,       /* theirs: waiting for HELLO */
    STANDBY,        /* theirs: no response sent yet */
    WELCOMED,       /* theirs: waiting for CONFIRM */
    OVER            /* to free */
};

/* A connection that is not a lane yet. */
struct tt_tcp_handshake {
    enum tt_tcp_watched watch;
    enum greeting_state state;
    int fd;
    struct tt_stream *stream;   /* TLS over fd, which it owns; NULL: unencrypted, or no connection
                                   yet */
    struct tt_tcp *tcp;
    struct tt_tcp_link *link;   /* NULL in state STRANGER */
    struct tt_tcp_handshake *next;
    uint64_t deadline_ns;
    struct tt_hello hello;      /* of the other end, once received */
    uint32_t lane;
    bool plain;                 /* ours, of a further lane: its rail did not connect, so another
                                   route is used */
    bool owes;                  /* ours: HELLO waits for the TLS handshake */
    uint32_t have;
    uint8_t in[TT_HELLO_BYTES];
};

static void attempt_failed(struct tt_tcp_handshake *g);
static void attempts_over(struct tt_tcp_handshake *g);

static bool is_outgoing(const struct tt_tcp_handshake *g)
{
    return g->state <= PAUSED;
}

/* Returns whether poll should check our connection often. A further lane may wait long for WELCOME:
 * epoll wakes a sleeper, and polls check epoll periodically. */
static bool is_opening(enum greeting_state state, uint32_t lane)
{
    return state == CONNECTING || (state <= PAUSED && lane == 0);
}

static void greeting_set_state(struct tt_tcp_handshake *g, enum greeting_state state,
                               uint64_t deadline_ns)
{
    struct tt_tcp *t = g->tcp;

    t->nopening += is_opening(state, g->lane) - is_opening(g->state, g->lane);
    t->nunauthenticated += (state == STRANGER) - (g->state == STRANGER);
    g->state = state;
    g->deadline_ns = deadline_ns;
}

/* Appends a new handshake, so that the list begins with the oldest. NULL: out of memory. */
static struct tt_tcp_handshake *greeting_create(struct tt_tcp *t, struct tt_tcp_link *link,
                                                uint32_t lane)
{
    struct tt_tcp_handshake *g = calloc(1, sizeof *g), **at = &t->greetings;

    if (!g)
        return NULL;
    *g = (struct tt_tcp_handshake){ .watch = TT_TCP_HANDSHAKE,
                                    .state = OVER,
                                    .fd = -1,
                                    .tcp = t,
                                    .link = link,
                                    .lane = lane,
                                    .deadline_ns = TT_NEVER };
    while (*at)
        at = &(*at)->next;
    *at = g;
    return g;
}

static void greeting_close(struct tt_tcp_handshake *g)
{
    if (g->fd >= 0)
        tt_watched_remove(g->tcp->epoll_fd, g->fd);
    if (g->stream)
        tt_stream_destroy(g->stream);
    else if (g->fd >= 0)
        close(g->fd);
    g->stream = NULL;
    g->fd = -1;
}

/* Drops the connection. The struct is freed at the end of the poll, as epoll events may refer to
 * it. */
static void greeting_end(struct tt_tcp_handshake *g)
{
    greeting_close(g);
    greeting_set_state(g, OVER, TT_NEVER);
}

/* Enables TLS for following messages, if configured. Returns false if out of memory. */
static bool greeting_secure(struct tt_tcp_handshake *g, enum tt_stream_end end)
{
    struct tt_secure *secure = g->tcp->conf.secure;

    return !secure || tt_stream_create(&g->stream, secure, g->fd, end) == TUTTI_OK;
}

/* Sets the epoll events that TLS needs next. */
static void greeting_watch(struct tt_tcp_handshake *g)
{
    if (g->stream)
        tt_tcp_watch(g->tcp, g->fd, tt_stream_events(g->stream), g);
}

/* Sends the message, or delays it until TLS is ready. Returns false if the connection is
 * unusable. */
static bool greeting_send(struct tt_tcp_handshake *g, enum tt_hello_kind kind)
{
    const struct tt_wire_conf *conf = &g->tcp->conf;
    const struct tt_hello h = {
        .kind = (uint8_t)kind,
        .lane = (uint16_t)g->lane,
        .lanes = (uint16_t)tt_tcp_offer(g->link, g->fd),
        .from = conf->rank,
        .to = g->link->peer,
        .nranks = conf->nranks,
        .nonce = g->state == STRANGER || g->state == STANDBY ? g->hello.nonce : g->link->nonce,
        .link_bytes = conf->link_bytes,
    };
    uint8_t out[TT_HELLO_BYTES];
    const struct iovec part = { .iov_base = out, .iov_len = sizeof out };
    ssize_t n;

    tt_hello_write(&h, conf->secret, out);
    n = tt_tcp_send(g->fd, g->stream, &part, 1, false);
    g->owes = n < 0 && errno == EAGAIN && g->stream && g->state == SAID_HELLO;
    return g->owes || n == sizeof out; /* fits into the buffer of a new socket */
}

enum greeting_status { GREETING_INCOMPLETE, GREETING_COMPLETE, GREETING_INVALID /* end of file, or not our protocol */ };

/* Reads exactly the other end's message: later data belongs to the lane. */
static enum greeting_status greeting_receive(struct tt_tcp_handshake *g, enum tt_hello_kind kind)
{
    const struct tt_wire_conf *conf = &g->tcp->conf;
    const ssize_t n = tt_tcp_recv(g->fd, g->stream, g->in + g->have, sizeof g->in - g->have);
    struct tt_hello h;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return GREETING_INCOMPLETE;
    if (n <= 0)
        return GREETING_INVALID;
    g->have += (uint32_t)n;
    if (g->have < sizeof g->in)
        return GREETING_INCOMPLETE;
    g->have = 0;
    if (!tt_hello_read(&h, conf->secret, g->in) || h.kind != kind || h.to != conf->rank ||
        h.nranks != conf->nranks || h.from >= h.nranks || h.from == h.to)
        return GREETING_INVALID;
    if (g->link && (h.from != g->link->peer || h.lane != g->lane))
        return GREETING_INVALID;
    g->hello = h;
    return GREETING_COMPLETE;
}

static bool greeting_welcome(struct tt_tcp_handshake *g)
{
    if (!greeting_send(g, TT_WELCOME))
        return false;
    greeting_set_state(g, WELCOMED, TT_NEVER);
    return true;
}

/* Makes the connection a lane. */
static bool greeting_adopt(struct tt_tcp_handshake *g, struct tt_tcp_lane *lane)
{
    if (lane->fd >= 0 || !tt_tcp_lane_open(lane, g->fd, g->stream))
        return false;
    if (lane->number > 0 && g->link->promised > 0)
        tt_tcp_set_pending_lanes(g->link, g->link->promised - 1);
    g->fd = -1;
    g->stream = NULL;
    greeting_set_state(g, OVER, TT_NEVER);
    return true;
}

void tt_tcp_handshakes_end(struct tt_tcp_link *link)
{
    for (struct tt_tcp_handshake *g = link->tcp->greetings; g; g = g->next)
        if (g->link == link && g->state != OVER)
            greeting_end(g);
}

void tt_tcp_handshakes_close(struct tt_tcp *t)
{
    while (t->greetings) {
        struct tt_tcp_handshake *g = t->greetings;

        t->greetings = g->next;
        greeting_end(g);
        free(g);
    }
}

static void lanes_open(struct tt_tcp_link *link, uint32_t first);

/* Opens the initial lanes of the link, or requests them from the initiator, which may open lanes
 * only on demand. */
static void first_lanes_open(struct tt_tcp_link *link)
{
    const struct tt_frame f = { .kind = TT_FRAME_LANES, .token = link->requested };

    if (link->initiator)
        lanes_open(link, 1);
    else if (link->requested > 1)
        tt_tcp_reply(link, &f, NULL, 0);    /* the queue is empty */
}

/* The first lane is agreed: the link is up. Aborts other attempts for this lane, and responds to
 * early HELLOs of further lanes. */
static void link_establish(struct tt_tcp_link *link, struct tt_tcp_handshake *g)
{
    struct tt_tcp *t = link->tcp;
    const uint32_t ours_at_most = tt_tcp_offer(link, g->fd),
                   lanes = g->hello.lanes < ours_at_most ? g->hello.lanes : ours_at_most;

    link->initiator = is_outgoing(g);
    link->nonce = g->hello.nonce;
    link->theirs_bytes = g->hello.link_bytes;
    if (!tt_tcp_link_furnish(link, lanes) || !greeting_adopt(g, &link->lanes[0])) {
        tt_tcp_link_lose(
            link,
            tt_fail(TUTTI_ERR_NOMEM, "tcp: out of memory for the link to rank %u", link->peer),
            "out of memory");
        return;
    }
    tt_tcp_lane_ready(&link->lanes[0]);
    tt_tcp_set_pending_lanes(link, lanes - 1);
    tt_tcp_link_up(link);

    for (struct tt_tcp_handshake *o = t->greetings; o; o = o->next) {
        if (o->link != link || o->state == OVER)
            continue;
        if (o->lane == 0 || o->state != STANDBY || link->initiator || o->lane >= lanes ||
            o->hello.nonce != link->nonce || !greeting_welcome(o))
            greeting_end(o);
    }
    link->requested = link->on_demand ? t->conf.lanes : lanes;
    first_lanes_open(link);
}

/* ---- outgoing connections ---- */

/* Link-local addresses need an interface: returns the first of ours that has such an address. */
static uint32_t link_local_scope(const struct tt_tcp *t, const struct tt_tcp_endpoint *e)
{
    if (e->family != 6 || e->ip[0] != 0xfe || (e->ip[1] & 0xc0) != 0x80)
        return 0;
    for (size_t i = 0; i < t->nifaddrs; i++)
        if (t->ifaddrs[i].link_local)
            return t->ifaddrs[i].index;
    return 0;
}

static socklen_t endpoint_sockaddr(const struct tt_tcp *t, const struct tt_tcp_endpoint *e,
                                   uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

    memset(out, 0, sizeof *out);
    if (e->family == 4) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, e->ip, 4);
        return sizeof *v4;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, e->ip, 16);
    v6->sin6_scope_id = link_local_scope(t, e);
    return sizeof *v6;
}

/* Returns the route of the link's current candidate. A further lane uses its own rail unless that
 * failed to connect. */
static struct tt_tcp_way way_of(const struct tt_tcp_handshake *g)
{
    const struct tt_tcp_link *link = g->link;
    const struct tt_tcp_way first = link->order[link->candidate];
    const uint8_t rail =
        g->lane > 0 && !g->plain ? tt_tcp_rail_of(g->tcp, link->peer, g->lane) : TT_TCP_NO_RAIL;
    const int endpoint = rail == TT_TCP_NO_RAIL
                             ? -1
                             : tt_tcp_rail_endpoint(g->tcp, link->peer, &link->address, rail);

    return endpoint < 0 ? first
                        : (struct tt_tcp_way){ .rail = rail, .endpoint = (uint8_t)endpoint };
}

/* Pauses for about this time, with a random variation, so that lanes that failed together are not
 * retried together. */
static void attempt_pause(struct tt_tcp_handshake *g, uint64_t pause_ns)
{
    uint64_t random;

    tt_random_bytes(&random, sizeof random);
    greeting_set_state(g, PAUSED, tt_now_ns() + pause_ns - pause_ns / 4 + random % (pause_ns / 2));
}

/* A further lane has not connected: schedules a retry, at first after a short pause. The link still
 * has other lanes. */
static void lane_failed(struct tt_tcp_handshake *g)
{
    struct tt_tcp_lane *lane = &g->link->lanes[g->lane];
    const uint32_t more = lane->failures - (TT_TCP_TRIES - 1u);

    lane->failures += lane->failures < UINT8_MAX;
    if (lane->failures < TT_TCP_TRIES) {
        attempt_pause(g, PAUSE_NS);
        return;
    }
    if (lane->failures == TT_TCP_TRIES)
        tt_log(TT_LOG_INFO, "tcp: cannot connect lane %u to rank %u; it is tried again later",
               g->lane, g->link->peer);
    attempt_pause(g, LANE_PAUSE_NS << (more < LANE_DOUBLINGS ? more : LANE_DOUBLINGS));
}

void tt_tcp_lane_retry(struct tt_tcp_lane *lane)
{
    struct tt_tcp_handshake *g = greeting_create(lane->link->tcp, lane->link, lane->number);

    if (g)
        lane_failed(g);
    else
        lane->link->untried = true;
}

/* No descriptor is free. This is not a failure of the peer: the same address is tried again
 * later. */
static void attempt_starved(struct tt_tcp_handshake *g, int err)
{
    struct tt_tcp_link *const link = g->link;
    const uint64_t now_ns = tt_now_ns();

    if (g->lane > 0) {
        lane_failed(g);
        return;
    }
    if (!link->starved_ns)
        link->starved_ns = now_ns;
    if (now_ns - link->starved_ns > STARVED_NS) {   /* no descriptor will be released */
        tt_fail_descriptors("tcp: cannot connect to a rank", 1);
        greeting_end(g);
        tt_tcp_link_lose(link, TUTTI_ERR_NOMEM, "not enough file descriptors (RLIMIT_NOFILE)");
        return;
    }
    if (!g->tcp->starved)
        tt_log(TT_LOG_WARN,
               "tcp: cannot connect to rank %u until a descriptor is free: %s "
               "(raise RLIMIT_NOFILE with ulimit -n)",
               g->link->peer, strerror(err));
    g->tcp->starved = true;
    greeting_set_state(g, PAUSED, tt_now_ns() + PAUSE_NS);
}

/* Starts connecting. Without a descriptor it retries for two seconds, after which descriptors of
 * other connection attempts have been closed. */
static void attempt_start(struct tt_tcp_handshake *g)
{
    struct tt_tcp_link *link = g->link;
    const struct tt_tcp_way way = way_of(g);
    const struct tt_tcp_endpoint *e = &link->address.endpoints[way.endpoint];
    struct sockaddr_storage to;
    const socklen_t bytes = endpoint_sockaddr(g->tcp, e, link->address.port, &to);

    if (g->lane > 0 && !tt_tcp_may_have_lane()) {
        lane_failed(g);
        return;
    }
    g->have = 0;
    greeting_set_state(g, CONNECTING, tt_now_ns() + CONNECT_NS);
    g->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (g->fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        attempt_starved(g, errno);
        return;
    }
    link->starved_ns = 0;
    if (g->fd < 0) {
        tt_log(TT_LOG_WARN, "tcp: cannot create a socket for rank %u: %s", link->peer,
               strerror(errno));
    } else if (way.rail != TT_TCP_NO_RAIL && !tt_tcp_rail_bind(g->tcp, g->fd, way.rail)) {
        tt_log(TT_LOG_INFO, "tcp: cannot bind lane %u to rank %u to %s: %s", g->lane, link->peer,
               g->tcp->conf.rails->rail[way.rail].name, strerror(errno));
    } else if (connect(g->fd, (struct sockaddr *)&to, bytes) == 0 || errno == EINPROGRESS) {
        if (tt_tcp_watch(g->tcp, g->fd, EPOLLOUT, g))
            return;
    }
    attempt_failed(g);
}

/* Returns the connection for the link's first lane in a state from..to, or NULL. */
static struct tt_tcp_handshake *greeting_of(const struct tt_tcp_link *link,
                                            enum greeting_state from, enum greeting_state to)
{
    for (struct tt_tcp_handshake *g = link->tcp->greetings; g; g = g->next)
        if (g->link == link && g->lane == 0 && g->state >= from && g->state <= to)
            return g;
    return NULL;
}

/* Our attempts for the first lane have failed. A connection of the peer may be in STANDBY or wait
 * for CONFIRM; otherwise the peer is unreachable. */
static void attempts_over(struct tt_tcp_handshake *g)
{
    struct tt_tcp_link *link = g->link;
    struct tt_tcp_handshake *other = greeting_of(link, STANDBY, WELCOMED);

    greeting_end(g);
    if (other && (other->state == WELCOMED || greeting_welcome(other)))
        return;
    tt_tcp_link_lose(link, TUTTI_ERR_PEER_LOST, "cannot connect to any of its addresses");
}

/* Logs, once per link, why authentication failed. */
static void log_authentication_failure(struct tt_tcp_handshake *g)
{
    const bool refused = g->stream && *tt_stream_why(g->stream);

    if (refused && !g->link->refused)
        tt_log(TT_LOG_WARN, "tcp: cannot secure the connection to rank %u: %s", g->link->peer,
               tt_stream_why(g->stream));
    g->link->refused |= refused;
}

/* The candidate has failed: tries the next one; after the last one, pauses before the next
 * round. */
static void attempt_failed(struct tt_tcp_handshake *g)
{
    struct tt_tcp_link *link = g->link;

    log_authentication_failure(g);
    greeting_close(g);
    if (g->lane > 0) {
        /* the link's first route is known to work; the rail may work later */
        g->plain = !g->plain && g->state == CONNECTING;
        lane_failed(g);
        return;
    }
    if (++link->failures >= ROUNDS_MAX * link->ncandidates) {
        attempts_over(g);
        return;
    }
    link->candidate = (uint8_t)((link->candidate + 1) % link->ncandidates);
    greeting_set_state(g, PAUSED, tt_now_ns() + (link->candidate == 0 ? PAUSE_NS : 0));
}

/* Connected, but no response: another process, or a busy peer. Tries the next candidate, with a
 * longer timeout in each round. This never counts as a failure. A connection of the peer in STANDBY
 * is preferred. */
static void attempt_silent(struct tt_tcp_handshake *g)
{
    if (g->lane > 0) {
        attempt_failed(g);
        return;
    }
    if (greeting_of(g->link, STANDBY, STANDBY)) {
        attempts_over(g);
        return;
    }
    g->link->failures = 0;
    g->link->silent_attempts++;
    attempt_failed(g);
}

/* Returns how long to wait for WELCOME; 0: no limit. */
static uint64_t welcome_timeout_ns(const struct tt_tcp_handshake *g)
{
    const struct tt_tcp_link *link = g->link;
    const uint32_t doublings = link->silent_attempts / link->ncandidates;

    if (g->lane > 0)
        return LANE_WELCOME_NS;
    if (link->ncandidates == 1 && !greeting_of(link, STANDBY, STANDBY))
        return 0;
    return WELCOME_NS << (doublings < 6 ? doublings : 6);
}

/* Connected: sends HELLO and waits. Without another candidate the first lane has no timeout but the
 * caller's. */
static void attempt_connected(struct tt_tcp_handshake *g)
{
    const uint64_t timeout_ns = welcome_timeout_ns(g);
    int err = 0;
    socklen_t bytes = sizeof err;

    if (getsockopt(g->fd, SOL_SOCKET, SO_ERROR, &err, &bytes) != 0 || err != 0 ||
        !tt_tcp_watch(g->tcp, g->fd, EPOLLIN, g) || !greeting_secure(g, TT_STREAM_CONNECTS)) {
        attempt_failed(g);
        return;
    }
    tt_tcp_tune(g->tcp, g->fd, false);
    greeting_set_state(g, SAID_HELLO, timeout_ns ? tt_now_ns() + timeout_ns : TT_NEVER);
    if (!greeting_send(g, TT_HELLO))
        attempt_failed(g);
}

static void attempt_received(struct tt_tcp_handshake *g)
{
    struct tt_tcp_link *link = g->link;
    enum greeting_status status;

    if (g->owes && !greeting_send(g, TT_HELLO)) {
        attempt_failed(g);
        return;
    }
    status = greeting_receive(g, TT_WELCOME);
    if (status == GREETING_INCOMPLETE)
        return;
    if (status == GREETING_COMPLETE && g->lane == 0)
        tt_tcp_offer_confirm(link, g->fd);
    /* After CONFIRM the peer has the lane, and closing it would lose the link. Therefore all memory
     * is reserved first. */
    if (status == GREETING_INVALID || g->hello.nonce != link->nonce ||
        (g->lane > 0 && !tt_tcp_lane_reserve(&link->lanes[g->lane])) ||
        !greeting_send(g, TT_CONFIRM)) {
        attempt_failed(g);
        return;
    }
    if (g->lane == 0)
        link_establish(link, g);
    else if (greeting_adopt(g, &link->lanes[g->lane]))
        link->lanes[g->lane].unready = true;
    else
        attempt_failed(g);
}

/* Returns false if out of memory. */
static bool attempt_open(struct tt_tcp_link *link, uint32_t lane)
{
    struct tt_tcp_handshake *g = greeting_create(link->tcp, link, lane);

    if (g)
        attempt_start(g);
    return g != NULL;
}

/* The initiator opens the requested lanes from this one on. */
static void lanes_open(struct tt_tcp_link *link, uint32_t first)
{
    for (uint32_t lane = first; lane < link->requested; lane++)
        if (!attempt_open(link, lane))
            link->untried = true;
}

static bool is_tried(const struct tt_tcp_link *link, uint32_t lane)
{
    for (const struct tt_tcp_handshake *g = link->tcp->greetings; g; g = g->next)
        if (g->link == link && g->lane == lane && is_outgoing(g))
            return true;
    return link->lanes[lane].fd >= 0;
}

/* Opens requested lanes for which there was no memory. */
static void lanes_open_untried(struct tt_tcp_link *link)
{
    link->untried = false;
    for (uint32_t lane = 1; lane < link->requested; lane++)
        if (!is_tried(link, lane) && !attempt_open(link, lane))
            link->untried = true;
}

static void link_request_lanes(struct tt_tcp_link *link)
{
    const struct tt_frame f = { .kind = TT_FRAME_LANES, .token = link->wanted };
    const uint32_t first = link->requested;

    if (!link->initiator && !tt_tcp_reply(link, &f, NULL, 0))
        return;     /* many responses are queued: retried if a lane is blocked again */
    tt_log(TT_LOG_INFO, "tcp: %u of %u lanes to rank %u for the data in flight", link->wanted,
           link->nlanes, link->peer);
    link->requested = link->wanted;
    if (link->initiator)
        lanes_open(link, first);
}

void tt_tcp_request_lanes(struct tt_tcp *t)
{
    struct tt_tcp_link *link;
    uint32_t at = 0;

    t->lanes_wanted = false;
    while ((link = tt_sparse_next(&t->links, &at))) {
        if (link->state == TT_TCP_UP && link->untried)
            lanes_open_untried(link);
        if (link->state == TT_TCP_UP && link->wanted > link->requested)
            link_request_lanes(link);
    }
}

static bool is_loopback_endpoint(const struct tt_tcp_endpoint *e)
{
    static const uint8_t one[16] = { [15] = 1 };

    return e->family == 4 ? e->ip[0] == 127 : memcmp(e->ip, one, 16) == 0;
}

/* Returns the external endpoint of the peer, or NULL if it is not behind an address translation
 * (NAT). */
static const struct tt_tcp_endpoint *outside_of(const struct tt_tcp_address *a)
{
    return a->outside > 0 ? &a->endpoints[a->outside - 1] : NULL;
}

/* Returns whether both are behind different NATs: the peer's own addresses may then appear to be
 * near, but are not. */
static bool is_behind_other_nat(const struct tt_tcp *t, const struct tt_tcp_address *a)
{
    const struct tt_tcp_endpoint *theirs = outside_of(a);

    if (!theirs || !t->outside.family)
        return false;
    return theirs->family != t->outside.family ||
           memcmp(theirs->ip, t->outside.ip, theirs->family == 4 ? 4 : 16) != 0;
}

#define MERIT_WORST 3

/* Returns the preference of a candidate, 0: best; -1: unusable. A peer behind NAT is reachable at
 * its own addresses only from behind the same NAT. */
static int endpoint_merit(const struct tt_tcp *t, uint32_t peer, const struct tt_tcp_address *a,
                          const struct tt_tcp_endpoint *e)
{
    const int family = e->family == 4 ? AF_INET : AF_INET6;
    const bool here = tt_wire_shares_host(&t->conf, peer, a->host == t->host);
    bool near = false;

    if (is_loopback_endpoint(e))
        return here ? 0 : -1;
    for (size_t i = 0; i < t->nifaddrs; i++) {
        if (!here && t->ifaddrs[i].family == family &&
            memcmp(t->ifaddrs[i].ip, e->ip, e->family == 4 ? 4 : 16) == 0)
            return -1;      /* equals our own address, but on another host: a bridge that every
                               host has */
        near |= tt_ifaddr_near(&t->ifaddrs[i], family, e->ip);
    }
    if (near && (here || !is_behind_other_nat(t, a)))
        return 1;
    return e == outside_of(a) ? 2 : MERIT_WORST;
}

static void rank_candidates(struct tt_tcp_link *link)
{
    const struct tt_tcp_address *a = &link->address;
    const uint8_t rail = tt_tcp_rail_of(link->tcp, link->peer, 0);
    const int endpoint =
        rail == TT_TCP_NO_RAIL ? -1 : tt_tcp_rail_endpoint(link->tcp, link->peer, a, rail);

    link->ncandidates = 0;
    if (endpoint >= 0)
        link->order[link->ncandidates++] =
            (struct tt_tcp_way){ .rail = rail, .endpoint = (uint8_t)endpoint };
    for (int want = 0; want <= MERIT_WORST; want++)
        for (uint8_t i = 0; i < a->count; i++)
            if (endpoint_merit(link->tcp, link->peer, a, &a->endpoints[i]) == want)
                link->order[link->ncandidates++] =
                    (struct tt_tcp_way){ .rail = TT_TCP_NO_RAIL, .endpoint = i };
}

tutti_status tt_tcp_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    struct tt_tcp *t = tt_tcp_of(w);
    struct tt_tcp_link *link;
    struct tt_tcp_address parsed;

    w->unreached = NULL;
    if (peer >= t->conf.nranks || peer == t->conf.rank)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tcp: invalid peer: rank %u of %u cannot connect to rank %u", t->conf.rank,
                       t->conf.nranks, peer);
    if (!tt_tcp_address_read(&parsed, address))
        return TUTTI_ERR_UNSUPPORTED;
    if (tt_wire_shares_host(&t->conf, peer, parsed.host == t->host) && tt_near_lo_is_down()) {
        w->unreached = "TCP within a host needs the loopback interface lo, which is down (run ip "
                       "link set lo up)";
        return TUTTI_ERR_UNSUPPORTED;
    }
    if (!t->settled)
        tt_tcp_settle(t);
    link = tt_sparse_get(&t->links, peer);
    if (link && (link->state != TT_TCP_OPENING || link->connect_called))
        return TUTTI_OK;
    if (!link)
        link = tt_tcp_link_create(t, peer);
    if (!link)
        return tt_fail(TUTTI_ERR_NOMEM, "tcp: out of memory for a link to rank %u", peer);
    link->address = parsed;
    rank_candidates(link);
    if (link->ncandidates == 0)
        return TUTTI_ERR_UNSUPPORTED;
    link->connect_called = true;
    /* After the peer's own attempt got WELCOME, the peer may adopt it as the link at any time. If
     * another attempt of ours also got WELCOME, each end could drop the connection that the other
     * keeps. If the peer's attempt fails, attempt_again follows. */
    if (!greeting_of(link, STANDBY, WELCOMED))
        attempt_open(link, 0);
    return TUTTI_OK;
}

/* ---- incoming connections ---- */

/* The peer starts another attempt, so its earlier ones for this lane have failed. */
static void end_earlier(const struct tt_tcp_handshake *g)
{
    for (struct tt_tcp_handshake *o = g->tcp->greetings; o; o = o->next)
        if (o != g && o->link == g->link && o->lane == g->lane && o->state > PAUSED &&
            o->state != OVER)
            greeting_end(o);
}

/* Processes a HELLO for the first lane. */
static bool link_hello(struct tt_tcp_handshake *g)
{
    struct tt_tcp *t = g->tcp;
    struct tt_tcp_handshake *ours = greeting_of(g->link, CONNECTING, PAUSED);

    if (g->link->state != TT_TCP_OPENING)
        return false;
    end_earlier(g);
    if (ours && t->conf.rank < g->link->peer) {
        if (ours->state == SAID_HELLO) {
            greeting_set_state(g, STANDBY, TT_NEVER);
            if (ours->deadline_ns == TT_NEVER)
                ours->deadline_ns = tt_now_ns() + WELCOME_NS;
            return true;
        }
        greeting_end(ours);     /* no message was sent yet */
    }
    return greeting_welcome(g);
}

/* Processes a HELLO for a further lane, which may precede the first lane's CONFIRM. Only the
 * link's initiator opens lanes. */
static bool lane_hello(struct tt_tcp_handshake *g)
{
    const struct tt_tcp_link *link = g->link;

    end_earlier(g);
    if (link->state == TT_TCP_OPENING) {
        greeting_set_state(g, STANDBY, tt_now_ns() + STRANGER_NS);
        return true;
    }
    return link->state == TT_TCP_UP && !link->initiator && tt_tcp_may_have_lane() &&
           g->lane < link->nlanes && link->lanes[g->lane].fd < 0 && g->hello.nonce == link->nonce &&
           greeting_welcome(g);
}

static void stranger_received(struct tt_tcp_handshake *g)
{
    struct tt_tcp *t = g->tcp;
    const enum greeting_status status = greeting_receive(g, TT_HELLO);
    const struct tt_hello *h = &g->hello;
    bool good;

    if (status == GREETING_INCOMPLETE)
        return;
    if (status == GREETING_INVALID) {
        tt_log(TT_LOG_INFO, "tcp: closed a connection from outside this job%s%s",
               g->stream ? ": " : "", g->stream ? tt_stream_why(g->stream) : "");
        greeting_end(g);
        return;
    }
    g->lane = h->lane;
    g->link = tt_sparse_get(&t->links, h->from);
    if (!g->link)
        g->link = tt_tcp_link_create(t, h->from);
    good = g->link && (g->lane == 0 ? link_hello(g) : lane_hello(g));
    if (!good)
        greeting_end(g);
}

/* Restarts our attempt if the connection for which it was dropped has failed. */
static void attempt_again(struct tt_tcp_link *link)
{
    if (link->state != TT_TCP_OPENING || !link->connect_called ||
        greeting_of(link, CONNECTING, WELCOMED))
        return;
    link->failures = 0;
    attempt_open(link, 0);
}

static void welcomed_received(struct tt_tcp_handshake *g)
{
    struct tt_tcp_link *link = g->link;
    const uint64_t nonce = g->hello.nonce;
    const enum greeting_status status = greeting_receive(g, TT_CONFIRM);
    const bool up = link->state == TT_TCP_UP;

    if (status == GREETING_INCOMPLETE)
        return;
    if (status == GREETING_INVALID || g->hello.nonce != nonce || link->state == TT_TCP_LOST ||
        up != (g->lane > 0)) {
        greeting_end(g);
        attempt_again(link);
    } else if (g->lane == 0) {
        link_establish(link, g);
    } else if (!greeting_adopt(g, &link->lanes[g->lane])) {
        greeting_end(g);
    } else {
        tt_tcp_lane_welcome(&link->lanes[g->lane]);
    }
}

/* In this state only end-of-file can arrive. */
static void standby_received(struct tt_tcp_handshake *g)
{
    char byte;
    const ssize_t n = recv(g->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

    if (n >= 0 || (errno != EAGAIN && errno != EINTR))
        greeting_end(g);
}

void tt_tcp_handshake_step(struct tt_tcp_handshake *g)
{
    switch (g->state) {
    case CONNECTING:
        attempt_connected(g);
        break;
    case SAID_HELLO:
        attempt_received(g);
        break;
    case STRANGER:
        stranger_received(g);
        break;
    case STANDBY:
        standby_received(g);
        break;
    case WELCOMED:
        welcomed_received(g);
        break;
    case PAUSED:
    case OVER:
        break;
    }
    greeting_watch(g);
}

/* Listens at `port` (0: any) on all interfaces or on loopback only, with IPv6 and IPv4 in one
 * socket if IPv6 is available. Returns -1 and errno on failure. */
static int tcp_listen_at(struct tt_tcp *t, int family, uint16_t port)
{
    const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
                                     .sin6_port = htons(port),
                                     .sin6_addr = IN6ADDR_ANY_INIT };
    const struct sockaddr_in v4 = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr =
                                        htonl(t->outside.near ? INADDR_LOOPBACK : INADDR_ANY) };
    static const int off = 0, on = 1;
    const bool six = family == AF_INET6;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

    if (fd < 0)
        return -1;
    if (port)   /* connections of an earlier listener may still be closing */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if ((six && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) ||
        bind(fd, six ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4,
             six ? sizeof v6 : sizeof v4) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    t->listen_family = family;
    return fd;
}

static int listen_somewhere(struct tt_tcp *t, uint16_t port)
{
    const int fd = tcp_listen_at(t, t->outside.near ? AF_INET : AF_INET6, port);

    return fd >= 0 || errno == EADDRINUSE || t->outside.near ? fd : tcp_listen_at(t, AF_INET, port);
}

/* Listens at the first free port of the allowed range. */
static int listen_inside(struct tt_tcp *t)
{
    int fd = -1;

    if (t->outside.port_first == 0)
        return listen_somewhere(t, 0);
    for (uint32_t port = t->outside.port_first; fd < 0 && port <= t->outside.port_last; port++)
        fd = listen_somewhere(t, (uint16_t)port);
    return fd;
}

/* The interface rule decides which address peers get. */
tutti_status tt_tcp_listen(struct tt_tcp *t)
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    const int fd = listen_inside(t);
    tutti_status st;

    if (fd < 0 && t->outside.port_first)
        return tt_fail_errno(errno, "tcp: cannot listen for peers on any port from %u to %u",
                             t->outside.port_first, t->outside.port_last);
    if (fd < 0)
        return tt_fail_errno(errno, "tcp: cannot listen for peers");
    if (getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0)
        st = tt_fail_errno(errno, "tcp: cannot listen for peers");
    else
        st = tt_acceptor_init(&t->acceptor, "tcp", fd, t->epoll_fd,
                              (epoll_data_t){ .ptr = &t->listener });
    if (st) {
        close(fd);
        return st;
    }
    t->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)&bound)->sin_port);
    return TUTTI_OK;
}

void tt_tcp_accept(struct tt_tcp *t)
{
    for (int i = 0; i < STRANGERS_MAX; i++) {
        const int fd = tt_acceptor_take(&t->acceptor);
        struct tt_tcp_handshake *g;

        if (fd < 0)
            break;
        for (g = t->greetings; g && t->nunauthenticated >= STRANGERS_MAX; g = g->next)
            if (g->state == STRANGER)
                greeting_end(g);
        g = greeting_create(t, NULL, 0);
        if (!g || !tt_tcp_watch(t, fd, EPOLLIN, g)) {
            close(fd);
            continue;
        }
        g->fd = fd;
        if (!greeting_secure(g, TT_STREAM_ACCEPTS)) {
            greeting_end(g);
            continue;
        }
        greeting_set_state(g, STRANGER, tt_now_ns() + STRANGER_NS);
        tt_tcp_handshake_step(g);    /* HELLO has often arrived already */
    }
}

/* ---- timeouts ---- */

static void greeting_expire(struct tt_tcp_handshake *g)
{
    switch (g->state) {
    case CONNECTING:
        attempt_failed(g);
        break;
    case SAID_HELLO:
        attempt_silent(g);
        break;
    case PAUSED:
        attempt_start(g);
        break;
    default:
        greeting_end(g);
    }
}

/* Connections wait to be accepted, and no descriptor will become free for them: loses the links
 * that are not up. */
static void tcp_lose_starved(struct tt_tcp *t)
{
    bool logged = false;

    for (struct tt_tcp_handshake *g = t->greetings; g; g = g->next) {
        if (!is_outgoing(g) || g->lane > 0)
            continue;
        if (!logged)
            tt_fail_descriptors("tcp: cannot accept connections of ranks", t->nopening);
        logged = true;
        greeting_end(g);
        tt_tcp_link_lose(g->link, TUTTI_ERR_NOMEM, "not enough file descriptors (RLIMIT_NOFILE)");
    }
}

void tt_tcp_handshakes_expire(struct tt_tcp *t, uint64_t now_ns)
{
    struct tt_tcp_handshake **at = &t->greetings;

    if (tt_acceptor_is_starved(&t->acceptor))
        tcp_lose_starved(t);
    for (struct tt_tcp_handshake *g = t->greetings; g; g = g->next)
        if (g->deadline_ns <= now_ns)
            greeting_expire(g);
    while (*at) {
        struct tt_tcp_handshake *g = *at;

        if (g->state == OVER) {
            *at = g->next;
            free(g);
        } else {
            at = &g->next;
        }
    }
}

uint64_t tt_tcp_handshakes_deadline(const struct tt_tcp *t)
{
    uint64_t deadline_ns = TT_NEVER;

    for (const struct tt_tcp_handshake *g = t->greetings; g; g = g->next)
        if (g->deadline_ns < deadline_ns)
            deadline_ns = g->deadline_ns;
    return deadline_ns;
}
