/* The tcp transport: unauthenticated and hostile peers on its listening port, unresponsive
 * addresses, interfaces, IPv6.
 *
 *      rank 0 ---- link ---- rank 1
 *        ^                     ^
 *        +---- raw sockets ----+---- rank 2, without a transport */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "nodes.h"
#include "raw.h"
#include "support/unit.h"
#include "wire/tcp/tcp.h"
#include "wire/tcp/tcp_frame.h"

/* ---- unauthenticated peers ---- */

enum {
    SILENT,
    GARBAGE,
    SLOW,
    WRONG_SECRET,
    WRONG_TARGET,
    WRONG_SIZE,
    WRONG_KIND,
    SELF,
    LANE_OF_NOBODY,
    STRANGE_KINDS
};

static int stranger(struct node *n, uint32_t peer, int kind)
{
    static const uint8_t wrong[16] = "guess";
    struct tt_hello h = hello_to(n, peer);
    uint8_t noise[300];
    const int fd = raw_connect(n, peer);

    switch (kind) {
    case SILENT:
        return fd;
    case GARBAGE:
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)tt_prng_u64(&n->prng);
        if (send(fd, noise, sizeof noise, MSG_NOSIGNAL) < 0)
            return fd;
        return fd;
    case SLOW:
        say(fd, &h, node_secret, TT_HELLO_BYTES - 1);
        return fd;
    case WRONG_TARGET:
        h.to = !peer;
        break;
    case WRONG_SIZE:
        h.nranks++;
        break;
    case WRONG_KIND:
        h.kind = TT_WELCOME;
        break;
    case SELF:
        h.from = h.to;
        break;
    case LANE_OF_NOBODY:
        h.lane = 1;
        h.lanes = 2;
        break;
    default:
        break;
    }
    say(fd, &h, kind == WRONG_SECRET ? wrong : node_secret, TT_HELLO_BYTES);
    return fd;
}

/* Rank 2 opens all kinds of connections, many at a time, while ranks 0 and 1 connect and
 * communicate. All are closed eventually. */
static void strangers_role(struct node *n)
{
    enum { COUNT = 300 };
    int fds[COUNT];

    if (n->rank == 2) {
        node_barrier(n);
        for (int i = 0; i < COUNT; i++)
            fds[i] = stranger(n, (uint32_t)i % 2, i % STRANGE_KINDS);
        n->board->flag[0] = 1;
        for (int i = 0; i < COUNT; i++) {
            CHECK(n, hangs_up(fds[i]));
            close(fds[i]);
        }
        n->board->flag[1] = 1;
        node_barrier(n);
        return;
    }
    node_connect_beside_intruder(n);
}

static void strangers_are_dropped_without_effect(void **state)
{
    nodes_run(*state, 3, strangers_role);
}

/* ---- an authenticated peer that violates the protocol ---- */

/* Establishes a link to rank 0 over a raw socket. */
static int shake_hands(struct node *n)
{
    struct tt_hello h = hello_to(n, 0), answer;
    uint8_t in[TT_HELLO_BYTES];
    const int fd = raw_connect(n, 0);

    say(fd, &h, node_secret, TT_HELLO_BYTES);
    CHECK(n, recv(fd, in, sizeof in, MSG_WAITALL) == sizeof in);
    CHECK(n, tt_hello_read(&answer, node_secret, in) && answer.kind == TT_WELCOME &&
                 answer.nonce == h.nonce);
    h.kind = TT_CONFIRM;
    say(fd, &h, node_secret, TT_HELLO_BYTES);
    return fd;
}

#define FIRST TT_DQPLB_NOTIFY   /* the word of a link's first message */

static const struct {
    const char *what;
    struct tt_frame f;
    uint32_t times;
} broken[] = {
    { "unknown kind", { .kind = 77 }, 1 },
    { "beyond the link region",
      { .kind = TT_FRAME_PUT, .word = FIRST, .offset = NODE_LINK_BYTES - 8, .bytes = 9 },
      1 },
    { "far beyond it",
      { .kind = TT_FRAME_PUT, .word = FIRST, .offset = 1ull << 63, .bytes = 9 },
      1 },
    { "endless", { .kind = TT_FRAME_PUT, .word = FIRST, .offset = 8, .bytes = 1ull << 62 }, 1 },
    { "signal beyond",
      { .kind = TT_FRAME_PUT,
        .word = FIRST,
        .signal_op = TT_SIGNAL_SET,
        .signal_offset = NODE_LINK_BYTES },
      1 },
    { "number skipped", { .kind = TT_FRAME_PUT, .word = FIRST + 1 }, 1 },
    { "number used twice", { .kind = TT_FRAME_PUT, .word = FIRST }, 2 },
    { "acknowledges the future", { .kind = TT_FRAME_ACK, .word = 1 }, 1 },
    { "answers no get", { .kind = TT_FRAME_GOT, .bytes = 64, .token = 3 }, 1 },
    { "lanes of a link that has one", { .kind = TT_FRAME_LANES, .token = 2 }, 1 },
    { "ready, but this end has not opened the lane", { .kind = TT_FRAME_READY }, 1 },
    { "lanes beyond all", { .kind = TT_FRAME_LANES, .token = TT_TCP_LANES_MAX + 1 }, 1 },
    { "answers no atomic", { .kind = TT_FRAME_OLD, .bytes = 64, .token = 0 }, 1 },
    { "get beyond", { .kind = TT_FRAME_GET, .offset = 1, .bytes = NODE_LINK_BYTES }, 1 },
    { "get held over one lane",
      { .kind = TT_FRAME_GET, .flags = TT_FRAME_FENCED, .after = 1, .bytes = 8 },
      1 },
    { "atomic beyond", { .kind = TT_FRAME_ATOMIC, .word = FIRST, .offset = NODE_LINK_BYTES }, 1 },
    { "too many gets", { .kind = TT_FRAME_GET, .offset = 0, .bytes = NODE_LINK_BYTES }, 100000 },
};
#define NBROKEN (sizeof broken / sizeof *broken)

/* A valid put to an unknown region is only dropped as late. */
static void send_late(int fd)
{
    const struct tt_frame f = { .kind = TT_FRAME_PUT,
                                .region = 9,
                                .generation = 9,
                                .bytes = TT_FRAME_BYTES,
                                .word = FIRST,
                                .signal_op = TT_SIGNAL_SET,
                                .signal_region = 9 };
    uint8_t out[2 * TT_FRAME_BYTES] = { 0 };

    tt_frame_write(&f, out);
    if (send(fd, out, sizeof out, MSG_NOSIGNAL) < 0)
        return;
}

static void misbehave(struct node *n, size_t row)
{
    uint8_t out[TT_FRAME_BYTES];
    const int fd = shake_hands(n);

    tt_frame_write(&broken[row].f, out);
    for (uint32_t i = 0; i < broken[row].times; i++)
        if (send(fd, out, sizeof out, MSG_NOSIGNAL | (i > 1000 ? MSG_DONTWAIT : 0)) < 0 &&
            errno != EAGAIN)
            break;
    UNTIL(n, n->board->flag[0] == row + 1);     /* reads nothing until rank 0 drops this peer */
    CHECK(n, hangs_up(fd));
    close(fd);
}

