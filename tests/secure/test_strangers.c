/* Peers without credentials, or in the middle: recorded, changed, truncated, downgraded data, or no
 * TLS. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "secure/ends.h"
#include "secure/internal.h"
#include "secure/papers.h"
#include "support/unit.h"

#define RECORD_MAX 65536u

static struct papers papers;

static int set_up(void **state)
{
    (void)state;
    papers_make(&papers);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    papers_remove(&papers);
    return 0;
}

/* ---- man in the middle ---- */

/* A connection through a relay that records data, and may change it. */
struct between {
    struct ends ends;
    int fd[2];                  /* of the relay: towards each end */
    uint8_t record[2][RECORD_MAX];
    size_t bytes[2];            /* received from each end */
    size_t change_at[2];        /* offset of the first changed byte; SIZE_MAX: none */
};

static void between_open(struct between *b, struct tt_secure *connects, struct tt_secure *accepts)
{
    for (int end = 0; end < 2; end++) {
        int fd[2];

        ends_sockets(fd, false);
        b->fd[end] = fd[1];
        b->bytes[end] = 0;
        b->change_at[end] = SIZE_MAX;
        assert_int_equal(tt_stream_create(&b->ends.stream[end],
                                          end == CONNECTS ? connects : accepts, fd[0],
                                          end == CONNECTS ? TT_STREAM_CONNECTS : TT_STREAM_ACCEPTS),
                         TUTTI_OK);
    }
}

static void between_close(struct between *b)
{
    ends_close(&b->ends);
    close(b->fd[0]);
    close(b->fd[1]);
}

static void between_pass(struct between *b)
{
    for (int end = 0; end < 2; end++) {
        uint8_t *at = b->record[end] + b->bytes[end];
        const ssize_t n = recv(b->fd[end], at, RECORD_MAX - b->bytes[end], MSG_DONTWAIT);

        if (n <= 0)
            continue;
        if (b->change_at[end] >= b->bytes[end] && b->change_at[end] < b->bytes[end] + (size_t)n)
            b->record[end][b->change_at[end]] ^= 0x40;
        b->bytes[end] += (size_t)n;
        assert_int_equal(send(b->fd[!end], at, (size_t)n, MSG_NOSIGNAL), n);
    }
}

/* Steps both ends until neither makes progress. Returns the first error of each. */
static void between_run(struct between *b, int error[2])
{
    error[0] = error[1] = 0;
    for (int i = 0; i < 200; i++)
        for (int end = 0; end < 2; end++) {
            const int n = tt_stream_flush(b->ends.stream[end]);

            if (n < 0 && n != -EAGAIN)
                error[end] = n;
            between_pass(b);
        }
}

static ssize_t write_text(struct tt_stream *s, const char *text)
{
    const struct iovec part = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };

    return tt_stream_write(s, &part, 1);
}

static void recorded_conversation_cannot_be_replayed(void **state)
{
    struct tt_secure *secure[] = { ends_secure(ENDS_TOKEN), papers_secure(&papers, PAPER_MEMBER) };
    char text[64];
    int error[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct between *b = malloc(sizeof *b), *again = malloc(sizeof *again);
        ssize_t n;

        assert_true(b && again);
        between_open(b, secure[i], secure[i]);
        between_run(b, error);
        assert_true(tt_stream_ready(b->ends.stream[0]) && tt_stream_ready(b->ends.stream[1]));
        assert_int_equal(write_text(b->ends.stream[CONNECTS], "let me in"), 9);
        between_pass(b);
        assert_int_equal(tt_stream_read(b->ends.stream[ACCEPTS], text, sizeof text), 9);

        between_open(again, secure[i], secure[i]);      /* replays the connecting end's data to
                                                           the acceptor */
        assert_int_equal(
            send(again->fd[ACCEPTS], b->record[CONNECTS], b->bytes[CONNECTS], MSG_NOSIGNAL),
            b->bytes[CONNECTS]);
        n = -EAGAIN;
        for (int k = 0; k < 100 && n == -EAGAIN; k++)
            n = tt_stream_read(again->ends.stream[ACCEPTS], text, sizeof text);
        assert_int_equal(n, -EPROTO);
        assert_false(tt_stream_ready(again->ends.stream[ACCEPTS]));
        between_close(again);

        between_open(again, secure[i], secure[i]);      /* and the acceptor's data to a new
                                                           connecting end */
        assert_int_equal(tt_stream_flush(again->ends.stream[CONNECTS]), -EAGAIN);
        assert_int_equal(
            send(again->fd[CONNECTS], b->record[ACCEPTS], b->bytes[ACCEPTS], MSG_NOSIGNAL),
            b->bytes[ACCEPTS]);
        assert_int_equal(tt_stream_flush(again->ends.stream[CONNECTS]), -EPROTO);
        between_close(again);
        between_close(b);
        free(b);
        free(again);
        tt_secure_destroy(secure[i]);
    }
}

