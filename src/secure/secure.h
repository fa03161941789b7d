/* Encryption and authentication of connections: TLS 1.3, by OpenSSL, with a shared token (an
 * external pre-shared key) or with certificates of one authority on both ends; or, if configured,
 * neither. Any thread. */
#ifndef TT_SECURE_SECURE_H
#define TT_SECURE_SECURE_H

#include <stdbool.h>

#include "tutti/tutti.h"

enum tt_secure_mode {
    TT_SECURE_PLAIN,        /* none: loopback, or --insecure */
    TT_SECURE_TOKEN,        /* both ends prove that they have `token` */
    TT_SECURE_CERTIFICATE   /* both ends have a certificate of `authority` */
};

/* characters: an attacker who records a handshake can try tokens, so it must not be guessable */
#define TT_SECURE_TOKEN_MIN 16

struct tt_secure_conf {
    enum tt_secure_mode mode;
    const char *token;                              /* for TOKEN: a secret, which should be
                                                       random */
    const char *certificate, *key, *authority;      /* for CERTIFICATE: PEM files */
};

struct tt_secure;

/* On success the caller owns a reference *out; one must exist while streams made from it exist.
 * INVALID names the file or setting and its error. */
tutti_status tt_secure_create(struct tt_secure **out, const struct tt_secure_conf *conf);
/* Checks that `token` is long enough; INVALID states the minimum. */
tutti_status tt_secure_check_token(const char *token);
/* Adds a reference to s, and returns s. */
struct tt_secure *tt_secure_get(struct tt_secure *s);
/* Drops a reference; the last one frees it. NULL is allowed. */
void tt_secure_destroy(struct tt_secure *s);
/* Returns whether this kernel can encrypt sent TCP data (kernel TLS), and OpenSSL can use that.
 * Otherwise *why_not is the reason, in static storage. */
bool tt_secure_kernel(const char **why_not);
/* Returns whether connections are plain; also true if s is NULL. */
bool tt_secure_is_plain(const struct tt_secure *s);

#endif