static void hostile_role(struct node *n)
{
    for (size_t row = 0; row < NBROKEN; row++) {
        if (n->rank == 2) {
            node_barrier(n);
            misbehave(n, row);
            node_barrier(n);
            continue;
        }
        node_open(n);
        if (n->rank == 0) {
            node_connect(n, 1);
            UNTIL(n, n->ups[1] && n->losses[2] == 1);
            CHECK(n, n->why[2] == TUTTI_ERR_PROTOCOL && n->ups[2] == 1);
            n->board->flag[0] = (uint32_t)row + 1;
            node_post_signal(n, 1, 0, TT_SIGNAL_SET, 1);
        } else {
            UNTIL(n, n->ups[0] && node_word(n, 0, 0) == 1);
        }
        CHECK(n, n->losses[!n->rank] == 0);
        node_barrier(n);
        node_close(n);
    }
}

static void broken_frame_ends_only_its_link(void **state)
{
    nodes_run(*state, 3, hostile_role);
}

static void late_role(struct node *n)
{
    int fd;

    if (n->rank == 2) {
        node_barrier(n);
        fd = shake_hands(n);
        send_late(fd);
        shutdown(fd, SHUT_WR);
        CHECK(n, hangs_up(fd));
        node_barrier(n);
        return;
    }
    node_open(n);
    if (n->rank == 0) {
        UNTIL(n, n->losses[2] == 1);
        /* the peer closed without an error */
        CHECK(n, n->ups[2] == 1 && n->why[2] == TUTTI_ERR_PEER_LOST);
    }
    node_barrier(n);
}

static void put_to_unknown_region_is_late(void **state)
{
    nodes_run(*state, 3, late_role);
}

/* ---- words ---- */

/* Rank 2 sends half of a word; rank 0 has received it, but does not change the word before the rest
 * has arrived. */
static void word_role(struct node *n)
{
    const uint8_t word[4] = { 1, 2, 3, 4 };
    const struct tt_frame f = { .kind = TT_FRAME_PUT, .word = FIRST, .bytes = sizeof word };
    uint8_t out[TT_FRAME_BYTES + sizeof word];

    if (n->rank == 2) {
        int fd, unread = 1;

        node_barrier(n);
        fd = shake_hands(n);
        tt_frame_write(&f, out);
        memcpy(out + TT_FRAME_BYTES, word, sizeof word);
        CHECK(n, send(fd, out, sizeof out - 2, MSG_NOSIGNAL) == sizeof out - 2);
        /* the data is in rank 0's kernel */
        UNTIL(n, ioctl(fd, SIOCOUTQ, &unread) == 0 && unread == 0);
        n->board->flag[0] = 1;
        UNTIL(n, n->board->flag[1]);
        CHECK(n, send(fd, out + sizeof out - 2, 2, MSG_NOSIGNAL) == 2);
        UNTIL(n, n->board->flag[2]);
        close(fd);
        node_barrier(n);
        return;
    }
    node_open(n);
    if (n->rank == 0) {
        UNTIL(n, n->ups[2] && n->board->flag[0]);
        for (int i = 0; i < 1000; i++) {
            node_poll(n);
            CHECK(n, node_word(n, 2, 0) == 0);
        }
        n->board->flag[1] = 1;
        UNTIL(n, node_word(n, 2, 0) != 0);
        CHECK(n, memcmp(n->link[2].mine, word, sizeof word) == 0);
        n->board->flag[2] = 1;
    }
    node_barrier(n);
}

static void words_are_never_partly_visible(void **state)
{
    nodes_run(*state, 3, word_role);
}

/* ---- sequences of short messages ---- */

enum {
    ROW_GROUPS = 300,
    ROW_MAX = 9,
    ROW_PLACE = 128,
    ROW_SHORT = 120,
    ROW_LONG = 50000,
    ROW_LONG_AT = 4096
};

/* Where the peer closes the connection: within a frame, or after a complete one. */
static bool row_ends_within;

/* Length and offset of message i of the job; only the first of a group may be long. */
static uint32_t row_bytes(uint64_t i, uint32_t in_group)
{
    return in_group == 0 && i % 11 == 0 ? (uint32_t)(i * 7919 % ROW_LONG)
                                        : (uint32_t)(i * 31 % ROW_SHORT);
}

static uint32_t row_at(uint32_t bytes, uint32_t in_group)
{
    return bytes > ROW_SHORT ? ROW_LONG_AT : 64 + in_group * ROW_PLACE;
}

/* Sends bytes in several pieces, with pauses in which rank 0 polls without result. */
static void in_pieces(struct node *n, int fd, const uint8_t *data, uint32_t bytes)
{
    while (bytes > 0) {
        const uint32_t piece =
            tt_prng_u64(&n->prng) % 3 ? bytes : 1 + (uint32_t)(tt_prng_u64(&n->prng) % bytes);

        CHECK(n, send(fd, data, piece, MSG_NOSIGNAL) == (ssize_t)piece);
        data += piece;
        bytes -= piece;
        if (tt_prng_u64(&n->prng) % 4 == 0)
            poll(NULL, 0, 1);
    }
}

static void row_sender(struct node *n)
{
    static uint8_t out[TT_FRAME_BYTES + ROW_LONG];
    struct tt_frame f = { .kind = TT_FRAME_PUT, .signal_op = TT_SIGNAL_ADD, .signal_value = 1 };
    const int fd = shake_hands(n);
    uint64_t i = 0;

    for (uint32_t group = 0; group < ROW_GROUPS; group++) {
        const uint32_t count = 1 + group % ROW_MAX;

        for (uint32_t k = 0; k < count; k++, i++) {
            f.word = FIRST + (uint32_t)i;
            f.bytes = row_bytes(i, k);
            f.offset = row_at((uint32_t)f.bytes, k);
            tt_frame_write(&f, out);
            pattern_fill(out + TT_FRAME_BYTES, f.bytes, i);
            in_pieces(n, fd, out, TT_FRAME_BYTES + (uint32_t)f.bytes);
        }
        UNTIL(n, n->board->flag[0] == group + 1);
        while (recv(fd, out, sizeof out, MSG_DONTWAIT) > 0)
            ;
    }
    f.word++;
    tt_frame_write(&f, out);
    CHECK(n, !row_ends_within ||
                 send(fd, out, TT_FRAME_BYTES / 2, MSG_NOSIGNAL) == TT_FRAME_BYTES / 2);
    close(fd);
}

/* Returns whether a sleeping rank would be woken although it has processed all data. */
static bool row_wakes(struct node *n)
{
    struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };

    return p.fd >= 0 && poll(&p, 1, 0) != 0;
}

