#include "secure/tls_error.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdbool.h>
#include <stdio.h>

/* Meaning of an OpenSSL error by mode, as seen by the end that detects it. NULL: see the other
 * mode. */
struct meaning {
    int reason;
    const char *token, *certificate;
};

static const char another_token[] = "the peer has a different token, or none";
static const char no_tls[] = TT_WHY_NO_TLS;
static const char older[] = "the peer's TLS version is older than 1.3";
static const char unlike_token[] = "the peer does not use token security";
static const char unlike_certificate[] = "the peer does not use certificate security";
static const char cut[] = "the connection was closed";
static const char refused[] = "the peer rejected this certificate: it is not signed by the peer's "
                              "authority";
static const char changed[] = "TLS record corrupted, or TLS protocol violation by the peer";

static const struct meaning meanings[] = {
    { SSL_R_BINDER_DOES_NOT_VERIFY, another_token, NULL },
    { SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, another_token, NULL },
    { SSL_R_TLSV1_ALERT_DECRYPT_ERROR, another_token, NULL },
    { SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, unlike_token, unlike_certificate },
    { SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, unlike_token, unlike_certificate },
    { SSL_R_NO_SHARED_CIPHER, unlike_token, unlike_certificate },
    { SSL_R_NO_SHARED_GROUPS, "no key exchange method in common with the peer", NULL },
    { SSL_R_CERTIFICATE_VERIFY_FAILED, unlike_token, NULL },
    { SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, unlike_token, "the peer sent no certificate" },
    { SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, unlike_token, "the peer requires a certificate" },
    { SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY,
      "the peer requires a certificate, but this process has a token", NULL },
    /* from on_hello in secure.c, which checks the peer's ClientHello */
    { SSL_R_CALLBACK_FAILED, NULL,
      "the peer has a token, but this process requires a certificate" },
    { SSL_R_TLSV1_ALERT_UNKNOWN_CA, unlike_token, refused },
    { SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, unlike_token, refused },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, unlike_token,
      "the peer rejected this certificate: it has expired" },
    { SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, unlike_token,
      "the peer rejected this certificate: it is not valid for this use" },
    { SSL_R_WRONG_VERSION_NUMBER, no_tls, NULL },
    { SSL_R_HTTP_REQUEST, no_tls, NULL },
    { SSL_R_HTTPS_PROXY_REQUEST, no_tls, NULL },
    { SSL_R_BAD_RECORD_TYPE, no_tls, NULL },
    { SSL_R_RECORD_LENGTH_MISMATCH, no_tls, NULL },
    { SSL_R_UNSUPPORTED_PROTOCOL, older, NULL },
    { SSL_R_VERSION_TOO_LOW, older, NULL },
    { SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, older, NULL },
    { SSL_R_WRONG_SSL_VERSION, older, NULL },
    { SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, changed, NULL },
    { SSL_R_SSLV3_ALERT_BAD_RECORD_MAC, changed, NULL },
    { SSL_R_UNEXPECTED_EOF_WHILE_READING, cut, NULL },
};

static const char *meaning_of(int reason, enum tt_secure_mode mode)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const struct meaning *m = &meanings[i];

        if (m->reason == reason)
            return mode == TT_SECURE_CERTIFICATE && m->certificate ? m->certificate : m->token;
    }
    return NULL;
}

/* Explains why this end rejects the peer's certificate. */
static void describe_certificate_error(char *why, const SSL *ssl)
{
    const long wrong = SSL_get_verify_result(ssl);

    if (wrong == X509_V_ERR_CERT_HAS_EXPIRED)
        snprintf(why, TT_WHY_BYTES, "the peer's certificate has expired");
    else if (wrong == X509_V_ERR_CERT_NOT_YET_VALID)
        snprintf(why, TT_WHY_BYTES, "the peer's certificate is not valid yet");
    else
        snprintf(why, TT_WHY_BYTES, "the peer's certificate is not signed by this authority (%s)",
                 X509_verify_cert_error_string(wrong));
}

int tt_tls_error(char *why, const SSL *ssl, enum tt_secure_mode mode)
{
    const unsigned long first = ERR_peek_error();
    const int reason = ERR_GET_REASON(first);
    const bool of_ssl = ERR_GET_LIB(first) == ERR_LIB_SSL;
    const char *meaning = of_ssl ? meaning_of(reason, mode) : NULL;
    const char *text = ERR_reason_error_string(first);

    ERR_clear_error();
    if (reason == ERR_R_MALLOC_FAILURE) {
        snprintf(why, TT_WHY_BYTES, "out of memory");
        return -ENOMEM;
    }
    if (of_ssl && reason == SSL_R_CERTIFICATE_VERIFY_FAILED && mode == TT_SECURE_CERTIFICATE)
        describe_certificate_error(why, ssl);
    else if (meaning)
        snprintf(why, TT_WHY_BYTES, "%s", meaning);
    else
        snprintf(why, TT_WHY_BYTES, "TLS protocol violation by the peer (%s)",
                 text ? text : "no reason given");
    return meaning == cut ? -ECONNRESET : -EPROTO;
}