/* If any byte is changed, the received data is the original, or nothing. The exception is the
 * version field of unencrypted records, which TLS 1.3 ignores. */
static void changed_byte_is_noticed(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    struct between *b = malloc(sizeof *b);
    size_t bytes[2];
    int error[2];
    uint32_t noticed = 0, harmless = 0, tried = 0;

    (void)state;
    assert_non_null(b);
    between_open(b, secure, secure);
    between_run(b, error);
    assert_int_equal(write_text(b->ends.stream[CONNECTS], "let me in"), 9);
    between_pass(b);
    bytes[0] = b->bytes[0];
    bytes[1] = b->bytes[1];
    between_close(b);
    assert_true(bytes[0] > 200 && bytes[1] > 100);
    for (int end = 0; end < 2; end++)
        for (size_t at = 0; at < bytes[end]; at++) {
            char text[64];
            ssize_t n;

            if (!unit_draw())
                continue;
            between_open(b, secure, secure);
            b->change_at[end] = at;
            between_run(b, error);
            write_text(b->ends.stream[CONNECTS], "let me in");
            between_run(b, error);
            n = tt_stream_read(b->ends.stream[ACCEPTS], text, sizeof text);
            if (n > 0 && (n != 9 || memcmp(text, "let me in", 9) != 0))
                fail_msg("byte %zu of what end %d sent was changed, and \"%.*s\" came", at, end,
                         (int)n, text);
            harmless += n > 0;
            noticed += tt_stream_read(b->ends.stream[!end], text, sizeof text) != -EAGAIN;
            tried++;
            between_close(b);
        }
    free(b);
    assert_true(tried > 0 && noticed > tried / 2);  /* otherwise it waits for a longer record
                                                       than was sent */
    if (harmless > 8)
        fail_msg("%u of %u bytes may be changed", harmless, tried);
    tt_secure_destroy(secure);
}

static void a_cut_is_no_end(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    struct between *b = malloc(sizeof *b);
    char text[64];
    int error[2];

    (void)state;
    assert_non_null(b);
    between_open(b, secure, secure);
    between_run(b, error);
    shutdown(b->fd[ACCEPTS], SHUT_WR);      /* the end of TCP, without that of TLS */
    assert_int_equal(tt_stream_read(b->ends.stream[ACCEPTS], text, sizeof text), -ECONNRESET);
    assert_string_equal(tt_stream_why(b->ends.stream[ACCEPTS]), "the connection was closed");
    between_close(b);

    between_open(b, secure, secure);
    between_run(b, error);
    tt_stream_destroy(b->ends.stream[CONNECTS]);
    between_pass(b);
    assert_int_equal(tt_stream_read(b->ends.stream[ACCEPTS], text, sizeof text), 0);
    assert_int_equal(tt_stream_read(b->ends.stream[ACCEPTS], text, sizeof text), 0);
    tt_stream_destroy(b->ends.stream[ACCEPTS]);
    close(b->fd[0]);
    close(b->fd[1]);
    free(b);
    tt_secure_destroy(secure);
}

/* ---- other programs ---- */

/* An OpenSSL connection at the other end of our socket. */
struct other {
    SSL_CTX *tls;
    SSL *ssl;
    int fd;
    struct tt_stream *stream;
};

static void other_open(struct other *o, struct tt_secure *secure, int version,
                       enum tt_stream_end ours, const struct papers *shows, enum paper which)
{
    int fd[2];

    ends_sockets(fd, false);
    o->fd = fd[1];
    assert_int_equal(tt_stream_create(&o->stream, secure, fd[0], ours), TUTTI_OK);
    o->tls = SSL_CTX_new(TLS_method());
    SSL_CTX_set_min_proto_version(o->tls, version);
    SSL_CTX_set_max_proto_version(o->tls, version);
    if (shows) {
        assert_int_equal(SSL_CTX_use_certificate_chain_file(o->tls, shows->certificate[which]), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(o->tls, shows->key[which], SSL_FILETYPE_PEM),
                         1);
    }
    o->ssl = SSL_new(o->tls);
    assert_int_equal(SSL_set_fd(o->ssl, o->fd), 1);
    if (ours == TT_STREAM_ACCEPTS)
        SSL_set_connect_state(o->ssl);
    else
        SSL_set_accept_state(o->ssl);
}

