#include "boot/serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "base/watched.h"
#include "boot/endpoint.h"
#include "reduce/float_env.h"

#define STRANGERS_MAX \
    1024 /* unauthenticated connections; above this the oldest is
                                       dropped */
#define STRANGER_AGE_NS (10 * TT_SECOND)
#define OUT_BYTES 1024              /* challenge, or refusal, or the head of a table */
#define EVENTS_PER_STEP 128
#define SAY_FIRST_NS (5 * TT_SECOND)    /* a longer start-up logs the missing ranks */
#define SAY_AGAIN_NS (30 * TT_SECOND)
#define REFUSALS_LOGGED 16          /* per gathering */
#define FLUSH_NS (10 * TT_SECOND)   /* time for a member to read its result */

struct conn {
    struct tt_rdv_conn machine;     /* first: the pointer of the state machine is also ours */
    struct conn *newer, *older;     /* list of all, newest first */
    struct tt_framer in;
    int fd;
    bool stranger, closing, dead;
    uint8_t out[OUT_BYTES];
    size_t out_bytes, sent;         /* sent: of out, then of the table */
    const uint8_t *table;
    size_t table_bytes;
};

struct tt_serve {
    struct tt_rdv_server machine;
    struct tt_serve_conf conf;
    char token[128];
    int epoll;
    struct tt_acceptor acceptor;
    struct conn *newest, *oldest;
    size_t nconns, nstrangers;
    uint64_t over_ns;               /* time of the result */
    uint64_t waits_ns, say_ns;      /* waits_ns: since when a member waits (0: none); say_ns:
                                       time of the next log line */
};

static void conn_watch(struct tt_serve *s, struct conn *c, bool writing)
{
    struct epoll_event ev = { .events = EPOLLIN | (writing ? (uint32_t)EPOLLOUT : 0u),
                              .data.ptr = c };

    epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &ev);
}

/* Unlinks and frees the connection, to which nothing else refers. */
static void conn_drop(struct tt_serve *s, struct conn *c)
{
    *(c->newer ? &c->newer->older : &s->newest) = c->older;
    *(c->older ? &c->older->newer : &s->oldest) = c->newer;
    s->nconns--;
    s->nstrangers -= c->stranger;
    tt_watched_close(s->epoll, c->fd);
    tt_framer_fini(&c->in);
    free(c);
}

static void step_machine(struct tt_serve *s, struct conn *c, struct tt_rdv_event ev,
                         uint64_t now_ns)
{
    ev.conn = c ? &c->machine : NULL;
    tt_rdv_server_step(&s->machine, &ev, now_ns);
}

/* The peer ended the connection. */
static void conn_lost(struct tt_serve *s, struct conn *c, uint64_t now_ns)
{
    if (!c->closing)
        step_machine(s, c, (struct tt_rdv_event){ .kind = TT_RDV_EV_CLOSED }, now_ns);
    c->dead = true;
}

/* Sends queued data. Marks the connection dead if it is broken, or closing with everything sent. */
static void conn_flush(struct tt_serve *s, struct conn *c, uint64_t now_ns)
{
    while (!c->dead && c->sent < c->out_bytes + c->table_bytes) {
        const bool head = c->sent < c->out_bytes;
        const uint8_t *at = head ? c->out + c->sent : c->table + (c->sent - c->out_bytes);
        const size_t left = head ? c->out_bytes - c->sent : c->out_bytes + c->table_bytes - c->sent;
        const ssize_t n = send(c->fd, at, left, MSG_NOSIGNAL | (head && c->table ? MSG_MORE : 0));

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            conn_watch(s, c, true);
            return;
        }
        if (n < 0) {
            conn_lost(s, c, now_ns);
            return;
        }
        c->sent += (size_t)n;
    }
    if (c->closing)
        c->dead = true;
}

/* Handles an action of the state machine. Sending is deferred to flush_all, since the machine is
 * within a step. */
static void serve_on_act(void *context, const struct tt_rdv_act *act)
{
    struct conn *c = (struct conn *)act->conn;

    (void)context;
    switch ((enum tt_rdv_act_kind)act->kind) {
    case TT_RDV_ACT_SEND:
        tt_assert(act->bytes <= sizeof c->out - c->out_bytes);
        memcpy(c->out + c->out_bytes, act->data, act->bytes);
        c->out_bytes += act->bytes;
        break;
    case TT_RDV_ACT_SEND_TABLE:
        c->table = act->data;
        c->table_bytes = act->bytes;
        break;
    case TT_RDV_ACT_CLOSE:
        c->closing = true;
        break;
    }
}

static void flush_all(struct tt_serve *s, uint64_t now_ns)
{
    struct conn *older;

    for (struct conn *c = s->newest; c; c = older) {
        older = c->older;
        if (c->closing || c->dead || c->sent < c->out_bytes)
            conn_flush(s, c, now_ns);
        if (c->dead)
            conn_drop(s, c);
    }
}

static struct conn *conn_add(struct tt_serve *s, int fd)
{
    struct conn *c = calloc(1, sizeof *c);
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

