/* The tcp transport: how the further lanes of a link are opened, fail and are closed.
 *
 * Rank 0 runs the transport, and opens lanes. Rank 1 is a raw peer, which accepts them step by
 * step; in some tests it runs the transport, too. Peers at any distance count as far. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/host.h"
#include "nodes.h"
#include "raw.h"
#include "support/unit.h"
#include "wire/tcp/tcp.h"

#define LANES TT_TCP_LANES_MAX

/* ---- the raw peer ---- */

/* An accepted connection, and its HELLO. */
struct guest {
    int fd;
    struct tt_hello hello;
};

/* Listens, and publishes the listener's address as that of this rank. */
static int raw_listen(struct node *n)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct timeval limit = { .tv_sec = 60 };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof at;
    struct tt_tcp_address a = { .host = tt_host_hash(),
                                .count = 1,
                                .endpoints[0] = { .family = 4, .ip = { 127, 0, 0, 1 } } };

    CHECK(n, fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 64) == 0);
    CHECK(n, getsockname(fd, (struct sockaddr *)&at, &bytes) == 0);
    CHECK(n, setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    a.port = ntohs(at.sin_port);
    tt_tcp_address_write(&a, &n->board->address[n->rank]);
    node_barrier(n);
    return fd;
}

static struct tt_hello raw_hear(struct node *n, int fd, enum tt_hello_kind kind)
{
    uint8_t in[TT_HELLO_BYTES];
    struct tt_hello h;

    CHECK(n, recv(fd, in, sizeof in, MSG_WAITALL) == sizeof in);
    CHECK(n, tt_hello_read(&h, node_secret, in) && h.kind == kind);
    return h;
}

/* Accepts a connection and its HELLO. The caller must check the lane. */
static struct guest raw_accept(struct node *n, int listener)
{
    const struct timeval limit = { .tv_sec = 60 };
    struct guest g = { .fd = accept(listener, NULL, NULL) };

    CHECK(n, g.fd >= 0);
    CHECK(n, setsockopt(g.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    g.hello = raw_hear(n, g.fd, TT_HELLO);
    return g;
}

static void raw_welcome(const struct guest *g)
{
    struct tt_hello h = g->hello;

    h.kind = TT_WELCOME;
    h.from = g->hello.to;
    h.to = g->hello.from;
    h.lanes = LANES;
    say(g->fd, &h, node_secret, TT_HELLO_BYTES);
}

static void raw_send(struct node *n, int fd, enum tt_frame_kind kind)
{
    const struct tt_frame f = { .kind = (uint8_t)kind };
    uint8_t out[TT_FRAME_BYTES];

    tt_frame_write(&f, out);
    CHECK(n, send(fd, out, sizeof out, MSG_NOSIGNAL) == sizeof out);
}

/* Accepts the first lane entirely. */
static struct guest raw_link(struct node *n, int listener)
{
    const struct guest g = raw_accept(n, listener);

    CHECK(n, g.hello.lane == 0 && g.hello.lanes == LANES);
    raw_welcome(&g);
    raw_hear(n, g.fd, TT_CONFIRM);
    return g;
}

/* Accepts lanes first .. end - 1, in any order, up to CONFIRM, which is not read. */
static void raw_lanes(struct node *n, int listener, uint32_t first, uint32_t end, struct guest *at)
{
    for (uint32_t i = first; i < end; i++) {
        const struct guest g = raw_accept(n, listener);

        CHECK(n, g.hello.lane >= first && g.hello.lane < end);
        raw_welcome(&g);
        at[g.hello.lane] = g;
    }
    for (uint32_t i = first; i < end; i++) {
        struct pollfd p = { .fd = at[i].fd, .events = POLLIN };

        CHECK(n, poll(&p, 1, 60000) == 1);
    }
}

/* Closes a connection in order: sends BYE, and waits until the other end has closed it. */
static void raw_end(struct node *n, int fd)
{
    raw_send(n, fd, TT_FRAME_BYE);
    CHECK(n, shutdown(fd, SHUT_WR) == 0);
    CHECK(n, hangs_up(fd));
    close(fd);
}

/* ---- rank 0 ---- */

static void far_open(struct node *n)
{
    node_open(n);
    tt_tcp_of(n->w)->far_ns = 0;
    tt_tcp_of(n->w)->far_lanes = LANES;
}

/* Opens the transport, and connects to the raw peer. */
static struct tt_tcp_link *far_connect(struct node *n)
{
    struct tt_tcp_link *link;

    far_open(n);
    node_connect(n, 1);
    UNTIL(n, n->ups[1]);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, 1);
    CHECK(n, link->initiator && link->on_demand && link->nlanes == LANES);
    return link;
}

/* Requests this number of lanes, as if data had waited for them. */
static void lanes_want(struct tt_tcp_link *link, uint32_t lanes)
{
    link->wanted = lanes;
    link->tcp->lanes_wanted = true;
}

static uint32_t lanes_connected(const struct tt_tcp_link *link)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < link->nlanes; i++)
        n += link->lanes[i].fd >= 0;
    return n;
}