static void row_receiver(struct node *n)
{
    const struct tt_tcp_link *link;
    uint32_t peeked = 0;
    uint64_t i = 0;

    UNTIL(n, n->ups[2]);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, 2);
    for (uint32_t group = 0; group < ROW_GROUPS; group++) {
        const uint32_t count = 1 + group % ROW_MAX;

        UNTIL(n, node_word(n, 2, 0) == i + count);
        for (uint32_t k = 0; k < count; k++, i++) {
            const uint32_t bytes = row_bytes(i, k);

            CHECK(n, pattern_differs((uint8_t *)n->link[2].mine + row_at(bytes, k), bytes, i) ==
                         bytes);
        }
        peeked += link->lanes[0].peeks;
        for (uint64_t looks = tt_prng_u64(&n->prng) % 50; looks > 0; looks--)
            node_poll(n);
        if (group % 4 == 1)
            CHECK(n, !row_wakes(n) && !n->w->unheard);
        if (group % 3 == 0)
            node_post_signal(n, 2, 0, TT_SIGNAL_SET, group);
        n->board->flag[0] = group + 1;
    }
    CHECK(n, peeked > ROW_GROUPS / 10);
    UNTIL(n, n->w->unheard || n->losses[2]);    /* `arm` was not called for a while */
    UNTIL(n, n->losses[2] == 1);
    CHECK(n, n->why[2] == TUTTI_ERR_PEER_LOST && node_word(n, 2, 0) == i);
}

static void row_role(struct node *n)
{
    if (n->rank == 2) {
        node_barrier(n);
        row_sender(n);
        node_barrier(n);
        return;
    }
    node_open(n);
    if (n->rank == 0)
        row_receiver(n);
    node_barrier(n);
}

static void short_messages_arrive_exactly_once(void **state)
{
    for (int within = 0; within < 2; within++) {
        row_ends_within = within;
        nodes_run(*state, 3, row_role);
    }
}

/* ---- lengths of segments ---- */

enum { LENGTH_ROUNDS = 40, LENGTH_BYTES = 1024 };

/* Returns whether the kernel assumes that the other end sends segments as long as the first one, or
 * as long as loopback permits. */
static bool believes_the_first(struct node *n, uint32_t peer)
{
    const struct tt_tcp_link *link = tt_sparse_get(&tt_tcp_of(n->w)->links, peer);
    struct tcp_info info = { 0 };
    socklen_t bytes = sizeof info;

    CHECK(n, getsockopt(link->lanes[0].fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
    return info.tcpi_rcv_mss >=
           (info.tcpi_advmss < TT_TCP_LONG_BYTES ? info.tcpi_advmss : TT_TCP_LONG_BYTES);
}

/* Messages of equal length, sent one at a time: the kernel would conclude from their lengths that
 * no segment is longer. */
static void length_role(struct node *n)
{
    static uint8_t out[LENGTH_BYTES];

    node_open(n);
    node_connect_all(n);
    node_barrier(n);
    for (uint32_t i = 1; i <= LENGTH_ROUNDS; i++) {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, i);

        if (n->rank == 0) {
            memset(out, (int)i, sizeof out);
            d.flags = TT_DESC_INLINE;
            d.local = out;
            d.bytes = sizeof out;
            d.key = &n->link[1].theirs;
            d.offset = 64;
            node_post(n, &d);
        } else {
            UNTIL(n, node_word(n, 0, 0) == i);
            CHECK(n, ((uint8_t *)n->link[0].mine)[64 + LENGTH_BYTES - 1] == (uint8_t)i);
            CHECK(n, believes_the_first(n, 0));
        }
        node_barrier(n);
    }
}

static void equal_lengths_keep_segment_estimate(void **state)
{
    nodes_run(*state, 2, length_role);
}

/* ---- closing ---- */

#define LAST_BYTES 60000
#define LAST_PUTS 2000          /* more than socket buffers hold without a reader */

/* Rank 2 reads nothing, and requests two acknowledgements. Rank 0 closes with a blocked lane, one
 * acknowledgement queued and the other due: its last flush may queue the other one, too, while
 * memory is still registered. */
static void last_asker(struct node *n)
{
    static uint8_t in[1 << 16];
    struct tt_frame f = { .kind = TT_FRAME_PUT, .flags = TT_FRAME_WANT_ACK };
    uint8_t out[TT_FRAME_BYTES];
    const int fd = shake_hands(n);

    UNTIL(n, n->board->flag[0] == 1);
    for (uint32_t i = 0; i < 2; i++) {
        f.word = FIRST + i;
        tt_frame_write(&f, out);
        CHECK(n, send(fd, out, sizeof out, MSG_NOSIGNAL) == sizeof out);
        UNTIL(n, n->board->flag[1 + i] == 1);
    }
    poll(NULL, 0, 20);
    while (recv(fd, in, sizeof in, 0) > 0)
        ;
    close(fd);
}

static void last_closer(struct node *n)
{
    const struct tt_tcp_link *link;
    struct tt_region *r;
    struct tt_desc d;

    UNTIL(n, n->ups[2]);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, 2);
    CHECK(n, n->ops->reg(n->w, NULL, LAST_BYTES, &r) == TUTTI_OK);
    d = node_put(&n->link[2].theirs, 64, r->mem, LAST_BYTES);
    for (int i = 0; i < LAST_PUTS; i++)
        if (n->ops->post(n->w, &d, 1) == 0)
            node_poll(n);
    CHECK(n, link->lanes[0].blocked);
    n->board->flag[0] = 1;
    UNTIL(n, link->receiver.expected == 1);
    CHECK(n, link->ack_queued);
    n->board->flag[1] = 1;
    UNTIL(n, link->receiver.expected == 2);
    CHECK(n, link->lanes[0].blocked);
    n->board->flag[2] = 1;
}

static void last_role(struct node *n)
{
    if (n->rank == 2) {
        node_barrier(n);
        last_asker(n);
        return;
    }
    node_open(n);
    if (n->rank == 0)
        last_closer(n);
}

static void wire_closes_with_pending_acknowledgements(void **state)
{
    nodes_run(*state, 3, last_role);
}

static void lane_limits_follow_the_layout(void **state)
{
    struct tt_layout l = { 0 };
    struct tt_tcp t = { .conf = { .rank = 0, .layout = &l }, .limits = tt_lane_limits_default };
    const struct tt_tcp_link link = { .tcp = &t, .peer = 2 };

    (void)state;
    /* nothing is known yet */
    assert_int_equal(tt_tcp_lane_bytes(&link), tt_lane_limits_default.bytes[TT_NEAR_RACK]);
    tt_layout_regular(&l, 4, 2, 1, 1, TT_NODE_MESH);
    assert_int_equal(tt_tcp_lane_bytes(&link), tt_lane_limits_default.bytes[TT_NEAR_RACK]);
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)    /* the measured distance between the
                                                           hosts */
        l.group_ranks[d] = 2;
    assert_int_equal(tt_tcp_lane_bytes(&link), tt_lane_limits_default.bytes[TT_NEAR_WAN]);
    t.conf.layout = NULL;
    assert_int_equal(tt_tcp_lane_bytes(&link), tt_lane_limits_default.bytes[TT_NEAR_RACK]);
}

