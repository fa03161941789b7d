/* What OpenSSL found wrong, in words for whoever runs the program. */
#ifndef TT_SECURE_WHY_H
#define TT_SECURE_WHY_H

#include <openssl/ssl.h>
#include "secure/secure.h"

#define TT_WHY_BYTES 160
#define TT_WHY_NO_TLS "the peer does not use TLS (is a token or certificate set there?)"

/* Takes the calling thread's first OpenSSL error, empties its queue, and says in why[TT_WHY_BYTES] what that means between two ends in this
 * mode. Returns the negative errno that it is: -EPROTO, -ECONNRESET or -ENOMEM. */
int tt_why(char *why, const SSL *ssl, enum tt_secure_mode mode);

#endif
