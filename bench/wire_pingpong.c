/* One transport between two processes, without the engine: round trips of an 8-byte put with
 * signal, and streams of large puts in one direction.
 *
 *   wire_pingpong [wire [lanes [segment_bytes [block]]]]
 *
 *   block: 1 sleeps on the transport's descriptor, 0 (default) polls
 *
 * The parent prints one line per measurement: name, bytes, microseconds in one direction, GB/s. */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/status.h"
#include "wire/wires.h"

#define STREAM_BYTES (1ull << 30)
#define REGION_BYTES (16u << 20)

struct side {
    struct tt_wire *w;
    struct tt_link link;
    struct tt_region *region;
    struct tt_rkey theirs;
    uint64_t local_done;
    bool blocking;
    unsigned rank;
    int socket;
};

static void progress(struct side *s)
{
    struct tt_done done[64];
    const int n = s->w->ops->poll(s->w, done, 64);

    for (int i = 0; i < n; i++) {
        tt_assert(done[i].kind != TT_DONE_LINK_LOST);
        if (done[i].kind == TT_DONE_LINK_UP)
            s->link = done[i].link;
        else if (done[i].kind == TT_DONE_LOCAL)
            s->local_done++;
    }
}

static void await(struct side *s, uint64_t value)
{
    const uint64_t *word = s->link.mine;
    struct pollfd p = { .events = POLLIN };

    for (;;) {
        progress(s);
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) >= value)
            return;
        if (!s->blocking)
            continue;
        p.fd = s->w->ops->arm(s->w);
        if (p.fd >= 0 && __atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
            poll(&p, 1, -1);
    }
}

static void post(struct side *s, const struct tt_desc *d)
{
    while (s->w->ops->post(s->w, d, 1) == 0)
        progress(s);
}

static void swap(int socket, const void *mine, void *theirs, size_t bytes)
{
    tt_assert(write(socket, mine, bytes) == (ssize_t)bytes);
    tt_assert(read(socket, theirs, bytes) == (ssize_t)bytes);
}

static void start(struct side *s, const char *wire, uint32_t lanes)
{
    static const uint8_t secret[16] = "wire_pingpong";
    const struct tt_wire_conf conf = { .rank = s->rank,
                                       .nranks = 2,
                                       .secret = secret,
                                       .link_bytes = 4096,
                                       .lanes = lanes,
                                       .cma = true };
    const struct tt_wire_ops *ops = tt_wire_find(wire);
    struct tt_blob mine, theirs;

    tt_assert(ops && ops->open(&s->w, &conf) == TUTTI_OK);
    tt_assert(ops->address(s->w, &mine) == TUTTI_OK);
    swap(s->socket, &mine, &theirs, sizeof mine);
    if (s->rank == 0)
        tt_assert(ops->connect(s->w, 1, &theirs) == TUTTI_OK);
    while (!s->link.mine)
        progress(s);
    tt_assert(ops->reg(s->w, NULL, REGION_BYTES, &s->region) == TUTTI_OK);
    memset(s->region->mem, 1, REGION_BYTES);
    swap(s->socket, &s->region->key, &theirs, sizeof theirs);
    tt_assert(ops->import(s->w, !s->rank, &theirs, &s->theirs) == TUTTI_OK);
}

static void pingpong(struct side *s, uint64_t bytes, int rounds)
{
    uint64_t *word = s->link.mine;
    uint64_t begun = 0;
    struct tt_desc d = { .kind = TT_DESC_PUT,
                         .flags = TT_DESC_INLINE,
                         .local = s->region->mem,
                         .bytes = bytes,
                         .key = &s->theirs,
                         .signal_op = TT_SIGNAL_SET,
                         .signal_key = &s->link.theirs };

    for (int i = 1; i <= rounds; i++) {
        if (i == rounds / 10)
            begun = tt_now_ns();
        d.signal_value = (uint64_t)i;
        if (s->rank == 0)
            post(s, &d);
        await(s, (uint64_t)i);
        if (s->rank == 1)
            post(s, &d);
    }
    if (s->rank == 0) {
        const double us = (double)(tt_now_ns() - begun) / (rounds - rounds / 10 + 1) / 2e3;

        printf("pingpong %10lu B %10.2f us one way\n", (unsigned long)bytes, us);
        fflush(stdout);
    }
    *word = 0;
    swap(s->socket, &rounds, &rounds, sizeof rounds);
}

/* Rank 0 puts STREAM_BYTES in pieces; rank 1 replies once at the end. */
static void stream(struct side *s, uint64_t bytes)
{
    const uint64_t pieces = STREAM_BYTES / bytes, begun = tt_now_ns();
    uint64_t posted = 0;
    struct tt_desc d = { .kind = TT_DESC_PUT,
                         .bytes = bytes,
                         .key = &s->theirs,
                         .signal_op = TT_SIGNAL_ADD,
                         .signal_key = &s->link.theirs,
                         .signal_value = 1 };

    s->local_done = 0;
    if (s->rank == 0) {
        for (; posted < pieces; posted++) {
            d.offset = posted * bytes % REGION_BYTES;
            d.local = (uint8_t *)s->region->mem + d.offset;
            post(s, &d);
        }
        await(s, 1);
    } else {
        await(s, pieces);
        d.flags = TT_DESC_INLINE;
        d.bytes = 0;
        post(s, &d);
    }
    if (s->rank == 0) {
        const double ns = (double)(tt_now_ns() - begun);

        printf("stream   %10lu B %10.2f us each %8.2f GB/s\n", (unsigned long)bytes,
               ns / 1e3 / (double)pieces, (double)STREAM_BYTES / ns);
        fflush(stdout);
    }
    progress(s);
    *(uint64_t *)s->link.mine = 0;
    swap(s->socket, &d.bytes, &posted, sizeof posted);
}

int main(int argc, char **argv)
{
    const char *wire = argc > 1 ? argv[1] : "tcp";
    const uint32_t lanes = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    const uint64_t segment = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
    struct side s = { .blocking = argc > 4 && atoi(argv[4]) };
    int pair[2];
    pid_t child;

    tt_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    child = fork();
    s.rank = child == 0;
    s.socket = pair[s.rank];
    start(&s, wire, lanes);
    pingpong(&s, 8, 20000);
    pingpong(&s, 1024, 20000);
    pingpong(&s, 16384, 5000);
    if (segment)
        stream(&s, segment);
    else
        for (uint64_t bytes = 16u << 10; bytes <= REGION_BYTES; bytes *= 4)
            stream(&s, bytes);
    s.w->ops->close(s.w);
    if (child == 0)
        return 0;
    waitpid(child, NULL, 0);
    return 0;
}