/* ---- lanes of a slow link ---- */

enum { PACED_PUTS = 60, PACED_ROOM = 300 << 10 };

/* Both ranks put messages of all lengths, some inline, each split into pieces at arbitrary
 * offsets. */
static void paced_role(struct node *n)
{
    uint8_t *source = node_memory(n, PACED_ROOM);
    struct tt_region *mine, *from;
    struct tt_tcp_link *link;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    CHECK(n, n->ops->reg(n->w, NULL, PACED_ROOM, &mine) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, source, PACED_ROOM, &from) == TUTTI_OK);
    node_share(n, 0, mine);
    node_barrier(n);
    theirs = node_import(n, !n->rank, 0);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, !n->rank);
    for (uint32_t i = 0; i < link->nlanes; i++)
        link->lanes[i].pace.bytes = TT_PIECE_BYTES_MIN;
    CHECK(n, link->beside == (link->nlanes > 1));
    link->load.keeps_first = link->nlanes > 1;
    for (uint64_t i = 0; i < PACED_PUTS; i++) {
        const uint64_t bytes =
            (n->setting->seed / 7 + i * 7919) % (i % 3 ? PACED_ROOM : TT_INLINE_BYTES);
        struct tt_desc d = node_signal(n, !n->rank, 0, TT_SIGNAL_SET, i + 1);

        pattern_fill(source, bytes, i);
        d.flags = i % 3 ? 0 : TT_DESC_INLINE;
        d.local = source;
        d.bytes = bytes;
        d.key = &theirs;
        d.cookie = i;
        node_post(n, &d);
        UNTIL(n, node_word(n, !n->rank, 0) == i + 1);
        CHECK(n, pattern_differs(mine->mem, bytes, i) == bytes);
        UNTIL(n, i % 3 == 0 || n->local[i] == 1);
        node_barrier(n);
    }
    /* with several lanes, only urgent messages use the first */
    CHECK(n, (link->lanes[0].queues[TT_TCP_BULK].tail > 0) == (link->nlanes == 1));
}

static void split_puts_arrive_complete(void **state)
{
    struct setting s = *(const struct setting *)*state;

    nodes_run(&s, 2, paced_role);
    s.lanes = 3;
    nodes_run(&s, 2, paced_role);
}

/* ---- puts limited to some of the lanes ---- */

enum { FEW_PUTS = 24, FEW_BYTES = 40 << 10 };

/* Both ranks put messages over at most two of three lanes. */
static void few_role(struct node *n)
{
    uint8_t *source = node_memory(n, FEW_BYTES);
    struct tt_region *mine, *from;
    struct tt_tcp_link *link;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    CHECK(n, n->ops->reg(n->w, NULL, FEW_BYTES, &mine) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, source, FEW_BYTES, &from) == TUTTI_OK);
    node_share(n, 0, mine);
    node_barrier(n);
    theirs = node_import(n, !n->rank, 0);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, !n->rank);
    CHECK(n, link->nlanes == 3);
    for (uint64_t i = 0; i < FEW_PUTS; i++) {
        struct tt_desc d = node_signal(n, !n->rank, 0, TT_SIGNAL_SET, i + 1);

        UNTIL(n, !link->load.lane[1].down && !link->load.lane[2].down);
        pattern_fill(source, FEW_BYTES, i);
        d.flags = i % 4 == 3 ? TT_DESC_INLINE | TT_DESC_FEW_LANES : TT_DESC_FEW_LANES;
        d.lane = 2;
        d.local = source;
        d.bytes = i % 4 == 3 ? 100 : FEW_BYTES;
        d.key = &theirs;
        d.cookie = i;
        node_post(n, &d);
        UNTIL(n, node_word(n, !n->rank, 0) == i + 1);
        CHECK(n, pattern_differs(mine->mem, d.bytes, i) == d.bytes);
        UNTIL(n, i % 4 == 3 || n->local[i] == 1);
        node_barrier(n);
    }
    CHECK(n, link->lanes[0].queues[TT_TCP_BULK].tail > 0 &&
                 link->lanes[1].queues[TT_TCP_BULK].tail > 0);
    CHECK(n, link->lanes[2].queues[TT_TCP_BULK].tail == 0);
}

static void puts_respect_their_lane_limit(void **state)
{
    struct setting s = *(const struct setting *)*state;

    s.lanes = 3;
    nodes_run(&s, 2, few_role);
}

/* ---- lanes on demand ---- */

enum { DEMAND_PUT = 128 << 10, DEMAND_SHORT = 100, DEMAND_PUTS = 400, DEMAND_SIGNALS = 1000 };

/* Returns whether this rank sends: the initiator of the link for even seeds, the acceptor for
 * others. */
static bool demand_sends(const struct node *n)
{
    return n->rank == (uint32_t)(n->setting->seed % 2);
}

static uint32_t lanes_up(const struct tt_tcp_link *link)
{
    uint32_t up = 0;

    for (uint32_t i = 0; i < link->nlanes; i++)
        up += !link->load.lane[i].down;
    return up;
}

/* Opens and connects the transport. Peers at any distance count as far. */
static struct tt_tcp_link *demand_open(struct node *n)
{
    struct tt_tcp_link *link;

    node_open(n);
    tt_tcp_of(n->w)->far_ns = 0;
    tt_tcp_of(n->w)->far_lanes = TT_TCP_LANES_MAX;
    node_barrier_idle(n);       /* the other rank does not connect before */
    node_connect_all(n);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, !n->rank);
    CHECK(n, link->nlanes == TT_TCP_LANES_MAX && link->on_demand && lanes_up(link) == 1);
    CHECK(n, link->initiator == (n->rank == 0));
    CHECK(n, !(n->w->caps & TT_WIRE_CAP_ORDERED));
    return link;
}

/* Posts a put. If there is no space, the other end may start to read. */
static void demand_post(struct node *n, const struct tt_tcp_link *link, const struct tt_desc *d)
{
    if (n->ops->post(n->w, d, 1) == 1)
        return;
    CHECK(n, n->board->flag[1] || (link->wanted == 4 && link->requested == 1));
    n->board->flag[1] = 1;
    node_post(n, d);
}

static uint64_t demand_bytes(uint64_t i)
{
    return i % 8 == 7 ? DEMAND_SHORT : DEMAND_PUT;
}

static void demand_receive(struct node *n, struct tt_tcp_link *link, const uint8_t *mem)
{
    UNTIL(n, node_word(n, !n->rank, 1) == DEMAND_SIGNALS);
    CHECK(n, lanes_up(link) == 1);
    node_barrier_idle(n);
    while (!n->board->flag[1])      /* without reading */
        poll(NULL, 0, 1);
    for (uint64_t i = 0; i < DEMAND_PUTS; i++) {
        UNTIL(n, node_word(n, !n->rank, 0) > i);
        CHECK(n, pattern_differs(mem + i * DEMAND_PUT, demand_bytes(i), i) == demand_bytes(i));
    }
}

