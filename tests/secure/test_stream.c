#include "secure/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "secure/ends.h"
#include "secure/internal.h"
#include "support/pattern.h"
#include "support/unit.h"
#include "support/world.h"

#define BYTES_MAX 100000u

/* One direction of a conversation: bytes of a pattern, written and read in pieces of any size. */
struct flow {
    uint8_t *data, *got;
    size_t bytes, written, read;
};

static void flow_init(struct flow *f, struct tt_prng *prng)
{
    f->bytes = tt_prng_below(prng, BYTES_MAX);
    f->data = malloc(BYTES_MAX);
    f->got = malloc(BYTES_MAX);
    assert_true(f->data && f->got);
    pattern_fill(f->data, f->bytes, tt_prng_u64(prng));
    f->written = f->read = 0;
}

static void flow_fini(struct flow *f)
{
    free(f->data);
    free(f->got);
}

/* Writes up to four parts of any length, some of them empty. */
static ssize_t flow_write(struct flow *f, struct tt_stream *s, struct tt_prng *prng)
{
    struct iovec parts[4];
    size_t at = f->written;

    for (int i = 0; i < 4; i++) {
        const size_t n = tt_prng_below(prng, f->bytes - at + 1) >> tt_prng_below(prng, 16);

        parts[i] = (struct iovec){ .iov_base = f->data + at, .iov_len = n };
        at += n;
    }
    return at == f->written ? 0 : tt_stream_write(s, parts, 4);
}

static void step(struct flow *out, struct flow *in, struct tt_stream *s, struct tt_prng *prng,
                 uint64_t seed)
{
    const size_t room = in->bytes - in->read;
    ssize_t n = out->written < out->bytes ? flow_write(out, s, prng) : tt_stream_flush(s);

    if (n < 0 && n != -EAGAIN)
        fail_msg("writing: %s (%s), seed=%llu", strerror((int)-n), tt_stream_why(s),
                 (unsigned long long)seed);
    if (n > 0)
        out->written += (size_t)n;
    if (room == 0)
        return;
    n = tt_stream_read(s, in->got + in->read, 1 + tt_prng_below(prng, room));
    if (n == 0 || (n < 0 && n != -EAGAIN))
        fail_msg("reading: %zd (%s), seed=%llu", n, tt_stream_why(s), (unsigned long long)seed);
    if (n > 0)
        in->read += (size_t)n;
}

static void talk(struct tt_secure *secure, uint64_t seed)
{
    struct tt_prng prng;
    struct flow flow[2];
    struct ends e;
    int steps = 0;

    tt_prng_init(&prng, seed);
    ends_open(&e, secure, secure, tt_prng_below(&prng, 4) > 0);
    flow_init(&flow[0], &prng);
    flow_init(&flow[1], &prng);
    while (flow[0].read < flow[0].bytes || flow[1].read < flow[1].bytes) {
        const int end = (int)tt_prng_below(&prng, 2);

        step(&flow[end], &flow[!end], e.stream[end], &prng, seed);
        assert_true(++steps < ENDS_STEPS);
    }
    for (int i = 0; i < 2; i++) {
        if (memcmp(flow[i].data, flow[i].got, flow[i].bytes) != 0)
            fail_msg("other bytes arrived than were sent, seed=%llu", (unsigned long long)seed);
        flow_fini(&flow[i]);
    }
    ends_close(&e);
}

static void data_is_independent_of_pieces(void **state)
{
    struct tt_secure *plain = ends_secure(NULL), *token = ends_secure(ENDS_TOKEN);

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 200)) > 0;)
        if (unit_draw()) {
            talk(plain, seed);
            talk(token, seed);
        }
    tt_secure_destroy(plain);
    tt_secure_destroy(token);
}

static void different_token_is_reported_at_both(void **state)
{
    struct tt_secure *one = ends_secure(ENDS_TOKEN),
                     *other = ends_secure("another token of 32 characters..");
    struct ends e;

    (void)state;
    ends_open(&e, one, other, false);
    assert_int_equal(ends_shake(&e), -EPROTO);
    assert_string_equal(tt_stream_why(e.stream[ACCEPTS]),
                        "the peer has a different token, or none");
    assert_int_equal(ends_read(&e, CONNECTS), -EPROTO);
    assert_string_equal(tt_stream_why(e.stream[CONNECTS]),
                        "the peer has a different token, or none");
    ends_close(&e);
    tt_secure_destroy(one);
    tt_secure_destroy(other);
}

