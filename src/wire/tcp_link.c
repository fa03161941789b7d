/* How a link comes to be. The initiator connects to the peer's candidate addresses in turn and says HELLO; the acceptor answers
 * WELCOME, the initiator CONFIRMs, and only then is the link up at the acceptor: a connection that its initiator gave up
 * meanwhile changes nothing. Further lanes follow the same way, with the nonce of the first.
 *
 * Both ends may start at once. The lower rank's connection wins: having said HELLO, it lets the other's HELLO wait (STANDBY),
 * and takes it only if its own attempt fails; the higher rank answers at once, and drops its own attempt when the other's is
 * confirmed.
 *
 * A connection that has not shown the job's secret is a stranger: it may send one HELLO's worth of bytes, has a deadline, and of
 * those there are at most STRANGERS_MAX, the oldest going first. */
#include "wire/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"

#define STRANGERS_MAX 64
#define STRANGER_NS (5 * TT_SECOND)     /* to say HELLO */
#define CONNECT_NS (3 * TT_SECOND)      /* for a candidate address to answer at all */
#define WELCOME_NS (5 * TT_SECOND)      /* for it to say WELCOME, if there is another one; doubled each time around */
#define PAUSE_NS (50 * TT_MS)           /* before all candidates are tried again */
#define ROUNDS_MAX 3                    /* of trying them, if they fail */

enum greeting_state {
    CONNECTING,     /* ours: waiting for the connection */
    SAID_HELLO,     /* ours: waiting for WELCOME */
    PAUSED,         /* ours: no connection, next try at the deadline */
    STRANGER,       /* theirs: waiting for HELLO */
    STANDBY,        /* theirs: not answered yet */
    WELCOMED,       /* theirs: waiting for CONFIRM */
    OVER            /* to be freed */
};

/* A connection that is not a lane yet. */
struct tt_tcp_greeting {
    enum tt_tcp_watch watch;
    enum greeting_state state;
    int fd;
    struct tt_tcp *tcp;
    struct tt_tcp_link *link;   /* NULL: STRANGER */
    struct tt_tcp_greeting *next;
    uint64_t deadline_ns;
    struct tt_hello hello;      /* of the other end, once it has come */
    uint32_t lane;
    uint32_t have;
    uint8_t in[TT_HELLO_BYTES];
};

static void attempt_failed(struct tt_tcp_greeting *g);

/* ---- sockets ---- */

/* Both ends are this machine's: bbr, a common default, costs up to twice the time there. */
static bool is_loopback(int fd)
{
    struct sockaddr_storage a = { 0 }, b = { 0 };
    socklen_t a_bytes = sizeof a, b_bytes = sizeof b;

    if (getsockname(fd, (struct sockaddr *)&a, &a_bytes) != 0 || getpeername(fd, (struct sockaddr *)&b, &b_bytes) != 0)
        return false;
    if (a.ss_family == AF_INET)
        return ((struct sockaddr_in *)&a)->sin_addr.s_addr == ((struct sockaddr_in *)&b)->sin_addr.s_addr;
    return memcmp(&((struct sockaddr_in6 *)&a)->sin6_addr, &((struct sockaddr_in6 *)&b)->sin6_addr, 16) == 0;
}

/* Options of a lane. Buffer sizes stay the kernel's business: setting them would end its autotuning. */
static void socket_tune(int fd, bool one_of_many)
{
    static const int on = 1, unsent_bytes = 256 << 10;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (is_loopback(fd))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    if (one_of_many)
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
}

static bool watch(struct tt_tcp *t, int fd, uint32_t events, void *what)
{
    struct epoll_event ev = { .events = events, .data.ptr = what };

    return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0 ||
           (errno == EEXIST && epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, fd, &ev) == 0);
}

/* Listens on every interface, IPv6 and IPv4 on one socket where there is IPv6. The address that peers are told is what the
 * interface rule leaves. */
