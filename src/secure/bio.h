/* BIO between OpenSSL and a socket. It sends without SIGPIPE, and holds data that the socket does
 * not accept, so OpenSSL calls never have to be repeated with the same bytes. */
#ifndef TT_SECURE_BIO_H
#define TT_SECURE_BIO_H

#include <openssl/bio.h>
#include <stdint.h>

/* a conforming peer makes us hold at most a record and a flight of the handshake */
#define TT_HELD_MAX (256u << 10)

/* Records that the socket has not accepted yet: data[at .. have). */
struct tt_held {
    int fd;
    int error;                      /* errno of a permanent send failure; 0: none */
    size_t at, have, cap;
    uint8_t *data;
};

/* Returns a chain that reads from and writes to h->fd through *h, which must outlive it. It closes
 * nothing. NULL: out of memory. */
BIO *tt_bio_new(struct tt_held *h);
/* Sends held data. Returns 0: all sent; -EAGAIN: not all; or the negative errno of the failure. */
int tt_held_flush(struct tt_held *h);
void tt_held_fini(struct tt_held *h);

#endif
