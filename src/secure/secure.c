/* OpenSSL's settings for the two kinds of authentication. Both ends of a connection use the same
 * context. */
#include "secure/secure.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "secure/ending.h"
#include "secure/internal.h"

/* Both use SHA-256, as the key of a token requires; the second one is for CPUs without AES. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS "X25519:P-256"
#define CERTIFICATES_BYTES_MAX 32768            /* maximum bytes of the peer's certificate chain */
/* AES-GCM must not encrypt more than 2^24 full records with one key. */
#define REKEY_BYTES (64ull << 30)

static const unsigned char identity[] = "tutti";    /* a constant: there is only one key */

/* ---- a token ---- */

/* Derives the key of a token, which must be long enough against guessing: HKDF does not stretch. */
static tutti_status derive(uint8_t key[TT_SECURE_KEY_BYTES], const char *token)
{
    static char digest[] = "SHA256", label[] = "tutti token, TLS 1.3 external key";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)token,
                                          strlen(token)),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, label, sizeof label - 1),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    const bool done = context && EVP_KDF_derive(context, key, TT_SECURE_KEY_BYTES, params) == 1;

    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    ERR_clear_error();
    return done ? TUTTI_OK
                : tt_fail(TUTTI_ERR_SYSTEM,
                          "secure: key derivation failed in OpenSSL (HKDF with SHA-256)");
}

/* Returns the key in OpenSSL's form: as that of an earlier session. NULL: out of memory. */
static SSL_SESSION *session_of(SSL *ssl)
{
    static const unsigned char suite[] = { 0x13, 0x01 };    /* TLS_AES_128_GCM_SHA256 */
    const struct tt_secure *s = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && SSL_SESSION_set1_master_key(session, s->key, sizeof s->key) &&
        SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) &&
        SSL_SESSION_set1_id_context(session, identity, sizeof identity - 1))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* The connecting end offers the key. */
static int on_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes,
                  SSL_SESSION **out)
{
    (void)md;   /* SHA-256 in every allowed suite */
    *out = session_of(ssl);
    *id = identity;
    *id_bytes = sizeof identity - 1;
    return *out != NULL;
}

/* The accepting end looks the key up by its identity. */
static int on_find(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **out)
{
    *out = NULL;
    if (id_bytes != sizeof identity - 1 || memcmp(id, identity, id_bytes) != 0)
        return 1;   /* not found: the handshake continues without it, and fails for lack of a
                       certificate */
    *out = session_of(ssl);
    return *out != NULL;
}

tutti_status tt_secure_check_token(const char *token)
{
    if (!token || strlen(token) < TT_SECURE_TOKEN_MIN)
        return tt_fail(TUTTI_ERR_INVALID,
                       "secure: the token is too short: %zu characters, at least %d needed "
                       "(conf.token, TUTTI_TOKEN)",
                       token ? strlen(token) : 0, TT_SECURE_TOKEN_MIN);
    return TUTTI_OK;
}

static tutti_status use_token(struct tt_secure *s, const char *token)
{
    const tutti_status st = tt_secure_check_token(token);

    if (st)
        return st;
    SSL_CTX_set_psk_use_session_callback(s->tls, on_use);
    SSL_CTX_set_psk_find_session_callback(s->tls, on_find);
    return derive(s->key, token);
}

/* ---- certificates ---- */

/* A key with a passphrase is an error, not a prompt on the terminal. */
static int no_passphrase(char *text, int bytes, int writing, void *context)
{
    (void)text, (void)bytes, (void)writing, (void)context;
    return -1;
}

/* Reports OpenSSL's error for a file; unless it is a system error, also what the file must
 * contain. */
static tutti_status fail_file(const char *what, const char *path, const char *should)
{
    const unsigned long first = ERR_peek_error();   /* later errors in the queue are more general */
    const char *text =
        ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first)) : ERR_reason_error_string(first);

    ERR_clear_error();
    return tt_fail(TUTTI_ERR_INVALID, "secure: cannot load %s %s: %s%s", what, path,
                   text ? text : "unspecified OpenSSL error",
                   ERR_SYSTEM_ERROR(first) ? "" : should);
}

/* Checks whether peers will accept our certificate for `use` ("ssl_server": accepting;
 * "ssl_client": connecting), so an error shows here and not at each peer. */
static tutti_status check_own(struct tt_secure *s, const struct tt_secure_conf *conf,
                              const char *use)
{
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    STACK_OF(X509) *chain = NULL;
    tutti_status st = TUTTI_OK;

    SSL_CTX_get0_chain_certs(s->tls, &chain);
    if (!check ||
        X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(s->tls), SSL_CTX_get0_certificate(s->tls),
                            chain) != 1 ||
        X509_STORE_CTX_set_default(check, use) != 1)
        st = tt_fail(TUTTI_ERR_NOMEM, "secure: cannot verify certificate %s: out of memory",
                     conf->certificate);
    else if (X509_verify_cert(check) != 1)
        st =
            tt_fail(TUTTI_ERR_INVALID,
                    "secure: certificate %s failed verification with authority %s (purpose %s): %s",
                    conf->certificate, conf->authority, use,
                    X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return st;
}

/* A peer that offers the key of a token has no certificate, and the handshake would only report an
 * unknown authority. Reports the real cause to both ends instead. */