tutti_status tt_tcp_listen(struct tt_tcp *t)
{
    const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT };
    const struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
    static const int off = 0;
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    int err = 0;

    t->listen_family = AF_INET6;
    t->listen_fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (t->listen_fd >= 0 && (setsockopt(t->listen_fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0 ||
                              bind(t->listen_fd, (const struct sockaddr *)&v6, sizeof v6) != 0)) {
        close(t->listen_fd);
        t->listen_fd = -1;
    }
    if (t->listen_fd < 0) {
        t->listen_family = AF_INET;
        t->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (t->listen_fd < 0 || bind(t->listen_fd, (const struct sockaddr *)&v4, sizeof v4) != 0)
            err = errno;
    }
    if (err == 0 && (listen(t->listen_fd, SOMAXCONN) != 0 ||
                     getsockname(t->listen_fd, (struct sockaddr *)&bound, &bytes) != 0 ||
                     !watch(t, t->listen_fd, EPOLLIN, &t->listener)))
        err = errno;
    if (err)
        return tt_fail_errno(err, "tcp: listen for peers");     /* the caller closes */
    t->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)&bound)->sin_port);
    return TUTTI_OK;
}

/* ---- greetings ---- */

static bool is_ours(const struct tt_tcp_greeting *g)
{
    return g->state <= PAUSED;
}

static void set_state(struct tt_tcp_greeting *g, enum greeting_state state, uint64_t deadline_ns)
{
    struct tt_tcp *t = g->tcp;

    t->nopening += (state <= PAUSED) - (g->state <= PAUSED);
    t->nstrangers += (state == STRANGER) - (g->state == STRANGER);
    g->state = state;
    g->deadline_ns = deadline_ns;
}

/* A new one at the end of the list, so that the oldest is found first. NULL: no memory. */
static struct tt_tcp_greeting *greeting_create(struct tt_tcp *t, struct tt_tcp_link *link, uint32_t lane)
{
    struct tt_tcp_greeting *g = calloc(1, sizeof *g), **at = &t->greetings;

    if (!g)
        return NULL;
    *g = (struct tt_tcp_greeting){
        .watch = TT_TCP_GREETING, .state = OVER, .fd = -1, .tcp = t, .link = link, .lane = lane, .deadline_ns = TT_NEVER
    };
    while (*at)
        at = &(*at)->next;
    *at = g;
    return g;
}

/* Drops the connection; the struct goes at the end of the poll, as epoll may still name it. */
static void greeting_end(struct tt_tcp_greeting *g)
{
    if (g->fd >= 0)
        close(g->fd);
    g->fd = -1;
    set_state(g, OVER, TT_NEVER);
}

