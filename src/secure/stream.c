#include "secure/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "secure/ending.h"
#include "secure/internal.h"
#include "secure/tls_error.h"

#define RECORD_BYTES 16384u     /* maximum data of one TLS record */
#define RECORD_HANDSHAKE 22     /* first byte sent by a TLS client */

static bool is_plain(const struct tt_stream *s)
{
    return s->secure->mode == TT_SECURE_PLAIN;
}

tutti_status tt_stream_create(struct tt_stream **out, struct tt_secure *secure, int fd,
                              enum tt_stream_end end)
{
    struct tt_stream *s = calloc(1, sizeof *s);

    if (!s)
        return tt_fail(TUTTI_ERR_NOMEM, "secure: out of memory for a connection");
    s->secure = secure;
    s->fd = s->held.fd = fd;
    s->end = end;
    s->state = is_plain(s) ? TT_STREAM_READY : TT_STREAM_NEW;
    *out = s;
    return TUTTI_OK;
}

/* Returns whether our end of the connection may still send. Kernel TLS accepts data even
 * afterwards, and tries to send it when the connection is closed, which raises SIGPIPE. */
static bool may_send(int fd)
{
    struct tcp_info now;
    socklen_t bytes = sizeof now;

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &now, &bytes) != 0 ||
           now.tcpi_state == TCP_ESTABLISHED || now.tcpi_state == TCP_CLOSE_WAIT;
}

static void tls_end(struct tt_stream *s)
{
    if (!tt_openssl_enter())
        return; /* the kernel frees it at exit */
    if (s->ssl && (s->state == TT_STREAM_READY || s->state == TT_STREAM_ENDED) &&
        (!s->kernel_sends || may_send(s->fd)))
        SSL_shutdown(s->ssl);
    tt_held_flush(&s->held);
    SSL_free(s->ssl);
    ERR_clear_error();
    tt_openssl_leave();
}

void tt_stream_destroy(struct tt_stream *s)
{
    if (!s)
        return;
    if (!is_plain(s))
        tls_end(s);
    tt_held_fini(&s->held);
    close(s->fd);
    free(s->record);
    free(s);
}

int tt_stream_fd(const struct tt_stream *s)
{
    return s->fd;
}

const char *tt_stream_why(const struct tt_stream *s)
{
    return s->why;
}

bool tt_stream_ready(const struct tt_stream *s)
{
    return s->state == TT_STREAM_READY || s->state == TT_STREAM_ENDED;
}

uint32_t tt_stream_events(const struct tt_stream *s)
{
    const bool begins = s->state == TT_STREAM_NEW && s->end == TT_STREAM_CONNECTS;

    return EPOLLIN | (begins || s->blocked || s->held.at < s->held.have ? EPOLLOUT : 0);
}

int tt_stream_fail(struct tt_stream *s, int error, const char *why)
{
    s->state = TT_STREAM_FAILED;
    s->error = error;
    snprintf(s->why, sizeof s->why, "%s", why);
    return error;
}

/* ---- the handshake ---- */

/* Converts the `result` of an OpenSSL call: 0 is an orderly end, otherwise a negative errno. */
static int tls_result(struct tt_stream *s, int result)
{
    switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        s->state = TT_STREAM_ENDED;
        return 0;
    case SSL_ERROR_SYSCALL:
        if (s->held.error)
            return tt_stream_fail(s, -s->held.error, strerror(s->held.error));
        if (errno && errno != EAGAIN)
            return tt_stream_fail(s, -errno, strerror(errno));
        return tt_stream_fail(s, -ECONNRESET, "the connection was reset");
    default:
        s->error = tt_tls_error(s->why, s->ssl, s->secure->mode);
        s->state = TT_STREAM_FAILED;
        tt_held_flush(&s->held);    /* the TLS alert for the peer */
        return s->error;
    }
}

/* The peer does not use TLS, perhaps a member without a token. Sends a TLS alert, which a plain
 * channel recognizes (channel.c). Its data is read first, since closing with unread data would
 * discard the alert. */
static int refuse_plain_peer(struct tt_stream *s)
{
    static const uint8_t alert[] = { 21, 3, 3, 0, 2, 2, 70 };      /* fatal, protocol_version */
    uint8_t dust[4096];

    if (recv(s->fd, dust, sizeof dust, MSG_DONTWAIT) > 0)
        send(s->fd, alert, sizeof alert, MSG_NOSIGNAL | MSG_DONTWAIT);
    return tt_stream_fail(s, -EPROTO, TT_WHY_NO_TLS);
}

