/* OpenSSL errors, converted to messages for the user. */
#ifndef TT_SECURE_TLS_ERROR_H
#define TT_SECURE_TLS_ERROR_H

#include <openssl/ssl.h>
#include "secure/secure.h"

#define TT_WHY_BYTES 160
#define TT_WHY_NO_TLS "the peer does not use TLS (is a token or certificate set there?)"

/* Takes the calling thread's first OpenSSL error, empties its queue, and writes its meaning in this
 * mode to why[TT_WHY_BYTES]. Returns the negative errno: -EPROTO, -ECONNRESET or -ENOMEM. */
int tt_tls_error(char *why, const SSL *ssl, enum tt_secure_mode mode);

#endif
