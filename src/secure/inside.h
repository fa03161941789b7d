/* The inside of secure connections: what secure.c, stream.c and bio.c share. */
#ifndef TT_SECURE_INSIDE_H
#define TT_SECURE_INSIDE_H

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "secure/bio.h"
#include "secure/stream.h"
#include "secure/why.h"

#define TT_SECURE_KEY_BYTES 32

struct tt_secure {
    atomic_uint references;
    enum tt_secure_mode mode;
    SSL_CTX *tls;                       /* NULL for PLAIN */
    uint8_t key[TT_SECURE_KEY_BYTES];   /* of TOKEN, derived from it */
    uint64_t rekey_bytes;               /* after that many a sender takes a new key */
};

enum tt_stream_state { TT_STREAM_NEW, TT_STREAM_HANDSHAKE, TT_STREAM_READY, TT_STREAM_ENDED, TT_STREAM_FAILED };

struct tt_stream {
    int fd;
    enum tt_stream_end end;
    enum tt_stream_state state;
    bool blocked;                       /* the socket takes no more now */
    bool kernel_sends;                  /* the kernel makes the records: what is written goes to the socket as it is */
    int error;                          /* negative errno, for FAILED */
    struct tt_secure *secure;
    SSL *ssl;                           /* NULL for PLAIN, and before the first byte of whom we accept */
    struct tt_held held;
    uint64_t keyed_bytes;               /* written since the last new key */
    uint8_t *record;                    /* where small parts become one record; NULL until some do */
    char why[TT_WHY_BYTES];
};

/* Ends the stream with a negative errno, which it returns, and the reason. */
int tt_stream_fail(struct tt_stream *s, int error, const char *why);

#endif