static int on_hello(SSL *ssl, int *alert, void *context)
{
    const unsigned char *key;
    size_t bytes;

    (void)context;
    if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &key, &bytes))
        return SSL_CLIENT_HELLO_SUCCESS;
    *alert = SSL_AD_UNKNOWN_PSK_IDENTITY;
    return SSL_CLIENT_HELLO_ERROR;
}

static tutti_status use_certificate(struct tt_secure *s, const struct tt_secure_conf *conf)
{
    tutti_status st;

    if (!conf->certificate || !conf->key || !conf->authority)
        return tt_fail(TUTTI_ERR_INVALID,
                       "secure: certificate mode needs three files: no %s is set",
                       !conf->certificate ? "certificate"
                       : !conf->key       ? "key"
                                          : "authority");
    SSL_CTX_set_client_hello_cb(s->tls, on_hello, NULL);
    SSL_CTX_set_default_passwd_cb(s->tls, no_passphrase);
    if (SSL_CTX_use_certificate_chain_file(s->tls, conf->certificate) != 1)
        return fail_file("certificate", conf->certificate, "; must be a certificate in PEM");
    if (SSL_CTX_use_PrivateKey_file(s->tls, conf->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(s->tls) != 1)
        return fail_file("key", conf->key,
                         "; must be the certificate's private key in PEM, without passphrase");
    if (SSL_CTX_load_verify_file(s->tls, conf->authority) != 1)
        return fail_file("authority", conf->authority, "; must be a certificate in PEM");
    SSL_CTX_set_max_cert_list(s->tls, CERTIFICATES_BYTES_MAX);
    st = check_own(s, conf, "ssl_server");
    return st ? st : check_own(s, conf, "ssl_client");
}

/* ---- common ---- */

/* TLS 1.3 only; no tickets (each connection authenticates); no early data (it could be replayed).
 * With a token, a peer's certificate would be verified against no authority at all, so an attacker
 * cannot bypass the token of a connecting end. */
static bool harden(SSL_CTX *tls)
{
    SSL_CTX_set_options(tls, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_ENABLE_KTLS);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_read_ahead(tls, 1);
    return SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(tls, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_session_id_context(tls, identity, sizeof identity - 1) == 1 &&
           SSL_CTX_set_num_tickets(tls, 0) == 1 && SSL_CTX_set_max_early_data(tls, 0) == 1 &&
           SSL_CTX_set_ciphersuites(tls, SUITES) == 1 && SSL_CTX_set1_groups_list(tls, GROUPS) == 1;
}

static tutti_status context_set_up(struct tt_secure *s, const struct tt_secure_conf *conf)
{
    s->tls = SSL_CTX_new(TLS_method());
    if (!s->tls || !harden(s->tls)) {
        ERR_clear_error();
        return tt_fail(TUTTI_ERR_SYSTEM, "secure: OpenSSL initialization for TLS 1.3 failed");
    }
    SSL_CTX_set_app_data(s->tls, s);
    return conf->mode == TT_SECURE_TOKEN ? use_token(s, conf->token) : use_certificate(s, conf);
}

static tutti_status tls_create(struct tt_secure *s, const struct tt_secure_conf *conf)
{
    tutti_status st;

    if (!tt_openssl_enter())
        return tt_fail(TUTTI_ERR_SYSTEM,
                       "secure: OpenSSL is already shut down (the process is exiting)");
    st = context_set_up(s, conf);
    tt_openssl_leave();
    return st;
}

tutti_status tt_secure_create(struct tt_secure **out, const struct tt_secure_conf *conf)
{
    struct tt_secure *s;
    tutti_status st = TUTTI_OK;

    if (conf->mode > TT_SECURE_CERTIFICATE)
        return tt_fail(TUTTI_ERR_INVALID, "secure: invalid mode %d", (int)conf->mode);
    s = calloc(1, sizeof *s);
    if (!s)
        return tt_fail(TUTTI_ERR_NOMEM, "secure: out of memory");
    s->mode = conf->mode;
    s->rekey_bytes = REKEY_BYTES;
    atomic_init(&s->references, 1);
    if (s->mode != TT_SECURE_PLAIN)
        st = tls_create(s, conf);
    if (st != TUTTI_OK) {
        tt_secure_destroy(s);
        return st;
    }
    *out = s;
    return TUTTI_OK;
}

/* An unconnected socket is refused with ENOTCONN if kernel TLS is available. */
bool tt_secure_kernel(const char **why_not)
{
    int fd, err = 0;

#ifdef OPENSSL_NO_KTLS
    *why_not = "OpenSSL was built without it";
    return false;
#endif
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") != 0)
        err = errno;
    if (fd >= 0)
        close(fd);
    *why_not = err == ENOENT ? "the kernel has no module tls" : "the kernel does not allow it";
    return fd >= 0 && (err == 0 || err == ENOTCONN);
}

bool tt_secure_is_plain(const struct tt_secure *s)
{
    return !s || s->mode == TT_SECURE_PLAIN;
}

struct tt_secure *tt_secure_get(struct tt_secure *s)
{
    atomic_fetch_add(&s->references, 1);
    return s;
}

void tt_secure_destroy(struct tt_secure *s)
{
    if (!s || atomic_fetch_sub(&s->references, 1) > 1)
        return;
    if (s->tls && tt_openssl_enter()) {
        SSL_CTX_free(s->tls);
        tt_openssl_leave();
    }
    OPENSSL_cleanse(s->key, sizeof s->key);
    free(s);
}
