#include "boot/tree_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/tree_conn.h"
#include "boot/tree_report.h"

#define STRANGERS_MAX 1024              /* above this the oldest is dropped */
#define STRANGER_AGE_NS (10 * TT_SECOND)
#define CONNECT_NS (2 * TT_SECOND)      /* per address */
#define EVENTS_PER_STEP 128
#define REFUSALS_LOGGED 16
#define FLUSH_NS (10 * TT_SECOND)       /* time for a child to read its result */
#define ADDRESSES_MAX (1 + TT_ENDPOINT_ADDRS + TT_TREE_ROOTS_MAX)
#define WHY_BYTES 160

struct tt_tree_node {
    struct tt_tree tree;
    int epoll;
    uint64_t now_ns;
    struct tt_acceptor tcp, local;
    struct tt_tree_stream *newest, *oldest;     /* children, and earlier parents that are closing */
    size_t nstreams, nstrangers;
    uint64_t over_ns;                   /* time of the result; 0: none */

    struct tt_tree_stream *up;          /* or NULL */
    bool wants_up;                      /* CONNECT was emitted */
    bool connecting, challenged;        /* up: not connected yet; its CHALLENGE has arrived */
    uint8_t where;
    uint64_t attempt_ns;
    struct tt_address addresses[ADDRESSES_MAX];     /* of the attempt */
    size_t naddresses, next;
    struct tt_address root[TT_TREE_ROOTS_MAX];
    size_t nroot;
    struct sockaddr_un leader;
    socklen_t leader_bytes;
    struct tt_endpoint own;
    int first_up;                       /* connection of the first attempt, or -1 */
    struct tt_frame challenge;          /* received from it; body: challenge_body, or NULL */
    uint8_t challenge_body[2 + 2 * TT_NONCE_BYTES];
    char lost[WHY_BYTES];

    int table_file;                     /* leader: created when it starts, as descriptors can run
                                           out; other ranks: received; or -1 */
    bool filled;
    const uint8_t *table;               /* mapped */
    size_t table_bytes;
};

static void node_machine(struct tt_tree_node *n, struct tt_tree_event ev)
{
    tt_tree_step(&n->tree, &ev, n->now_ns);
}

/* ---- streams ---- */

static void stream_link(struct tt_tree_node *n, struct tt_tree_stream *c)
{
    c->newer = NULL;
    c->older = n->newest;
    *(n->newest ? &n->newest->newer : &n->oldest) = c;
    n->newest = c;
    n->nstreams++;
}

/* Unlinks and frees a stream, to which nothing else refers. */
static void stream_drop(struct tt_tree_node *n, struct tt_tree_stream *c)
{
    *(c->newer ? &c->newer->older : &n->newest) = c->older;
    *(c->older ? &c->older->newer : &n->oldest) = c->newer;
    n->nstreams--;
    n->nstrangers -= c->stranger;
    tt_tree_stream_destroy(c);
}

/* Ends the connection of a child, which has closed it or is dropped. */
static void child_end(struct tt_tree_node *n, struct tt_tree_stream *c)
{
    if (!c->closing)
        node_machine(n, (struct tt_tree_event){ .kind = TT_TREE_EV_CLOSED, .conn = &c->machine });
    c->closing = c->dead = true;
}

/* Ends broken streams, which can break others; then frees closing streams that have sent
 * everything. */
static void node_sweep(struct tt_tree_node *n)
{
    struct tt_tree_stream *older;
    bool again = true;

    while (again) {
        again = false;
        for (struct tt_tree_stream *c = n->newest; c; c = c->older)
            if (c->dead && !c->closing) {
                child_end(n, c);
                again = true;
            }
    }
    for (struct tt_tree_stream *c = n->newest; c; c = older) {
        older = c->older;
        if (c->closing)
            tt_tree_stream_flush(c);
        if (c->dead)
            stream_drop(n, c);
    }
}

/* Passes the table to a rank of this host; the file is written at its first use. If this fails, the
 * stream is broken. */
