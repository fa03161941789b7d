/* Control connections to the other members. They carry messages separately from the data, and show
 * whether two members can reach each other. The member with the lower id connects. If it cannot
 * reach the other one (e.g. behind NAT), the other one tries, too. A lost connection is
 * re-established; a member is suspected only if that fails for a whole lease. If the member's host
 * refuses connections, its process has ended. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/prng.h"
#include "session/run.h"

#define AUTH_NS (5 * TT_SECOND)        /* timeout for connection and authentication */
/* interval between attempts, after all addresses were tried */
#define RETRY_NS (20 * TT_MS)
/* delay after which the next address is tried in parallel */
#define PARALLEL_NS (250 * TT_MS)
#define QUEUE_BYTES (1u << 20)
/* maximum size of a message of an authenticated member */
#define FRAME_BYTES (TT_TRANSFER_HEAD_BYTES + TT_TRANSFER_PIECE_BYTES)
/* messages handled of one connection before others are served: an array may have many pieces */
#define MESSAGES_AT_ONCE 8
#define CHUNKS_AT_ONCE 16               /* chunks of a measurement sent before others are served */
/* maximum connections to one member: each end may open one, and a second one before it detects that
 * the first is broken */
#define CONNS_OF_ONE 4

_Static_assert(FRAME_BYTES >= TT_MESSAGE_BYTES_MAX && FRAME_BYTES < QUEUE_BYTES / 4 * 3,
               "a piece leaves room for other messages");

/* ---- wanted members -------------------------------------------------------------------------- */

static struct tt_peer_link *peer_create(tutti_run *run, uint64_t id)
{
    struct tt_peer_link *p = calloc(1, sizeof *p);

    if (!p) {
        tt_log(TT_LOG_WARN, "cannot connect to member %llu: out of memory", (unsigned long long)id);
        return NULL;
    }
    p->id = id;
    p->away_ns = p->suspect_ns = p->try_ns = TT_NEVER;
    p->next = run->peers;
    run->peers = p;
    return p;
}

static void peer_want(tutti_run *run, const struct tt_surroundings_seat *seat, uint64_t now_ns)
{
    const uint64_t patience_ns = run->m.lease_ns / 4;
    struct tt_peer_link *p = tt_peers_find(run, seat->id);

    if (seat->id == run->m.id || (!p && !(p = peer_create(run, seat->id))))
        return;
    if (p->wanted)
        return;
    p->wanted = true;
    if (!tt_member_card_read(&p->card, &seat->card))
        tt_log(TT_LOG_WARN, "invalid address record of member %llu", (unsigned long long)p->id);
    p->place = tt_mark_find(p->card.mark);
    if (p->conn)
        return;
    p->away_ns = now_ns;
    p->suspect_ns = now_ns + run->m.lease_ns;
    p->try_ns = run->m.id < p->id ? now_ns : now_ns + patience_ns;
}

/* Releases the connection's slot for unauthenticated peers. */
static void end_unauthenticated(tutti_run *run, struct tt_peer_conn *c)
{
    run->nstrangers -= c->stranger;
    c->stranger = false;
}

static void peer_unwant(tutti_run *run, struct tt_peer_link *p)
{
    if (!p->wanted)
        return;
    p->wanted = false;
    p->away_ns = p->suspect_ns = p->try_ns = TT_NEVER;
    p->has_offer = false;
    for (struct tt_peer_conn *c = run->conns; c; c = c->next)
        if (c->peer == p)
            tt_peer_conn_end(c);
}

