/* Private declarations of secure.c, stream.c and bio.c. */
#ifndef TT_SECURE_INTERNAL_H
#define TT_SECURE_INTERNAL_H

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "secure/bio.h"
#include "secure/stream.h"
#include "secure/tls_error.h"

#define TT_SECURE_KEY_BYTES 32

struct tt_secure {
    atomic_uint references;
    enum tt_secure_mode mode;
    SSL_CTX *tls;                       /* NULL for PLAIN */
    uint8_t key[TT_SECURE_KEY_BYTES];   /* for TOKEN, derived from the token */
    uint64_t rekey_bytes;               /* bytes after which a sender changes its key */
};

enum tt_stream_state {
    TT_STREAM_NEW,
    TT_STREAM_HANDSHAKE,
    TT_STREAM_READY,
    TT_STREAM_ENDED,
    TT_STREAM_FAILED
};

struct tt_stream {
    int fd;
    enum tt_stream_end end;
    enum tt_stream_state state;
    bool blocked;                       /* the socket accepts no more data now */
    bool kernel_sends;                  /* kernel TLS for sending: data is written directly to
                                           the socket */
    int error;                          /* negative errno, for FAILED */
    struct tt_secure *secure;
    SSL *ssl;                           /* NULL for PLAIN, and before the first received byte of
                                           an accepted connection */
    struct tt_held held;
    uint64_t keyed_bytes;               /* bytes written since the last change of key */
    uint8_t *record;                    /* buffer to join small parts in one record; NULL until
                                           needed */
    char why[TT_WHY_BYTES];
};

/* Fails the stream with a negative errno, which it returns, and the reason. */
int tt_stream_fail(struct tt_stream *s, int error, const char *why);

#endif