static void pass_table(struct tt_tree_node *n, struct tt_tree_stream *c)
{
    const struct tt_tree_place *p = &n->tree.place;

    if (!n->filled && !tt_tree_file_fill(n->table_file, p->table, p->table_bytes)) {
        tt_log(TT_LOG_ERROR,
               "start-up: cannot write a memory file of %zu bytes for the address records: %s",
               p->table_bytes, strerror(errno));
        c->dead = true;
        return;
    }
    n->filled = true;
    c->passed_fd = n->table_file;
}

/* Handles an action of the state machine, during a step. */
static void node_on_act(void *context, const struct tt_tree_act *act)
{
    struct tt_tree_node *n = context;
    struct tt_tree_stream *c = act->conn ? (struct tt_tree_stream *)act->conn : n->up;
    struct tt_endpoint server;
    struct tt_reader r;

    switch ((enum tt_tree_act_kind)act->kind) {
    case TT_TREE_ACT_CONNECT:
        n->wants_up = true;
        n->where = act->where;
        if (act->where != TT_TREE_TO_SERVER)
            break;
        tt_reader_init(&r, act->address->data, act->address->bytes);
        tt_endpoint_read(&r, &server);
        server.port = act->port;
        n->naddresses = r.bad ? 0 : tt_endpoint_candidates(&n->own, &server, n->addresses);
        break;
    case TT_TREE_ACT_SEND:
        if (c && act->shares)
            pass_table(n, c);
        if (c)
            tt_tree_stream_send(c, act->data, act->bytes);
        break;
    case TT_TREE_ACT_CLOSE:
        if (!act->conn) {
            n->wants_up = false;
            n->up = NULL;
        }
        if (c && !act->conn)
            stream_link(n, c);
        if (c)
            c->closing = true;
        break;
    }
}

/* ---- children ---- */

static struct tt_tree_stream *oldest_stranger(struct tt_tree_node *n)
{
    struct tt_tree_stream *c = n->oldest;

    while (c && !(c->stranger && !c->closing && !c->dead))
        c = c->newer;
    return c;
}

/* Takes ownership of fd. Returns false if out of memory. */
static bool child_open(struct tt_tree_node *n, int fd)
{
    struct tt_tree_stream *c = tt_tree_stream_create(fd, n->epoll, TT_TREE_JOIN_BYTES, false);
    struct tt_tree_event ev = { .kind = TT_TREE_EV_OPEN };

    if (!c) {
        close(fd);
        return false;
    }
    c->stranger = true;
    n->nstrangers++;
    stream_link(n, c);
    tt_random_bytes(ev.nonce, sizeof ev.nonce);
    ev.conn = &c->machine;
    node_machine(n, ev);
    if (n->nstrangers > STRANGERS_MAX) {
        c = oldest_stranger(n);
        if (c)
            child_end(n, c);
    }
    return true;
}

static void node_accept(struct tt_tree_node *n, struct tt_acceptor *a)
{
    for (int i = 0; i < EVENTS_PER_STEP; i++) {
        const int fd = tt_accept(a);

        if (fd < 0 || !child_open(n, fd))
            return;
    }
}

/* Logs that the state machine refused this connection, also on this host, for a user who only sees
 * the waiting ranks. */
static void log_refusal(const struct tt_tree_node *n, const struct tt_tree_stream *c)
{
    struct tt_address from = { .bytes = sizeof from.storage };
    char text[TT_ADDRESS_TEXT_BYTES] = "this host";

    if (n->tree.nrefused > REFUSALS_LOGGED)
        return;
    if (getpeername(c->fd, (struct sockaddr *)&from.storage, &from.bytes) == 0 &&
        from.storage.ss_family != AF_UNIX)
        tt_address_text(&from, text);
    tt_log(TT_LOG_WARN, "start-up: refused a process from %s: %s%s", text,
           n->tree.refusal ? n->tree.refusal : "out of memory",
           n->tree.nrefused == REFUSALS_LOGGED ? " (further refusals are not logged)" : "");
}

