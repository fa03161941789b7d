/* Connections: unauthenticated ones, those of members, and those being refused or closed. Their
 * resources are bounded:
 *
 *   unauthenticated   number and duration. If there are too many, the oldest one of the address
 *                     with the most is closed.
 *   addresses         connections per second, after a burst. Further connections are read later.
 *   members           messages and bytes per second. Further messages are read later. A member
 *                     that does not read its messages is not read either, and is closed when too
 *                     much is queued.
 *   garbage           closes its connection, without other effects. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/control_socket.h"
#include "base/log.h"
#include "base/status.h"
#include "base/watched.h"
#include "coordinator/internal.h"

#define ACCEPTS_AT_ONCE 64
#define FRAMES_AT_ONCE 32
#define MEASUREMENTS_PER_LEASE 8
/* maximum size of a message before joining */
#define FRAME_MAX 65536u
/* a proposal, a view, outcomes, and small messages */
#define QUEUE_MAX (2u * TT_ELMSG_BYTES_MAX + TT_ELMSG_OPS_BYTES_MAX + 65536u)
/* queued bytes above which a member's messages are not read */
#define READ_QUEUE_MAX 262144u
/* bytes of a message that count as one more message */
#define UNIT_BYTES 256u
#define UNITS_PER_S 10000u
#define UNITS_BURST 2000u
/* connections per second from one address, after a burst of as many as a run has members */
#define JOINS_PER_S 100u
/* time in which a refused peer may read the reason */
#define LEAVE_NS (2 * TT_SECOND)

/* ---- lists ---- */

static void set_conn_state(struct tt_coordinator *c, struct tt_conn *conn, enum tt_conn_state to)
{
    TAILQ_REMOVE(&c->conns[conn->state], conn, place);
    c->counts[conn->state]--;
    conn->state = to;
    conn->since_ns = c->clock_ns;
    TAILQ_INSERT_TAIL(&c->conns[to], conn, place);
    c->counts[to]++;
}

static void cancel_wait(struct tt_coordinator *c, struct tt_conn *conn)
{
    if (conn->waits)
        TAILQ_REMOVE(&c->waiting, conn, waiting);
    conn->waits = false;
}

static void conn_wait_until(struct tt_coordinator *c, struct tt_conn *conn, uint64_t at_ns)
{
    cancel_wait(c, conn);
    conn->waits = true;
    conn->again_ns = at_ns;
    TAILQ_INSERT_TAIL(&c->waiting, conn, waiting);
}

/* Closes the connection at once. */
static void conn_end(struct tt_coordinator *c, struct tt_conn *conn)
{
    if (conn->state == TT_CONN_ENDED)
        return;
    cancel_wait(c, conn);
    set_conn_state(c, conn, TT_CONN_ENDED);
}

/* Refuses a connection. Only the first failed handshake is logged as a warning: it may be a
 * misconfigured member, but peers must not be able to fill the log. */
static void conn_refuse(struct tt_coordinator *c, struct tt_conn *conn,
                        enum tt_snapshot_refusal why, const char *text)
{
    const bool first = c->chronicle.counters.refused[why]++ == 0 && why == TT_REFUSAL_HANDSHAKE;

    tt_log(first ? TT_LOG_WARN : TT_LOG_INFO, "coordinator: closed the connection from %s: %s%s",
           conn->address, text,
           first ? "; further ones are only counted (TUTTI_LOG=info logs all)" : "");
    conn_end(c, conn);
}

/* Closes a connection whose channel has failed with this negative errno. */
static void end_for(struct tt_coordinator *c, struct tt_conn *conn, int err)
{
    const char *why = tt_stream_why(tt_channel_stream(conn->channel));

    if (err == -EPROTO && *why)
        conn_refuse(c, conn,
                    conn->state == TT_CONN_UNAUTHENTICATED ? TT_REFUSAL_HANDSHAKE
                                                           : TT_REFUSAL_GARBAGE,
                    why);
    else if (err == -EPROTO)
        conn_refuse(c, conn, TT_REFUSAL_GARBAGE, "invalid message framing");
    else if (err == -EMSGSIZE)
        conn_refuse(c, conn, TT_REFUSAL_GARBAGE, "a message exceeds the maximum length");
    else if (err == -ENOBUFS)
        conn_refuse(c, conn, TT_REFUSAL_UNREAD, "the peer does not receive its messages");
    else
        conn_end(c, conn);
}