    if (!c)
        return NULL;
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        free(c);
        return NULL;
    }
    tt_framer_init(&c->in, TT_RDV_HELLO_BYTES);
    c->fd = fd;
    c->stranger = true;
    c->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = c;
    s->newest = c;
    s->nconns++;
    s->nstrangers++;
    return c;
}

static struct conn *oldest_unauthenticated(struct tt_serve *s)
{
    struct conn *c = s->oldest;

    while (c && !(c->stranger && !c->closing && !c->dead))
        c = c->newer;
    return c;
}

/* Owns fd. Returns false if out of memory. */
static bool conn_open(struct tt_serve *s, int fd, uint64_t now_ns)
{
    struct tt_rdv_event ev = { .kind = TT_RDV_EV_OPEN };
    struct conn *c = conn_add(s, fd);

    if (!c) {
        close(fd);
        return false;
    }
    tt_random_bytes(ev.nonce, sizeof ev.nonce);
    step_machine(s, c, ev, now_ns);
    if (s->nstrangers > STRANGERS_MAX) {
        c = oldest_unauthenticated(s);
        if (c)
            conn_lost(s, c, now_ns);
    }
    return true;
}

static void serve_accept(struct tt_serve *s, uint64_t now_ns)
{
    for (int i = 0; i < EVENTS_PER_STEP; i++) {
        const int fd = tt_accept(&s->acceptor);

        if (fd < 0 || !conn_open(s, fd, now_ns))
            return;
    }
}

int tt_serve_connect(struct tt_serve *s)
{
    const uint64_t now_ns = tt_now_ns();
    int fd[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) != 0)
        return -1;
    if (conn_open(s, fd[1], now_ns)) {
        flush_all(s, now_ns);       /* the next step may be far off */
        return fd[0];
    }
    close(fd[0]);
    errno = ENOMEM;
    return -1;
}

/* The state machine refused this connection: also logs it here, for a user who only sees the
 * waiting ranks. */
static void log_refusal(const struct tt_serve *s, const struct conn *c)
{
    struct tt_address from = { .bytes = sizeof from.storage };
    char text[TT_ADDRESS_TEXT_BYTES] = "?";

    if (s->machine.nrefused > REFUSALS_LOGGED)
        return;
    if (getpeername(c->fd, (struct sockaddr *)&from.storage, &from.bytes) == 0)
        tt_address_text(&from, text);
    tt_log(TT_LOG_WARN, "start-up: refused a process from %s: %s%s", text, s->machine.refusal,
           s->machine.nrefused == REFUSALS_LOGGED ? " (further refusals are not logged)" : "");
}

/* Reads the available data and passes it on frame by frame. */
static void conn_receive(struct tt_serve *s, struct conn *c, uint64_t now_ns)
{
    struct tt_rdv_event ev = { .kind = TT_RDV_EV_FRAME };
    size_t room;
    uint8_t *at = tt_framer_space(&c->in, &room);
    const ssize_t n = at ? recv(c->fd, at, room, 0) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        conn_lost(s, c, now_ns);
        return;
    }
    tt_framer_added(&c->in, (size_t)n);
    while (!c->closing && tt_framer_next(&c->in, &ev.frame)) {
        const uint32_t nrefused = s->machine.nrefused;

        step_machine(s, c, ev, now_ns);
        if (s->machine.nrefused > nrefused)
            log_refusal(s, c);
        if (c->stranger && !tt_rdv_conn_is_unauthenticated(&c->machine, now_ns, 0)) {
            c->stranger = false;
            s->nstrangers--;
        }
    }
    if (c->in.bad)
        conn_lost(s, c, now_ns);
}

/* Drops silent unauthenticated connections, all of them at the end, and members that do not read
 * their result. */
static void drop_slow(struct tt_serve *s, uint64_t now_ns)
{
    struct conn *newer;

    for (struct conn *c = s->oldest; c; c = newer) {
        newer = c->newer;
        if (tt_rdv_conn_is_unauthenticated(&c->machine, now_ns, s->over_ns ? 0 : STRANGER_AGE_NS) ||
            (s->over_ns && now_ns - s->over_ns > FLUSH_NS))
            conn_lost(s, c, now_ns);
    }
}

/* Logs the missing ranks during a long wait, once and then every half minute. */
static void log_missing_ranks(struct tt_serve *s, uint64_t now_ns)
{
    char missing[160];

    if (s->machine.state != TT_RDV_GATHERING || s->machine.ncame == 0) {
        s->waits_ns = 0;
        return;
    }
    if (s->waits_ns == 0) {
        s->waits_ns = now_ns;
        s->say_ns = now_ns + SAY_FIRST_NS;
    }
    if (now_ns < s->say_ns)
        return;
    s->say_ns = now_ns + SAY_AGAIN_NS;
    tt_rdv_server_name_missing(&s->machine, missing, sizeof missing);
    tt_log(TT_LOG_WARN, "start-up: %u of %u ranks joined within %.0f s; missing: %s",
           s->machine.ncame, s->machine.nranks, (double)(now_ns - s->waits_ns) / 1e9, missing);
}