/* Creates OpenSSL's part of the connection. For an accepted connection this is done at its first
 * byte, which shows whether it is TLS. */
static int tls_begin(struct tt_stream *s)
{
    uint8_t first;
    ssize_t n;
    BIO *bio;

    if (s->end == TT_STREAM_ACCEPTS) {
        n = recv(s->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? -EAGAIN
                                                     : tt_stream_fail(s, -errno, strerror(errno));
        if (n == 0)
            return tt_stream_fail(s, -ECONNRESET,
                                  "the peer closed the connection before the handshake");
        if (first != RECORD_HANDSHAKE)
            return refuse_plain_peer(s);
    }
    s->ssl = SSL_new(s->secure->tls);
    bio = s->ssl ? tt_bio_new(&s->held) : NULL;
    if (!bio) {
        ERR_clear_error();
        return tt_stream_fail(s, -ENOMEM, "out of memory for TLS");
    }
    SSL_set_bio(s->ssl, bio, bio);
    if (s->end == TT_STREAM_ACCEPTS)
        SSL_set_accept_state(s->ssl);
    else
        SSL_set_connect_state(s->ssl);
    s->state = TT_STREAM_HANDSHAKE;
    return 0;
}

/* The handshake is complete. With a token, both ends must have used the key; anything else that
 * OpenSSL accepted is refused. */
static int tls_complete(struct tt_stream *s)
{
    if (s->secure->mode == TT_SECURE_TOKEN && !SSL_session_reused(s->ssl))
        return tt_stream_fail(s, -EPROTO, "the peer did not authenticate with a token");
    s->state = TT_STREAM_READY;
    s->kernel_sends = BIO_get_ktls_send(SSL_get_wbio(s->ssl)) != 0;
    return 0;
}

/* Continues the handshake. Returns 0 when it is complete and data may be transferred. */
static int tls_drive(struct tt_stream *s)
{
    int n;

    if (s->state == TT_STREAM_FAILED)
        return s->error;
    if (s->state == TT_STREAM_NEW) {
        n = tls_begin(s);
        if (n < 0)
            return n;
    }
    tt_held_flush(&s->held);    /* after a failure, the peer's last data can still be read */
    if (s->state != TT_STREAM_HANDSHAKE)
        return 0;
    ERR_clear_error();
    errno = 0;
    n = SSL_do_handshake(s->ssl);
    if (n == 1)
        return tls_complete(s);
    n = tls_result(s, n);
    return n == 0 ? tt_stream_fail(s, -ECONNRESET, "the peer ended the handshake") : n;
}

/* Called before each use of OpenSSL. False: OpenSSL was torn down, and the stream has failed. */
static bool stream_enter_openssl(struct tt_stream *s)
{
    if (tt_openssl_enter())
        return true;
    tt_stream_fail(s, -ESHUTDOWN, "OpenSSL is already shut down (the process is exiting)");
    return false;
}

int tt_stream_flush(struct tt_stream *s)
{
    int n;

    if (is_plain(s))
        return 0;
    if (!stream_enter_openssl(s))
        return s->error;
    n = tls_drive(s);
    tt_openssl_leave();
    return n < 0 ? n : tt_held_flush(&s->held);
}

/* ---- data ---- */

static ssize_t plain_read(struct tt_stream *s, void *data, size_t bytes)
{
    ssize_t n;

    do
        n = recv(s->fd, data, bytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return -EAGAIN;
    return n < 0 ? tt_stream_fail(s, -errno, strerror(errno)) : n;
}

static ssize_t tls_read(struct tt_stream *s, void *data, size_t bytes)
{
    const int state = tls_drive(s);
    size_t n = 0;

    if (state < 0)
        return state;
    ERR_clear_error();
    errno = 0;
    if (SSL_read_ex(s->ssl, data, bytes, &n) == 1)
        return (ssize_t)n;
    return tls_result(s, 0);
}

ssize_t tt_stream_read(struct tt_stream *s, void *data, size_t bytes)
{
    ssize_t n;

    tt_assert(bytes > 0);
    if (s->state == TT_STREAM_FAILED)
        return s->error;
    if (is_plain(s))
        return plain_read(s, data, bytes);
    if (!stream_enter_openssl(s))
        return s->error;
    n = tls_read(s, data, bytes);
    tt_openssl_leave();
    return n;
}

static ssize_t plain_write(struct tt_stream *s, const struct iovec *parts, int nparts)
{
    const struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)parts,
                                .msg_iovlen = (size_t)nparts };
    ssize_t n;

    do
        n = sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    s->blocked = n < 0 && errno == EAGAIN;
    if (s->blocked)
        return -EAGAIN;
    return n < 0 ? -errno : n;
}