static void child_receive(struct tt_tree_node *n, struct tt_tree_stream *c)
{
    struct tt_tree_event ev = { .kind = TT_TREE_EV_FRAME, .conn = &c->machine };

    if (!tt_tree_stream_receive(c)) {
        child_end(n, c);
        return;
    }
    while (!c->closing && tt_framer_next(&c->in, &ev.frame)) {
        const uint32_t nrefused = n->tree.nrefused;

        node_machine(n, ev);
        c->in.body_max = c->machine.body_max;
        if (n->tree.nrefused > nrefused)
            log_refusal(n, c);
        if (c->stranger && !tt_tree_conn_is_unauthenticated(&c->machine, n->now_ns, 0)) {
            c->stranger = false;
            n->nstrangers--;
        }
    }
    if (c->in.bad)
        child_end(n, c);
}

/* Drops silent unauthenticated connections (all unauthenticated ones, after the result), and
 * children that do not read their result. */
static void drop_slow(struct tt_tree_node *n)
{
    struct tt_tree_stream *newer;

    for (struct tt_tree_stream *c = n->oldest; c; c = newer) {
        newer = c->newer;
        if ((c->stranger && !c->closing &&
             tt_tree_conn_is_unauthenticated(&c->machine, n->now_ns,
                                             n->over_ns ? 0 : STRANGER_AGE_NS)) ||
            (n->over_ns && n->now_ns - n->over_ns > FLUSH_NS))
            child_end(n, c);
    }
}

/* ---- the parent ---- */

static void up_destroy(struct tt_tree_node *n)
{
    tt_tree_stream_destroy(n->up);
    n->up = NULL;
}

/* The connection to the parent ended, or could not be made. `absent`: no process listens there. */
static void up_end(struct tt_tree_node *n, const char *why, bool absent)
{
    up_destroy(n);
    if (n->where == TT_TREE_TO_ROOT && n->tree.state == TT_TREE_GATHERING)
        snprintf(n->lost, sizeof n->lost, "%s", why);
    else
        node_machine(n, (struct tt_tree_event){ .kind = TT_TREE_EV_CLOSED, .absent = absent });
}

static void up_opened(struct tt_tree_node *n)
{
    struct tt_tree_event ev = { .kind = TT_TREE_EV_OPEN };

    n->connecting = n->challenged = false;
    tt_random_bytes(ev.nonce, sizeof ev.nonce);
    node_machine(n, ev);
}

/* Returns 0 if the connection is in progress, or errno. */
static int up_connect(struct tt_tree_node *n, int fd)
{
    if (fd < 0)
        return errno;
    n->up = tt_tree_stream_create(fd, n->epoll, tt_tree_body_max(n->tree.conf.nranks), true);
    if (!n->up) {
        close(fd);
        return ENOMEM;
    }
    n->connecting = true;
    n->attempt_ns = n->now_ns;
    return 0;
}

static void up_connect_leader(struct tt_tree_node *n)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err = fd < 0 ? errno : 0;

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&n->leader, n->leader_bytes) != 0) {
        err = errno;
        close(fd);
    }
    if (!err)
        err = up_connect(n, fd);
    if (err)
        up_end(n, strerror(err), err == ECONNREFUSED || err == ENOENT);
}

/* Tries the addresses from `next` on. */
static void up_connect_next(struct tt_tree_node *n)
{
    int err = EADDRNOTAVAIL;

    while (n->next < n->naddresses) {
        err = up_connect(n, tt_connect_begin(&n->addresses[n->next++]));
        if (!err)
            return;
    }
    up_end(n, strerror(err), false);
}

static void up_frame(struct tt_tree_node *n, const struct tt_frame *f);

/* The first attempt uses the connection of the configuration. */
static void up_use_first(struct tt_tree_node *n)
{
    const int err = up_connect(n, n->first_up);

    n->first_up = -1;
    if (err) {
        up_end(n, strerror(err), false);
        return;
    }
    tt_tree_stream_watch(n->up);
    up_opened(n);
    if (n->challenge.body)
        up_frame(n, &n->challenge);
}