/* Updates the watched events. */
static void conn_update_events(struct tt_coordinator *c, struct tt_conn *conn)
{
    struct epoll_event ev = { .data.ptr = conn };
    uint32_t wanted;

    if (conn->state == TT_CONN_ENDED)
        return;
    if (conn->state == TT_CONN_LEAVER)
        wanted = tt_channel_queued(conn->channel) > 0 ? EPOLLOUT : EPOLLIN;
    else
        wanted = tt_channel_events(conn->channel) &
                 ~(conn->waits || conn->clogged ? (uint32_t)EPOLLIN : 0u);
    if (wanted == conn->watched)
        return;
    ev.events = wanted;
    conn->watched = wanted;
    if (epoll_ctl(c->epoll, EPOLL_CTL_MOD, tt_stream_fd(tt_channel_stream(conn->channel)), &ev) !=
        0)
        conn_end(c, conn);
}

/* ---- new connections ------------------------------------------------------------------------- */

/* Returns the rate limiter of this address. If there are too many addresses, replaces the one that
 * has been idle for the longest time. */
static struct tt_rate *origin_rate(struct tt_coordinator *c, const uint8_t who[16])
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

static uint32_t conns_count_unauthenticated(const struct tt_coordinator *c, const uint8_t who[16])
{
    const struct tt_conn *conn;
    uint32_t n = 0;

    TAILQ_FOREACH(conn, &c->conns[TT_CONN_UNAUTHENTICATED], place)
    n += memcmp(conn->origin, who, sizeof conn->origin) == 0;
    return n;
}

/* Closes an unauthenticated connection if there are too many: the oldest of the address with the
 * most, unless that is the new one's address. Searches the oldest 32 only, to bound the time. */
static bool conns_limit_unauthenticated(struct tt_coordinator *c, const uint8_t who[16])
{
    struct tt_conn *conn, *worst = NULL;
    uint32_t most = 0, looked = 0;

    if (c->counts[TT_CONN_UNAUTHENTICATED] < TT_STRANGERS_MAX)
        return true;
    TAILQ_FOREACH(conn, &c->conns[TT_CONN_UNAUTHENTICATED], place)
    {
        const uint32_t n = conns_count_unauthenticated(c, conn->origin);

        if (n > most) {
            most = n;
            worst = conn;
        }
        if (++looked == 32)
            break;
    }
    if (!worst || conns_count_unauthenticated(c, who) + 1 >= most) {
        c->chronicle.counters.refused[TT_REFUSAL_TOO_MANY]++;
        return false;
    }
    conn_refuse(c, worst, TT_REFUSAL_TOO_MANY,
                "too many connections have not joined, most of them from this address");
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

static void conns_accept_one(struct tt_coordinator *c, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN };
    struct sockaddr_storage at = { 0 };
    socklen_t bytes = sizeof at;
    uint8_t origin[16];
    struct tt_conn *conn;
    struct tt_rate *rate;
    uint64_t next_ns;

    c->chronicle.counters.accepted++;
    if (getpeername(fd, (struct sockaddr *)&at, &bytes) != 0) { /* already closed */
        close(fd);
        return;
    }
    if (at.ss_family == AF_UNIX)        /* see base/near.h */
        *(struct sockaddr_in *)&at =
            (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    tt_listen_origin(&at, origin);
    tt_control_socket(fd);
    conn = conns_limit_unauthenticated(c, origin) ? conn_new(c, fd) : (close(fd), NULL);
    if (!conn)
        return;
    conn->source = TT_SOURCE_CONN;
    conn->since_ns = c->clock_ns;
    conn->watched = EPOLLIN;
    memcpy(conn->origin, origin, sizeof origin);
    tt_listen_text(&at, conn->address);
    tt_rate_init(&conn->rate, UNITS_PER_S, UNITS_BURST);
    TAILQ_INSERT_TAIL(&c->conns[TT_CONN_UNAUTHENTICATED], conn, place);
    c->counts[TT_CONN_UNAUTHENTICATED]++;
    ev.data.ptr = conn;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        conn->let_go = true; /* the state machine does not have this connection */
        conn_end(c, conn);
        return;
    }
    tt_group_commit_step(c,
                         &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &conn->core });
    rate = origin_rate(c, origin);
    next_ns = tt_rate_next_ns(rate, c->clock_ns);
    tt_rate_take(rate, 1, c->clock_ns);
    if (next_ns > c->clock_ns) {
        c->chronicle.counters.slowed++;
        conn_wait_until(c, conn, next_ns);
        conn_update_events(c, conn);
    }
}

