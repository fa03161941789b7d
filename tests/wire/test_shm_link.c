/* The sockets of the shm transport: unauthenticated peers at its listener, and full sockets.
 *
 *      rank 0 ---- link ---- rank 1
 *        ^                     ^
 *        +-- raw sockets ------+---- rank 2, without a transport */
#include <dirent.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "nodes.h"
#include "support/unit.h"

#define COUNT 200
#define PACKET_BYTES 72         /* size of a handshake */
#define SOON_NS (4 * TT_SECOND) /* shorter than the time limit of unauthenticated peers */
#define SEGMENTS 600            /* more packets than fit into a socket buffer */

enum { SILENT, GONE, SHORT, LONG, GARBAGE, GUESS, STRANGE_KINDS };

/* Connects to that rank's listener. The rank's address has its name: magic, host, name[16]. */
static int dial(struct node *n, uint32_t peer)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    struct tt_reader r;
    uint8_t name[16];
    int fd;

    tt_reader_init(&r, n->board->address[peer].data, n->board->address[peer].bytes);
    tt_read_u32(&r);
    tt_read_u64(&r);
    tt_read_bytes(&r, name, sizeof name);
    memcpy(to.sun_path + 1, "tutti-", 6);
    for (int i = 0; i < 16; i++)
        snprintf(to.sun_path + 7 + 2 * i, 3, "%02x", name[i]);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(n, fd >= 0);
    CHECK(n, connect(fd, (struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 39)) == 0);
    return fd;
}

/* Sends that packet with `count` descriptors. */
static void say(int fd, const void *packet, size_t bytes, uint32_t count)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(10 * sizeof(int))] = { 0 };
    struct iovec iov = { .iov_base = (void *)(uintptr_t)packet, .iov_len = bytes };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (count) {
        struct cmsghdr *c = (void *)room;

        msg.msg_control = room;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (uint32_t i = 0; i < count; i++)
            memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    }
    if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
        return;                 /* the connection was closed already */
}

/* Opens a connection of kind i. All except silent and closed ones send a packet with 0 to 10
 * descriptors. */
static int stranger(struct node *n, uint32_t peer, int i)
{
    static const uint32_t magic = 0x314d4853, hello = 1;
    uint8_t packet[2 * PACKET_BYTES];
    const int fd = dial(n, peer);
    const uint32_t count = (uint32_t)i / STRANGE_KINDS % 11;

    for (size_t k = 0; k < sizeof packet; k++)
        packet[k] = (uint8_t)tt_prng_u64(&n->prng);
    switch (i % STRANGE_KINDS) {
    case SILENT:
        return fd;
    case GONE:
        close(fd);
        return -1;
    case SHORT:
        say(fd, packet, 3, count);
        break;
    case LONG:
        say(fd, packet, sizeof packet, count);
        break;
    case GUESS:                 /* all is correct except the secret */
        memcpy(packet, &magic, 4);
        memcpy(packet + 4, &hello, 4);
        memcpy(packet + 8, &n->rank, 4);
        memcpy(packet + 12, &n->nranks, 4);
        say(fd, packet, PACKET_BYTES, count);
        break;
    default:
        say(fd, packet, PACKET_BYTES, count);
        break;
    }
    return fd;
}

static uint32_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint32_t n = 0;

    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Rank 2 opens connections of all kinds, and keeps them open. */
static void caller(struct node *n)
{
    int fds[COUNT];

    node_barrier(n);
    for (int i = 0; i < COUNT; i++)
        fds[i] = stranger(n, (uint32_t)i % 2, i / 2);
    n->board->flag[0] = 1;
    node_barrier(n);
    for (int i = 0; i < COUNT; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    n->board->flag[1] = 1;
    node_barrier(n);
    for (int i = 0; i < COUNT; i++)
        fds[i] = dial(n, (uint32_t)i % 2);
    n->board->flag[2] = 1;
    node_barrier(n);
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
}

static bool is_quiet(struct node *n)
{
    struct pollfd p = { .events = POLLIN };

    p.fd = n->ops->arm(n->w);
    return p.fd >= 0 && poll(&p, 1, 50) == 0;
}

static void strangers_role(struct node *n)
{
    uint32_t before;
    uint64_t begin_ns;

    if (n->rank == 2) {
        caller(n);
        return;
    }
    node_open(n);
    before = descriptors();
    UNTIL(n, n->board->flag[0]);
    node_barrier(n);
    UNTIL(n, n->board->flag[1]);
    UNTIL(n, descriptors() == before);
    node_barrier(n);
    UNTIL(n, n->board->flag[2]);
    UNTIL(n, is_quiet(n));      /* pending connections do not wake a sleeping rank permanently */
    begin_ns = tt_now_ns();
    if (n->rank == 0)
        node_connect(n, 1);
    UNTIL(n, n->ups[!n->rank]);
    CHECK(n, tt_now_ns() - begin_ns < SOON_NS);
    for (uint64_t i = 1; i <= 100; i++) {
        node_post_signal(n, !n->rank, 0, TT_SIGNAL_ADD, 1);
        UNTIL(n, node_word(n, !n->rank, 0) >= i);
    }
    CHECK(n,
          n->ups[!n->rank] == 1 && n->losses[!n->rank] == 0 && n->ups[2] == 0 && n->losses[2] == 0);
    node_barrier(n);
}

static void strangers_leave_nothing_and_block_nobody(void **state)
{
    nodes_run(*state, 3, strangers_role);
}

/* Rank 1 has a descriptor of each segment of rank 0 until it is notified that the segment is freed;
 * it does not poll while rank 0 notifies it. The test does this twice: fewer segments reuse the
 * slots. */
static void deaf_role(struct node *n)
{
    static struct tt_region *region[SEGMENTS];
    uint32_t before;

    node_open(n);
    node_connect_all(n);
    node_barrier(n);
    before = descriptors();
    for (uint32_t count = SEGMENTS; count >= SEGMENTS / 2; count /= 2) {
        node_barrier(n);
        for (uint32_t i = 0; n->rank == 0 && i < count; i++)
            CHECK(n, !n->ops->reg(n->w, NULL, 1, &region[i]));
        UNTIL(n, descriptors() == before + count);
        node_barrier(n);
        for (uint32_t i = 0; n->rank == 0 && i < count; i++)
            n->ops->dereg(region[i]);
        node_barrier_idle(n);
        UNTIL(n, descriptors() == before);
        node_barrier(n);
    }
}

static void busy_peer_learns_of_freed_segments(void **state)
{
    nodes_run(*state, 2, deaf_role);
}

int main(void)
{
    static struct setting one = { .ops = &tt_wire_shm, .lanes = 1 };
    const char *seed = getenv("TUTTI_TEST_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(strangers_leave_nothing_and_block_nobody, &one),
        cmocka_unit_test_prestate(busy_peer_learns_of_freed_segments, &one),
    };

    one.seed = seed ? strtoull(seed, NULL, 0) : tt_now_ns();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