static void up_begin(struct tt_tree_node *n)
{
    n->wants_up = false;
    n->next = 0;
    if (n->where == TT_TREE_TO_LEADER) {
        up_connect_leader(n);
        return;
    }
    if (n->where == TT_TREE_TO_ROOT && n->first_up >= 0) {
        up_use_first(n);
        return;
    }
    if (n->where == TT_TREE_TO_ROOT) {
        memcpy(n->addresses, n->root, sizeof n->root);
        n->naddresses = n->nroot;
    }
    up_connect_next(n);
}

/* Returns whether the server belongs to another start-up: the first frame has its id. */
static bool is_other_gathering(const struct tt_tree_node *n, const struct tt_frame *f)
{
    uint8_t nonce[TT_NONCE_BYTES], gathering[TT_NONCE_BYTES];
    struct tt_reader r;

    tt_reader_init(&r, f->body, f->bytes);
    if (tt_read_u16(&r) != TT_TREE_VERSION)
        return false;       /* the state machine reports it */
    tt_read_bytes(&r, nonce, sizeof nonce);
    tt_read_bytes(&r, gathering, sizeof gathering);
    return r.bad || memcmp(gathering, n->tree.conf.gathering, sizeof gathering) != 0;
}

static void up_frame(struct tt_tree_node *n, const struct tt_frame *f)
{
    if (!n->challenged && is_other_gathering(n, f)) {
        up_end(n, "the server has begun another start-up", false);
        return;
    }
    n->challenged = true;
    node_machine(n, (struct tt_tree_event){ .kind = TT_TREE_EV_FRAME, .frame = *f });
}

static void up_receive(struct tt_tree_node *n)
{
    struct tt_tree_stream *c = n->up;
    struct tt_frame f;

    if (!tt_tree_stream_receive(c)) {
        up_end(n, "the connection to the server ended", false);
        return;
    }
    if (c->received_fd >= 0) {
        if (n->table_file >= 0)
            close(n->table_file);
        n->table_file = c->received_fd;
        c->received_fd = -1;
    }
    while (n->up == c && tt_framer_next(&c->in, &f))
        up_frame(n, &f);
    if (n->up == c && c->in.bad)
        up_end(n, "protocol error: not a rendezvous server", false);
}

static void up_event(struct tt_tree_node *n, uint32_t events)
{
    int err;

    if (!n->connecting) {
        if (events & EPOLLOUT)
            tt_tree_stream_flush(n->up);
        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            up_receive(n);
        return;
    }
    err = tt_connect_result(n->up->fd);
    if (!err) {
        tt_tree_stream_watch(n->up);
        up_opened(n);
        return;
    }
    up_destroy(n);
    if (n->where == TT_TREE_TO_LEADER || n->next >= n->naddresses)
        up_end(n, strerror(err), n->where == TT_TREE_TO_LEADER && err == ECONNREFUSED);
    else
        up_connect_next(n);
}

/* Replaces a slow connection attempt by one to the next address, and ends a broken connection. */
static void up_check(struct tt_tree_node *n)
{
    if (n->up && n->up->dead) {
        up_end(n, "the connection to the server broke", false);
    } else if (n->up && n->connecting && n->now_ns - n->attempt_ns >= CONNECT_NS &&
               n->where != TT_TREE_TO_LEADER) {
        up_destroy(n);
        if (n->next < n->naddresses)
            up_connect_next(n);
        else
            up_end(n, strerror(ETIMEDOUT), false);
    }
    while (n->wants_up && !n->up && !*n->lost)
        up_begin(n);
}

/* ---- the table of a rank whose leader shares it ---- */

