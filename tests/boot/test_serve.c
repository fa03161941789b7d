/* The sockets of the rendezvous server in simulated time: ranks that join, and unauthenticated
 * peers that are slow, vanish, or are too many. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/endpoint.h"
#include "boot/serve.h"
#include "boot/tree_node.h"
#include "support/unit.h"

#define NRANKS 2
#define STRANGER_S 10           /* maximum duration of an unauthenticated connection */
#define STRANGERS 1024          /* maximum number; then the oldest is dropped */
#define TOO_MANY 40
#define PATIENCE_MS 60000

static struct {
    struct tt_serve *serve;
    uint16_t port;
    uint64_t now_ns;
} hall;

static void hall_open(void)
{
    struct tt_serve_conf conf = {
        .token = "token", .nranks = NRANKS, .began_ns = TT_SECOND, .deadline_ns = TT_NEVER
    };

    hall.now_ns = conf.began_ns;
    conf.listener = tt_listen(NULL, 0, &hall.port);
    assert_true(conf.listener >= 0);
    assert_int_equal(tt_serve_open(&hall.serve, &conf), TUTTI_OK);
}

static int dial(void)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_port = htons(hall.port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Reads up to `bytes` available bytes, or waits for the first one while the server runs. Returns 0
 * if the server has closed the connection. */
static size_t receive(int fd, uint8_t *in, size_t bytes)
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_MS * TT_MS;

    for (;;) {
        const ssize_t n = recv(fd, in, bytes, MSG_DONTWAIT);
        struct pollfd p[] = { { .fd = fd, .events = POLLIN },
                              { .fd = tt_serve_fd(hall.serve), .events = POLLIN } };

        if (n >= 0 || errno != EAGAIN)
            return n > 0 ? (size_t)n : 0;
        assert_true(tt_now_ns() < end_ns);
        poll(p, 2, 1000);
        tt_serve_step(hall.serve, hall.now_ns);
    }
}

/* Opens an unauthenticated connection, after the server's greeting. */
static int open_unauthenticated(void)
{
    uint8_t challenge[256];
    const int fd = dial();

    assert_true(receive(fd, challenge, sizeof challenge) > 0);
    return fd;
}

static bool is_in(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static bool is_thrown_out(int fd)
{
    uint8_t byte;

    return receive(fd, &byte, 1) == 0;
}

/* ---- ranks ---- */

struct rank {
    struct tt_tree_node *node;
    uint32_t card;
};

static bool rank_is_in(struct rank *r)
{
    tt_tree_node_step(r->node, hall.now_ns);
    return !tt_tree_node_lost(r->node) && tt_tree_node_tree(r->node)->state == TT_TREE_GATHERING;
}

/* Runs the server and the ranks until `until` returns true. */
static void run_until(struct rank *ranks, uint32_t n, bool (*until)(struct rank *ranks, uint32_t n))
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_MS * TT_MS;

    while (!until(ranks, n)) {
        struct pollfd p[1 + NRANKS] = { { .fd = tt_serve_fd(hall.serve), .events = POLLIN } };

        assert_true(tt_now_ns() < end_ns);
        for (uint32_t i = 0; i < n; i++)
            p[1 + i] = (struct pollfd){ .fd = tt_tree_node_fd(ranks[i].node), .events = POLLIN };
        poll(p, 1 + n, 10);
        for (uint32_t i = 0; i < n; i++)
            tt_tree_node_step(ranks[i].node, hall.now_ns);
        tt_serve_step(hall.serve, hall.now_ns);
    }
}

static bool all_came(struct rank *ranks, uint32_t n)
{
    (void)ranks;
    return tt_serve_ncame(hall.serve) == n;
}

static bool all_done(struct rank *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!tt_tree_node_is_done(ranks[i].node))
            return false;
    return tt_serve_is_done(hall.serve);
}

