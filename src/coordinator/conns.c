/* Connections: strangers until they have joined, then members', then those that are told why and let go. What each may cost is bounded:
 *
 *   strangers   so many at once, each for so long; when there are too many, those of the address that has most of them go first
 *   addresses   so many connections a second, after a burst; more wait to be read
 *   members     so many messages a second, and bytes of them; more wait to be read. One that does not read what is sent to it is not
 *               read either, and ended when too much waits for it
 *   garbage     ends its connection, and nothing else */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/watched.h"
#include "coordinator/inside.h"

#define ACCEPTS_AT_ONCE 64
#define FRAMES_AT_ONCE 32
#define FRAME_MAX 65536u                                /* of one that has not joined: more than it can have to say */
#define QUEUE_MAX (2u * TT_ELMSG_BYTES_MAX + TT_ELMSG_OPS_BYTES_MAX + 65536u)   /* a proposal, a view, verdicts, and small ones */
#define CLOG_BYTES 262144u                              /* waiting for one that keeps talking */
#define UNIT_BYTES 256u                                 /* of a message cost as much as one more message */
#define UNITS_PER_S 10000u
#define UNITS_BURST 2000u
#define JOINS_PER_S 100u                                /* of one address, after as many as a run has members */
#define LEAVE_NS (2 * TT_SECOND)                        /* to read why it is let go */

/* ---- lists ---- */

static void move(struct tt_coordinator *c, struct tt_conn *conn, enum tt_conn_state to)
{
    TAILQ_REMOVE(&c->conns[conn->state], conn, place);
    c->counts[conn->state]--;
    conn->state = to;
    conn->since_ns = c->clock_ns;
    TAILQ_INSERT_TAIL(&c->conns[to], conn, place);
    c->counts[to]++;
}

static void wait_no_more(struct tt_coordinator *c, struct tt_conn *conn)
{
    if (conn->waits)
        TAILQ_REMOVE(&c->waiting, conn, waiting);
    conn->waits = false;
}

static void wait_until(struct tt_coordinator *c, struct tt_conn *conn, uint64_t at_ns)
{
    wait_no_more(c, conn);
    conn->waits = true;
    conn->again_ns = at_ns;
    TAILQ_INSERT_TAIL(&c->waiting, conn, waiting);
}

/* Ends it at once. */
static void end(struct tt_coordinator *c, struct tt_conn *conn)
{
    if (conn->state == TT_CONN_ENDED)
        return;
    wait_no_more(c, conn);
    move(c, conn, TT_CONN_ENDED);
}

/* The first whose handshake fails is told of without being asked for, as it may be a member that was set up wrongly; strangers cannot fill a log. */
static void refuse(struct tt_coordinator *c, struct tt_conn *conn, enum tt_snapshot_refusal why, const char *text)
{
    const bool first = c->chronicle.counters.refused[why]++ == 0 && why == TT_REFUSAL_STRANGER;

    tt_log(first ? TT_LOG_WARN : TT_LOG_INFO, "coordinator: closed the connection from %s: %s%s", conn->address, text,
           first ? "; further ones are only counted (TUTTI_LOG=info logs all)" : "");
    end(c, conn);
}

/* It ended with this errno, negative. */
static void end_for(struct tt_coordinator *c, struct tt_conn *conn, int err)
{
    const char *why = tt_stream_why(tt_channel_stream(conn->channel));

    if (err == -EPROTO && *why)
        refuse(c, conn, conn->state == TT_CONN_STRANGER ? TT_REFUSAL_STRANGER : TT_REFUSAL_GARBAGE, why);
    else if (err == -EPROTO)
        refuse(c, conn, TT_REFUSAL_GARBAGE, "invalid message framing");
    else if (err == -EMSGSIZE)
        refuse(c, conn, TT_REFUSAL_GARBAGE, "a message exceeds the maximum length");
    else if (err == -ENOBUFS)
        refuse(c, conn, TT_REFUSAL_UNREAD, "the peer does not receive its messages");
    else
        end(c, conn);
}

/* Watches for what is wanted now. */
static void watch(struct tt_coordinator *c, struct tt_conn *conn)
{
    struct epoll_event ev = { .data.ptr = conn };
    uint32_t wanted;

    if (conn->state == TT_CONN_ENDED)
        return;
    if (conn->state == TT_CONN_LEAVER)
        wanted = tt_channel_queued(conn->channel) > 0 ? EPOLLOUT : EPOLLIN;
    else
        wanted = tt_channel_wants(conn->channel) & ~(conn->waits || conn->clogged ? (uint32_t)EPOLLIN : 0u);
    if (wanted == conn->watched)
        return;
    ev.events = wanted;
    conn->watched = wanted;
    if (epoll_ctl(c->epoll, EPOLL_CTL_MOD, tt_stream_fd(tt_channel_stream(conn->channel)), &ev) != 0)
        end(c, conn);
}