static void other_close(struct other *o)
{
    tt_stream_destroy(o->stream);
    SSL_free(o->ssl);
    SSL_CTX_free(o->tls);
    ERR_clear_error();
    close(o->fd);
}

/* Returns the result at our end. */
static int other_run(struct other *o)
{
    char byte;

    for (int i = 0; i < 100; i++) {
        const ssize_t n = tt_stream_read(o->stream, &byte, 1);

        if (n != -EAGAIN)
            return (int)n;
        SSL_do_handshake(o->ssl);
    }
    return -EAGAIN;
}

static void other_is_refused(struct tt_secure *secure, int version, enum tt_stream_end ours,
                             const struct papers *shows, enum paper which, const char *why)
{
    struct other o;

    other_open(&o, secure, version, ours, shows, which);
    assert_int_equal(other_run(&o), -EPROTO);
    assert_false(tt_stream_ready(o.stream));
    if (!strstr(tt_stream_why(o.stream), why))
        fail_msg("\"%s\" does not say \"%s\"", tt_stream_why(o.stream), why);
    other_close(&o);
}

static void an_older_tls_is_refused(void **state)
{
    struct tt_secure *secure[] = { ends_secure(ENDS_TOKEN), papers_secure(&papers, PAPER_MEMBER) };

    (void)state;
    for (int i = 0; i < 2; i++) {
        other_is_refused(secure[i], TLS1_2_VERSION, TT_STREAM_ACCEPTS, &papers, PAPER_MEMBER_TOO,
                         "older than 1.3");
        other_is_refused(secure[i], TLS1_2_VERSION, TT_STREAM_CONNECTS, &papers, PAPER_MEMBER_TOO,
                         "older than 1.3");
        tt_secure_destroy(secure[i]);
    }
}

static void missing_certificate_is_refused(void **state)
{
    struct tt_secure *s = papers_secure(&papers, PAPER_MEMBER);

    (void)state;
    other_is_refused(s, TLS1_3_VERSION, TT_STREAM_ACCEPTS, NULL, 0, "sent no certificate");
    for (int ours = TT_STREAM_CONNECTS; ours <= TT_STREAM_ACCEPTS; ours++) {
        other_is_refused(s, TLS1_3_VERSION, (enum tt_stream_end)ours, &papers, PAPER_EXPIRED,
                         "has expired");
        other_is_refused(s, TLS1_3_VERSION, (enum tt_stream_end)ours, &papers, PAPER_EARLY,
                         "not valid yet");
        other_is_refused(s, TLS1_3_VERSION, (enum tt_stream_end)ours, &papers, PAPER_STRANGER,
                         "not signed by this authority");
    }
    tt_secure_destroy(s);
}

/* A server with valid TLS 1.3 and a certificate must not make a client skip the token; nor the
 * reverse. */
static void missing_token_is_refused_always(void **state)
{
    struct tt_secure *s = ends_secure(ENDS_TOKEN);

    (void)state;
    other_is_refused(s, TLS1_3_VERSION, TT_STREAM_CONNECTS, &papers, PAPER_MEMBER,
                     "token security");
    other_is_refused(s, TLS1_3_VERSION, TT_STREAM_ACCEPTS, &papers, PAPER_MEMBER, "token security");
    other_is_refused(s, TLS1_3_VERSION, TT_STREAM_ACCEPTS, NULL, 0, "token security");
    tt_secure_destroy(s);
}

/* ---- no TLS ---- */

/* Returns the result at our end for these bytes. */
static int receive_bytes(struct tt_secure *secure, enum tt_stream_end ours, const void *data,
                         size_t bytes, struct tt_stream **out)
{
    char text[64];
    int fd[2], n = -EAGAIN;

    ends_sockets(fd, false);
    assert_int_equal(tt_stream_create(out, secure, fd[0], ours), TUTTI_OK);
    tt_stream_flush(*out);
    assert_int_equal(send(fd[1], data, bytes, MSG_NOSIGNAL), bytes);
    for (int i = 0; i < 20 && n == -EAGAIN; i++)
        n = (int)tt_stream_read(*out, text, sizeof text);
    close(fd[1]);
    return n;
}

static void plain_bytes_are_reported(void **state)
{
    static const char *const said[] = { "GET / HTTP/1.0\r\n\r\n", "\4\0\0\0tell",
                                        "SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0\0\0\0\0\0" };
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);

    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        for (int ours = TT_STREAM_CONNECTS; ours <= TT_STREAM_ACCEPTS; ours++) {
            struct tt_stream *s;

            assert_int_equal(receive_bytes(secure, (enum tt_stream_end)ours, said[i],
                                           8 + strlen(said[i]) / 2, &s),
                             -EPROTO);
            assert_string_equal(tt_stream_why(s), TT_WHY_NO_TLS);
            assert_int_equal(tt_stream_flush(s), -EPROTO);
            tt_stream_destroy(s);
        }
    tt_secure_destroy(secure);
}