/* Returns the number of lanes on which data may be sent. */
static uint32_t lanes_usable(const struct tt_tcp_link *link)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < link->nlanes; i++)
        n += !link->load.lane[i].down;
    return n;
}

struct shown {
    uint32_t lanes, up;
};

static void show(void *arg, const struct tt_wire_lane *lane)
{
    struct shown *s = arg;

    s->lanes++;
    s->up += lane->is_up;
}

/* What the counters of lanes show. */
static struct shown shown(struct node *n)
{
    struct shown s = { 0 };

    n->ops->lanes(n->w, true, show, &s);
    return s;
}

/* ---- an acceptor that closes while lanes open ---- */

/* The peer has sent WELCOME for three lanes, and closes them without having read CONFIRM. The first
 * lane is closed in order, before them (seed 1) or after them (seed 0). */
static void closing_acceptor_role(struct node *n)
{
    const bool first = n->setting->seed == 1;
    struct tt_tcp_link *link;
    struct guest lane[4];
    int listener;

    if (n->rank == 1) {
        listener = raw_listen(n);
        lane[0] = raw_link(n, listener);
        raw_lanes(n, listener, 1, 4, lane);
        if (first) {
            raw_send(n, lane[0].fd, TT_FRAME_BYE);
            CHECK(n, shutdown(lane[0].fd, SHUT_WR) == 0);
            while (!n->board->flag[0])
                poll(NULL, 0, 1);
        }
        for (int i = 1; i < 4; i++)
            close(lane[i].fd);
        if (first)
            CHECK(n, hangs_up(lane[0].fd));
        else
            raw_end(n, lane[0].fd);
        close(listener);
        return;
    }
    link = far_connect(n);
    lanes_want(link, 4);
    UNTIL(n, lanes_connected(link) == 4);
    CHECK(n, lanes_usable(link) == 1);
    if (first) {
        UNTIL(n, link->lanes[0].ended);
        CHECK(n, n->losses[1] == 0);    /* data may still arrive on the other lanes */
        n->board->flag[0] = 1;
    }
    UNTIL(n, n->losses[1] == 1);
    CHECK(n, n->why[1] == TUTTI_OK);
    CHECK(n, tt_tcp_of(n->w)->promised == 0);
}

static void acceptor_may_close_while_lanes_open(void **state)
{
    struct setting s = *(const struct setting *)*state;

    for (s.seed = 0; s.seed < 2; s.seed++)
        nodes_run(&s, 2, closing_acceptor_role);
}

/* ---- data before the other end has a lane ---- */

enum { EARLY_PUT = 32 << 10, EARLY_LANES = 4, EARLY_READY = 2 };

static bool is_readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return poll(&p, 1, 0) == 1;
}