static void demand_send(struct node *n, struct tt_tcp_link *link, const struct tt_rkey *theirs)
{
    uint8_t *from = node_memory(n, (uint64_t)DEMAND_PUTS * DEMAND_PUT);
    struct tt_region *source;

    CHECK(n, n->ops->reg(n->w, from, (uint64_t)DEMAND_PUTS * DEMAND_PUT, &source) == TUTTI_OK);
    for (uint64_t i = 0; i < DEMAND_PUTS; i++)
        pattern_fill(from + i * DEMAND_PUT, DEMAND_PUT, i);
    for (int i = 0; i < DEMAND_SIGNALS; i++)
        node_post_signal(n, !n->rank, 1, TT_SIGNAL_ADD, 1);
    node_barrier_idle(n);
    CHECK(n, lanes_up(link) == 1 && link->wanted == 0);
    for (uint64_t i = 0; i < DEMAND_PUTS; i++) {
        struct tt_desc d = node_put(theirs, i * DEMAND_PUT, from + i * DEMAND_PUT, demand_bytes(i));

        d.cookie = i;
        demand_post(n, link, &d);
        node_fence(n, !n->rank);
        node_post_signal(n, !n->rank, 0, TT_SIGNAL_ADD, 1);
    }
    CHECK(n, n->board->flag[1]);
    UNTIL(n, lanes_up(link) >= 4);
    CHECK(n, link->load.keeps_first);
    for (uint64_t i = 0; i < DEMAND_PUTS; i++)
        UNTIL(n, n->local[i] == 1);
}

/* One end sends more than the kernels' buffers hold while the other does not read. */
static void demand_role(struct node *n)
{
    struct tt_tcp_link *link = demand_open(n);
    struct tt_region *mine;
    struct tt_rkey theirs;

    CHECK(n, n->ops->reg(n->w, NULL, (uint64_t)DEMAND_PUTS * DEMAND_PUT, &mine) == TUTTI_OK);
    node_share(n, 0, mine);
    node_barrier(n);
    theirs = node_import(n, !n->rank, 0);
    if (demand_sends(n))
        demand_send(n, link, &theirs);
    else
        demand_receive(n, link, mine->mem);
    node_barrier(n);
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
    if (demand_sends(n))        /* a failed lane fails the link at both ends */
        shutdown(link->lanes[3].fd, SHUT_RDWR);
    UNTIL(n, n->losses[!n->rank] == 1);
    node_barrier(n);
}

static void far_link_opens_lanes_for_its_data(void **state)
{
    struct setting s = *(const struct setting *)*state;

    s.lanes = 0;
    for (s.seed = 0; s.seed < 4; s.seed++) {
        s.secure = s.seed >= 2;
        nodes_run(&s, 2, demand_role);
    }
}

static void near_role(struct node *n)
{
    const struct tt_tcp_link *link;

    node_open(n);
    node_connect_all(n);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, !n->rank);
    CHECK(n, link->nlanes == 1 && !link->on_demand && n->w->caps & TT_WIRE_CAP_ORDERED);
    node_barrier(n);
}

static void near_link_has_one_lane(void **state)
{
    struct setting s = *(const struct setting *)*state;

    s.lanes = 0;
    nodes_run(&s, 2, near_role);
}

/* ---- several lanes, one of which is blocked ---- */

enum {
    SLOW_LANES = 4,
    SLOW_PUT = 32 << 10,
    SLOW_FRAME = SLOW_PUT + TT_FRAME_BYTES,
    SLOW_PUTS = 900
};
#define SLOW_BOUND (4ull << 20)         /* lane limit of nodes */
/* more than two kernels buffer for a connection whose reader has a small buffer */
#define SLOW_KERNEL (2ull << 20)

/* Opens one more lane to rank 0 over a raw socket with a small receive buffer. */
static int open_lane(struct node *n, uint16_t lane)
{
    struct tt_hello h = hello_to(n, 0), answer;
    struct tt_frame ready;
    uint8_t in[TT_HELLO_BYTES];
    const int fd = raw_connect(n, 0), little = 128 << 10;

    CHECK(n, setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little) == 0);
    h.lanes = SLOW_LANES;
    h.lane = lane;
    say(fd, &h, node_secret, TT_HELLO_BYTES);
    CHECK(n, recv(fd, in, sizeof in, MSG_WAITALL) == sizeof in);
    CHECK(n, tt_hello_read(&answer, node_secret, in) && answer.kind == TT_WELCOME &&
                 answer.lanes == SLOW_LANES);
    h.kind = TT_CONFIRM;
    say(fd, &h, node_secret, TT_HELLO_BYTES);
    if (lane > 0) {
        CHECK(n, recv(fd, in, sizeof in, MSG_WAITALL) == TT_FRAME_BYTES);
        CHECK(n, tt_frame_read(&ready, in) && ready.kind == TT_FRAME_READY);
    }
    return fd;
}

/* Reads the lanes from `first` on, until `bytes` bytes were read in total; adds them to
 * got[lane]. */
static void drain(struct node *n, const int *fds, int first, uint64_t bytes, uint64_t *got)
{
    static uint8_t trash[65536];
    struct pollfd p[SLOW_LANES];
    uint64_t all = 0;

    for (int i = first; i < SLOW_LANES; i++)
        p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    while (all < bytes) {
        CHECK(n, poll(p + first, (nfds_t)(SLOW_LANES - first), 60000) > 0);
        for (int i = first; i < SLOW_LANES; i++) {
            const ssize_t some = p[i].revents ? recv(fds[i], trash, sizeof trash, MSG_DONTWAIT) : 0;

            CHECK(n, !p[i].revents || some > 0);
            got[i] += (uint64_t)some;
            all += (uint64_t)some;
        }
    }
}

/* Rank 2 is a peer with four lanes that first reads nothing, then all lanes except the first, then
 * the first, too. */
static void read_lanes(struct node *n)
{
    const uint64_t all = (uint64_t)SLOW_PUTS * SLOW_FRAME;
    uint64_t got[SLOW_LANES] = { 0 }, others = 0;
    int fds[SLOW_LANES];

    node_barrier(n);
    for (int i = 0; i < SLOW_LANES; i++)
        fds[i] = open_lane(n, (uint16_t)i);
    n->board->flag[0] = 1;
    UNTIL(n, n->board->flag[1]);        /* all lanes are full */
    drain(n, fds, 1, all - SLOW_BOUND - SLOW_KERNEL, got);
    UNTIL(n, n->board->flag[2]);        /* everything was posted, with one lane still full */
    for (int i = 1; i < SLOW_LANES; i++)
        others += got[i];
    drain(n, fds, 0, all - others, got);
    for (int i = 1; i < SLOW_LANES; i++)
        CHECK(n, got[i] > 0);
    CHECK(n, got[0] > 0 && got[0] <= SLOW_BOUND + SLOW_KERNEL);
    for (int i = 0; i < SLOW_LANES; i++)
        close(fds[i]);
}