static void garbage_is_never_accepted(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 7);
    for (int i = 0; i < 2000; i++) {
        uint8_t data[600] = { 22, 3, (uint8_t)tt_prng_below(&prng, 5) };
        const size_t bytes = 1 + tt_prng_below(&prng, sizeof data);
        struct tt_stream *s;
        int n;

        for (size_t k = 3; k < bytes; k++)
            data[k] = (uint8_t)tt_prng_u64(&prng);
        if (tt_prng_below(&prng, 2) && bytes > 9) {     /* a record of a handshake message with
                                                           its correct length */
            data[3] = (uint8_t)((bytes - 5) >> 8), data[4] = (uint8_t)(bytes - 5);
            data[5] = 1, data[6] = 0, data[7] = (uint8_t)((bytes - 9) >> 8),
            data[8] = (uint8_t)(bytes - 9);
        }
        if (!unit_draw())
            continue;
        n = receive_bytes(secure, tt_prng_below(&prng, 2) ? TT_STREAM_ACCEPTS : TT_STREAM_CONNECTS,
                          data, bytes, &s);
        if (n != -EPROTO && n != -EAGAIN)
            fail_msg("garbage %d gives %d (%s)", i, n, tt_stream_why(s));
        assert_false(tt_stream_ready(s));
        tt_stream_destroy(s);
    }
    tt_secure_destroy(secure);
}

/* ---- costs of unauthenticated peers ---- */

static void silent_stranger_costs_one_entry(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    struct tt_stream *s;
    int fd[2];

    (void)state;
    ends_sockets(fd, false);
    assert_int_equal(tt_stream_create(&s, secure, fd[0], TT_STREAM_ACCEPTS), TUTTI_OK);
    for (int i = 0; i < 10; i++)
        assert_int_equal(tt_stream_flush(s), -EAGAIN);
    assert_int_equal(tt_stream_events(s), EPOLLIN);
    assert_null(s->ssl);
    assert_null(s->held.data);
    close(fd[1]);
    assert_int_equal(tt_stream_flush(s), -ECONNRESET);
    tt_stream_destroy(s);
    tt_secure_destroy(secure);
}

static void announced_handshake_length_is_limited(void **state)
{
    /* a ClientHello of 16 MiB */
    static const uint8_t announced[] = { 22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff, 3, 3 };
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    uint8_t data[5 + 0x4000] = { 0 };
    struct tt_stream *s;

    (void)state;
    memcpy(data, announced, sizeof announced);
    assert_int_equal(receive_bytes(secure, TT_STREAM_ACCEPTS, data, sizeof data, &s), -EPROTO);
    tt_stream_destroy(s);
    tt_secure_destroy(secure);
}

/* SIGPIPE has its default action here, which would end this test. */
static void lost_peer_causes_no_signal(void **state)
{
    struct tt_secure *secure[] = { ends_secure(NULL), ends_secure(ENDS_TOKEN) };

    (void)state;
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    for (int i = 0; i < 2; i++) {
        struct ends e;
        ssize_t n;

        ends_open(&e, secure[i], secure[i], false);
        assert_int_equal(ends_shake(&e), 0);
        tt_stream_destroy(e.stream[ACCEPTS]);
        n = write_text(e.stream[CONNECTS], "hello?");
        assert_true(n == -EPIPE || n == -ECONNRESET);
        n = write_text(e.stream[CONNECTS], "hello?");
        assert_true(n == -EPIPE || n == -ECONNRESET);
        tt_stream_destroy(e.stream[CONNECTS]);
        tt_secure_destroy(secure[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_conversation_cannot_be_replayed),
        cmocka_unit_test(changed_byte_is_noticed),
        cmocka_unit_test(a_cut_is_no_end),
        cmocka_unit_test(an_older_tls_is_refused),
        cmocka_unit_test(missing_certificate_is_refused),
        cmocka_unit_test(missing_token_is_refused_always),
        cmocka_unit_test(plain_bytes_are_reported),
        cmocka_unit_test(garbage_is_never_accepted),
        cmocka_unit_test(silent_stranger_costs_one_entry),
        cmocka_unit_test(announced_handshake_length_is_limited),
        cmocka_unit_test(lost_peer_causes_no_signal),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