static bool greeting_say(struct tt_tcp_greeting *g, enum tt_hello_kind kind, uint32_t lanes)
{
    const struct tt_wire_conf *conf = &g->tcp->conf;
    const struct tt_hello h = {
        .kind = (uint8_t)kind,
        .lane = (uint16_t)g->lane,
        .lanes = (uint16_t)lanes,
        .from = conf->rank,
        .to = g->link->peer,
        .nranks = conf->nranks,
        .nonce = g->state == STRANGER || g->state == STANDBY ? g->hello.nonce : g->link->nonce,
        .link_bytes = conf->link_bytes,
    };
    uint8_t out[TT_HELLO_BYTES];

    tt_hello_write(&h, conf->secret, out);
    return send(g->fd, out, sizeof out, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof out; /* fits any fresh socket */
}

enum heard { HEARD_NOTHING, HEARD_ALL, HEARD_ENOUGH /* it ended, or is not of our kind */ };

/* Reads the other end's message, no byte more: what follows belongs to the lane. */
static enum heard greeting_hear(struct tt_tcp_greeting *g, enum tt_hello_kind kind)
{
    const struct tt_wire_conf *conf = &g->tcp->conf;
    const ssize_t n = recv(g->fd, g->in + g->have, sizeof g->in - g->have, MSG_DONTWAIT);
    struct tt_hello h;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return HEARD_NOTHING;
    if (n <= 0)
        return HEARD_ENOUGH;
    g->have += (uint32_t)n;
    if (g->have < sizeof g->in)
        return HEARD_NOTHING;
    g->have = 0;
    if (!tt_hello_read(&h, conf->secret, g->in) || h.kind != kind || h.to != conf->rank || h.nranks != conf->nranks ||
        h.from >= h.nranks || h.from == h.to)
        return HEARD_ENOUGH;
    if (g->link && (h.from != g->link->peer || h.lane != g->lane))
        return HEARD_ENOUGH;
    g->hello = h;
    return HEARD_ALL;
}

/* ---- links ---- */

static struct tt_tcp_link *link_create(struct tt_tcp *t, uint32_t peer)
{
    struct tt_tcp_link *link = calloc(1, sizeof *link);

    if (!link)
        return NULL;
    link->tcp = t;
    link->peer = peer;
    link->state = TT_TCP_OPENING;
    link->parked = TT_TCP_NOBODY;
    tt_random_bytes(&link->nonce, sizeof link->nonce);
    t->links[peer] = link;
    return link;
}

static bool queue_init(struct tt_tcp_queue *q, uint32_t depth)
{
    q->ring = malloc(depth * sizeof *q->ring);
    q->depth = depth;
    return q->ring != NULL;
}

/* What a link needs once it is up. On failure link_free cleans up. */
static bool link_furnish(struct tt_tcp_link *link, uint32_t nlanes)
{
    link->lanes = calloc(nlanes, sizeof *link->lanes);
    if (!link->lanes)
        return false;
    link->nlanes = nlanes;
    for (uint32_t i = 0; i < nlanes; i++)
        link->lanes[i] = (struct tt_tcp_lane){ .watch = TT_TCP_LANE, .fd = -1, .link = link };
    for (uint32_t i = 0; i < nlanes; i++) {
        struct tt_tcp_lane *lane = &link->lanes[i];

        lane->buffer = malloc(TT_TCP_BUFFER_BYTES);
        if (!lane->buffer || !queue_init(&lane->queues[TT_TCP_BULK], TT_TCP_QUEUE_DEPTH))
            return false;
    }
    if (!queue_init(&link->lanes[0].queues[TT_TCP_REPLY], TT_TCP_REPLIES))
        return false;
    if (nlanes > 1) {
        link->window = calloc(TT_TCP_WINDOW, sizeof *link->window);
        if (!link->window || !queue_init(&link->lanes[0].queues[TT_TCP_URGENT], TT_TCP_QUEUE_DEPTH))
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
    lane->queued_bytes = 0;
    lane->begun = false;
}

static void link_free(struct tt_tcp_link *link)
{
    for (uint32_t i = 0; i < link->nlanes; i++) {
        lane_clear(&link->lanes[i]);
        for (int c = 0; c < TT_TCP_CLASSES; c++)
            free(link->lanes[i].queues[c].ring);
        free(link->lanes[i].buffer);
    }
    free(link->lanes);
    free(link->window);
    free(link->mine);
    free(link->inline_ring);
    free(link->remotes);
    free(link);
}

static void news(struct tt_tcp_link *link)
{
    struct tt_tcp *t = link->tcp;

    if (link->tell_up || link->tell_lost)
        return;     /* listed already */
    link->next_news = NULL;
    *t->news_end = link;
    t->news_end = &link->next_news;
}

static void lane_close(struct tt_tcp_lane *lane)
{
    struct tt_tcp *t = lane->link->tcp;

    if (lane->fd < 0)
        return;
    close(lane->fd);
    lane->fd = -1;
    t->nblocked -= lane->blocked;
    lane->blocked = false;
    if (lane->region)
        lane->region->arriving--;
    lane->region = NULL;
    lane->target = NULL;
    lane->left = 0;
    for (uint32_t i = 0; i < t->nactive; i++)
        if (t->active[i] == lane)
            t->active[i] = t->active[--t->nactive];
    lane_clear(lane);
}

void tt_tcp_link_lose(struct tt_tcp_link *link, tutti_status status, const char *why)
{
    struct tt_tcp *t = link->tcp;

    if (link->state == TT_TCP_LOST)
        return;
    tt_log(status == TUTTI_ERR_PEER_LOST ? TT_LOG_INFO : TT_LOG_WARN, "tcp: the link to rank %u is lost: %s", link->peer, why);
    for (uint32_t i = 0; i < link->nlanes; i++)
        lane_close(&link->lanes[i]);
    for (struct tt_tcp_greeting *g = t->greetings; g; g = g->next)
        if (g->link == link && g->state != OVER)
            greeting_end(g);
    t->reserved -= link->owed;
    link->owed = 0;
    link->state = TT_TCP_LOST;
    link->status = status;
    news(link);
    link->tell_lost = true;
}

void tt_tcp_links_close(struct tt_tcp *t)
{
    while (t->greetings) {
        struct tt_tcp_greeting *g = t->greetings;

        t->greetings = g->next;
        greeting_end(g);
        free(g);
    }
    for (uint32_t i = 0; t->links && i < t->conf.nranks; i++) {
        struct tt_tcp_link *link = t->links[i];

        if (!link)
            continue;
        for (uint32_t k = 0; k < link->nlanes; k++)
            lane_close(&link->lanes[k]);
        link_free(link);
    }
}

/* The greeting's connection becomes the lane. */
static bool lane_adopt(struct tt_tcp_lane *lane, struct tt_tcp_greeting *g)
{
    struct tt_tcp *t = g->tcp;
    struct tt_tcp_lane **grown;

    if (t->nactive == t->active_depth) {
        grown = realloc(t->active, (2 * t->active_depth + 8) * sizeof *grown);
        if (!grown)
            return false;
        t->active = grown;
        t->active_depth = 2 * t->active_depth + 8;
    }
    if (!watch(t, g->fd, EPOLLIN, lane))
        return false;
    socket_tune(g->fd, lane->link->nlanes > 1);
    lane->fd = g->fd;
    t->active[t->nactive++] = lane;
    g->fd = -1;
    set_state(g, OVER, TT_NEVER);
    return true;
}

static bool greeting_welcome(struct tt_tcp_greeting *g)
{
    if (!greeting_say(g, TT_WELCOME, g->tcp->conf.lanes))
        return false;
    set_state(g, WELCOMED, TT_NEVER);
    return true;
}

static void lanes_open(struct tt_tcp_link *link);

/* The first lane is agreed: the link is up. Whatever else was tried for it is over, and lanes that came early are answered. */
static void link_establish(struct tt_tcp_link *link, struct tt_tcp_greeting *g)
{
    struct tt_tcp *t = link->tcp;
    const uint32_t lanes = g->hello.lanes < t->conf.lanes ? g->hello.lanes : t->conf.lanes;
    const bool ours = is_ours(g);

    link->nonce = g->hello.nonce;
    link->theirs_bytes = g->hello.link_bytes;
    if (!link_furnish(link, lanes) || !lane_adopt(&link->lanes[0], g)) {
        tt_tcp_link_lose(link, tt_fail(TUTTI_ERR_NOMEM, "tcp: no memory for the link to rank %u", link->peer), "no memory");
        return;
    }
    link->state = TT_TCP_UP;
    news(link);
    link->tell_up = true;

    for (struct tt_tcp_greeting *o = t->greetings; o; o = o->next) {
        if (o->link != link || o->state == OVER)
            continue;
        if (o->lane == 0 || o->state != STANDBY || o->lane >= lanes || o->hello.nonce != link->nonce || !greeting_welcome(o))
            greeting_end(o);
    }
    if (ours)
        lanes_open(link);
}

/* ---- our attempts ---- */

/* Link-local addresses mean something only together with an interface: the first of ours that has one. */
static uint32_t scope_of(const struct tt_tcp *t, const struct tt_tcp_endpoint *e)
{
    if (e->family != 6 || e->ip[0] != 0xfe || (e->ip[1] & 0xc0) != 0x80)
        return 0;
    for (size_t i = 0; i < t->nifaddrs; i++)
        if (t->ifaddrs[i].link_local)
            return t->ifaddrs[i].index;
    return 0;
}

static socklen_t endpoint_sockaddr(const struct tt_tcp *t, const struct tt_tcp_endpoint *e, uint16_t port,
                                   struct sockaddr_storage *out)
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
    v6->sin6_scope_id = scope_of(t, e);
    return sizeof *v6;
}

/* Starts connecting to the link's current candidate. */
static void attempt_start(struct tt_tcp_greeting *g)
{
    struct tt_tcp_link *link = g->link;
    const struct tt_tcp_endpoint *e = &link->address.endpoints[link->order[link->candidate]];
    struct sockaddr_storage to;
    const socklen_t bytes = endpoint_sockaddr(g->tcp, e, link->address.port, &to);

    g->have = 0;
    set_state(g, CONNECTING, tt_now_ns() + CONNECT_NS);
    g->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (g->fd < 0) {
        tt_log(TT_LOG_WARN, "tcp: no socket to connect to rank %u: %s", link->peer, strerror(errno));
    } else if (connect(g->fd, (struct sockaddr *)&to, bytes) == 0 || errno == EINPROGRESS) {
        if (watch(g->tcp, g->fd, EPOLLOUT, g))
            return;
    }
    attempt_failed(g);
}

/* The greeting for the link's first lane in a state from..to; NULL if there is none. */
static struct tt_tcp_greeting *greeting_of(const struct tt_tcp_link *link, enum greeting_state from, enum greeting_state to)
{
    for (struct tt_tcp_greeting *g = link->tcp->greetings; g; g = g->next)
        if (g->link == link && g->lane == 0 && g->state >= from && g->state <= to)
            return g;
    return NULL;
}

/* Our attempts are used up: a connection of the peer's own may stand by or await CONFIRM; else the peer cannot be reached. */
static void attempts_over(struct tt_tcp_greeting *g)
{
    struct tt_tcp_link *link = g->link;
    struct tt_tcp_greeting *other = greeting_of(link, STANDBY, WELCOMED);

    greeting_end(g);
    if (g->lane > 0) {
        tt_log(TT_LOG_INFO, "tcp: lane %u to rank %u could not be opened", g->lane, link->peer);
        return;
    }
    if (other && (other->state == WELCOMED || greeting_welcome(other)))
        return;
    tt_tcp_link_lose(link, TUTTI_ERR_PEER_LOST, "none of its addresses connects");
}

/* The candidate is not it: on to the next, after all of them with a pause. */
static void attempt_failed(struct tt_tcp_greeting *g)
{
    struct tt_tcp_link *link = g->link;

    if (g->fd >= 0)
        close(g->fd);
    g->fd = -1;
    if (++link->failures >= ROUNDS_MAX * link->ncandidates) {
        attempts_over(g);
        return;
    }
    if (g->lane > 0) {      /* the address is known to be right */
        set_state(g, PAUSED, tt_now_ns() + PAUSE_NS);
        return;
    }
    link->candidate = (uint8_t)((link->candidate + 1) % link->ncandidates);
    set_state(g, PAUSED, tt_now_ns() + (link->candidate == 0 ? PAUSE_NS : 0));
}

/* It is connected but says nothing: it may be somebody else, or a peer that is busy. So the next candidate gets its turn, each
 * time around with more patience; this never counts as failure. */
static void attempt_silent(struct tt_tcp_greeting *g)
{
    g->link->failures = 0;
    g->link->patience++;
    attempt_failed(g);
}

/* Connected: say HELLO and wait. With nothing else to try we wait for as long as whoever asked for the link. */
static void attempt_connected(struct tt_tcp_greeting *g)
{
    struct tt_tcp_link *link = g->link;
    const uint32_t doublings = link->patience / link->ncandidates;
    const bool choice = g->lane == 0 && (link->ncandidates > 1 || greeting_of(link, STANDBY, STANDBY));
    int err = 0;
    socklen_t bytes = sizeof err;

    if (getsockopt(g->fd, SOL_SOCKET, SO_ERROR, &err, &bytes) != 0 || err != 0 || !watch(g->tcp, g->fd, EPOLLIN, g)) {
        attempt_failed(g);
        return;
    }
    socket_tune(g->fd, false);
    set_state(g, SAID_HELLO, choice ? tt_now_ns() + (WELCOME_NS << (doublings < 6 ? doublings : 6)) : TT_NEVER);
    if (!greeting_say(g, TT_HELLO, g->tcp->conf.lanes))
        attempt_failed(g);
}

static void attempt_heard(struct tt_tcp_greeting *g)
{
    struct tt_tcp_link *link = g->link;
    const enum heard heard = greeting_hear(g, TT_WELCOME);

    if (heard == HEARD_NOTHING)
        return;
    if (heard == HEARD_ENOUGH || g->hello.nonce != link->nonce || !greeting_say(g, TT_CONFIRM, g->tcp->conf.lanes)) {
        attempt_failed(g);
        return;
    }
    if (g->lane == 0)
        link_establish(link, g);
    else if (link->lanes[g->lane].fd >= 0 || !lane_adopt(&link->lanes[g->lane], g))
        greeting_end(g);
}

static void attempt_open(struct tt_tcp_link *link, uint32_t lane)
{
    struct tt_tcp_greeting *g = greeting_create(link->tcp, link, lane);

    if (g)
        attempt_start(g);
}

/* The initiator opens what is missing to the number of lanes that was agreed. */
static void lanes_open(struct tt_tcp_link *link)
{
    link->failures = 0;
    for (uint32_t lane = 1; lane < link->nlanes; lane++)
        attempt_open(link, lane);
}

static bool is_loopback_endpoint(const struct tt_tcp_endpoint *e)
{
    static const uint8_t one[16] = { [15] = 1 };

    return e->family == 4 ? e->ip[0] == 127 : memcmp(e->ip, one, 16) == 0;
}

/* How good a candidate is, 0 best; -1: not at all. */
static int merit(const struct tt_tcp *t, const struct tt_tcp_address *a, const struct tt_tcp_endpoint *e)
{
    const int family = e->family == 4 ? AF_INET : AF_INET6;
    const bool here = a->host == t->host;
    bool near = false;

    if (is_loopback_endpoint(e))
        return here ? 0 : -1;
    for (size_t i = 0; i < t->nifaddrs; i++) {
        if (!here && t->ifaddrs[i].family == family && memcmp(t->ifaddrs[i].ip, e->ip, e->family == 4 ? 4 : 16) == 0)
            return -1;      /* our own address, elsewhere: a bridge that every host has */
        near |= tt_ifaddr_near(&t->ifaddrs[i], family, e->ip);
    }
    return near ? 1 : 2;
}

static void rank_candidates(struct tt_tcp_link *link)
{
    const struct tt_tcp_address *a = &link->address;

    link->ncandidates = 0;
    for (int want = 0; want <= 2; want++)
        for (uint8_t i = 0; i < a->count; i++)
            if (merit(link->tcp, a, &a->endpoints[i]) == want)
                link->order[link->ncandidates++] = i;
}

tutti_status tt_tcp_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    struct tt_tcp *t = tt_tcp_of(w);
    struct tt_tcp_link *link;
    struct tt_tcp_address parsed;

    if (peer >= t->conf.nranks || peer == t->conf.rank)
        return tt_fail(TUTTI_ERR_INVALID, "tcp: rank %u of %u cannot connect to rank %u", t->conf.rank, t->conf.nranks, peer);
    if (!tt_tcp_address_read(&parsed, address))
        return TUTTI_ERR_UNSUPPORTED;
    link = t->links[peer];
    if (link && (link->state != TT_TCP_OPENING || link->asked))
        return TUTTI_OK;
    if (!link)
        link = link_create(t, peer);
    if (!link)
        return tt_fail(TUTTI_ERR_NOMEM, "tcp: no memory for a link to rank %u", peer);
    link->address = parsed;
    rank_candidates(link);
    if (link->ncandidates == 0)
        return TUTTI_ERR_UNSUPPORTED;
    link->asked = true;
    attempt_open(link, 0);
    return TUTTI_OK;
}