static void slow_role(struct node *n)
{
    struct tt_region *region;
    struct tt_desc d;
    uint64_t posted = 0;

    if (n->rank == 2) {
        read_lanes(n);
        node_barrier(n);
        return;
    }
    node_open(n);
    if (n->rank == 0) {
        void *mem = node_memory(n, SLOW_PUT);

        CHECK(n, n->ops->reg(n->w, mem, SLOW_PUT, &region) == TUTTI_OK);
        UNTIL(n, n->ups[2] && n->board->flag[0]);
        d = node_put(&n->link[2].theirs, 0, mem, SLOW_PUT);
        while (n->ops->post(n->w, &d, 1) == 1) {
            node_poll(n);
            posted++;
            CHECK(n, posted * SLOW_FRAME <= SLOW_LANES * (SLOW_BOUND + SLOW_KERNEL));
        }
        n->board->flag[1] = 1;
        for (; posted < SLOW_PUTS; posted++)
            node_post(n, &d);
        n->board->flag[2] = 1;
        UNTIL(n, n->nlocal == SLOW_PUTS);
    }
    node_barrier(n);
}

static void blocked_lane_is_bounded_and_bypassed(void **state)
{
    struct setting s = *(const struct setting *)*state;

    s.lanes = SLOW_LANES;
    nodes_run(&s, 3, slow_role);
}

/* ---- numbers ---- */

static const struct {
    const char *what;
    uint16_t lane[2];
    uint32_t word[2];
} odd[] = {
    { "fast on the second lane", { 0, 1 }, { FIRST, FIRST | TT_DQPLB_FAST | 1 } },
    { "used twice, by two lanes", { 0, 1 }, { FIRST | 5, FIRST | 5 } },
    { "beyond the window", { 0, 1 }, { FIRST, FIRST | (TT_TCP_WINDOW + 1) } },
    { "from before the first", { 1, 0 }, { FIRST, FIRST | TT_DQPLB_SEQ_MASK } },
};

/* Rank 1 sends these sequence numbers on two raw lanes. */
static void odd_role(struct node *n)
{
    for (size_t row = 0; row < sizeof odd / sizeof *odd; row++) {
        struct tt_frame f = { .kind = TT_FRAME_PUT };
        uint8_t out[TT_FRAME_BYTES];
        int fds[2];

        if (n->rank == 0) {
            node_open(n);
            UNTIL(n, n->losses[1] == 1);
            CHECK(n, n->why[1] == TUTTI_ERR_PROTOCOL && n->ups[1] == 1);
            node_barrier(n);
            node_close(n);
            continue;
        }
        node_barrier(n);
        for (uint16_t lane = 0; lane < 2; lane++)
            fds[lane] = open_lane(n, lane);
        for (int i = 0; i < 2; i++) {
            f.word = odd[row].word[i];
            tt_frame_write(&f, out);
            CHECK(n, send(fds[odd[row].lane[i]], out, sizeof out, MSG_NOSIGNAL) == sizeof out ||
                         i > 0);
        }
        for (int i = 0; i < 2; i++) {
            CHECK(n, hangs_up(fds[i]));
            close(fds[i]);
        }
        node_barrier(n);
    }
}

static void invalid_numbers_end_the_link(void **state)
{
    struct setting s = *(const struct setting *)*state;

    s.lanes = SLOW_LANES;
    nodes_run(&s, 2, odd_role);
}

/* Ages an idle link: as if this number of messages had been exchanged in both directions, and the
 * peer had received `acked`. */
static void link_age(struct tt_tcp_link *link, uint64_t messages, uint64_t acked)
{
    link->next_number = link->receiver.expected = messages;
    link->acked = link->ack_sent = link->ack_want = acked;
}

enum { WRAP_PUTS = 400, WRAP_BYTES = 2000 };

/* Both ranks put messages, each after a fence, some inline, while the sequence numbers wrap. If a
 * signal is visible, so is all earlier data. */
static void wrap_role(struct node *n)
{
    const uint64_t room = (uint64_t)WRAP_PUTS * WRAP_BYTES, first = (5ull << 24) - WRAP_PUTS / 2;
    uint8_t *source = node_memory(n, room);
    struct tt_region *mine, *from;
    struct tt_tcp_link *link;
    struct tt_rkey theirs;
    uint64_t seen = 0;

    node_open(n);
    node_connect_all(n);
    CHECK(n, n->ops->reg(n->w, NULL, room, &mine) == TUTTI_OK &&
                 n->ops->reg(n->w, source, room, &from) == TUTTI_OK);
    node_share(n, 0, mine);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, !n->rank);
    node_post_signal(n, !n->rank, 1, TT_SIGNAL_SET, 1);
    UNTIL(n, node_word(n, !n->rank, 1) == 1);   /* after the first messages of the connection */
    node_barrier(n);
    link_age(link, first, first);
    node_barrier(n);
    theirs = node_import(n, !n->rank, 0);
    for (uint64_t i = 0; i < WRAP_PUTS; i++) {
        struct tt_desc d = node_signal(n, !n->rank, 0, TT_SIGNAL_SET, i + 1);

        pattern_fill(source + i * WRAP_BYTES, WRAP_BYTES, i);
        d.flags = TT_DESC_REMOTE | (i % 3 ? 0 : TT_DESC_INLINE);
        d.local = source + i * WRAP_BYTES;
        d.bytes = WRAP_BYTES;
        d.key = &theirs;
        d.offset = i * WRAP_BYTES;
        d.cookie = i;
        node_fence(n, !n->rank);
        node_post(n, &d);
    }
    while (seen < WRAP_PUTS) {
        UNTIL(n, node_word(n, !n->rank, 0) > seen);
        for (const uint64_t now = node_word(n, !n->rank, 0); seen < now; seen++)
            CHECK(n, pattern_differs((uint8_t *)mine->mem + seen * WRAP_BYTES, WRAP_BYTES, seen) ==
                         WRAP_BYTES);
    }
    UNTIL(n, n->nremote == WRAP_PUTS);
    CHECK(n, link->acked == first + WRAP_PUTS && link->receiver.expected == first + WRAP_PUTS);
    node_barrier(n);
}

static void numbers_may_wrap(void **state)
{
    struct setting s = *(const struct setting *)*state;

    nodes_run(&s, 2, wrap_role);
    s.lanes = 3;
    nodes_run(&s, 2, wrap_role);
}

/* No put requests an acknowledgement, but with so many unacknowledged messages their sequence
 * numbers would be ambiguous. */
