/* What stands between OpenSSL and a socket: it sends without SIGPIPE, and holds what the socket does not take, so that OpenSSL never has to be
 * asked for the same bytes twice. */
#ifndef TT_SECURE_BIO_H
#define TT_SECURE_BIO_H

#include <openssl/bio.h>
#include <stdint.h>

#define TT_HELD_MAX (256u << 10)    /* nobody who keeps to TLS makes us hold more than a record and a flight of the handshake */

/* Records that the socket has not taken yet: data[at .. have). */
struct tt_held {
    int fd;
    int error;                      /* errno of a send that failed for good; 0: none */
    size_t at, have, cap;
    uint8_t *data;
};

/* A chain that reads from and writes to h->fd by way of *h, which must outlive it; it closes nothing. NULL: no memory. */
BIO *tt_bio_new(struct tt_held *h);
/* Sends what is held. 0: all is gone; -EAGAIN: not all; else what the system said. */
int tt_held_flush(struct tt_held *h);
void tt_held_fini(struct tt_held *h);

#endif