void tt_conns_accept(struct tt_coordinator *c, struct tt_door *door)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        const int fd = tt_acceptor_take(&door->acceptor);

        if (fd < 0)
            return;
        conns_accept_one(c, fd);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Returns whether conn may be read now. If not, schedules the next read, unless conn is clogged. */
static bool may_read(struct tt_coordinator *c, struct tt_conn *conn)
{
    const uint64_t next_ns = tt_rate_next_ns(&conn->rate, c->clock_ns);

    conn->clogged = tt_channel_queued(conn->channel) > READ_QUEUE_MAX;
    if (conn->clogged)
        return false;
    if (next_ns > c->clock_ns) {
        c->chronicle.counters.slowed++;
        conn_wait_until(c, conn, next_ns);
        return false;
    }
    return true;
}

static void measure_round_trip(struct tt_coordinator *c, struct tt_conn *conn)
{
    if (c->clock_ns < conn->measure_ns)
        return;
    conn->measure_ns = c->clock_ns + c->conf.lease_ns / MEASUREMENTS_PER_LEASE;
    conn->core.round_trip_ns =
        tt_control_round_trip_ns(tt_stream_fd(tt_channel_stream(conn->channel)));
}

static void conn_handle_message(struct tt_coordinator *c, struct tt_conn *conn, const void *data,
                                size_t bytes)
{
    tt_rate_take(&conn->rate, 1 + bytes / UNIT_BYTES, c->clock_ns);
    tt_event_log_taken(&c->chronicle, data, bytes);
    measure_round_trip(c, conn);
    tt_group_commit_step(
        c, &(struct tt_coord_event){
               .kind = TT_COORD_EV_FRAME, .conn = &conn->core, .data = data, .bytes = bytes });
    if (conn->state == TT_CONN_UNAUTHENTICATED && conn->core.member != 0 && !conn->let_go) {
        set_conn_state(c, conn, TT_CONN_MEMBER);
        tt_channel_allow(conn->channel, TT_ELMSG_OPS_BYTES_MAX);
    }
}

/* Reads available messages, a limited number at a time, for fairness. */
static void conn_read(struct tt_coordinator *c, struct tt_conn *conn)
{
    const void *data;
    size_t bytes;
    int rc;

    cancel_wait(c, conn);
    for (int i = 0; i < FRAMES_AT_ONCE && !conn->let_go && may_read(c, conn); i++) {
        rc = tt_channel_next(conn->channel, &data, &bytes);
        if (rc < 0)
            end_for(c, conn, rc);
        if (rc <= 0)
            return;
        conn_handle_message(c, conn, data, bytes);
    }
    if (!conn->let_go && !conn->clogged && !conn->waits)
        conn_wait_until(c, conn, c->clock_ns);
}

/* Reads and discards remaining data of a closing connection: closing a socket with unread data
 * would discard the sent reason. */