void tt_peers_update(tutti_run *run, uint64_t now_ns)
{
    const struct tt_member *m = &run->m;

    for (uint32_t i = 0; i < m->nranks; i++)
        peer_want(run, &m->view[i], now_ns);
    for (uint32_t i = 0; run->reach && i < m->nproposed; i++)
        peer_want(run, &m->proposed[i], now_ns);
    for (struct tt_peer_link *p = run->peers; p; p = p->next) {
        bool wanted = false;

        for (uint32_t i = 0; i < m->nranks && !wanted; i++)
            wanted = m->view[i].id == p->id;
        for (uint32_t i = 0; run->reach && i < m->nproposed && !wanted; i++)
            wanted = m->proposed[i].id == p->id;
        if (!wanted && !run->reach) /* the same members may be proposed again */
            peer_unwant(run, p);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Serves the next request when the previous piece has been passed to the kernel. Thus other
 * messages wait for one piece at most. */
static void serve_requests(tutti_run *run, struct tt_peer_link *p)
{
    struct tt_peer_requests *q = p->requests;

    while (q && q->n > 0 && p->conn && !p->conn->dead && tt_channel_queued(p->conn->channel) == 0) {
        const struct tt_peer_request *r = &q->ring[q->first];

        q->first = (q->first + 1) % TT_RUN_REQUESTS;
        q->n--;
        if (!tt_state_receive(run, p->id, r->data, r->bytes))
            tt_peer_conn_end(p->conn);
    }
    for (int n = 0; p->conn && !p->conn->dead && tt_channel_queued(p->conn->channel) == 0; n++) {
        p->conn->more |= n == CHUNKS_AT_ONCE;
        if (p->conn->more || !tt_measure_room(run, p->id))
            return;
        tt_peer_conn_set_unsent(p->conn, tt_measure_unsent(run, p->id));
    }
}

/* Queues a request. Requests beyond the limit are dropped; the member will then request the data
 * from another holder. */
static bool queue_request(struct tt_peer_link *p, const void *data, size_t bytes)
{
    struct tt_peer_requests *q = p->requests;
    struct tt_peer_request *r;

    if (bytes > sizeof r->data)
        return false;
    if (!q)
        q = p->requests = calloc(1, sizeof *q);
    if (!q || q->n == TT_RUN_REQUESTS)
        return true;
    r = &q->ring[(q->first + q->n++) % TT_RUN_REQUESTS];
    r->bytes = (uint8_t)bytes;
    memcpy(r->data, data, bytes);
    return true;
}

/* ---- authentication -------------------------------------------------------------------------- */

static void send_identity(tutti_run *run, struct tt_peer_conn *c)
{
    struct tt_message s = { .kind = TT_MESSAGE_HELLO, .id = run->m.id };

    tt_random_bytes(c->own.nonce, sizeof c->own.nonce);
    c->own.id = run->m.id;
    memcpy(s.nonce, c->own.nonce, sizeof s.nonce);
    tt_peer_conn_send(run, c, &s);
}

static void send_proof(tutti_run *run, struct tt_peer_conn *c)
{
    struct tt_message s = { .kind = TT_MESSAGE_PROOF };

    tt_message_prove(s.proof, run->m.secret, c->connects, &c->own, &c->other);
    tt_peer_conn_send(run, c, &s);
}

/* Closes the oldest connections of the member beyond the limit. Any of the latest ones may be
 * the one in use at the other end. */
static void conns_end_oldest(tutti_run *run, const struct tt_peer_link *p)
{
    uint32_t n = 0;

    for (struct tt_peer_conn *c = run->conns; c; c = c->next)
        if (c->peer == p && c->proved && !c->dead && ++n > CONNS_OF_ONE)
            tt_peer_conn_end(c);
}

/* Both ends are authenticated. */
static void conn_authenticated(tutti_run *run, struct tt_peer_conn *c)
{
    struct tt_peer_link *p = tt_peers_find(run, c->other.id);

    end_unauthenticated(run, c);
    c->proved = true;
    c->give_up_ns = TT_NEVER;
    /* the member may connect before its proposal arrives */
    if (!p && !(p = peer_create(run, c->other.id))) {
        tt_peer_conn_end(c);
        return;
    }
    c->peer = p;
    conns_end_oldest(run, p);
    p->conn = c;
    if (p->trying == c)
        p->trying = NULL;
    if (p->was_there)
        run->stats.cuts++;
    p->was_there = true;
    p->away_ns = p->suspect_ns = p->try_ns = TT_NEVER;
    tt_channel_allow(c->channel, FRAME_BYTES);
    if (run->offered)
        tt_peer_conn_send(run, c, &run->offer);
    tt_state_connected(run, p->id);
    tt_measure_connected(run, p->id);
}

static bool handle_identity(tutti_run *run, struct tt_peer_conn *c, const struct tt_message *s)
{
    if (c->greeted || s->id == run->m.id || (c->connects && s->id != c->peer->id))
        return false;
    c->greeted = true;
    c->other.id = s->id;
    memcpy(c->other.nonce, s->nonce, sizeof c->other.nonce);
    send_proof(run, c);
    return true;
}

static bool handle_proof(tutti_run *run, struct tt_peer_conn *c, const struct tt_message *s)
{
    uint8_t expected[TT_MAC_BYTES];

    if (!c->greeted || c->proved)
        return false;
    tt_message_prove(expected, run->m.secret, !c->connects, &c->other, &c->own);
    if (!tt_mac_equal(expected, s->proof))
        return false;
    conn_authenticated(run, c);
    return true;
}

/* Handles a message. False: protocol violation. */
static bool peer_handle_message(tutti_run *run, struct tt_peer_conn *c, const void *data,
                                size_t bytes)
{
    struct tt_message s;

    if (tt_survey_is_mine(data, bytes))
        return c->proved && tt_measure_receive(run, c->peer->id, data, bytes);
    if (tt_transfer_is_mine(data, bytes))
        return c->proved && (tt_transfer_is_request(data, bytes)
                                 ? queue_request(c->peer, data, bytes)
                                 : tt_state_receive(run, c->peer->id, data, bytes));
    if (!tt_message_read(&s, data, bytes))
        return false;
    if (s.kind == TT_MESSAGE_HELLO)
        return handle_identity(run, c, &s);
    if (s.kind == TT_MESSAGE_PROOF)
        return handle_proof(run, c, &s);
    if (!c->proved)
        return false;
    if (s.kind == TT_MESSAGE_OFFER) {
        if (!c->peer->has_offer || s.epoch >= c->peer->offer.epoch) {
            c->peer->offer = s;
            c->peer->has_offer = true;
        }
        pthread_cond_broadcast(&run->changed);
    } else {
        tt_view_comms_failed(run, &s);
    }
    return true;
}

/* ---- connections ---- */

static struct tt_peer_conn *make_conn(tutti_run *run, struct tt_peer_link *p, int fd,
                                      uint64_t now_ns)
{
    struct tt_peer_conn *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    *c = (struct tt_peer_conn){ .peer = p,
                                .connects = p != NULL,
                                .fd = fd,
                                .give_up_ns = now_ns + AUTH_NS,
                                .next = run->conns };
    run->conns = c;
    return c;
}

/* The socket is connected: creates a channel, and sends the first message. */
static bool open_channel(tutti_run *run, struct tt_peer_conn *c)
{
    static const struct tt_channel_conf conf = { .frame_max = TT_MESSAGE_BYTES_MAX,
                                                 .queue_max = QUEUE_BYTES };
    struct tt_stream *stream;

    tt_peer_conn_set_unsent(c, TT_PEER_UNSENT_BYTES);
    if (tt_stream_create(&stream, run->secure, c->fd,
                         c->connects ? TT_STREAM_CONNECTS : TT_STREAM_ACCEPTS))
        return false;
    if (tt_channel_create(&c->channel, stream, &conf)) {
        tt_poller_unwatch(run, c->fd);
        tt_stream_destroy(stream);
        c->fd = -1;
        return false;
    }
    send_identity(run, c);
    return true;
}

static bool is_in_view(const tutti_run *run, const struct tt_peer_link *p)
{
    return tt_run_rank_of(run, p->id) != UINT32_MAX;
}

/* Handles a failed attempt to connect. A member that was connected before listens as long as it
 * runs. If each of its addresses refuses connections, its process has ended. */
static void connect_failed(tutti_run *run, struct tt_peer_link *p, int err, uint64_t now_ns)
{
    struct tt_address at[TT_CARD_ADDRESSES];

    p->refusals = err == ECONNREFUSED ? p->refusals + 1 : 0;
    if (!p->was_there ||
        p->refusals < tt_member_card_candidates(&run->card, &p->card, p->place, at) ||
        now_ns < p->gone_ns)
        return;
    p->gone_ns = now_ns + run->m.lease_ns / 4;
    if (is_in_view(run, p))
        tt_member_unreachable(&run->m, p->id, now_ns);
}

static void try_address(tutti_run *run, struct tt_peer_link *p, uint64_t now_ns)
{
    struct tt_address at[TT_CARD_ADDRESSES];
    const size_t n = tt_member_card_candidates(&run->card, &p->card, p->place, at);
    int fd;

    if (n == 0) {
        p->try_ns = TT_NEVER;
        return;
    }
    fd = tt_connect_begin(&at[p->address % n]);
    p->address++;
    p->try_ns = now_ns + (p->address % n == 0 ? RETRY_NS : 0);
    if (fd < 0) {
        connect_failed(run, p, errno, now_ns);
        return;
    }
    p->trying = make_conn(run, p, fd, now_ns);
    if (!p->trying) {
        close(fd);
        return;
    }
    p->beside_ns = p->address % n == 0 ? TT_NEVER : now_ns + PARALLEL_NS;
    p->trying->events = EPOLLOUT;
    if (!tt_poller_watch(run, fd, EPOLLOUT, p->trying))
        tt_peer_conn_end(p->trying);
}

/* Returns the remote address, IPv4 mapped to IPv6, or zeros if the peer has already
 * disconnected. */
static void find_origin(int fd, uint8_t origin[16])
{
    struct sockaddr_storage at = { 0 };
    socklen_t bytes = sizeof at;

    memset(origin, 0, 16);
    if (getpeername(fd, (struct sockaddr *)&at, &bytes) != 0)
        return;
    if (at.ss_family == AF_INET6) {
        memcpy(origin, &((const struct sockaddr_in6 *)&at)->sin6_addr, 16);
    } else if (at.ss_family == AF_INET) {
        origin[10] = origin[11] = 0xff;
        memcpy(origin + 12, &((const struct sockaddr_in *)&at)->sin_addr, 4);
    }
}

static uint32_t peers_count_unauthenticated(const tutti_run *run, const uint8_t origin[16])
{
    uint32_t n = 0;

    for (const struct tt_peer_conn *c = run->conns; c; c = c->next)
        n += c->stranger && memcmp(c->origin, origin, sizeof c->origin) == 0;
    return n;
}

/* Closes an unauthenticated connection if there are too many: the oldest one of the address with
 * the most. Thus a flood from one address does not affect others. At the same address it affects
 * only idle connections, since a member authenticates itself before that many other connections
 * arrive. */
static void peers_limit_unauthenticated(tutti_run *run)
{
    struct tt_peer_conn *worst = NULL;
    uint32_t most = 0;

    if (run->nstrangers < TT_RUN_STRANGERS)
        return;
    for (struct tt_peer_conn *c = run->conns; c; c = c->next) { /* from the newest to the oldest */
        const uint32_t n = c->stranger ? peers_count_unauthenticated(run, c->origin) : 0;

        if (n > 0 && n >= most) {
            most = n;
            worst = c;
        }
    }
    end_unauthenticated(run, worst);
    tt_peer_conn_end(worst);
}

/* Accepts at most TT_RUN_STRANGERS connections per pass, because closed ones are freed only at its
 * end. */
void tt_peers_accept(tutti_run *run, uint64_t now_ns)
{
    for (uint32_t i = 0; i < TT_RUN_STRANGERS; i++) {
        const int fd = tt_accept(&run->acceptor);
        struct tt_peer_conn *c;

        if (fd < 0)
            break;
        c = run->m.id != 0 ? make_conn(run, NULL, fd, now_ns) : NULL;
        if (!c) {
            close(fd); /* the peer will retry */
            continue;
        }
        peers_limit_unauthenticated(run);
        c->stranger = true;
        find_origin(fd, c->origin);
        run->nstrangers++;
        c->events = EPOLLIN;
        if (!tt_poller_watch(run, fd, EPOLLIN, c) || !open_channel(run, c))
            tt_peer_conn_end(c);
    }
}

void tt_peers_event(tutti_run *run, struct tt_peer_conn *c)
{
    const void *data;
    size_t bytes;
    int got;

    c->more = false;
    if (c->dead)
        return;
    if (!c->channel) {
        const int err = tt_connect_result(c->fd);

        if (err)
            connect_failed(run, c->peer, err, tt_now_ns());
        /* another attempt was faster */
        if (err || (c->peer->conn && c->peer->trying != c) || !open_channel(run, c)) {
            tt_peer_conn_end(c);
            return;
        }
        c->peer->refusals = 0;
    }
    if (c->dead)
        return;
    got = tt_channel_flush(c->channel);
    c->more = false;
    for (int n = 0; got >= 0 && !c->dead && !c->more; n++) {
        c->more = n == MESSAGES_AT_ONCE;
        if (c->more || (got = tt_channel_next(c->channel, &data, &bytes)) == 0)
            break;
        if (got > 0 && !peer_handle_message(run, c, data, bytes))
            got = -EPROTO;
    }
    if (got < 0)
        tt_peer_conn_end(c);
    if (c->peer && c->proved)
        serve_requests(run, c->peer);
    if (!c->dead)
        tt_peer_conn_update_events(run, c);
}

/* Frees closed connections, and schedules new attempts to connect to their members. */
void tt_peers_settle(tutti_run *run)
{
    const uint64_t now_ns = tt_now_ns();

    for (struct tt_peer_conn **at = &run->conns, *c; (c = *at);) {
        struct tt_peer_link *p = c->peer;

        if (!c->dead) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        end_unauthenticated(run, c);
        if (c->channel) {
            tt_poller_unwatch(run, tt_stream_fd(tt_channel_stream(c->channel)));
            tt_channel_destroy(c->channel);
        } else if (c->fd >= 0) {
            tt_poller_unwatch(run, c->fd);
            close(c->fd);
        }
        if (p && p->trying == c)
            p->trying = NULL;
        if (p && p->conn == c) {
            p->conn = NULL;
            if (p->wanted) {
                p->away_ns = now_ns;
                p->suspect_ns = now_ns + run->m.lease_ns;
                /* if it has not reconnected by then */
                p->try_ns = run->m.id < p->id ? now_ns : now_ns + RETRY_NS;
                p->refusals = 0;
                p->gone_ns = now_ns;
            }
        }
        free(c);
    }
    for (struct tt_peer_link **at = &run->peers, *p; (p = *at);)
        if (!p->wanted && !p->conn && !p->trying) {
            *at = p->next;
            free(p->requests);
            free(p);
        } else {
            at = &p->next;
        }
}

/* ---- reachability ---------------------------------------------------------------------------- */

static void answer_if_reached(tutti_run *run, uint64_t now_ns)
{
    uint64_t failed[TT_ELASTIC_MEMBERS_MAX];
    const uint64_t proposal = run->reach;
    uint32_t n = 0;

    for (uint32_t i = 0; i < run->m.nproposed; i++) {
        const struct tt_peer_link *p = tt_peers_find(run, run->m.proposed[i].id);

        if (run->m.proposed[i].id != run->m.id && (!p || !p->conn))
            failed[n++] = run->m.proposed[i].id;
    }
    if (n > 0 && now_ns < run->reach_ns)
        return;
    run->reach = 0;
    tt_member_reached(&run->m, proposal, failed, n, now_ns);
}

void tt_peers_reach(tutti_run *run, uint64_t now_ns)
{
    run->reach = run->m.proposal;
    run->reach_ns = now_ns + run->m.lease_ns / 4 * 3;
    tt_peers_update(run, now_ns);
    tt_run_wake(run);
}

static void report_suspect(tutti_run *run, struct tt_peer_link *p, uint64_t now_ns)
{
    p->suspect_ns = now_ns + run->m.lease_ns;
    if (is_in_view(run, p))
        tt_member_suspect(&run->m, p->id, now_ns);
}

void tt_peers_tick(tutti_run *run, uint64_t now_ns)
{
    for (struct tt_peer_conn *c = run->conns; c; c = c->next) {
        if (!c->dead && !c->proved && now_ns >= c->give_up_ns)
            tt_peer_conn_end(c);
        else if (c->more)
            tt_peers_event(run, c);
    }
    for (struct tt_peer_link *p = run->peers; p; p = p->next) {
        if (p->trying && !p->trying->channel && now_ns >= p->beside_ns)
            p->trying = NULL; /* the attempt continues in parallel */
        if (p->wanted && !p->conn && !p->trying && now_ns >= p->try_ns)
            try_address(run, p, now_ns);
        if (p->wanted && !p->conn && now_ns >= p->suspect_ns)
            report_suspect(run, p, now_ns);
    }
    if (run->reach)
        answer_if_reached(run, now_ns);
}

static void sooner(uint64_t *least, uint64_t at_ns)
{
    if (at_ns < *least)
        *least = at_ns;
}

uint64_t tt_peers_next_ns(const tutti_run *run)
{
    uint64_t least = run->reach ? run->reach_ns : TT_NEVER;

    for (const struct tt_peer_conn *c = run->conns; c; c = c->next)
        sooner(&least, c->dead || c->more ? 0 : c->proved ? TT_NEVER : c->give_up_ns);
    for (const struct tt_peer_link *p = run->peers; p; p = p->next)
        if (p->wanted && !p->conn) {
            sooner(&least, p->suspect_ns);
            if (!p->trying)
                sooner(&least, p->try_ns);
            else if (!p->trying->channel)
                sooner(&least, p->beside_ns);
        }
    return least;
}

void tt_peers_close(tutti_run *run)
{
    for (struct tt_peer_link *p = run->peers; p; p = p->next)
        p->wanted = false;
    for (struct tt_peer_conn *c = run->conns; c; c = c->next)
        tt_peer_conn_end(c);
    tt_peers_settle(run);
}