static uint32_t updates;

/* Counts KeyUpdate messages of the handshake. */
static void on_message(int sent, int version, int type, const void *data, size_t bytes, SSL *ssl,
                       void *context)
{
    (void)version, (void)ssl, (void)context;
    updates += sent && type == SSL3_RT_HANDSHAKE && bytes > 0 &&
               *(const uint8_t *)data == SSL3_MT_KEY_UPDATE;
}

static void keys_have_a_byte_limit(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);

    (void)state;
    secure->rekey_bytes = 4096;
    SSL_CTX_set_msg_callback(secure->tls, on_message);
    for (uint64_t seed = 0; (seed = next_seed(seed, 20)) > 0;)
        talk(secure, seed);
    assert_true(updates > 20);
    tt_secure_destroy(secure);
}

static void handshake_reports_its_needed_events(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    const struct iovec part = { .iov_base = (void *)(uintptr_t) "x", .iov_len = 1 };
    struct ends e;

    (void)state;
    ends_open(&e, secure, secure, false);
    assert_int_equal(tt_stream_events(e.stream[CONNECTS]), EPOLLIN | EPOLLOUT);
    assert_int_equal(tt_stream_events(e.stream[ACCEPTS]), EPOLLIN);
    assert_int_equal(tt_stream_write(e.stream[CONNECTS], &part, 1), -EAGAIN);
    /* a reply, and nothing else */
    assert_int_equal(tt_stream_events(e.stream[CONNECTS]), EPOLLIN);
    assert_int_equal(ends_shake(&e), 0);
    assert_int_equal(tt_stream_write(e.stream[CONNECTS], &part, 1), 1);
    assert_int_equal(tt_stream_events(e.stream[CONNECTS]), EPOLLIN);
    ends_close(&e);
    tt_secure_destroy(secure);
}

/* Written data counts as sent, so the stream itself must wait for buffer space. */
static void unsent_data_is_kept(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    uint8_t data[16384] = { 0 }, got[sizeof data];
    const struct iovec part = { .iov_base = data, .iov_len = sizeof data };
    size_t written = 0, read = 0;
    struct ends e;
    ssize_t n;

    (void)state;
    ends_open(&e, secure, secure, true);
    assert_int_equal(ends_shake(&e), 0);
    while ((n = tt_stream_write(e.stream[CONNECTS], &part, 1)) > 0)
        written += (size_t)n;
    assert_int_equal(n, -EAGAIN);
    assert_int_equal(tt_stream_events(e.stream[CONNECTS]), EPOLLIN | EPOLLOUT);
    assert_int_equal(tt_stream_flush(e.stream[CONNECTS]), -EAGAIN);
    while (read < written) {
        n = tt_stream_read(e.stream[ACCEPTS], got, sizeof got);
        assert_true(n > 0 || n == -EAGAIN);
        read += n > 0 ? (size_t)n : 0;
        tt_stream_flush(e.stream[CONNECTS]);
    }
    assert_int_equal(tt_stream_flush(e.stream[CONNECTS]), 0);
    assert_int_equal(tt_stream_events(e.stream[CONNECTS]), EPOLLIN);
    ends_close(&e);
    tt_secure_destroy(secure);
}

/* ---- the kernel's TLS ---- */

/* Both ends of a TCP connection over loopback: the kernel supports TLS only for TCP. */
static void tcp_sockets(int fd[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof at;

    assert_true(listens >= 0);
    assert_int_equal(bind(listens, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listens, 1), 0);
    assert_int_equal(getsockname(listens, (struct sockaddr *)&at, &bytes), 0);
    fd[CONNECTS] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd[CONNECTS], (struct sockaddr *)&at, sizeof at), 0);
    fd[ACCEPTS] = accept4(listens, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd[ACCEPTS] >= 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fcntl(fd[i], F_SETFL, fcntl(fd[i], F_GETFL) | O_NONBLOCK), 0);
    close(listens);
}

