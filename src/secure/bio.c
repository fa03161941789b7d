/* OpenSSL's socket BIO stays at the end of the chain, as it enables kernel TLS. This BIO is above
 * it and passes on everything but writes. OpenSSL's write would raise SIGPIPE, which is for the
 * application. It would also leave a partly sent record in OpenSSL, whose call must then be
 * repeated with the same bytes. */
#include "secure/bio.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* Appends data[bytes] to the held data. */
static bool held_append(struct tt_held *h, const uint8_t *data, size_t bytes)
{
    const size_t have = h->have - h->at;
    uint8_t *grown;

    if (have + bytes > TT_HELD_MAX)
        return false;
    if (h->at > 0)
        memmove(h->data, h->data + h->at, have);
    h->at = 0;
    h->have = have;
    if (have + bytes > h->cap) {
        grown = realloc(h->data, have + bytes);
        if (!grown)
            return false;
        h->data = grown;
        h->cap = have + bytes;
    }
    memcpy(h->data + have, data, bytes);
    h->have = have + bytes;
    return true;
}

/* Returns the bytes sent, possibly 0; -1 after a permanent failure. */
static ssize_t held_send(struct tt_held *h, const uint8_t *data, size_t bytes)
{
    size_t sent = 0;

    while (sent < bytes) {
        const ssize_t n = send(h->fd, data + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0) {
            sent += (size_t)n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            h->error = errno;
            return -1;
        }
    }
    return (ssize_t)sent;
}

int tt_held_flush(struct tt_held *h)
{
    ssize_t n;

    if (h->error)
        return -h->error;
    if (h->at == h->have)
        return 0;
    n = held_send(h, h->data + h->at, h->have - h->at);
    if (n < 0)
        return -h->error;
    h->at += (size_t)n;
    if (h->at < h->have)
        return -EAGAIN;
    h->at = h->have = 0;
    return 0;
}

void tt_held_fini(struct tt_held *h)
{
    free(h->data);
    *h = (struct tt_held){ .fd = -1 };
}

/* With kernel TLS, the only data written here is an alert, which only OpenSSL's socket BIO can mark
 * as one. It sends without MSG_NOSIGNAL, so our SIGPIPE must be hidden from the application. The
 * kernel may raise one even if it reports the bytes as accepted. */
static int write_marked(BIO *next, const char *data, int bytes)
{
    const struct timespec now = { 0, 0 };
    sigset_t pipe, before, pending;
    int n;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    n = BIO_write(next, data, bytes);
    if (!sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}

/* Accepts all data, or fails permanently. */
static int bio_write(BIO *b, const char *data, int bytes)
{
    struct tt_held *h = BIO_get_data(b);
    ssize_t n = 0;

    BIO_clear_retry_flags(b);
    if (h->error)
        return -1;
    if (BIO_get_ktls_send(BIO_next(b))) {
        const int marked = write_marked(BIO_next(b), data, bytes);

        BIO_copy_next_retry(b);
        return marked;
    }
    if (tt_held_flush(h) == 0)
        n = held_send(h, (const uint8_t *)data, (size_t)bytes);
    if (n < 0 || h->error)
        return -1;
    if (n < bytes && !held_append(h, (const uint8_t *)data + n, (size_t)(bytes - n))) {
        h->error = ENOBUFS;
        return -1;
    }
    return bytes;
}

static int bio_read(BIO *b, char *data, int bytes)
{
    const int n = BIO_read(BIO_next(b), data, bytes);

    BIO_clear_retry_flags(b);
    BIO_copy_next_retry(b);
    return n;
}

/* kernel TLS starts here; openssl/bio.h mentions the number only in a comment */
#define CTRL_SET_KTLS 72

/* Held data counts as flushed: it will be sent, so OpenSSL may continue the handshake. But kernel
 * TLS must not start before the held data is sent. */
static long bio_ctrl(BIO *b, int what, long number, void *pointer)
{
    const struct tt_held *h = BIO_get_data(b);

    if (what == BIO_CTRL_FLUSH)
        return 1;
    if (what == CTRL_SET_KTLS && h->at < h->have)
        return 0;
    return BIO_next(b) ? BIO_ctrl(BIO_next(b), what, number, pointer) : 0;
}

static BIO_METHOD *method;

static void method_make(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "tutti socket");
    if (method) {
        BIO_meth_set_write(method, bio_write);
        BIO_meth_set_read(method, bio_read);
        BIO_meth_set_ctrl(method, bio_ctrl);
    }
}

BIO *tt_bio_new(struct tt_held *h)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BIO *top, *socket;

    pthread_once(&once, method_make);
    top = method ? BIO_new(method) : NULL;
    socket = BIO_new_socket(h->fd, BIO_NOCLOSE);
    if (!top || !socket) {
        BIO_free(top);
        BIO_free(socket);
        return NULL;
    }
    BIO_set_data(top, h);
    BIO_set_init(top, 1);
    return BIO_push(top, socket);
}