/* The peer reads CONFIRM, and sends READY much later, first on one lane. */
static void accept_slowly(struct node *n)
{
    const int listener = raw_listen(n);
    uint8_t in[TT_FRAME_BYTES];
    struct guest lane[EARLY_LANES];
    struct tt_frame f;

    lane[0] = raw_link(n, listener);
    raw_lanes(n, listener, 1, EARLY_LANES, lane);
    for (int i = 1; i < EARLY_LANES; i++)
        raw_hear(n, lane[i].fd, TT_CONFIRM);
    while (!n->board->flag[0])      /* rank 0 has more data than fits into the first lane */
        poll(NULL, 0, 1);
    for (int i = 1; i < EARLY_LANES; i++)
        CHECK(n, !is_readable(lane[i].fd));
    raw_send(n, lane[EARLY_READY].fd, TT_FRAME_READY);
    CHECK(n, recv(lane[EARLY_READY].fd, in, sizeof in, MSG_WAITALL) == sizeof in);
    CHECK(n, tt_frame_read(&f, in) && f.kind == TT_FRAME_PUT && f.bytes == EARLY_PUT);
    for (int i = 1; i < EARLY_LANES; i++)
        if (i != EARLY_READY) {
            CHECK(n, !is_readable(lane[i].fd));
            raw_send(n, lane[i].fd, TT_FRAME_READY);
        }
    while (!n->board->flag[1])
        poll(NULL, 0, 1);
    for (int i = 0; i < EARLY_LANES; i++)
        close(lane[i].fd);
    close(listener);
}

static void early_role(struct node *n)
{
    struct tt_tcp_link *link;
    struct tt_region *region;
    struct tt_desc d;

    if (n->rank == 1) {
        accept_slowly(n);
        return;
    }
    link = far_connect(n);
    CHECK(n, n->ops->reg(n->w, node_memory(n, EARLY_PUT), EARLY_PUT, &region) == TUTTI_OK);
    d = node_put(&n->link[1].theirs, 0, region->mem, EARLY_PUT);
    lanes_want(link, EARLY_LANES);
    CHECK(n, shown(n).lanes == 1);
    UNTIL(n, lanes_connected(link) == EARLY_LANES);
    while (n->ops->post(n->w, &d, 1) == 1)
        node_poll(n);
    CHECK(n, lanes_usable(link) == 1 && shown(n).lanes == 1 && shown(n).up == 1);
    n->board->flag[0] = 1;
    UNTIL(n, lanes_usable(link) > 1);
    CHECK(n, n->ops->post(n->w, &d, 1) == 1);
    UNTIL(n, lanes_usable(link) == EARLY_LANES);
    CHECK(n, link->load.keeps_first);
    CHECK(n, shown(n).lanes == EARLY_LANES && shown(n).up == EARLY_LANES);
    n->board->flag[1] = 1;
    UNTIL(n, n->losses[1] == 1);
}

static void data_waits_for_ready_lanes(void **state)
{
    nodes_run(*state, 2, early_role);
}

/* ---- a lane that does not start with READY, or receives it twice ---- */

static void unready_role(struct node *n)
{
    struct tt_tcp_link *link;
    struct guest lane[4];
    int listener;

    if (n->rank == 1) {
        listener = raw_listen(n);
        lane[0] = raw_link(n, listener);
        raw_lanes(n, listener, 1, 4, lane);
        if (n->setting->seed == 1)
            raw_send(n, lane[2].fd, TT_FRAME_READY);
        raw_send(n, lane[2].fd, n->setting->seed == 1 ? TT_FRAME_READY : TT_FRAME_BYE);
        for (int i = 0; i < 4; i++) {
            CHECK(n, hangs_up(lane[i].fd));
            close(lane[i].fd);
        }
        close(listener);
        return;
    }
    link = far_connect(n);
    lanes_want(link, 4);
    UNTIL(n, n->losses[1] == 1);
    CHECK(n, n->why[1] == TUTTI_ERR_PROTOCOL);
}

static void lane_begins_with_ready_once(void **state)
{
    struct setting s = *(const struct setting *)*state;

    for (s.seed = 0; s.seed < 2; s.seed++)
        nodes_run(&s, 2, unready_role);
}

/* ---- a lane that fails ---- */

enum { FAILS_LANE = 2 };

/* The peer repeatedly closes one lane: after HELLO, and (seed 1) after CONFIRM. Then it accepts
 * this lane, and further ones. */