/* Returns whether this kernel supports TLS for a connection, by trying it. */
static bool kernel_gives_tls(int *err)
{
    int fd[2];
    bool gives;

    tcp_sockets(fd);
    gives = setsockopt(fd[CONNECTS], IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") == 0;
    *err = gives ? 0 : errno;
    close(fd[0]);
    close(fd[1]);
    return gives;
}

/* Waits briefly if there was no progress; loopback is never silent for long. */
static void pause_unless(bool moved, int *pauses)
{
    if (moved)
        return;
    assert_true(++*pauses < 60000);
    poll(NULL, 0, 1);
}

static void shake_over_tcp(struct ends *e, struct tt_secure *secure)
{
    int fd[2], pauses = 0;

    tcp_sockets(fd);
    assert_int_equal(
        tt_stream_create(&e->stream[CONNECTS], secure, fd[CONNECTS], TT_STREAM_CONNECTS), TUTTI_OK);
    assert_int_equal(tt_stream_create(&e->stream[ACCEPTS], secure, fd[ACCEPTS], TT_STREAM_ACCEPTS),
                     TUTTI_OK);
    while (!tt_stream_ready(e->stream[0]) || !tt_stream_ready(e->stream[1])) {
        for (int i = 0; i < 2; i++) {
            const int n = tt_stream_flush(e->stream[i]);

            assert_true(n == 0 || n == -EAGAIN);
        }
        pause_unless(false, &pauses);
    }
}

static size_t moved_by(const struct flow flow[2])
{
    return flow[0].written + flow[0].read + flow[1].written + flow[1].read;
}

/* Over TCP, Tutti requests kernel TLS. Data is transferred with or without the kernel's support,
 * and a refusal is reported with its reason. TUTTI_TEST_KERNEL_TLS=1: this machine is known to
 * support it, with all ciphers. */
static void kernel_tls_is_used_where_possible(void **state)
{
    struct tt_secure *secure;
    const char *why = NULL;
    struct tt_prng prng;
    struct flow flow[2];
    struct ends e;
    int err, pauses = 0;
    const bool gives = kernel_gives_tls(&err), has = tt_secure_kernel(&why);

    (void)state;
    secure = ends_secure(ENDS_TOKEN);
    assert_true(gives || !getenv("TUTTI_TEST_KERNEL_TLS"));
#ifdef OPENSSL_NO_KTLS
    assert_false(has);
    assert_non_null(strstr(why, "OpenSSL"));
#else
    assert_int_equal(has, gives);
    if (!gives)
        assert_string_equal(why, err == ENOENT ? "the kernel has no module tls"
                                               : "the kernel does not allow it");
#endif
    shake_over_tcp(&e, secure);
    for (int i = 0; i < 2; i++) {
        assert_true(has || !e.stream[i]->kernel_sends);
        assert_true(e.stream[i]->kernel_sends || !getenv("TUTTI_TEST_KERNEL_TLS"));
    }
    print_message("records are made by %s\n",
                  e.stream[CONNECTS]->kernel_sends ? "the kernel" : "OpenSSL");
    tt_prng_init(&prng, 21);
    flow_init(&flow[0], &prng);
    flow_init(&flow[1], &prng);
    while (flow[0].read < flow[0].bytes || flow[1].read < flow[1].bytes) {
        const size_t before = moved_by(flow);

        for (int i = 0; i < 2; i++)
            step(&flow[i], &flow[1 - i], e.stream[i], &prng, 21);
        pause_unless(moved_by(flow) > before, &pauses);
    }
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(flow[i].got, flow[i].data, flow[i].bytes);
        flow_fini(&flow[i]);
    }
    for (int i = 0; i < 2; i++)     /* data of TLS must not arrive after that: closing would
                                       raise SIGPIPE */
        shutdown(tt_stream_fd(e.stream[i]), SHUT_WR);
    ends_close(&e);
    tt_secure_destroy(secure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_independent_of_pieces),
        cmocka_unit_test(kernel_tls_is_used_where_possible),
        cmocka_unit_test(different_token_is_reported_at_both),
        cmocka_unit_test(keys_have_a_byte_limit),
        cmocka_unit_test(handshake_reports_its_needed_events),
        cmocka_unit_test(unsent_data_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
