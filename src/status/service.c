#include "status/service.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/prng.h"
#include "base/log.h"
#include "base/status.h"
#include "base/watched.h"
#include "status/place.h"
#include "status/remote.h"
#include "status/talk.h"

#define EVENTS_PER_ROUND 16
#define ACCEPTS_PER_ROUND 16
#define FRAMES_PER_ROUND 256    /* maximum frames sent to a client in a round */
#define SEALED_PER_ROUND 32     /* the same for sealed frames: an HMAC takes time */
#define PAUSE_NS TT_SECOND      /* pause of accepting without a free descriptor */
#define SPARE_DESCRIPTORS 64    /* no socket if fewer are left for the application */

enum { ON_CLIENT = 0, ON_LISTENER = 1 << 8, ON_TIMER = 2 << 8, ON_REMOTE = 3 << 8 };

_Static_assert(TT_REMOTE_EVENTS <= 1 << 8, "numbers of events");

enum client_state {
    CLIENT_IDLE,
    CLIENT_QUEUED,              /* its request waits for the request of another client */
    CLIENT_COLLECTS,
    CLIENT_READS                /* its answer is being sent */
};

struct client {
    int fd;                     /* -1: free */
    uint8_t state;
    bool watch_out;             /* waits for EPOLLOUT */
    bool ends;                  /* END or REFUSED is the last frame of the answer in out */
    uint64_t since_ns;          /* time of its last state change or progress */
    struct tt_framer in;
    struct tt_collect_query query;
    struct tt_status_report report;
    struct tt_status_cursor at;
    bool is_sealed;             /* of another host */
    struct tt_seal seal;
    uint8_t out[TT_SEAL_FRAME_MAX + TT_TALK_FRAME_MAX + TT_SEAL_BYTES];
    size_t out_begin, out_end;
};

struct tt_service {
    struct tt_service_conf conf;
    struct tt_collect collect;
    struct tt_place place;      /* fd -1: no socket */
    int epoll, timer;           /* -1: none */
    uint64_t armed_ns;          /* expiry of the timer */
    uint64_t paused_ns;         /* time at which it accepts again; 0: now */
    struct tt_remote remote;
    struct client client[TT_SERVICE_CLIENTS_MAX];
};

static void service_watch(struct tt_service *s, int op, int fd, uint32_t events, uint32_t about)
{
    struct epoll_event ev = { .events = events, .data.u32 = about };

    epoll_ctl(s->epoll, op, fd, &ev);
}

static uint32_t client_number(const struct tt_service *s, const struct client *c)
{
    return (uint32_t)(c - s->client);
}

/* ---- clients ---- */

static void client_close(struct tt_service *s, struct client *c)
{
    tt_watched_close(s->epoll, c->fd);
    c->fd = -1;
    tt_framer_fini(&c->in);
    tt_status_report_fini(&c->report);
}

/* Appends the frame that was written at out_end. */
static void client_append(struct client *c, size_t bytes)
{
    c->out_end += c->is_sealed ? tt_seal_add(&c->seal, c->out + c->out_end, bytes) : bytes;
}

/* Prepares the next frame of the answer. Returns false if there is none. */
static bool client_fill(struct client *c)
{
    uint8_t *body = c->out + TT_FRAME_HEADER_BYTES;
    size_t bytes;

    if (c->state != CLIENT_READS || c->ends)
        return false;
    bytes = tt_status_write(&c->report, &c->at, body, TT_TALK_BODY_MAX);
    tt_frame_header(c->out, bytes ? TT_TALK_ROWS : TT_TALK_END, bytes);
    c->out_begin = c->out_end = 0;
    client_append(c, TT_FRAME_HEADER_BYTES + bytes);
    c->ends = bytes == 0;
    return true;
}

