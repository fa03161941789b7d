#include "secure/papers.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/unit.h"

#define HOUR 3600l

/* A signer, or the holder of a signed certificate. */
struct holder {
    EVP_PKEY *key;
    X509 *certificate;
};

static void add_extension(X509 *certificate, int what, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, what, value);

    assert_non_null(e);
    assert_int_equal(X509_add_ext(certificate, e, -1), 1);
    X509_EXTENSION_free(e);
}

/* Creates a certificate of `name`, valid from..to seconds from now, signed by `by` (NULL:
 * self-signed, as an authority). use: its only permitted use, or NULL. */
static struct holder holder_make(const char *name, const struct holder *by, long from, long to,
                                 const char *use)
{
    struct holder h = { .key = EVP_EC_gen("P-256"), .certificate = X509_new() };
    X509_NAME *subject = X509_get_subject_name(h.certificate);
    static long serial;

    assert_true(h.key && h.certificate);
    X509_set_version(h.certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(h.certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(h.certificate), from);
    X509_gmtime_adj(X509_getm_notAfter(h.certificate), to);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(h.certificate, by ? X509_get_subject_name(by->certificate) : subject);
    X509_set_pubkey(h.certificate, h.key);
    add_extension(h.certificate, NID_basic_constraints,
                  by ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (use)
        add_extension(h.certificate, NID_ext_key_usage, use);
    assert_true(X509_sign(h.certificate, by ? by->key : h.key, EVP_sha256()) > 0);
    return h;
}

static void holder_free(struct holder *h)
{
    EVP_PKEY_free(h->key);
    X509_free(h->certificate);
}

static FILE *paper_open(const struct papers *p, char path[PAPERS_PATH], const char *name)
{
    FILE *f;

    snprintf(path, PAPERS_PATH, "%s/%s", p->dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    return f;
}

/* Writes a certificate, followed by `times` copies of `more`. */
static void write_certificate(const struct papers *p, char path[PAPERS_PATH], const char *name,
                              X509 *certificate, X509 *more, int times)
{
    FILE *f = paper_open(p, path, name);

    assert_int_equal(PEM_write_X509(f, certificate), 1);
    for (int i = 0; i < times; i++)
        assert_int_equal(PEM_write_X509(f, more), 1);
    fclose(f);
}

static void write_key(const struct papers *p, char path[PAPERS_PATH], const char *name,
                      EVP_PKEY *key, const char *passphrase)
{
    FILE *f = paper_open(p, path, name);

    assert_int_equal(PEM_write_PrivateKey(f, key, passphrase ? EVP_aes_128_cbc() : NULL, NULL, 0,
                                          NULL, (void *)(uintptr_t)passphrase),
                     1);
    fclose(f);
}

void papers_make(struct papers *p)
{
    struct holder authority = holder_make("the authority", NULL, -2 * HOUR, 24 * HOUR, NULL);
    struct holder other = holder_make("another authority", NULL, -2 * HOUR, 24 * HOUR, NULL);
    const struct {
        const char *name;
        const struct holder *by;
        long from, to;
        const char *use;
    } wanted[PAPERS] = {
        [PAPER_MEMBER] = { "member", &authority, -HOUR, HOUR, NULL },
        [PAPER_MEMBER_TOO] = { "member-too", &authority, -HOUR, HOUR, "serverAuth,clientAuth" },
        [PAPER_STRANGER] = { "stranger", &other, -HOUR, HOUR, NULL },
        [PAPER_EXPIRED] = { "expired", &authority, -2 * HOUR, -HOUR, NULL },
        [PAPER_EARLY] = { "early", &authority, 24 * HOUR, 25 * HOUR, NULL },
        [PAPER_SERVER] = { "server", &authority, -HOUR, HOUR, "serverAuth" },
    };
    FILE *f;

    snprintf(p->dir, sizeof p->dir, "/tmp/tutti-papers-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    write_certificate(p, p->authority, "authority.pem", authority.certificate, NULL, 0);
    write_certificate(p, p->other_authority, "other-authority.pem", other.certificate, NULL, 0);
    for (int i = 0; i < PAPERS; i++) {
        struct holder h =
            holder_make(wanted[i].name, wanted[i].by, wanted[i].from, wanted[i].to, wanted[i].use);
        char name[64];

        snprintf(name, sizeof name, "%s.pem", wanted[i].name);
        write_certificate(p, p->certificate[i], name, h.certificate, authority.certificate,
                          i == PAPER_MEMBER_TOO ? 40 : 0);
        snprintf(name, sizeof name, "%s.key", wanted[i].name);
        write_key(p, p->key[i], name, h.key, NULL);
        if (i == PAPER_MEMBER)
            write_key(p, p->locked, "locked.key", h.key, "secret");
        holder_free(&h);
    }
    f = paper_open(p, p->garbage, "garbage");
    fputs("no certificate, nor a key\n", f);
    fclose(f);
    holder_free(&authority);
    holder_free(&other);
}

void papers_remove(struct papers *p)
{
    unlink(p->authority);
    unlink(p->other_authority);
    for (int i = 0; i < PAPERS; i++) {
        unlink(p->certificate[i]);
        unlink(p->key[i]);
    }
    unlink(p->locked);
    unlink(p->garbage);
    assert_int_equal(rmdir(p->dir), 0);
}

struct tt_secure_conf papers_conf(const struct papers *p, enum paper which)
{
    return (struct tt_secure_conf){ .mode = TT_SECURE_CERTIFICATE,
                                    .certificate = p->certificate[which],
                                    .key = p->key[which],
                                    .authority = which == PAPER_STRANGER ? p->other_authority
                                                                         : p->authority };
}

struct tt_secure *papers_secure(const struct papers *p, enum paper which)
{
    const struct tt_secure_conf conf = papers_conf(p, which);
    struct tt_secure *s = NULL;

    assert_int_equal(tt_secure_create(&s, &conf), TUTTI_OK);
    return s;
}