static void serve_begin_round(struct tt_serve *s)
{
    uint8_t secret[TT_SECRET_BYTES];

    tt_random_bytes(secret, sizeof secret);
    tt_rdv_server_init(&s->machine, s->token, secret, s->conf.nranks, s->conf.began_ns,
                       s->conf.deadline_ns);
    s->machine.emit = serve_on_act;
    s->machine.context = s;
    s->over_ns = 0;
}

void tt_serve_step(struct tt_serve *s, uint64_t now_ns)
{
    struct epoll_event evs[EVENTS_PER_STEP];
    const int n = epoll_wait(s->epoll, evs, EVENTS_PER_STEP, 0);

    for (int i = 0; i < n; i++) {
        struct conn *c = evs[i].data.ptr;

        if (!c)
            continue;
        if (evs[i].events & EPOLLOUT)
            conn_watch(s, c, false);
        if (c->closing && evs[i].events & (EPOLLHUP | EPOLLERR))
            c->dead = true;
        else if (!c->closing && evs[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            conn_receive(s, c, now_ns);
    }
    for (int i = 0; i < n; i++)
        if (!evs[i].data.ptr)
            serve_accept(s, now_ns);

    step_machine(s, NULL, (struct tt_rdv_event){ .kind = TT_RDV_EV_TICK }, now_ns);
    if (s->machine.state != TT_RDV_GATHERING && !s->over_ns)
        s->over_ns = now_ns;
    log_missing_ranks(s, now_ns);
    drop_slow(s, now_ns);
    flush_all(s, now_ns);
    if (s->conf.again && s->over_ns && s->nconns == 0) {
        tt_rdv_server_fini(&s->machine);
        serve_begin_round(s);
    }
}

uint64_t tt_serve_wake_ns(const struct tt_serve *s)
{
    const uint64_t slow_ns = s->oldest ? tt_now_ns() + TT_SECOND : TT_NEVER;
    const uint64_t deadline_ns = s->over_ns ? TT_NEVER : s->machine.deadline_ns;

    return slow_ns < deadline_ns ? slow_ns : deadline_ns;
}

int tt_serve_fd(const struct tt_serve *s)
{
    return s->epoll;
}

uint32_t tt_serve_ncame(const struct tt_serve *s)
{
    return s->machine.ncame;
}

bool tt_serve_waits_for(const struct tt_serve *s, uint32_t nranks, uint32_t rank)
{
    return tt_rdv_server_waits_for(&s->machine, nranks, rank);
}

void tt_serve_give_up(struct tt_serve *s, const char *sentence, uint64_t now_ns)
{
    tt_rdv_server_give_up(&s->machine, sentence);
    tt_serve_step(s, now_ns);
}

bool tt_serve_is_done(const struct tt_serve *s)
{
    return s->over_ns && s->nconns == 0;
}

/* A server holds one descriptor per rank: raises the soft limit if it is below the hard one. */
static void raise_descriptors(uint32_t nranks)
{
    struct rlimit limit;
    const rlim_t wanted = nranks + 256u;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

tutti_status tt_serve_open(struct tt_serve **out, const struct tt_serve_conf *conf)
{
    struct tt_serve *s = calloc(1, sizeof *s);
    tutti_status st;

    if (!s)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the rendezvous server");
    s->conf = *conf;
    snprintf(s->token, sizeof s->token, "%s", conf->token);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll < 0) {
        st = tt_fail_call(errno, "rendezvous", "epoll_create1");
        goto free_s;
    }
    st = tt_acceptor_init(&s->acceptor, "rendezvous", conf->listener, s->epoll,
                          (epoll_data_t){ .ptr = NULL });
    if (st)
        goto close_epoll;
    raise_descriptors(conf->nranks);
    serve_begin_round(s);
    *out = s;
    return TUTTI_OK;

close_epoll:
    close(s->epoll);
free_s:
    free(s);
    return st;
}

void tt_serve_close(struct tt_serve *s)
{
    if (!s)
        return;
    while (s->newest)
        conn_drop(s, s->newest);
    tt_rdv_server_fini(&s->machine);
    tt_acceptor_fini(&s->acceptor);
    close(s->epoll);
    free(s);
}

static void *serve_thread(void *arg)
{
    struct tt_serve *s = arg;

    (void)tt_float_env_enter();     /* not inherited from the creating thread */
    while (!tt_serve_is_done(s)) {
        struct pollfd p = { .fd = s->epoll, .events = POLLIN };
        const uint64_t now_ns = tt_now_ns(), wake_ns = tt_serve_wake_ns(s);
        const uint64_t left_ms = wake_ns > now_ns ? (wake_ns - now_ns + TT_MS - 1) / TT_MS : 0;

        poll(&p, 1, left_ms < 60000 ? (int)left_ms : 60000);
        tt_serve_step(s, tt_now_ns());
    }
    tt_serve_close(s);
    return NULL;
}

/* The thread blocks all signals, which are for the application. */
tutti_status tt_serve_in_background(struct tt_serve *s)
{
    sigset_t all, before;
    pthread_t thread;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&thread, NULL, serve_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        return tt_fail_errno(err, "rendezvous: cannot start the server's thread");
    pthread_detach(thread);
    return TUTTI_OK;
}