/* Sends what the socket accepts, up to a number of frames: the rest is sent in the next round. */
static void client_send(struct tt_service *s, struct client *c, uint64_t now_ns)
{
    const uint32_t most = c->is_sealed ? SEALED_PER_ROUND : FRAMES_PER_ROUND;
    bool more = true;

    for (uint32_t i = 0; i < most && more;) {
        ssize_t n;

        if (c->out_begin == c->out_end && !client_fill(c))
            break;
        n = send(c->fd, c->out + c->out_begin, c->out_end - c->out_begin, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        more = n > 0;
        c->out_begin += more ? (size_t)n : 0;
        c->since_ns = more ? now_ns : c->since_ns;
        i++;
    }
    if (c->out_begin == c->out_end && c->ends) {
        c->state = CLIENT_IDLE;
        c->ends = false;
        tt_status_report_fini(&c->report);
    }
    more = c->out_begin < c->out_end || c->state == CLIENT_READS;
    if (more != c->watch_out)
        service_watch(s, EPOLL_CTL_MOD, c->fd, EPOLLIN | (more ? EPOLLOUT : 0),
                      ON_CLIENT | client_number(s, c));
    c->watch_out = more;
}

static void client_refuse(struct tt_service *s, struct client *c, const char *why, uint64_t now_ns)
{
    c->out_begin = c->out_end = 0;
    client_append(c, tt_talk_refused_write(why, c->out));
    c->state = CLIENT_READS;
    c->ends = true;
    client_send(s, c, now_ns);
}

/* Handles a whole frame. Returns false if the client must be dropped. */
static bool client_request(struct tt_service *s, struct client *c, const struct tt_frame *f,
                           uint64_t now_ns)
{
    if (c->state != CLIENT_IDLE || c->out_begin < c->out_end || !tt_talk_request_read(f, &c->query))
        return false;
    if (c->query.what == TT_COLLECT_RANK && c->query.target >= s->conf.nranks) {
        client_refuse(s, c, "the job has no such rank", now_ns);
        return true;
    }
    c->state = CLIENT_QUEUED;
    c->since_ns = now_ns;
    return true;
}

static void client_receive(struct tt_service *s, struct client *c, uint64_t now_ns)
{
    struct tt_frame f;
    bool good = true;
    size_t room;
    uint8_t *at = tt_framer_space(&c->in, &room);
    const ssize_t n = at ? recv(c->fd, at, room, 0) : 0;

    if (n > 0) {
        tt_framer_added(&c->in, (size_t)n);
        while (good && tt_framer_next(&c->in, &f))
            good =
                (!c->is_sealed || tt_seal_check(&c->seal, &f)) && client_request(s, c, &f, now_ns);
        good &= !c->in.bad;
    } else {
        good = n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (!good)
        client_close(s, c);
}

/* ---- the listener ---- */

/* Permits only this user and root. The directory already excludes others. */
static bool is_allowed(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return false;
    if (peer.uid == geteuid() || peer.uid == 0)
        return true;
    tt_log(TT_LOG_WARN, "status: refused a connection of user %u", (unsigned)peer.uid);
    return false;
}

/* Returns a free entry, or the entry of the client that has been idle for the longest time. */
static struct client *client_place(struct tt_service *s)
{
    struct client *idle = NULL;

    for (struct client *c = s->client; c < s->client + TT_SERVICE_CLIENTS_MAX; c++) {
        if (c->fd < 0)
            return c;
        if (c->state == CLIENT_IDLE && (!idle || c->since_ns < idle->since_ns))
            idle = c;
    }
    if (idle)
        client_close(s, idle);
    return idle;
}

/* A client of another host: this end of its seal, and the frame that accepts it. */
struct remote_client {
    struct tt_seal seal;
    uint8_t accept[TT_SEAL_FRAME_MAX];
    size_t bytes;
};

/* Notifies a client that has proved the token that there is no free entry. */
static void refuse_remote(int fd, const struct remote_client *remote)
{
    uint8_t out[TT_SEAL_FRAME_MAX + TT_TALK_FRAME_MAX + TT_SEAL_BYTES];
    struct tt_seal seal = remote->seal;
    size_t bytes = remote->bytes;

    memcpy(out, remote->accept, bytes);
    bytes += tt_seal_add(&seal, out + bytes,
                         tt_talk_refused_write("it is serving other queries", out + bytes));
    if (send(fd, out, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        tt_log(TT_LOG_DEBUG, "status: a client did not receive that it was refused");
}

/* Adds a client. remote NULL: a client of this host. */
static void client_open(struct tt_service *s, int fd, const struct remote_client *remote,
                        uint64_t now_ns)
{
    struct tt_talk_hello hello = { .job = s->conf.job, .rank = s->conf.rank,
                                   .nranks = s->conf.nranks, .nhosts = s->conf.nhosts,
                                   .pid = (uint32_t)getpid(),
                                   .alone = !s->conf.overlay && s->conf.nranks > 1 };
    struct client *c = remote || is_allowed(fd) ? client_place(s) : NULL;

    if (!c) {
        if (remote)
            refuse_remote(fd, remote);
        close(fd);
        return;
    }
    if (gethostname(hello.host, sizeof hello.host - 1) != 0)
        *hello.host = 0;
    *c = (struct client){ .fd = fd, .since_ns = now_ns, .is_sealed = remote };
    tt_framer_init(&c->in, TT_TALK_REQUEST_MAX + (remote ? TT_SEAL_BYTES : 0));
    service_watch(s, EPOLL_CTL_ADD, fd, EPOLLIN, ON_CLIENT | client_number(s, c));
    if (remote) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        c->seal = remote->seal;
        memcpy(c->out, remote->accept, remote->bytes);
        c->out_end = remote->bytes;
    }
    client_append(c, tt_talk_hello_write(&hello, c->out + c->out_end));
    client_send(s, c, now_ns);
}

static void service_serve_remote(struct tt_service *s, uint32_t event, uint64_t now_ns)
{
    struct remote_client remote;
    const int fd =
        tt_remote_serve(&s->remote, event, now_ns, &remote.seal, remote.accept, &remote.bytes);

    if (fd >= 0)
        client_open(s, fd, &remote, now_ns);
}

static void service_accept(struct tt_service *s, uint64_t now_ns)
{
    for (int i = 0; i < ACCEPTS_PER_ROUND; i++) {
        const int fd = accept4(s->place.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            /* otherwise epoll would report it continuously */
            tt_watched_remove(s->epoll, s->place.fd);
            s->paused_ns = now_ns + PAUSE_NS;
        }
        if (fd < 0)
            return;
        client_open(s, fd, NULL, now_ns);
    }
}

/* ---- collections ---- */

static bool collect_send(void *arg, uint32_t neighbour, const void *data, uint16_t bytes)
{
    struct tt_service *s = arg;

    return s->conf.overlay &&
           tt_overlay_send(s->conf.overlay, TT_OVERLAY_STATUS, neighbour, data, bytes);
}

static uint32_t collect_neighbours(void *arg, uint32_t *out)
{
    const struct tt_service *s = arg;
    const uint32_t *ranks;
    uint32_t all, n = 0;

    if (!s->conf.overlay)
        return 0;
    all = tt_overlay_neighbours(s->conf.overlay, &ranks);
    for (uint32_t i = 0; i < all; i++)
        if (tt_overlay_is_connected(s->conf.overlay, ranks[i]))
            out[n++] = ranks[i];
    return n;
}

static bool collect_is_lost(void *arg, uint32_t rank)
{
    const struct tt_service *s = arg;

    return s->conf.overlay && tt_overlay_is_lost(s->conf.overlay, rank);
}

static void collect_snapshot(void *arg, const struct tt_collect_query *q,
                             struct tt_status_report *r)
{
    const struct tt_service *s = arg;
    struct tt_collect_query here = *q;

    here.number ^= tt_mix64(s->conf.job);       /* a process may belong to several jobs */
    tt_status_snapshot(&here, s->conf.rank, &s->conf.source, r);
}

static struct client *find_client(struct tt_service *s, enum client_state state)
{
    struct client *found = NULL;

    for (struct client *c = s->client; c < s->client + TT_SERVICE_CLIENTS_MAX; c++)
        if (c->fd >= 0 && c->state == state && (!found || c->since_ns < found->since_ns))
            found = c;
    return found;
}

/* Passes the report to the client that requested it, if it is still connected. */
static void collect_done(void *arg, struct tt_status_report *r)
{
    struct tt_service *s = arg;
    struct client *c = find_client(s, CLIENT_COLLECTS);

    if (!c)
        return;
    c->report = *r;
    tt_status_report_init(r);
    c->at = (struct tt_status_cursor){ .stage = 0 };
    c->state = CLIENT_READS;
    client_send(s, c, tt_now_ns());
}

static const struct tt_collect_ops collect_ops = {
    .send = collect_send,
    .neighbours = collect_neighbours,
    .is_lost = collect_is_lost,
    .snapshot = collect_snapshot,
    .done = collect_done,
};

/* Begins the collection of the client that has waited for the longest time. */
static void begin_next(struct tt_service *s, uint64_t now_ns)
{
    struct client *c;

    while (!find_client(s, CLIENT_COLLECTS) && (c = find_client(s, CLIENT_QUEUED))) {
        c->state = CLIENT_COLLECTS;
        if (tt_collect_begin(&s->collect, &c->query, now_ns))
            continue;
        c->state = CLIENT_QUEUED;       /* the collection of a closed client is in progress */
        return;
    }
}

/* ---- time ---- */

static uint64_t client_due(const struct client *c)
{
    return c->fd >= 0 && c->state == CLIENT_READS ? c->since_ns + TT_SERVICE_STALL_NS
                                                  : TT_COLLECT_NEVER;
}

/* Sets the timer to the next deadline. Without a timer, the caller's periodic calls suffice. */
static void arm_timer(struct tt_service *s)
{
    struct itimerspec at = { .it_interval = { 0 } };
    uint64_t due_ns = tt_collect_due(&s->collect);

    for (const struct client *c = s->client; c < s->client + TT_SERVICE_CLIENTS_MAX; c++)
        due_ns = client_due(c) < due_ns ? client_due(c) : due_ns;
    if (s->paused_ns && s->paused_ns < due_ns)
        due_ns = s->paused_ns;
    if (tt_remote_due(&s->remote) < due_ns)
        due_ns = tt_remote_due(&s->remote);
    if (due_ns == s->armed_ns || s->epoll < 0)
        return;
    if (s->timer < 0) {
        s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (s->timer < 0)
            return;
        service_watch(s, EPOLL_CTL_ADD, s->timer, EPOLLIN, ON_TIMER);
    }
    if (due_ns != TT_COLLECT_NEVER) {
        at.it_value.tv_sec = (time_t)(due_ns / TT_SECOND);
        at.it_value.tv_nsec = (long)(due_ns % TT_SECOND);
    }
    timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &at, NULL);
    s->armed_ns = due_ns;
}

static void handle_deadlines(struct tt_service *s, uint64_t now_ns)
{
    tt_collect_tick(&s->collect, now_ns);
    tt_remote_tick(&s->remote, now_ns);
    for (struct client *c = s->client; c < s->client + TT_SERVICE_CLIENTS_MAX; c++)
        if (now_ns >= client_due(c))
            client_close(s, c);
    if (s->paused_ns && now_ns >= s->paused_ns) {
        s->paused_ns = 0;
        service_watch(s, EPOLL_CTL_ADD, s->place.fd, EPOLLIN, ON_LISTENER);
    }
}

/* ---- progress ---- */

static void serve_client(struct tt_service *s, struct client *c, uint32_t events, uint64_t now_ns)
{
    if (c->fd >= 0 && events & EPOLLOUT)
        client_send(s, c, now_ns);
    if (c->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        client_receive(s, c, now_ns);
}

static void serve_events(struct tt_service *s, uint64_t now_ns)
{
    struct epoll_event evs[EVENTS_PER_ROUND];
    const int n = epoll_wait(s->epoll, evs, EVENTS_PER_ROUND, 0);
    uint64_t fired;

    for (int i = 0; i < n; i++) {
        const uint32_t about = evs[i].data.u32 & ~0xffu, which = evs[i].data.u32 & 0xffu;

        if (about == ON_LISTENER)
            service_accept(s, now_ns);
        else if (about == ON_CLIENT)
            serve_client(s, &s->client[which], evs[i].events, now_ns);
        else if (about == ON_REMOTE)
            service_serve_remote(s, which, now_ns);
        else if (read(s->timer, &fired, sizeof fired) > 0)
            s->armed_ns = TT_COLLECT_NEVER;
    }
}

void tt_service_serve(struct tt_service *s)
{
    uint64_t now_ns;

    if (s->epoll < 0 && tt_collect_due(&s->collect) == TT_COLLECT_NEVER)
        return;
    now_ns = tt_now_ns();
    if (s->epoll >= 0)
        serve_events(s, now_ns);
    handle_deadlines(s, now_ns);
    begin_next(s, now_ns);
    arm_timer(s);
}

bool tt_service_receive(struct tt_service *s, uint32_t from, const void *data, size_t bytes)
{
    const bool good = tt_collect_receive(&s->collect, from, data, bytes, tt_now_ns());

    arm_timer(s);
    return good;
}

void tt_service_lose(struct tt_service *s, uint32_t rank)
{
    tt_collect_lose(&s->collect, rank);
}

int tt_service_fd(const struct tt_service *s)
{
    return s->epoll;
}

/* ---- open and close ---- */

/* Returns whether the application has many free descriptors besides fd, the newest one. */
static bool has_spare_descriptors(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || (rlim_t)fd + SPARE_DESCRIPTORS < limit.rlim_cur);
}

/* Opens the socket for clients of this host. Returns the cause of an error, or NULL. */
static const char *listen_here(struct tt_service *s, const char *base, char *why, size_t bytes)
{
    if (tt_place_listen(base, s->conf.job, s->conf.rank, &s->place, why, bytes)) {
        s->place.fd = -1;
        return why;
    }
    service_watch(s, EPOLL_CTL_ADD, s->place.fd, EPOLLIN, ON_LISTENER);
    return NULL;
}

/* Opens the sockets to which clients connect. Returns the cause of an error, or NULL. */
static const char *service_listen(struct tt_service *s, const char *base,
                                  const struct tt_remote_conf *remote, char *why, size_t bytes)
{
    const char *cause = NULL;

    if (*base && s->conf.tidies)
        tt_place_tidy(base, s->conf.job);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll < 0)
        return strerror(errno);
    if (!has_spare_descriptors(s->epoll))
        return "the limit of open files is low (RLIMIT_NOFILE)";
    if (*base)
        cause = listen_here(s, base, why, bytes);
    if (remote->address)
        tt_remote_open(&s->remote, remote, s->epoll, ON_REMOTE);
    if (s->place.fd < 0 && s->remote.n == 0)
        return cause;
    if (s->conf.overlay && tt_overlay_watch(s->conf.overlay, s->epoll)) {
        tt_remote_close(&s->remote);
        return "the control overlay cannot watch the socket";
    }
    return cause;
}

static void service_unlisten(struct tt_service *s)
{
    if (s->place.fd >= 0)
        tt_place_leave(&s->place);
    if (s->epoll >= 0)
        close(s->epoll);
    s->place.fd = s->epoll = -1;
}

tutti_status tt_service_open(struct tt_service **out, const struct tt_service_conf *conf)
{
    char base[TT_PLACE_BYTES], why[PATH_MAX];
    struct tt_remote_conf remote = { .address = NULL };
    const char *cause = NULL;
    struct tt_service *s;
    tutti_status st = tt_place_base(base);

    if (!st && !conf->is_elastic)
        st = tt_remote_settings(&remote, conf->token);
    if (st)
        return st;
    if (!conf->listens)
        remote.address = NULL;
    s = calloc(1, sizeof *s);
    if (!s)
        return tt_fail(TUTTI_ERR_NOMEM, "status: out of memory for the status service");
    s->conf = *conf;
    s->place.fd = s->epoll = s->timer = -1;
    s->armed_ns = TT_COLLECT_NEVER;
    for (uint32_t i = 0; i < TT_SERVICE_CLIENTS_MAX; i++)
        s->client[i].fd = -1;
    tt_collect_init(&s->collect, conf->rank, conf->overlay ? conf->nranks : 1, &collect_ops, s);
    if (*base || remote.address)
        cause = service_listen(s, base, &remote, why, sizeof why);
    if (cause)
        tt_log(tt_place_is_chosen() ? TT_LOG_WARN : TT_LOG_INFO,
               "status: `tutti status` cannot query this process: %s", cause);
    if (s->remote.n == 0 && (cause || s->place.fd < 0))
        service_unlisten(s);
    *out = s;
    return TUTTI_OK;
}

void tt_service_close(struct tt_service *s)
{
    if (!s)
        return;
    tt_collect_fini(&s->collect);
    for (struct client *c = s->client; c < s->client + TT_SERVICE_CLIENTS_MAX; c++)
        if (c->fd >= 0)
            client_close(s, c);
    if (s->epoll >= 0 && s->conf.overlay)
        tt_overlay_unwatch(s->conf.overlay, s->epoll);
    if (s->timer >= 0)
        close(s->timer);
    tt_remote_close(&s->remote);
    service_unlisten(s);
    free(s);
}