static void discard_input(struct tt_coordinator *c, struct tt_conn *conn)
{
    const int fd = tt_stream_fd(tt_channel_stream(conn->channel));
    ssize_t got;
    char dust[4096];

    for (int i = 0; i < FRAMES_AT_ONCE; i++) {
        got = recv(fd, dust, sizeof dust, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            conn_end(c, conn);
        if (got <= 0)
            return;
    }
}

static void begin_close(struct tt_coordinator *c, struct tt_conn *conn)
{
    const size_t before = tt_channel_queued(conn->channel);

    if (before > 0 && tt_channel_flush(conn->channel) != 0) {
        conn_end(c, conn);
        return;
    }
    if (before > 0 && tt_channel_queued(conn->channel) == 0)
        shutdown(tt_stream_fd(tt_channel_stream(conn->channel)), SHUT_WR);
    if (tt_channel_queued(conn->channel) == 0)
        discard_input(c, conn);
}

void tt_conns_on_events(struct tt_coordinator *c, struct tt_conn *conn, uint32_t events)
{
    int rc;

    if (conn->state == TT_CONN_ENDED)
        return;
    if (conn->state == TT_CONN_LEAVER) {
        begin_close(c, conn);
        conn_update_events(c, conn);
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
        conn_update_events(c, conn);
        return;
    }
    if (conn->waits || conn->clogged) {
        /* closed, and its remaining data exceeds the limits */
        if (events & (EPOLLHUP | EPOLLERR)) {
            conn_end(c, conn);
            return;
        }
    }
    if (!conn->let_go)
        conn_read(c, conn);
    conn_update_events(c, conn);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void conn_send_parcel(struct tt_coordinator *c, struct tt_conn *conn,
                             struct tt_parcel *parcel)
{
    int rc;

    if (conn->state == TT_CONN_ENDED)
        return;
    rc = tt_channel_send_parcel(conn->channel, parcel);
    if (rc != 0)
        end_for(c, conn, rc);
    else
        conn_update_events(c, conn);
}

static void conn_release(struct tt_coordinator *c, struct tt_conn *conn)
{
    if (conn->state == TT_CONN_ENDED)
        return;
    cancel_wait(c, conn);
    set_conn_state(c, conn, TT_CONN_LEAVER);
    if (c->counts[TT_CONN_LEAVER] > TT_LEAVERS_MAX)
        conn_end(c, TAILQ_FIRST(&c->conns[TT_CONN_LEAVER]));
    if (conn->state == TT_CONN_LEAVER && tt_channel_queued(conn->channel) == 0) {
        shutdown(tt_stream_fd(tt_channel_stream(conn->channel)), SHUT_WR);
        discard_input(c, conn);
    }
    conn_update_events(c, conn);
}

void tt_conns_perform(struct tt_coordinator *c)
{
    for (size_t i = 0; i < c->ndeeds; i++) {
        if (c->deeds[i].parcel)
            conn_send_parcel(c, c->deeds[i].conn, c->deeds[i].parcel);
        else
            conn_release(c, c->deeds[i].conn);
    }
}

/* ---- timers ---------------------------------------------------------------------------------- */

static uint64_t deadline_ns(const struct tt_coordinator *c, enum tt_conn_state state)
{
    const struct tt_conn *oldest = TAILQ_FIRST(&c->conns[state]);

    return !oldest
               ? TT_NEVER
               : oldest->since_ns + (state == TT_CONN_UNAUTHENTICATED ? c->conf.join_ns : LEAVE_NS);
}

void tt_conns_due(struct tt_coordinator *c)
{
    struct tt_conn *conn, *next;

    while (deadline_ns(c, TT_CONN_UNAUTHENTICATED) <= c->clock_ns)
        conn_refuse(c, TAILQ_FIRST(&c->conns[TT_CONN_UNAUTHENTICATED]), TT_REFUSAL_SLOW,
                    "it did not join before the deadline");
    while (deadline_ns(c, TT_CONN_LEAVER) <= c->clock_ns)
        conn_end(c, TAILQ_FIRST(&c->conns[TT_CONN_LEAVER]));
    for (conn = TAILQ_FIRST(&c->waiting); conn; conn = next) {
        next = TAILQ_NEXT(conn, waiting);
        if (conn->again_ns > c->clock_ns)
            continue;
        conn_read(c, conn);
        conn_update_events(c, conn);
    }
}

uint64_t tt_conns_next_ns(const struct tt_coordinator *c)
{
    const uint64_t join_ns = deadline_ns(c, TT_CONN_UNAUTHENTICATED),
                   leave_ns = deadline_ns(c, TT_CONN_LEAVER);
    uint64_t next_ns = join_ns < leave_ns ? join_ns : leave_ns;
    const struct tt_conn *conn;

    TAILQ_FOREACH(conn, &c->waiting, waiting)
    next_ns = conn->again_ns < next_ns ? conn->again_ns : next_ns;
    return next_ns;
}

/* ---- closing --------------------------------------------------------------------------------- */

bool tt_conns_report_ended(struct tt_coordinator *c)
{
    struct tt_conn *conn;
    bool some = false;

    TAILQ_FOREACH(conn, &c->conns[TT_CONN_ENDED], place)
    {
        if (conn->let_go)
            continue;
        conn->let_go = some = true;
        tt_group_commit_step(
            c, &(struct tt_coord_event){ .kind = TT_COORD_EV_CLOSED, .conn = &conn->core });
    }
    return some;
}

static void free_conn(struct tt_coordinator *c, struct tt_conn *conn)
{
    TAILQ_REMOVE(&c->conns[conn->state], conn, place);
    c->counts[conn->state]--;
    cancel_wait(c, conn);
    tt_watched_remove(c->epoll, tt_stream_fd(tt_channel_stream(conn->channel)));
    tt_channel_destroy(conn->channel);
    free(conn);
}

void tt_conns_free_ended(struct tt_coordinator *c)
{
    while (!TAILQ_EMPTY(&c->conns[TT_CONN_ENDED]))
        free_conn(c, TAILQ_FIRST(&c->conns[TT_CONN_ENDED]));
}

void tt_conns_drop_all(struct tt_coordinator *c)
{
    for (int state = 0; state < TT_CONN_STATES; state++)
        while (!TAILQ_EMPTY(&c->conns[state]))
            free_conn(c, TAILQ_FIRST(&c->conns[state]));
}