static void map_table(struct tt_tree_node *n)
{
    const struct tt_tree_place *p = &n->tree.place;

    if (n->table || n->tree.state != TT_TREE_PLACED || p->table || p->table_bytes == 0)
        return;
    n->table = tt_tree_file_map(n->table_file, p->table_bytes);
    n->table_bytes = p->table_bytes;
    if (!n->table || !tt_tree_use_table(&n->tree, n->table, n->table_bytes))
        snprintf(n->lost, sizeof n->lost,
                 "the first rank of this host passed an invalid table of address records");
}

/* ---- interface ---- */

static void node_events(struct tt_tree_node *n)
{
    struct epoll_event evs[EVENTS_PER_STEP];
    const int count = epoll_wait(n->epoll, evs, EVENTS_PER_STEP, 0);

    /* Only the sweep frees streams, except for the parent's, whose event is therefore handled
     * last. */
    uint32_t up = 0;

    for (int i = 0; i < count; i++) {
        struct tt_tree_stream *c = evs[i].data.ptr;

        if (evs[i].data.ptr == &n->tcp || evs[i].data.ptr == &n->local)
            continue;
        if (c == n->up) {
            up = evs[i].events;
            continue;
        }
        if (evs[i].events & EPOLLOUT)
            tt_tree_stream_flush(c);
        if (c->closing && evs[i].events & (EPOLLHUP | EPOLLERR))
            c->dead = true;
        else if (!c->closing && evs[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            child_receive(n, c);
    }
    if (up && n->up)
        up_event(n, up);
    for (int i = 0; i < count; i++)
        if (evs[i].data.ptr == &n->tcp || evs[i].data.ptr == &n->local)
            node_accept(n, evs[i].data.ptr);
}

void tt_tree_node_step(struct tt_tree_node *n, uint64_t now_ns)
{
    n->now_ns = now_ns;
    node_events(n);
    node_machine(n, (struct tt_tree_event){ .kind = TT_TREE_EV_TICK });
    up_check(n);
    map_table(n);
    if (n->tree.state != TT_TREE_GATHERING && !n->over_ns)
        n->over_ns = now_ns;
    drop_slow(n);
    node_sweep(n);
}

uint64_t tt_tree_node_wake_ns(const struct tt_tree_node *n)
{
    uint64_t at_ns = tt_tree_wake_ns(&n->tree);

    if (n->wants_up)
        return n->now_ns;
    if (n->nstreams > 0 && n->now_ns + TT_SECOND < at_ns)
        at_ns = n->now_ns + TT_SECOND;
    if (n->up && n->connecting && n->attempt_ns + CONNECT_NS < at_ns)
        at_ns = n->attempt_ns + CONNECT_NS;
    return at_ns;
}

int tt_tree_node_fd(const struct tt_tree_node *n)
{
    return n->epoll;
}

struct tt_tree *tt_tree_node_tree(struct tt_tree_node *n)
{
    return &n->tree;
}

/* The leader maps the file as well if it has passed it to other ranks. */
void *tt_tree_node_take_table(struct tt_tree_node *n, size_t *bytes, bool *shared)
{
    const struct tt_tree_place *p = &n->tree.place;
    void *table = (void *)n->table;

    if (!table && n->filled)
        table = (void *)tt_tree_file_map(n->table_file, p->table_bytes);
    *bytes = p->table_bytes;
    *shared = table != NULL;
    n->table = NULL;
    if (table)
        return table;
    table = malloc(p->table_bytes);
    if (table)
        memcpy(table, p->table, p->table_bytes);
    return table;
}

bool tt_tree_node_is_done(const struct tt_tree_node *n)
{
    return n->over_ns && tt_tree_is_over(&n->tree) && n->nstreams == 0 && !n->up;
}

const char *tt_tree_node_lost(const struct tt_tree_node *n)
{
    return *n->lost ? n->lost : NULL;
}

int tt_tree_node_connect(struct tt_tree_node *n, uint64_t now_ns)
{
    int fd[2];

    n->now_ns = now_ns;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) != 0)
        return -1;
    if (child_open(n, fd[1])) {
        node_sweep(n);
        return fd[0];
    }
    close(fd[0]);
    errno = ENOMEM;
    return -1;
}