/* ---- their attempts ---- */

/* The peer has another try: its earlier ones for this lane are dead, whether we have noticed or not. */
static void end_earlier(const struct tt_tcp_greeting *g)
{
    for (struct tt_tcp_greeting *o = g->tcp->greetings; o; o = o->next)
        if (o != g && o->link == g->link && o->lane == g->lane && o->state > PAUSED && o->state != OVER)
            greeting_end(o);
}

/* A HELLO for the first lane. */
static bool link_hello(struct tt_tcp_greeting *g)
{
    struct tt_tcp *t = g->tcp;
    struct tt_tcp_greeting *ours = greeting_of(g->link, CONNECTING, PAUSED);

    if (g->link->state != TT_TCP_OPENING)
        return false;
    end_earlier(g);
    if (ours && t->conf.rank < g->link->peer) {
        if (ours->state == SAID_HELLO) {
            set_state(g, STANDBY, TT_NEVER);
            if (ours->deadline_ns == TT_NEVER)
                ours->deadline_ns = tt_now_ns() + WELCOME_NS;
            return true;
        }
        greeting_end(ours);     /* nothing was said yet */
    }
    return greeting_welcome(g);
}

/* A HELLO for a further lane; it may come before the first lane's CONFIRM. */
static bool lane_hello(struct tt_tcp_greeting *g)
{
    const struct tt_tcp_link *link = g->link;

    end_earlier(g);
    if (link->state == TT_TCP_OPENING) {
        set_state(g, STANDBY, tt_now_ns() + STRANGER_NS);
        return true;
    }
    return link->state == TT_TCP_UP && g->lane < link->nlanes && link->lanes[g->lane].fd < 0 &&
           g->hello.nonce == link->nonce && greeting_welcome(g);
}

