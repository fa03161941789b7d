#include "comm/measure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "reduce/reduce.h"

#define SOFTWARE_NS 120.0       /* of ours, per message of shared memory, above the exchange of the line */
#define SLOT_BYTES (64u << 10)
#define STREAM_BYTES (2u << 20)
#define ROUNDS 64

const struct tt_constants tt_constants_default = {
    .shm = {
        .message_ns = 250, .byte_ns = 0.12, .reduce_byte_ns = 0.1, .copy_byte_ns = 0.08, .near_message_ns = 250,
        .near_byte_ns = 0.12,
    },
    .tcp = {
        .message_ns = 8000, .byte_ns = 0.35, .reduce_byte_ns = 0.1, .copy_byte_ns = 0.08, .near_message_ns = 250,
        .near_byte_ns = 0.12,
    },
};

static double clamped(double measured, double assumed)
{
    if (measured < assumed / 4)
        return assumed / 4;
    return measured > assumed * 4 ? assumed * 4 : measured;
}

/* ---- shared memory ---------------------------------------------------------------------------------- */

struct line {
    _Alignas(64) atomic_uint ping;
    _Alignas(64) atomic_uint pong;
    uint64_t until_ns;
};

static void *echo(void *arg)
{
    struct line *l = arg;

    for (uint32_t i = 1; i <= ROUNDS; i++) {
        while (atomic_load_explicit(&l->ping, memory_order_acquire) < i)
            if (tt_now_ns() > l->until_ns)
                return NULL;
        atomic_store_explicit(&l->pong, i, memory_order_release);
    }
    return NULL;
}

/* One way, in nanoseconds: the fastest of the rounds, as others only add to it; 0 if it could not be measured. */
static double line_ns(void)
{
    struct line l = { .until_ns = tt_now_ns() + 5 * TT_MS };
    uint64_t best = UINT64_MAX;
    pthread_t thread;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) < 0 || CPU_COUNT(&set) < 2 || pthread_create(&thread, NULL, echo, &l))
        return 0;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        const uint64_t start = tt_now_ns();
        uint64_t now = start;

        atomic_store_explicit(&l.ping, i, memory_order_release);
        while (atomic_load_explicit(&l.pong, memory_order_acquire) < i && now < l.until_ns)
            now = tt_now_ns();
        now = tt_now_ns();
        if (now >= l.until_ns)
            break;
        best = now - start < best ? now - start : best;
    }
    atomic_store(&l.ping, ROUNDS);
    pthread_join(thread, NULL);
    return best == UINT64_MAX ? 0 : (double)best / 2;
}

/* The fastest of some passes over a slot: copying, or reducing. Nanoseconds per byte. */
static double pass_ns(uint8_t *a, uint8_t *b, tt_reduce_fn *kernel)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 8; i++) {
        const uint64_t start = tt_now_ns();
        uint64_t took;

        if (kernel)
            kernel(b, NULL, a, b, SLOT_BYTES / 4, false, 1);
        else
            tt_copy(b, NULL, a, SLOT_BYTES, false);
        took = tt_now_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best / SLOT_BYTES;
}

/* ---- TCP --------------------------------------------------------------------------------------------------- */

/* A connected pair over loopback; false without one. */
static bool tcp_pair(int fd[2])
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof addr;
    const int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good;

    fd[0] = fd[1] = -1;
    good = listener >= 0 && bind(listener, (struct sockaddr *)&addr, len) == 0 && listen(listener, 1) == 0 &&
           getsockname(listener, (struct sockaddr *)&addr, &len) == 0;
    if (good) {
        fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        good = fd[0] >= 0 && connect(fd[0], (struct sockaddr *)&addr, len) == 0;
    }
    if (good)
        fd[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (listener >= 0)
        close(listener);
    if (fd[1] >= 0) {
        setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd[0], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    }
    return fd[1] >= 0;
}