/* ---- coming ---- */

/* The rate of connections of this address. Of more addresses than are remembered, the one goes that has paid longest ago. */
static struct tt_rate *rate_of(struct tt_coordinator *c, const uint8_t who[16])
{
    struct tt_origin *oldest = &c->origins[0];

    for (uint32_t i = 0; i < TT_ORIGINS; i++) {
        struct tt_origin *o = &c->origins[i];

        if (o->rate.each_ns > 0 && memcmp(o->who, who, sizeof o->who) == 0)
            return &o->rate;
        if (o->rate.spent_ns < oldest->rate.spent_ns)
            oldest = o;
    }
    memcpy(oldest->who, who, sizeof oldest->who);
    tt_rate_init(&oldest->rate, JOINS_PER_S, c->conf.members_max);
    return &oldest->rate;
}

static uint32_t strangers_of(const struct tt_coordinator *c, const uint8_t who[16])
{
    const struct tt_conn *conn;
    uint32_t n = 0;

    TAILQ_FOREACH(conn, &c->conns[TT_CONN_STRANGER], place)
    n += memcmp(conn->origin, who, sizeof conn->origin) == 0;
    return n;
}

/* Room for one more stranger: the oldest of the address with most goes, unless that is the newcomer's own. Looked for in the oldest 32,
 * so that a crowd does not make this long. */
static bool make_room(struct tt_coordinator *c, const uint8_t who[16])
{
    struct tt_conn *conn, *worst = NULL;
    uint32_t most = 0, looked = 0;

    if (c->counts[TT_CONN_STRANGER] < TT_STRANGERS_MAX)
        return true;
    TAILQ_FOREACH(conn, &c->conns[TT_CONN_STRANGER], place)
    {
        const uint32_t n = strangers_of(c, conn->origin);

        if (n > most) {
            most = n;
            worst = conn;
        }
        if (++looked == 32)
            break;
    }
    if (!worst || strangers_of(c, who) + 1 >= most) {
        c->chronicle.counters.refused[TT_REFUSAL_CROWD]++;
        return false;
    }
    refuse(c, worst, TT_REFUSAL_CROWD, "too many connections have not joined, most of them from this address");
    return true;
}

static struct tt_conn *conn_new(struct tt_coordinator *c, int fd)
{
    const struct tt_channel_conf conf = { .frame_max = FRAME_MAX, .queue_max = QUEUE_MAX };
    struct tt_conn *conn = calloc(1, sizeof *conn);
    struct tt_stream *stream;

    if (!conn || tt_stream_create(&stream, c->secure, fd, TT_STREAM_ACCEPTS) != TUTTI_OK) {
        close(fd);
        free(conn);
        return NULL;
    }
    if (tt_channel_create(&conn->channel, stream, &conf) != TUTTI_OK) {
        tt_stream_destroy(stream);
        free(conn);
        return NULL;
    }
    return conn;
}

static void admit(struct tt_coordinator *c, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN };
    struct sockaddr_storage at = { 0 };
    socklen_t bytes = sizeof at;
    uint8_t origin[16];
    struct tt_conn *conn;
    struct tt_rate *rate;
    uint64_t next_ns;

    c->chronicle.counters.accepted++;
    if (getpeername(fd, (struct sockaddr *)&at, &bytes) != 0) { /* gone already */
        close(fd);
        return;
    }
    if (at.ss_family == AF_UNIX)        /* base/near.h */
        *(struct sockaddr_in *)&at =
            (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    tt_listen_origin(&at, origin);
    conn = make_room(c, origin) ? conn_new(c, fd) : (close(fd), NULL);
    if (!conn)
        return;
    conn->source = TT_SOURCE_CONN;
    conn->since_ns = c->clock_ns;
    conn->watched = EPOLLIN;
    memcpy(conn->origin, origin, sizeof origin);
    tt_listen_text(&at, conn->address);
    tt_rate_init(&conn->rate, UNITS_PER_S, UNITS_BURST);
    TAILQ_INSERT_TAIL(&c->conns[TT_CONN_STRANGER], conn, place);
    c->counts[TT_CONN_STRANGER]++;
    ev.data.ptr = conn;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        conn->let_go = true; /* the machine has not heard of it */
        end(c, conn);
        return;
    }
    tt_deeds_step(c, &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &conn->core });
    rate = rate_of(c, origin);
    next_ns = tt_rate_next_ns(rate, c->clock_ns);
    tt_rate_take(rate, 1, c->clock_ns);
    if (next_ns > c->clock_ns) {
        c->chronicle.counters.slowed++;
        wait_until(c, conn, next_ns);
        watch(c, conn);
    }
}