static void node_init_tree(struct tt_tree_node *n, const struct tt_tree_conf *conf)
{
    struct tt_tree_conf tree = *conf;
    uint64_t seed;

    tree.shares_table = n->table_file >= 0;     /* else it is sent */
    tree.refuses_late = true;
    tt_random_bytes(&seed, sizeof seed);
    tt_tree_init(&n->tree, &tree, seed);
    n->tree.emit = node_on_act;
    n->tree.context = n;
}

/* Sets the parts of the node that come from the configuration. */
static void node_configure(struct tt_tree_node *n, const struct tt_tree_node_conf *conf)
{
    const size_t most = (size_t)conf->tree.nranks * (TT_TREE_CARD_MAX + TT_RECORD_OVERHEAD);

    n->table_file = conf->local >= 0 ? tt_tree_file_create(most) : -1;
    node_init_tree(n, &conf->tree);
    n->now_ns = conf->tree.began_ns;
    n->first_up = -1;
    n->tcp.listener = n->local.listener = -1;
    if (conf->own)
        n->own = *conf->own;
    if (conf->leader) {
        n->leader = *conf->leader;
        n->leader_bytes = conf->leader_bytes;
    }
    tt_assert(conf->nroot <= TT_TREE_ROOTS_MAX);
    n->nroot = conf->nroot;
    if (conf->nroot)
        memcpy(n->root, conf->root, conf->nroot * sizeof *conf->root);
    if (conf->challenge && conf->challenge->bytes <= sizeof n->challenge_body) {
        n->challenge = *conf->challenge;
        memcpy(n->challenge_body, conf->challenge->body, conf->challenge->bytes);
        n->challenge.body = n->challenge_body;
    }
}

tutti_status tt_tree_node_open(struct tt_tree_node **out, const struct tt_tree_node_conf *conf)
{
    struct tt_tree_node *n = calloc(1, sizeof *n);
    tutti_status st = TUTTI_OK;
    bool owns_local = false;

    if (!n) {
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for the rendezvous");
        goto close_rest;
    }
    node_configure(n, conf);
    n->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (n->epoll < 0) {
        st = tt_fail_call(errno, "rendezvous", "epoll_create1");
        goto free_n;
    }
    if (conf->local >= 0)
        st = tt_acceptor_init(&n->local, "rendezvous", conf->local, n->epoll,
                              (epoll_data_t){ .ptr = &n->local });
    if (st)
        goto close_epoll;
    owns_local = true;
    if (conf->listener >= 0)
        st = tt_acceptor_init(&n->tcp, "rendezvous", conf->listener, n->epoll,
                              (epoll_data_t){ .ptr = &n->tcp });
    if (st)
        goto close_local;
    n->first_up = conf->up;
    *out = n;
    return TUTTI_OK;

close_local:
    tt_acceptor_fini(&n->local);
close_epoll:
    close(n->epoll);
free_n:
    tt_tree_fini(&n->tree);
    if (n->table_file >= 0)
        close(n->table_file);
    free(n);
close_rest:
    if (conf->local >= 0 && !owns_local)
        close(conf->local);
    if (conf->up >= 0)
        close(conf->up);
    return st;
}

void tt_tree_node_restart(struct tt_tree_node *n, const struct tt_tree_conf *tree)
{
    tt_assert(n->nstreams == 0 && !n->up);
    tt_tree_fini(&n->tree);
    n->over_ns = 0;
    node_init_tree(n, tree);
}

void tt_tree_node_close(struct tt_tree_node *n)
{
    if (!n)
        return;
    while (n->newest)
        stream_drop(n, n->newest);
    up_destroy(n);
    if (n->first_up >= 0)
        close(n->first_up);
    if (n->table)
        munmap((void *)n->table, n->table_bytes);
    if (n->table_file >= 0)
        close(n->table_file);
    tt_acceptor_fini(&n->tcp);
    tt_acceptor_fini(&n->local);
    tt_tree_fini(&n->tree);
    close(n->epoll);
    free(n);
}