/* Sends bytes and receives them again, in pieces that the socket holds. Nanoseconds; 0 on an error. */
static double through_tcp(const int fd[2], uint8_t *buf, size_t bytes)
{
    const uint64_t start = tt_now_ns();

    for (size_t left = bytes; left > 0;) {
        const size_t piece = left < SLOT_BYTES ? left : SLOT_BYTES;

        if (send(fd[0], buf, piece, MSG_NOSIGNAL) != (ssize_t)piece ||
            recv(fd[1], buf, piece, MSG_WAITALL) != (ssize_t)piece)
            return 0;
        left -= piece;
    }
    return (double)(tt_now_ns() - start);
}

static void measure_tcp(struct tt_cost_model *m, uint8_t *buf)
{
    double small = 1e9, t;
    int fd[2];

    if (tcp_pair(fd)) {
        for (int i = 0; i < 16; i++) {
            t = through_tcp(fd, buf, 8);
            if (t > 0 && t < small)
                small = t;
        }
        t = through_tcp(fd, buf, STREAM_BYTES);
        if (t > 0 && small < 1e9) {
            m->message_ns = clamped(small, m->message_ns);
            m->byte_ns = clamped(t / STREAM_BYTES, m->byte_ns);
        }
    }
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

void tt_constants_measure(struct tt_constants *out)
{
    uint8_t *buf = calloc(2, SLOT_BYTES);
    double line, copy, reduce;

    *out = tt_constants_default;
    if (!buf)
        return;
    line = line_ns();
    copy = pass_ns(buf, buf + SLOT_BYTES, NULL);
    reduce = pass_ns(buf, buf + SLOT_BYTES, tt_reduce_kernel(TUTTI_F32, TUTTI_SUM, false));
    if (line > 0)
        out->shm.message_ns = clamped(line + SOFTWARE_NS, out->shm.message_ns);
    out->shm.byte_ns = clamped(2 * copy, out->shm.byte_ns);     /* into the slot and out of it */
    out->shm.copy_byte_ns = out->tcp.copy_byte_ns = clamped(copy, out->shm.copy_byte_ns);
    out->shm.reduce_byte_ns = out->tcp.reduce_byte_ns = clamped(reduce, out->shm.reduce_byte_ns);
    measure_tcp(&out->tcp, buf);
    out->shm.near_message_ns = out->tcp.near_message_ns = out->shm.message_ns;
    out->shm.near_byte_ns = out->tcp.near_byte_ns = out->shm.byte_ns;
    free(buf);
}

/* ---- cards ---------------------------------------------------------------------------------------------------- */

static void write_model(const struct tt_cost_model *m, struct tt_writer *w)
{
    tt_write_u64(w, (uint64_t)(m->message_ns * 1000));
    tt_write_u64(w, (uint64_t)(m->byte_ns * 1000));
    tt_write_u64(w, (uint64_t)(m->reduce_byte_ns * 1000));
    tt_write_u64(w, (uint64_t)(m->copy_byte_ns * 1000));
    tt_write_u64(w, (uint64_t)(m->near_message_ns * 1000));
    tt_write_u64(w, (uint64_t)(m->near_byte_ns * 1000));
}

static void read_model(struct tt_cost_model *m, struct tt_reader *r)
{
    m->message_ns = (double)tt_read_u64(r) / 1000;
    m->byte_ns = (double)tt_read_u64(r) / 1000;
    m->reduce_byte_ns = (double)tt_read_u64(r) / 1000;
    m->copy_byte_ns = (double)tt_read_u64(r) / 1000;
    m->near_message_ns = (double)tt_read_u64(r) / 1000;
    m->near_byte_ns = (double)tt_read_u64(r) / 1000;
}

void tt_constants_write(const struct tt_constants *c, struct tt_writer *w)
{
    write_model(&c->shm, w);
    write_model(&c->tcp, w);
}

void tt_constants_read(struct tt_constants *c, struct tt_reader *r)
{
    read_model(&c->shm, r);
    read_model(&c->tcp, r);
}