static void refuse_lane(struct node *n)
{
    const int listener = raw_listen(n);
    struct guest lane[8];
    struct guest g;

    lane[0] = raw_link(n, listener);
    for (int refusals = 0, accepted = 1; accepted < 4;) {
        g = raw_accept(n, listener);
        CHECK(n, g.hello.lane >= 1 && g.hello.lane < 4);
        if (g.hello.lane == FAILS_LANE && refusals <= TT_TCP_TRIES) {
            if (n->setting->seed == 1) {
                raw_welcome(&g);
                raw_hear(n, g.fd, TT_CONFIRM);
            }
            close(g.fd);
            refusals++;
            continue;
        }
        while (g.hello.lane == FAILS_LANE && !n->board->flag[1])
            poll(NULL, 0, 1);
        raw_welcome(&g);
        raw_hear(n, g.fd, TT_CONFIRM);
        raw_send(n, g.fd, TT_FRAME_READY);
        lane[accepted++] = g;
    }
    raw_lanes(n, listener, 4, 8, lane);
    for (int i = 4; i < 8; i++)
        raw_send(n, lane[i].fd, TT_FRAME_READY);
    for (int i = 0; i < 8; i++) {
        raw_send(n, lane[i].fd, TT_FRAME_BYE);
        CHECK(n, shutdown(lane[i].fd, SHUT_WR) == 0);
    }
    for (int i = 0; i < 8; i++) {
        CHECK(n, hangs_up(lane[i].fd));
        close(lane[i].fd);
    }
    close(listener);
}

/* Sleeps until the transport wakes this rank, and polls. */
static void sleep_once(struct node *n)
{
    struct pollfd p = { .events = POLLIN };

    p.fd = n->ops->arm(n->w);
    CHECK(n, p.fd < 0 || poll(&p, 1, 60000) == 1);
    node_poll(n);
}

static void failing_role(struct node *n)
{
    struct tt_tcp_link *link;
    struct tt_tcp *t;

    if (n->rank == 1) {
        refuse_lane(n);
        return;
    }
    link = far_connect(n);
    t = tt_tcp_of(n->w);
    lanes_want(link, 4);
    /* its attempts are paused */
    UNTIL(n, link->lanes[FAILS_LANE].failures >= TT_TCP_TRIES && lanes_usable(link) == 3 &&
                 t->nopening == 0 && link->promised == link->nlanes - 3);
    CHECK(n, n->losses[1] == 0);
    CHECK(n, shown(n).lanes == 4 && shown(n).up == 3);
    n->board->flag[1] = 1;
    while (lanes_usable(link) < 4)      /* nothing else wakes this rank */
        sleep_once(n);
    CHECK(n, link->lanes[FAILS_LANE].failures == 0 && link->promised == link->nlanes - 4);
    lanes_want(link, 8);
    UNTIL(n, lanes_usable(link) == 8 || n->losses[1]);
    UNTIL(n, n->losses[1] == 1);
    CHECK(n, n->why[1] == TUTTI_OK && link->requested == 8);
}

static void failed_lane_is_tried_again(void **state)
{
    struct setting s = *(const struct setting *)*state;

    for (s.seed = 0; s.seed < 2; s.seed++)
        nodes_run(&s, 2, failing_role);
}

/* ---- a link that is closed while its lanes open ---- */

enum { SHORT_PUTS = 40, SHORT_BYTES = 24 << 10, SHORT_ROUNDS = 8 };

static bool is_sender(const struct node *n)
{
    return n->rank == n->setting->seed % 2;
}

/* Both ends run the transport. One sends while lanes open, and closes at once: all data arrives,
 * and the other end sees an orderly close. */
static void brief_round(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_tcp_link *link;
    struct tt_rkey theirs;
    struct tt_desc d;

    far_open(n);
    node_barrier_idle(n);
    node_connect_all(n);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, !n->rank);
    CHECK(n, n->ops->reg(n->w, NULL, SHORT_PUTS * SHORT_BYTES, &mine) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, NULL, SHORT_PUTS * SHORT_BYTES, &from) == TUTTI_OK);
    node_share(n, 0, mine);
    node_barrier(n);
    theirs = node_import(n, !n->rank, 0);
    if (!is_sender(n)) {
        UNTIL(n, n->losses[!n->rank] == 1);
        CHECK(n, n->why[!n->rank] == TUTTI_OK);
        for (uint64_t i = 0; i < SHORT_PUTS; i++)
            CHECK(n, pattern_differs((uint8_t *)mine->mem + i * SHORT_BYTES, SHORT_BYTES, i) ==
                         SHORT_BYTES);
        return;
    }
    lanes_want(link, 4 + (uint32_t)tt_prng_u64(&n->prng) % 13);
    n->nlocal = 0;
    for (uint64_t i = 0; i < SHORT_PUTS; i++) {
        d = node_put(&theirs, i * SHORT_BYTES, (uint8_t *)from->mem + i * SHORT_BYTES, SHORT_BYTES);
        pattern_fill(d.local, SHORT_BYTES, i);
        node_post(n, &d);
        if (tt_prng_u64(&n->prng) % 4 == 0)
            node_poll(n);
    }
    UNTIL(n, n->nlocal == SHORT_PUTS);
}