/* Fills the next record: from the current part if that has enough bytes, otherwise from as many
 * parts as fit. */
static ssize_t record_fill(struct tt_stream *s, const struct iovec *parts, int nparts, size_t gone,
                           const uint8_t **out)
{
    size_t n = 0;

    if (nparts == 1 || parts->iov_len - gone >= RECORD_BYTES) {
        n = parts->iov_len - gone;
        *out = (const uint8_t *)parts->iov_base + gone;
        return n < RECORD_BYTES ? (ssize_t)n : RECORD_BYTES;
    }
    if (!s->record)
        s->record = malloc(RECORD_BYTES);
    if (!s->record)
        return tt_stream_fail(s, -ENOMEM, "out of memory for a record");
    for (int i = 0; i < nparts && n < RECORD_BYTES; i++) {
        const size_t skip = i == 0 ? gone : 0;
        const size_t left = parts[i].iov_len - skip, room = RECORD_BYTES - n;

        memcpy(s->record + n, (const uint8_t *)parts[i].iov_base + skip, left < room ? left : room);
        n += left < room ? left : room;
    }
    *out = s->record;
    return (ssize_t)n;
}

/* Limits the data encrypted with one key. */
static void rekey(struct tt_stream *s, size_t bytes)
{
    s->keyed_bytes += bytes;
    if (s->keyed_bytes < s->secure->rekey_bytes)
        return;
    s->keyed_bytes = 0;
    if (SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
        ERR_clear_error();
}

/* The peer has closed the connection. Its last message may state the cause, and its earlier data
 * can still be read. */
static int write_failed(struct tt_stream *s)
{
    const int error = s->held.error;
    uint8_t first;
    size_t n;

    if (!error)
        return tls_result(s, 0);
    ERR_clear_error();
    if (SSL_peek_ex(s->ssl, &first, 1, &n) != 1 && tls_result(s, 0) == -EPROTO)
        return -EPROTO;
    return -error;
}

/* Writes records as long as the socket accepts them whole. */
static ssize_t records_write(struct tt_stream *s, const struct iovec *parts, int nparts)
{
    size_t taken = 0, gone = 0;

    if (s->held.error)
        return write_failed(s);
    while (nparts > 0 && s->held.at == s->held.have) {
        const uint8_t *data = NULL;
        ssize_t bytes;
        size_t n;

        if (gone == parts->iov_len) {
            parts++, nparts--, gone = 0;
            continue;
        }
        bytes = record_fill(s, parts, nparts, gone, &data);
        if (bytes < 0)
            return bytes;
        ERR_clear_error();
        errno = 0;
        if (SSL_write_ex(s->ssl, data, (size_t)bytes, &n) != 1)
            return write_failed(s);
        taken += n;
        rekey(s, n);
        for (gone += n; nparts > 0 && gone >= parts->iov_len; parts++, nparts--)
            gone -= parts->iov_len;
    }
    return taken > 0 || s->held.at == s->held.have ? (ssize_t)taken : -EAGAIN;
}

static ssize_t tls_write(struct tt_stream *s, const struct iovec *parts, int nparts)
{
    const int state = tls_drive(s);

    if (state < 0)
        return state;
    return s->kernel_sends ? plain_write(s, parts, nparts) : records_write(s, parts, nparts);
}

ssize_t tt_stream_write(struct tt_stream *s, const struct iovec *parts, int nparts)
{
    ssize_t n;

    if (s->state == TT_STREAM_FAILED)
        return s->error;
    if (is_plain(s))
        return plain_write(s, parts, nparts);
    if (!stream_enter_openssl(s))
        return s->error;
    n = tls_write(s, parts, nparts);
    tt_openssl_leave();
    return n;
}