static void stranger_heard(struct tt_tcp_greeting *g)
{
    struct tt_tcp *t = g->tcp;
    const enum heard heard = greeting_hear(g, TT_HELLO);
    const struct tt_hello *h = &g->hello;
    bool good;

    if (heard == HEARD_NOTHING)
        return;
    if (heard == HEARD_ENOUGH) {
        tt_log(TT_LOG_INFO, "tcp: dropped a connection that is none of this job's");
        greeting_end(g);
        return;
    }
    g->lane = h->lane;
    g->link = t->links[h->from] ? t->links[h->from] : link_create(t, h->from);
    good = g->link && (g->lane == 0 ? link_hello(g) : lane_hello(g));
    if (!good)
        greeting_end(g);
}

/* Ours may have made way for a connection that came to nothing. */
static void attempt_again(struct tt_tcp_link *link)
{
    if (link->state != TT_TCP_OPENING || !link->asked || greeting_of(link, CONNECTING, WELCOMED))
        return;
    link->failures = 0;
    attempt_open(link, 0);
}

static void welcomed_heard(struct tt_tcp_greeting *g)
{
    struct tt_tcp_link *link = g->link;
    const uint64_t nonce = g->hello.nonce;
    const enum heard heard = greeting_hear(g, TT_CONFIRM);
    const bool up = link->state == TT_TCP_UP;

    if (heard == HEARD_NOTHING)
        return;
    if (heard == HEARD_ENOUGH || g->hello.nonce != nonce || link->state == TT_TCP_LOST || up != (g->lane > 0)) {
        greeting_end(g);
        attempt_again(link);
    } else if (g->lane == 0) {
        link_establish(link, g);
    } else if (link->lanes[g->lane].fd >= 0 || !lane_adopt(&link->lanes[g->lane], g)) {
        greeting_end(g);
    }
}