static void brief_role(struct node *n)
{
    for (int i = 0; i < SHORT_ROUNDS; i++) {
        brief_round(n);
        node_close(n);
        node_barrier(n);
    }
}

static void link_may_end_while_lanes_open(void **state)
{
    struct setting s = *(const struct setting *)*state;
    const uint64_t seed = s.seed & ~1ull;

    for (s.seed = seed; s.seed < seed + 4; s.seed++) {
        s.secure = s.seed >= seed + 2;
        nodes_run(&s, 2, brief_role);
    }
}

/* ---- lanes that the wrong end opens ---- */

enum { FOREIGN_LANE = 1 };

/* Opens a lane to the initiator, and returns whether the initiator accepted it. */
static bool raw_opens_lane(struct node *n, uint64_t nonce)
{
    struct tt_hello h = hello_to(n, 0);
    uint8_t in[TT_HELLO_BYTES];
    const int fd = raw_connect(n, 0);
    bool taken;

    h.lane = FOREIGN_LANE;
    h.lanes = LANES;
    h.nonce = nonce;
    say(fd, &h, node_secret, TT_HELLO_BYTES);
    taken = recv(fd, in, sizeof in, MSG_WAITALL) == sizeof in;
    if (taken) {
        h.kind = TT_CONFIRM;
        say(fd, &h, node_secret, TT_HELLO_BYTES);
        poll(NULL, 0, 100);     /* so that this becomes a lane before the other connection */
    }
    close(fd);
    return taken;
}

/* The acceptor opens a lane itself while the initiator's attempt for the same lane waits. */
static void foreign_lane_role(struct node *n)
{
    struct tt_tcp_link *link;
    struct guest lane[3];
    int listener;

    if (n->rank == 1) {
        listener = raw_listen(n);
        lane[0] = raw_link(n, listener);
        for (int i = 1; i < 3; i++) {
            const struct guest g = raw_accept(n, listener);

            CHECK(n, g.hello.lane == 1 || g.hello.lane == 2);
            lane[g.hello.lane] = g;
        }
        CHECK(n, !raw_opens_lane(n, lane[0].hello.nonce));
        for (int i = 1; i < 3; i++) {
            raw_welcome(&lane[i]);
            raw_hear(n, lane[i].fd, TT_CONFIRM);
            raw_send(n, lane[i].fd, TT_FRAME_READY);
        }
        while (!n->board->flag[0])
            poll(NULL, 0, 1);
        for (int i = 0; i < 3; i++)
            close(lane[i].fd);
        close(listener);
        return;
    }
    link = far_connect(n);
    lanes_want(link, 3);
    UNTIL(n, lanes_usable(link) == 3);
    CHECK(n, tt_tcp_of(n->w)->nactive == 3 && n->losses[1] == 0);
    n->board->flag[0] = 1;
    UNTIL(n, n->losses[1] == 1);
    node_poll(n);
    CHECK(n, !link->window && !link->remotes);  /* a lost link needs little memory */
    for (uint32_t i = 0; i < link->nlanes; i++)
        CHECK(n, !link->lanes[i].buffer && !link->lanes[i].queues[TT_TCP_BULK].ring);
}

static void only_initiator_opens_lanes(void **state)
{
    nodes_run(*state, 2, foreign_lane_role);
}

/* ---- a lane without a response ---- */

/* The connection is accepted, but HELLO gets no response: the attempt times out, and a later one is
 * accepted. Polls are not slower meanwhile. */