void tt_conns_welcome(struct tt_coordinator *c, struct tt_door *door)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        const int fd = tt_acceptor_take(&door->acceptor);

        if (fd < 0)
            return;
        admit(c, fd);
    }
}

/* ---- what they say ---- */

/* Whether it may be read now; else it is seen to that it will be. */
static bool may_speak(struct tt_coordinator *c, struct tt_conn *conn)
{
    const uint64_t next_ns = tt_rate_next_ns(&conn->rate, c->clock_ns);

    conn->clogged = tt_channel_queued(conn->channel) > CLOG_BYTES;
    if (conn->clogged)
        return false;
    if (next_ns > c->clock_ns) {
        c->chronicle.counters.slowed++;
        wait_until(c, conn, next_ns);
        return false;
    }
    return true;
}

static void hear(struct tt_coordinator *c, struct tt_conn *conn, const void *data, size_t bytes)
{
    tt_rate_take(&conn->rate, 1 + bytes / UNIT_BYTES, c->clock_ns);
    tt_chronicle_taken(&c->chronicle, data, bytes);
    tt_deeds_step(
        c, &(struct tt_coord_event){ .kind = TT_COORD_EV_FRAME, .conn = &conn->core, .data = data, .bytes = bytes });
    if (conn->state == TT_CONN_STRANGER && conn->core.member != 0 && !conn->let_go) {
        move(c, conn, TT_CONN_MEMBER);
        tt_channel_allow(conn->channel, TT_ELMSG_OPS_BYTES_MAX);
    }
}

/* Reads what is here, but not too much at once: others are waiting. */
static void read_on(struct tt_coordinator *c, struct tt_conn *conn)
{
    const void *data;
    size_t bytes;
    int rc;

    wait_no_more(c, conn);
    for (int i = 0; i < FRAMES_AT_ONCE && !conn->let_go && may_speak(c, conn); i++) {
        rc = tt_channel_next(conn->channel, &data, &bytes);
        if (rc < 0)
            end_for(c, conn, rc);
        if (rc <= 0)
            return;
        hear(c, conn, data, bytes);
    }
    if (!conn->let_go && !conn->clogged && !conn->waits)
        wait_until(c, conn, c->clock_ns);
}