/* While it waits only its end can be news. */
static void standby_heard(struct tt_tcp_greeting *g)
{
    char byte;
    const ssize_t n = recv(g->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

    if (n >= 0 || (errno != EAGAIN && errno != EINTR))
        greeting_end(g);
}

void tt_tcp_greeting_step(struct tt_tcp_greeting *g)
{
    switch (g->state) {
    case CONNECTING:
        attempt_connected(g);
        break;
    case SAID_HELLO:
        attempt_heard(g);
        break;
    case STRANGER:
        stranger_heard(g);
        break;
    case STANDBY:
        standby_heard(g);
        break;
    case WELCOMED:
        welcomed_heard(g);
        break;
    case PAUSED:
    case OVER:
        break;
    }
}

void tt_tcp_accept(struct tt_tcp *t)
{
    for (int i = 0; i < STRANGERS_MAX; i++) {
        const int fd = accept4(t->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct tt_tcp_greeting *g;

        if (fd < 0)
            break;
        for (g = t->greetings; g && t->nstrangers >= STRANGERS_MAX; g = g->next)
            if (g->state == STRANGER)
                greeting_end(g);
        g = greeting_create(t, NULL, 0);
        if (!g || !watch(t, fd, EPOLLIN, g)) {
            close(fd);
            continue;
        }
        g->fd = fd;
        set_state(g, STRANGER, tt_now_ns() + STRANGER_NS);
        tt_tcp_greeting_step(g);    /* most have said it already */
    }
}

/* ---- time ---- */

static void greeting_expire(struct tt_tcp_greeting *g)
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

void tt_tcp_greetings_expire(struct tt_tcp *t, uint64_t now_ns)
{
    struct tt_tcp_greeting **at = &t->greetings;

    for (struct tt_tcp_greeting *g = t->greetings; g; g = g->next)
        if (g->deadline_ns <= now_ns)
            greeting_expire(g);
    while (*at) {
        struct tt_tcp_greeting *g = *at;

        if (g->state == OVER) {
            *at = g->next;
            free(g);
        } else {
            at = &g->next;
        }
    }
}

uint64_t tt_tcp_greetings_deadline(const struct tt_tcp *t)
{
    uint64_t deadline_ns = TT_NEVER;

    for (const struct tt_tcp_greeting *g = t->greetings; g; g = g->next)
        if (g->deadline_ns < deadline_ns)
            deadline_ns = g->deadline_ns;
    return deadline_ns;
}