static void unasked_role(struct node *n)
{
    struct tt_tcp_link *link;
    struct tt_desc d;

    node_open(n);
    node_connect_all(n);
    link = tt_sparse_get(&tt_tcp_of(n->w)->links, !n->rank);
    link_age(link, TT_TCP_AHEAD / 4 - 3, 0);
    node_barrier(n);
    for (uint64_t i = 1; i <= 5; i++)
        node_post_signal(n, !n->rank, 0, TT_SIGNAL_SET, i);
    UNTIL(n, node_word(n, !n->rank, 0) == 5 && link->acked >= TT_TCP_AHEAD / 4);
    node_barrier(n);
    link->next_number = link->acked + TT_TCP_AHEAD;     /* as far as permitted */
    d = node_signal(n, !n->rank, 0, TT_SIGNAL_SET, 6);
    CHECK(n, n->ops->post(n->w, &d, 1) == 0);
    node_barrier(n);
}

static void single_lane_acknowledges_unasked(void **state)
{
    nodes_run(*state, 2, unasked_role);
}

/* ---- lanes to a distant peer ---- */

/* Sleeps like an idle process. Returns whether the transport woke it. */
static bool is_woken(struct node *n)
{
    struct pollfd p = { .events = POLLIN };

    while ((p.fd = n->ops->arm(n->w)) < 0)
        node_poll(n);
    return poll(&p, 1, 60000) == 1;
}

/* Rank 1 reads nothing, so no event makes rank 0's lane writable. */
static void far_role(struct node *n)
{
    struct tt_tcp_link *link;
    struct tt_tcp_lane *lane;
    struct tt_region *region;
    struct tt_tcp *t;
    struct tt_desc d;
    uint64_t posted = 0;

    node_open(n);
    node_connect_all(n);
    if (n->rank == 1) {
        node_barrier_idle(n);
        node_barrier(n);
        return;
    }
    t = tt_tcp_of(n->w);
    link = tt_sparse_get(&t->links, 1);
    lane = &link->lanes[0];
    CHECK(n, lane->far_ns == 0 && t->nfar_blocked == 0);    /* the peer is on this machine */
    lane->far_ns = 3000000;
    CHECK(n, n->ops->reg(n->w, node_memory(n, SLOW_PUT), SLOW_PUT, &region) == TUTTI_OK);
    d = node_put(&n->link[1].theirs, 0, region->mem, SLOW_PUT);
    for (; n->ops->post(n->w, &d, 1) == 1; posted++)
        node_poll(n);
    for (int tries = 0; tries < 5; tries++) {
        const uint64_t try_ns = lane->try_ns;

        CHECK(n, lane->blocked && t->nfar_blocked == 1 && tt_tcp_pacing_deadline(t) == try_ns);
        while (lane->try_ns == try_ns) {
            CHECK(n, is_woken(n));
            node_poll(n);
        }
        CHECK(n, lane->try_ns >= try_ns + lane->far_ns);
    }
    node_barrier_idle(n);
    UNTIL(n, n->nlocal == posted && !lane->blocked);    /* with TLS, the last record may be sent
                                                           after its put has completed here */
    CHECK(n, t->nfar_blocked == 0 && tt_tcp_pacing_deadline(t) == TT_NEVER);
    node_barrier(n);
}

static void blocked_distant_lane_is_retried(void **state)
{
    struct setting s = *(const struct setting *)*state;

    nodes_run(&s, 2, far_role);
    s.secure = true;
    nodes_run(&s, 2, far_role);
}

/* ---- addresses ---- */

/* Returns a port of this host with a listener that never replies, or without a listener. */
static uint16_t odd_port(struct node *n, bool listening, int *fd)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof at;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(n, *fd >= 0 && bind(*fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                 (!listening || listen(*fd, 8) == 0));
    CHECK(n, getsockname(*fd, (struct sockaddr *)&at, &bytes) == 0);
    return ntohs(at.sin_port);
}

static struct tt_blob odd_address(struct node *n, uint16_t port)
{
    struct tt_tcp_address a = address_of(n, n->rank);   /* for the host */
    struct tt_blob blob;

    a.port = port;
    a.count = 1;
    a.endpoints[0] = (struct tt_tcp_endpoint){ .family = 4, .ip = { 127, 0, 0, 1 } };
    tt_tcp_address_write(&a, &blob);
    return blob;
}

static void refused_role(struct node *n)
{
    const uint32_t peer = !n->rank;
    struct tt_blob blob;
    int fd;

    node_open(n);
    blob = odd_address(n, odd_port(n, false, &fd));
    CHECK(n, n->ops->connect(n->w, peer, &blob) == TUTTI_OK);
    while (n->losses[peer] == 0) {     /* a rank that sleeps must notice it, too */
        struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };

        CHECK(n, p.fd < 0 || poll(&p, 1, 60000) == 1);
        node_poll(n);
    }
    CHECK(n, n->why[peer] == TUTTI_ERR_PEER_LOST);
    close(fd);
    node_barrier(n);
}

static void missing_listener_is_reported_soon(void **state)
{
    nodes_run(*state, 2, refused_role);
}

#define STARVED_TIMES 12        /* more than the attempts after which a peer counts as lost */

/* Rank 0 must connect, but has no free descriptors. Rank 1 does not count as lost: rank 0 connects
 * when it has a descriptor. */
static void starved_role(struct node *n)
{
    struct rlimit before;

    node_open(n);
    if (n->rank == 0) {
        before = unit_descriptors_end();
        node_connect(n, 1);
        for (uint32_t woken = 0; woken < STARVED_TIMES; woken++) {      /* woken once for each
                                                                           attempt */
            struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };

            CHECK(n, p.fd < 0 || poll(&p, 1, 60000) == 1);
            node_poll(n);
            CHECK(n, n->losses[1] == 0 && n->ups[1] == 0);
        }
        unit_descriptors_again(&before);
    }
    UNTIL(n, n->ups[!n->rank] == 1);
    node_barrier(n);
}

static void missing_descriptor_delays_the_connect(void **state)
{
    nodes_run(*state, 2, starved_role);
}

/* Rank 0, the lower one, has a wrong address with an unresponsive listener. Rank 1's connection
 * waits for that attempt, and is accepted when the attempt fails. */
static void silent_role(struct node *n)
{
    struct tt_blob blob;
    int fd = -1;

    node_open(n);
    if (n->rank == 0) {
        blob = odd_address(n, odd_port(n, true, &fd));
        CHECK(n, n->ops->connect(n->w, 1, &blob) == TUTTI_OK);
        for (int i = 0; i < 1000; i++)
            node_poll(n);
        n->board->flag[0] = 1;
    } else {
        UNTIL(n, n->board->flag[0]);
        node_connect(n, 0);
    }
    UNTIL(n, n->ups[!n->rank]);
    node_barrier(n);
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
    if (fd >= 0)
        close(fd);
}

static void silent_address_does_not_block_peer(void **state)
{
    nodes_run(*state, 2, silent_role);
}