/* A leaver's last words are read and forgotten: to close a socket with some unread would take back what it was told. */
static void drain(struct tt_coordinator *c, struct tt_conn *conn)
{
    const int fd = tt_stream_fd(tt_channel_stream(conn->channel));
    ssize_t got;
    char dust[4096];

    for (int i = 0; i < FRAMES_AT_ONCE; i++) {
        got = recv(fd, dust, sizeof dust, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            end(c, conn);
        if (got <= 0)
            return;
    }
}

static void leave(struct tt_coordinator *c, struct tt_conn *conn)
{
    const size_t before = tt_channel_queued(conn->channel);

    if (before > 0 && tt_channel_flush(conn->channel) != 0) {
        end(c, conn);
        return;
    }
    if (before > 0 && tt_channel_queued(conn->channel) == 0)
        shutdown(tt_stream_fd(tt_channel_stream(conn->channel)), SHUT_WR);
    if (tt_channel_queued(conn->channel) == 0)
        drain(c, conn);
}

void tt_conns_ready(struct tt_coordinator *c, struct tt_conn *conn, uint32_t events)
{
    int rc;

    if (conn->state == TT_CONN_ENDED)
        return;
    if (conn->state == TT_CONN_LEAVER) {
        leave(c, conn);
        watch(c, conn);
        return;
    }
    if (events & EPOLLOUT) {
        rc = tt_channel_flush(conn->channel);
        if (rc != 0) {
            end_for(c, conn, rc);
            return;
        }
    }
    if (conn->waits && !(events & (EPOLLHUP | EPOLLERR))) {
        watch(c, conn);
        return;
    }
    if (conn->waits || conn->clogged) {
        if (events & (EPOLLHUP | EPOLLERR)) { /* gone, with what it still had to say: it is too much anyway */
            end(c, conn);
            return;
        }
    }
    if (!conn->let_go)
        read_on(c, conn);
    watch(c, conn);
}

/* ---- what is said to them ---- */

void tt_conns_send(struct tt_coordinator *c, struct tt_conn *conn, struct tt_parcel *parcel)
{
    int rc;

    if (conn->state == TT_CONN_ENDED)
        return;
    rc = tt_channel_send_parcel(conn->channel, parcel);
    if (rc != 0)
        end_for(c, conn, rc);
    else
        watch(c, conn);
}

void tt_conns_let_go(struct tt_coordinator *c, struct tt_conn *conn)
{
    if (conn->state == TT_CONN_ENDED)
        return;
    wait_no_more(c, conn);
    move(c, conn, TT_CONN_LEAVER);
    if (c->counts[TT_CONN_LEAVER] > TT_LEAVERS_MAX)
        end(c, TAILQ_FIRST(&c->conns[TT_CONN_LEAVER]));
    if (conn->state == TT_CONN_LEAVER && tt_channel_queued(conn->channel) == 0) {
        shutdown(tt_stream_fd(tt_channel_stream(conn->channel)), SHUT_WR);
        drain(c, conn);
    }
    watch(c, conn);
}

/* ---- time ---- */

static uint64_t deadline_ns(const struct tt_coordinator *c, enum tt_conn_state state)
{
    const struct tt_conn *oldest = TAILQ_FIRST(&c->conns[state]);

    return !oldest ? TT_NEVER : oldest->since_ns + (state == TT_CONN_STRANGER ? c->conf.join_ns : LEAVE_NS);
}

void tt_conns_due(struct tt_coordinator *c)
{
    struct tt_conn *conn, *next;

    while (deadline_ns(c, TT_CONN_STRANGER) <= c->clock_ns)
        refuse(c, TAILQ_FIRST(&c->conns[TT_CONN_STRANGER]), TT_REFUSAL_SLOW, "it did not join before the deadline");
    while (deadline_ns(c, TT_CONN_LEAVER) <= c->clock_ns)
        end(c, TAILQ_FIRST(&c->conns[TT_CONN_LEAVER]));
    for (conn = TAILQ_FIRST(&c->waiting); conn; conn = next) {
        next = TAILQ_NEXT(conn, waiting);
        if (conn->again_ns > c->clock_ns)
            continue;
        read_on(c, conn);
        watch(c, conn);
    }
}

uint64_t tt_conns_next_ns(const struct tt_coordinator *c)
{
    const uint64_t join_ns = deadline_ns(c, TT_CONN_STRANGER), leave_ns = deadline_ns(c, TT_CONN_LEAVER);
    uint64_t next_ns = join_ns < leave_ns ? join_ns : leave_ns;
    const struct tt_conn *conn;

    TAILQ_FOREACH(conn, &c->waiting, waiting)
    next_ns = conn->again_ns < next_ns ? conn->again_ns : next_ns;
    return next_ns;
}

/* ---- going ---- */

bool tt_conns_tell(struct tt_coordinator *c)
{
    struct tt_conn *conn;
    bool some = false;

    TAILQ_FOREACH(conn, &c->conns[TT_CONN_ENDED], place)
    {
        if (conn->let_go)
            continue;
        conn->let_go = some = true;
        tt_deeds_step(c, &(struct tt_coord_event){ .kind = TT_COORD_EV_CLOSED, .conn = &conn->core });
    }
    return some;
}

static void bury(struct tt_coordinator *c, struct tt_conn *conn)
{
    TAILQ_REMOVE(&c->conns[conn->state], conn, place);
    c->counts[conn->state]--;
    wait_no_more(c, conn);
    tt_watched_forget(c->epoll, tt_stream_fd(tt_channel_stream(conn->channel)));
    tt_channel_destroy(conn->channel);
    free(conn);
}

void tt_conns_bury(struct tt_coordinator *c)
{
    while (!TAILQ_EMPTY(&c->conns[TT_CONN_ENDED]))
        bury(c, TAILQ_FIRST(&c->conns[TT_CONN_ENDED]));
}

void tt_conns_drop_all(struct tt_coordinator *c)
{
    for (int state = 0; state < TT_CONN_STATES; state++)
        while (!TAILQ_EMPTY(&c->conns[state]))
            bury(c, TAILQ_FIRST(&c->conns[state]));
}
