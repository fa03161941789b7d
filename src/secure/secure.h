/* What makes connections private and their ends known to each other: TLS 1.3 with a shared token (an external pre-shared key) or with
 * certificates of one authority on both sides (OpenSSL does all of it), or, where that was asked for, neither. Any thread. */
#ifndef TT_SECURE_SECURE_H
#define TT_SECURE_SECURE_H

#include <stdbool.h>

#include "tutti/tutti.h"

enum tt_secure_mode {
    TT_SECURE_PLAIN,        /* nothing: loopback, or --insecure */
    TT_SECURE_TOKEN,        /* both ends prove that they have `token` */
    TT_SECURE_CERTIFICATE   /* both ends have a certificate of `authority` */
};

#define TT_SECURE_TOKEN_MIN 16      /* characters: who listens in on a handshake can try tokens, so it must not be one that is found */

struct tt_secure_conf {
    enum tt_secure_mode mode;
    const char *token;                              /* TOKEN: secret and drawn, not thought of */
    const char *certificate, *key, *authority;      /* CERTIFICATE: PEM files */
};

struct tt_secure;

/* *out is a reference, the caller's; while streams are made of it and live, there must be one. INVALID names the file or setting and what is
 * wrong with it. */
tutti_status tt_secure_create(struct tt_secure **out, const struct tt_secure_conf *conf);
/* Whether `token` is long enough; INVALID says how long it is to be. */
tutti_status tt_secure_check_token(const char *token);
/* One more reference to s, which it returns. */
struct tt_secure *tt_secure_get(struct tt_secure *s);
/* Gives a reference back; the last one frees it. NULL is fine. */
void tt_secure_destroy(struct tt_secure *s);
/* Whether the kernel here can encrypt what is sent over TCP (kernel TLS), and OpenSSL can ask it to; if not, why not: in static storage. */
bool tt_secure_kernel(const char **why_not);
/* Whether connections are left as they are; so too where s is NULL. */
bool tt_secure_is_plain(const struct tt_secure *s);

#endif