static void six_role(struct node *n)
{
    struct tt_tcp_address a;
    struct tt_blob blob;

    node_open(n);
    a = address_of(n, !n->rank);
    a.count = 1;
    a.endpoints[0] = (struct tt_tcp_endpoint){ .family = 6, .ip = { [15] = 1 } };
    tt_tcp_address_write(&a, &blob);
    if (n->rank == 0)
        CHECK(n, n->ops->connect(n->w, 1, &blob) == TUTTI_OK);
    UNTIL(n, n->ups[!n->rank]);
    node_post_signal(n, !n->rank, 0, TT_SIGNAL_SET, 1);
    UNTIL(n, node_word(n, !n->rank, 0) == 1);
    node_barrier(n);
}

static void ipv6_connects(void **state)
{
    const int fd = socket(AF_INET6, SOCK_STREAM, 0);
    const struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const bool here = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;

    if (fd >= 0)
        close(fd);
    if (!here)
        skip();
    nodes_run(*state, 2, six_role);
}

/* Without loopback addresses, ranks of one host connect over any other address. */
static void outside_role(struct node *n)
{
    n->interfaces = "^lo";
    node_open(n);
    for (uint8_t i = 0; i < address_of(n, n->rank).count; i++)
        CHECK(n, address_of(n, n->rank).endpoints[i].ip[0] != 127);
    node_connect_all(n);
    node_post_signal(n, !n->rank, 0, TT_SIGNAL_SET, 1);
    UNTIL(n, node_word(n, !n->rank, 0) == 1);
    node_barrier(n);
}

static void the_interface_rule_is_kept(void **state)
{
    const struct tt_wire_conf nowhere = { .nranks = 1,
                                          .secret = node_secret,
                                          .interfaces = "=no-such-name" };
    const struct tt_wire_conf outside = { .nranks = 1, .secret = node_secret, .interfaces = "^lo" };
    struct tt_wire *w;

    assert_int_equal(tt_wire_tcp.open(&w, &nowhere), TUTTI_ERR_UNSUPPORTED);
    if (tt_wire_tcp.open(&w, &outside) != TUTTI_OK)
        skip();     /* a machine with only loopback */
    tt_wire_tcp.close(w);
    nodes_run(*state, 2, outside_role);
}

static void address_of_another_wire_is_unsupported(void **state)
{
    const struct tt_wire_conf conf = { .nranks = 2, .secret = node_secret };
    struct tt_blob blob = { .bytes = 5, .data = "shm!" };
    struct tt_wire *w;

    (void)state;
    assert_int_equal(tt_wire_tcp.open(&w, &conf), TUTTI_OK);
    assert_int_equal(tt_wire_tcp.connect(w, 1, &blob), TUTTI_ERR_UNSUPPORTED);
    assert_int_equal(tt_wire_tcp.address(w, &blob), TUTTI_OK);
    assert_int_equal(tt_wire_tcp.connect(w, 2, &blob), TUTTI_ERR_INVALID);
    assert_int_equal(tt_wire_tcp.connect(w, 0, &blob), TUTTI_ERR_INVALID);
    tt_wire_tcp.close(w);
}

/* Several transports of a process use the permitted ports, one each, and publish the forwarded
 * ports. */
static void only_permitted_ports_are_used(void **state)
{
    struct tt_outside outside = { .family = 6, .ip = { 0x20, 0x01, [15] = 7 } };
    struct tt_wire_conf conf = { .nranks = 2, .secret = node_secret, .outside = &outside };
    struct tt_wire *w[3];
    struct tt_tcp_address a;
    struct tt_blob blob;
    uint16_t ports[2];

    (void)state;
    for (int again = 0; again < 2; again++) {
        /* a free port, and possibly the next one */
        assert_int_equal(tt_wire_tcp.open(&w[2], &conf), TUTTI_OK);
        assert_int_equal(tt_wire_tcp.address(w[2], &blob), TUTTI_OK);
        assert_true(tt_tcp_address_read(&a, &blob));
        tt_wire_tcp.close(w[2]);
        outside.port_first = a.port;
        outside.port_last = a.port < UINT16_MAX - 8 ? a.port + 8 : a.port;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(tt_wire_tcp.open(&w[i], &conf), TUTTI_OK);
            assert_int_equal(tt_wire_tcp.address(w[i], &blob), TUTTI_OK);
            assert_true(tt_tcp_address_read(&a, &blob));
            assert_true(a.port >= outside.port_first && a.port <= outside.port_last);
            assert_true(a.outside > a.rails && a.endpoints[a.outside - 1].family == 6);
            assert_memory_equal(a.endpoints[a.outside - 1].ip, outside.ip, 16);
            ports[i] = a.port;
        }
        assert_int_not_equal(ports[0], ports[1]);
        outside.port_first = outside.port_last = ports[0];
        assert_int_not_equal(tt_wire_tcp.open(&w[2], &conf), TUTTI_OK);
        assert_non_null(strstr(tutti_last_error(), "cannot listen for peers on any port"));
        tt_wire_tcp.close(w[0]);
        tt_wire_tcp.close(w[1]);
        outside.port_first = outside.port_last = 0;
    }
}

int main(void)
{
    const char *seed = getenv("TUTTI_TEST_SEED");
    static struct setting one = { .ops = &tt_wire_tcp, .lanes = 1 };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(strangers_are_dropped_without_effect, &one),
        cmocka_unit_test_prestate(broken_frame_ends_only_its_link, &one),
        cmocka_unit_test_prestate(put_to_unknown_region_is_late, &one),
        cmocka_unit_test_prestate(words_are_never_partly_visible, &one),
        cmocka_unit_test_prestate(short_messages_arrive_exactly_once, &one),
        cmocka_unit_test_prestate(equal_lengths_keep_segment_estimate, &one),
        cmocka_unit_test_prestate(wire_closes_with_pending_acknowledgements, &one),
        cmocka_unit_test_prestate(split_puts_arrive_complete, &one),
        cmocka_unit_test_prestate(puts_respect_their_lane_limit, &one),
        cmocka_unit_test_prestate(far_link_opens_lanes_for_its_data, &one),
        cmocka_unit_test_prestate(near_link_has_one_lane, &one),
        cmocka_unit_test_prestate(blocked_lane_is_bounded_and_bypassed,
                                  &one),
        cmocka_unit_test_prestate(invalid_numbers_end_the_link, &one),
        cmocka_unit_test_prestate(numbers_may_wrap, &one),
        cmocka_unit_test_prestate(single_lane_acknowledges_unasked, &one),
        cmocka_unit_test_prestate(blocked_distant_lane_is_retried, &one),
        cmocka_unit_test_prestate(missing_listener_is_reported_soon, &one),
        cmocka_unit_test_prestate(missing_descriptor_delays_the_connect, &one),
        cmocka_unit_test_prestate(silent_address_does_not_block_peer, &one),
        cmocka_unit_test_prestate(ipv6_connects, &one),
        cmocka_unit_test_prestate(the_interface_rule_is_kept, &one),
        cmocka_unit_test(address_of_another_wire_is_unsupported),
        cmocka_unit_test(only_permitted_ports_are_used),
        cmocka_unit_test(lane_limits_follow_the_layout),
    };

    one.seed = seed ? strtoull(seed, NULL, 0) : tt_now_ns();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