/* A rank joins, each on its own host; ranks[rank] is the last one so far. */
static void rank_enter(struct rank *ranks, uint32_t rank)
{
    struct rank *r = &ranks[rank];
    struct tt_tree_node_conf conf = { .tree = { .token = "token",
                                                .rank = rank,
                                                .nranks = NRANKS,
                                                .leader = rank,
                                                .process = 1 + rank,
                                                .card = &r->card,
                                                .card_bytes = sizeof r->card,
                                                .began_ns = hall.now_ns,
                                                .deadline_ns = TT_NEVER },
                                      .listener = -1,
                                      .local = -1,
                                      .up = dial() };
    uint8_t challenge[TT_FRAME_HEADER_BYTES + 2 + 2 * TT_NONCE_BYTES];
    struct tt_frame frame = { .type = 1 };

    r->card = 100 + rank;
    for (size_t n = 0; n < sizeof challenge;) {
        const size_t more = receive(conf.up, challenge + n, sizeof challenge - n);

        assert_true(more > 0);
        n += more;
    }
    frame.body = challenge + TT_FRAME_HEADER_BYTES;
    frame.bytes = sizeof challenge - TT_FRAME_HEADER_BYTES;
    memcpy(conf.tree.gathering, frame.body + 2 + TT_NONCE_BYTES, TT_NONCE_BYTES);
    conf.challenge = &frame;
    assert_int_equal(fcntl(conf.up, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(tt_tree_node_open(&r->node, &conf), TUTTI_OK);
    run_until(ranks, rank + 1, all_came);
}

/* Checks that all ranks have the table; then closes the ranks and the server. */
static void ranks_end(struct rank ranks[NRANKS])
{
    run_until(ranks, NRANKS, all_done);
    for (uint32_t i = 0; i < NRANKS; i++) {
        const struct tt_tree_place *place = &tt_tree_node_tree(ranks[i].node)->place;
        struct tt_record_stream records = { .n = 0 };
        struct tt_reader r;

        tt_reader_init(&r, place->table, place->table_bytes);
        for (uint32_t rank = 0; rank < NRANKS; rank++) {
            const uint32_t record = 100 + rank;

            tt_record_read(&records, &r);
            assert_int_equal(records.entry.holder, rank);
            assert_int_equal(records.entry.bytes, sizeof record);
            assert_memory_equal(records.entry.record, &record, sizeof record);
        }
        assert_true(!r.bad && r.at == r.end);
    }
    for (uint32_t i = 0; i < NRANKS; i++)
        tt_tree_node_close(ranks[i].node);
    tt_serve_close(hall.serve);
}

/* ---- tests ---- */

static void unauthenticated_peer_times_out_despite_traffic(void **state)
{
    static const uint8_t hello[] = { 'T', 't', 33, 0, 200, 0, 0, 0 };
    struct rank ranks[NRANKS];
    int silent, slow, later = -1, half;

    (void)state;
    hall_open();
    rank_enter(ranks, 0);
    silent = open_unauthenticated();
    slow = open_unauthenticated();
    half = open_unauthenticated();
    assert_int_equal(shutdown(half, SHUT_WR), 0);
    assert_true(is_thrown_out(half));       /* it sends nothing more */
    for (uint32_t s = 0; s < STRANGER_S; s++) {     /* one byte of a hello per second */
        assert_int_equal(send(slow, s < sizeof hello ? &hello[s] : hello, 1, MSG_NOSIGNAL), 1);
        tt_serve_step(hall.serve, hall.now_ns);
        assert_true(is_in(silent) && is_in(slow));
        hall.now_ns += TT_SECOND;
        if (s == STRANGER_S / 2)
            later = open_unauthenticated();
    }
    tt_serve_step(hall.serve, hall.now_ns);
    assert_true(is_thrown_out(silent) && is_thrown_out(slow));
    assert_true(is_in(later));
    hall.now_ns += 100 * TT_SECOND;     /* an authenticated rank has no time limit */
    tt_serve_step(hall.serve, hall.now_ns);
    assert_true(is_thrown_out(later) && rank_is_in(&ranks[0]));
    rank_enter(ranks, 1);
    ranks_end(ranks);
    close(silent);
    close(slow);
    close(half);
    close(later);
}

/* Drops one end of a connection without notifying the peer, like a host that loses power. If
 * TCP_REPAIR is not permitted, the end stays open and silent. */
static int vanish(int fd)
{
    const int on = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0)
        return fd;
    close(fd);
    return -1;
}

static void half_open_connections_do_not_block(void **state)
{
    struct rank ranks[NRANKS];
    int gone[20];

    (void)state;
    hall_open();
    for (uint32_t i = 0; i < 20; i++)
        gone[i] = vanish(open_unauthenticated());
    rank_enter(ranks, 0);
    rank_enter(ranks, 1);
    ranks_end(ranks);
    for (uint32_t i = 0; i < 20; i++)
        if (gone[i] >= 0)
            close(gone[i]);
}

static void oldest_strangers_make_space(void **state)
{
    struct rlimit before, more;
    struct rank ranks[NRANKS];
    int fds[STRANGERS + TOO_MANY];

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    more = before;
    more.rlim_cur = 2 * (STRANGERS + TOO_MANY) + 100;      /* both ends */
    if (more.rlim_cur > before.rlim_max)
        skip();
    if (more.rlim_cur > before.rlim_cur)
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
    hall_open();
    rank_enter(ranks, 0);
    for (uint32_t i = 0; i < STRANGERS + TOO_MANY; i++)
        fds[i] = open_unauthenticated();
    for (uint32_t i = 0; i < STRANGERS + TOO_MANY; i++)
        assert_true(i < TOO_MANY ? is_thrown_out(fds[i]) : is_in(fds[i]));
    assert_true(rank_is_in(&ranks[0]));
    rank_enter(ranks, 1);
    assert_true(is_thrown_out(fds[TOO_MANY]));      /* dropped to admit the rank, which was
                                                       unauthenticated at first, too */
    ranks_end(ranks);
    for (uint32_t i = 0; i < STRANGERS + TOO_MANY; i++)
        close(fds[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void server_sends_its_challenge_first(void **state)
{
    struct pollfd p = { .events = POLLIN };

    (void)state;
    hall_open();
    p.fd = tt_serve_connect(hall.serve);
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 0), 1);
    assert_int_equal(p.revents, POLLIN);
    close(p.fd);
    tt_serve_close(hall.serve);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_sends_its_challenge_first),
        cmocka_unit_test(unauthenticated_peer_times_out_despite_traffic),
        cmocka_unit_test(half_open_connections_do_not_block),
        cmocka_unit_test(oldest_strangers_make_space),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
