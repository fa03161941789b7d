/* Connections without a token to a port of the tcp transport with TLS.
 *
 *      rank 0 ---- TLS ---- rank 1
 *        ^                     ^
 *        +---- anything -------+---- rank 2, without a transport */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "nodes.h"
#include "raw.h"
#include "secure/stream.h"
#include "support/unit.h"
#include "wire/tcp/tcp.h"

#define WRONG_TOKEN "not the token of these tests of wires"

enum { GARBAGE, PLAIN, WRONG, RIGHT_BUT_NO_HELLO, STRANGE_KINDS };

/* Sends HELLO over TLS with the token of `secure`, as far as the other end permits it. */
static struct tt_stream *hello_over_tls(struct node *n, uint32_t peer, int fd,
                                        struct tt_secure *secure, const uint8_t key[16])
{
    const struct tt_hello h = hello_to(n, peer);
    const uint64_t until_ns = node_deadline();
    uint8_t out[TT_HELLO_BYTES];
    const struct iovec part = { .iov_base = out, .iov_len = sizeof out };
    struct tt_stream *s;
    ssize_t said;

    tt_hello_write(&h, key, out);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    CHECK(n, tt_stream_create(&s, secure, fd, TT_STREAM_CONNECTS) == TUTTI_OK);
    while ((said = tt_stream_write(s, &part, 1)) == -EAGAIN && tt_now_ns() < until_ns) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        poll(&p, 1, 100);
    }
    CHECK(n, said == sizeof out || (said != -EAGAIN && said < 0));
    return s;
}

/* Opens a connection of that kind; returns when the other end has closed it. */
static void come(struct node *n, uint32_t peer, int kind, struct tt_secure *right,
                 struct tt_secure *wrong)
{
    static const uint8_t guess[16] = "guess";
    const struct tt_hello h = hello_to(n, peer);
    const int fd = raw_connect(n, peer);
    struct tt_stream *s = NULL;
    uint8_t noise[300];

    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)tt_prng_u64(&n->prng);
    if (kind == GARBAGE)
        CHECK(n, send(fd, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    else if (kind == PLAIN)     /* a peer with the job's secret, but without TLS */
        say(fd, &h, node_secret, TT_HELLO_BYTES);
    else if (kind == WRONG)
        s = hello_over_tls(n, peer, fd, wrong, node_secret);
    else if (kind == RIGHT_BUT_NO_HELLO)
        s = hello_over_tls(n, peer, fd, right, guess);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    CHECK(n, hangs_up(fd));
    if (s)
        tt_stream_destroy(s);
    else
        close(fd);
}

static struct tt_secure *secure_of(struct node *n, const char *token)
{
    const struct tt_secure_conf conf = { .mode = TT_SECURE_TOKEN, .token = token };
    struct tt_secure *s = NULL;

    CHECK(n, tt_secure_create(&s, &conf) == TUTTI_OK);
    return s;
}

static void strangers_role(struct node *n)
{
    if (n->rank == 2) {
        struct tt_secure *right = secure_of(n, NODE_TOKEN), *wrong = secure_of(n, WRONG_TOKEN);
        /* the start of a ClientHello */
        static const uint8_t half[] = { 22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3 };
        int silent[100];

        node_barrier(n);
        for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
            silent[i] = raw_connect(n, (uint32_t)i % 2);
        for (size_t i = 0; i < sizeof silent / sizeof *silent; i += 3)
            if (send(silent[i], half, sizeof half, MSG_NOSIGNAL) < 0)
                continue;   /* the connection was closed already */
        n->board->flag[0] = 1;
        for (int kind = 0; kind < STRANGE_KINDS; kind++)
            for (uint32_t peer = 0; peer < 2; peer++)
                come(n, peer, kind, right, wrong);
        for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
            CHECK(n, hangs_up(silent[i]));
            close(silent[i]);
        }
        tt_secure_destroy(right);
        tt_secure_destroy(wrong);
        n->board->flag[1] = 1;
        node_barrier(n);
        return;
    }
    node_connect_beside_intruder(n);
}

static void strangers_at_secure_port_are_dropped(void **state)
{
    nodes_run(*state, 3, strangers_role);
}

/* Rank 1 has another token. TLS progress must wake rank 0, which sleeps between polls. */
static void parted_role(struct node *n)
{
    const uint32_t peer = !n->rank;

    if (n->rank == 1)
        n->token = WRONG_TOKEN;
    node_open(n);
    if (n->rank == 0) {
        node_connect(n, peer);
        while (n->losses[peer] == 0) {
            struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };

            CHECK(n, p.fd < 0 || poll(&p, 1, 60000) == 1);
            node_poll(n);
        }
        CHECK(n, n->why[peer] == TUTTI_ERR_PEER_LOST && n->ups[peer] == 0);
        n->board->flag[0] = 1;
    }
    UNTIL(n, n->board->flag[0]);
    CHECK(n, n->ups[peer] == 0);
    node_barrier(n);
}

static void different_tokens_fail_with_reason(void **state)
{
    nodes_run(*state, 2, parted_role);
}

/* One lane more than polls check without epoll, so that the transport must remember data buffered
 * in TLS. */
#define LANES 6
#define BYTES (3u << 20)

static void many_lanes_role(struct node *n)
{
    const uint32_t peer = !n->rank;
    uint8_t *mem, *local;
    struct tt_region *r, *from;
    struct tt_rkey key;

    node_open(n);
    mem = node_memory(n, BYTES);
    local = node_memory(n, BYTES);
    CHECK(n, n->ops->reg(n->w, mem, BYTES, &r) == TUTTI_OK &&
                 n->ops->reg(n->w, local, BYTES, &from) == TUTTI_OK);
    node_share(n, 0, r);
    node_connect_all(n);
    key = node_import(n, peer, 0);
    for (uint64_t round = 1; round <= 20; round++) {
        pattern_fill(local, BYTES, round * 2 + n->rank);
        for (uint32_t i = 0; i < 24; i++) {
            struct tt_desc d =
                node_put(&key, i * (BYTES / 24), local + i * (BYTES / 24), BYTES / 24);

            d.signal_op = TT_SIGNAL_ADD;
            d.signal_key = &n->link[peer].theirs;
            d.signal_offset = 0;
            d.signal_value = 1;
            d.cookie = round * 24 + i;
            node_post(n, &d);
        }
        while (node_word(n, peer, 0) < round * 24) {    /* sleeps whenever the transport permits
                                                           it */
            struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };

            CHECK(n, p.fd < 0 || poll(&p, 1, 60000) == 1);
            node_poll(n);
        }
        CHECK(n, pattern_differs(mem, BYTES, round * 2 + peer) == BYTES);
        UNTIL(n, n->nlocal >= round * 24);
        node_barrier(n);
    }
    n->ops->dereg(r);
    n->ops->dereg(from);
    node_barrier(n);
}

static void buffered_tls_data_prevents_sleep(void **state)
{
    struct setting s = *(struct setting *)*state;

    s.lanes = LANES;
    nodes_run(&s, 2, many_lanes_role);
}

int main(void)
{
    const char *seed = getenv("TUTTI_TEST_SEED");
    static struct setting secure = { .ops = &tt_wire_tcp, .lanes = 1, .secure = true };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(strangers_at_secure_port_are_dropped, &secure),
        cmocka_unit_test_prestate(different_tokens_fail_with_reason, &secure),
        cmocka_unit_test_prestate(buffered_tls_data_prevents_sleep, &secure),
    };

    secure.seed = seed ? strtoull(seed, NULL, 0) : tt_now_ns();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