static void silent_lane_role(struct node *n)
{
    struct tt_tcp_link *link;
    struct guest lane[2], silent;
    struct tt_tcp *t;
    int listener;

    if (n->rank == 1) {
        listener = raw_listen(n);
        lane[0] = raw_link(n, listener);
        silent = raw_accept(n, listener);
        n->board->flag[0] = 1;
        CHECK(n, hangs_up(silent.fd));      /* its timeout is half of raw_accept's */
        close(silent.fd);
        lane[1] = raw_accept(n, listener);
        CHECK(n, lane[1].hello.lane == 1);
        raw_welcome(&lane[1]);
        raw_hear(n, lane[1].fd, TT_CONFIRM);
        raw_send(n, lane[1].fd, TT_FRAME_READY);
        while (!n->board->flag[1])
            poll(NULL, 0, 1);
        close(lane[0].fd);
        close(lane[1].fd);
        close(listener);
        return;
    }
    link = far_connect(n);
    t = tt_tcp_of(n->w);
    lanes_want(link, 2);
    UNTIL(n, n->board->flag[0]);
    CHECK(n, t->nopening == 0 && lanes_usable(link) == 1);
    while (lanes_usable(link) < 2)          /* the deadline wakes this rank */
        sleep_once(n);
    CHECK(n, n->losses[1] == 0);
    n->board->flag[1] = 1;
    UNTIL(n, n->losses[1] == 1);
}

static void silent_lane_is_tried_again(void **state)
{
    nodes_run(*state, 2, silent_lane_role);
}

/* ---- ends with different settings ---- */

/* The user of one rank has set four lanes, which then open without data. */
static void unequal_role(struct node *n)
{
    struct tt_tcp_link *link;

    far_open(n);
    if (n->rank == n->setting->seed) {
        tt_tcp_of(n->w)->lanes_free = false;
        tt_tcp_of(n->w)->conf.lanes = 4;
    }
    node_barrier_idle(n);
    node_connect_all(n);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, !n->rank);
    CHECK(n, link->nlanes == 4 && link->on_demand == (n->rank != n->setting->seed));
    UNTIL(n, lanes_usable(link) == 4);
    node_barrier(n);
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
}

static void set_number_holds_at_both_ends(void **state)
{
    struct setting s = *(const struct setting *)*state;

    for (s.seed = 0; s.seed < 2; s.seed++)
        nodes_run(&s, 2, unequal_role);
}

/* ---- distance ---- */

/* The first round trip seems long, but a later one is short. */
static void later_near_role(struct node *n)
{
    const struct tt_tcp_link *link;
    struct tt_tcp *t;

    far_open(n);
    t = tt_tcp_of(n->w);
    if (n->rank == 0) {
        node_connect(n, 1);
        link = tt_sparse_get(&t->links, 1);
        UNTIL(n, link->offer == LANES);
        t->far_ns = 1;
    }
    node_barrier_idle(n);       /* rank 1 answers from now on */
    UNTIL(n, n->ups[!n->rank]);
    link = tt_sparse_get(&t->links, !n->rank);
    CHECK(n, link->nlanes == 1 && !link->on_demand && link->promised == 0 && t->promised == 0);
    CHECK(n, n->w->caps & TT_WIRE_CAP_ORDERED);
    node_barrier(n);
}

static void one_long_round_trip_is_not_far(void **state)
{
    nodes_run(*state, 2, later_near_role);
}

int main(void)
{
    const char *seed = getenv("TUTTI_TEST_SEED");
    static struct setting free_lanes = { .ops = &tt_wire_tcp };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(acceptor_may_close_while_lanes_open, &free_lanes),
        cmocka_unit_test_prestate(data_waits_for_ready_lanes, &free_lanes),
        cmocka_unit_test_prestate(lane_begins_with_ready_once, &free_lanes),
        cmocka_unit_test_prestate(failed_lane_is_tried_again, &free_lanes),
        cmocka_unit_test_prestate(link_may_end_while_lanes_open, &free_lanes),
        cmocka_unit_test_prestate(only_initiator_opens_lanes, &free_lanes),
        cmocka_unit_test_prestate(silent_lane_is_tried_again, &free_lanes),
        cmocka_unit_test_prestate(set_number_holds_at_both_ends, &free_lanes),
        cmocka_unit_test_prestate(one_long_round_trip_is_not_far, &free_lanes),
    };

    free_lanes.seed = seed ? strtoull(seed, NULL, 0) : tt_now_ns();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
