#include "secure/secure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "secure/ends.h"
#include "secure/papers.h"
#include "secure/security.h"
#include "support/unit.h"

static struct papers papers;

static int set_up(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);    /* refusals are intended */
    papers_make(&papers);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    papers_remove(&papers);
    return 0;
}

static void refuse(const struct tt_secure_conf *conf, const char *because, const char *naming)
{
    struct tt_secure *s = NULL;

    assert_int_equal(tt_secure_create(&s, conf), TUTTI_ERR_INVALID);
    assert_null(s);
    if (!strstr(tutti_last_error(), because) || !strstr(tutti_last_error(), naming))
        fail_msg("\"%s\" does not say \"%s\" of \"%s\"", tutti_last_error(), because, naming);
}

static void weak_token_is_refused(void **state)
{
    (void)state;
    refuse(&(struct tt_secure_conf){ .mode = TT_SECURE_TOKEN }, "at least 16", "0");
    refuse(&(struct tt_secure_conf){ .mode = TT_SECURE_TOKEN, .token = "" }, "at least 16", "0");
    refuse(&(struct tt_secure_conf){ .mode = TT_SECURE_TOKEN, .token = "fifteen letters" },
           "at least 16", "15");
    tt_secure_destroy(ends_secure("sixteen letters."));
}

static void invalid_file_is_named_with_reason(void **state)
{
    const struct tt_secure_conf good = papers_conf(&papers, PAPER_MEMBER);
    struct tt_secure_conf c;

    (void)state;
    c = good, c.certificate = NULL;
    refuse(&c, "three files: no ", "certificate");
    c = good, c.key = NULL;
    refuse(&c, "three files: no ", "key");
    c = good, c.authority = NULL;
    refuse(&c, "three files: no ", "authority");
    c = good, c.certificate = "/no/such/file";
    refuse(&c, "No such file", c.certificate);
    c = good, c.key = "/no/such/file";
    refuse(&c, "No such file", c.key);
    c = good, c.authority = "/no/such/file";
    refuse(&c, "No such file", c.authority);
    c = good, c.certificate = papers.garbage;
    refuse(&c, "start line", c.certificate);
    c = good, c.key = papers.garbage;
    refuse(&c, "without passphrase", c.key);
    c = good, c.authority = papers.garbage;
    refuse(&c, "must be a certificate", c.authority);
    c = good, c.key = papers.locked;
    refuse(&c, "without passphrase", c.key);
    c = good, c.key = papers.key[PAPER_MEMBER_TOO];
    refuse(&c, "mismatch", c.key);
}

static void unacceptable_certificate_is_refused_early(void **state)
{
    struct tt_secure_conf c = papers_conf(&papers, PAPER_EXPIRED);

    (void)state;
    refuse(&c, "expired", papers.certificate[PAPER_EXPIRED]);
    c = papers_conf(&papers, PAPER_EARLY);
    refuse(&c, "not yet valid", papers.certificate[PAPER_EARLY]);
    c = papers_conf(&papers, PAPER_STRANGER);
    c.authority = papers.authority;
    refuse(&c, papers.authority, papers.certificate[PAPER_STRANGER]);
    c = papers_conf(&papers, PAPER_SERVER); /* members are both servers and clients */
    refuse(&c, "ssl_client", papers.certificate[PAPER_SERVER]);
}

static void members_of_one_authority_connect(void **state)
{
    struct tt_secure *one = papers_secure(&papers, PAPER_MEMBER),
                     *two = papers_secure(&papers, PAPER_MEMBER_TOO);
    struct ends e;

    (void)state;
    for (int i = 0; i < 4; i++) {
        ends_open(&e, i < 2 ? one : two, i < 2 ? two : one, i % 2);
        assert_int_equal(ends_shake(&e), 0);
        ends_close(&e);
    }
    tt_secure_destroy(one);
    tt_secure_destroy(two);
}

/* Neither end may become ready for longer than the other's first check; both report the cause. */
static void part(struct tt_secure *connects, struct tt_secure *accepts, const char *why_connects,
                 const char *why_accepts)
{
    const char *why[] = { [CONNECTS] = why_connects, [ACCEPTS] = why_accepts };
    struct ends e;

    ends_open(&e, connects, accepts, false);
    for (int i = 0; i < 100; i++)
        tt_stream_flush(e.stream[i % 2]);
    for (int end = 0; end < 2; end++) {
        assert_int_equal(ends_read(&e, end), -EPROTO);
        assert_false(tt_stream_ready(e.stream[end]));
        if (!strstr(tt_stream_why(e.stream[end]), why[end]))
            fail_msg("\"%s\" does not say \"%s\"", tt_stream_why(e.stream[end]), why[end]);
    }
    ends_close(&e);
}

static void foreign_authority_is_reported_at_both(void **state)
{
    struct tt_secure *member = papers_secure(&papers, PAPER_MEMBER),
                     *stranger = papers_secure(&papers, PAPER_STRANGER);

    (void)state;
    part(member, stranger, "not signed by this authority", "not signed by the peer's authority");
    part(stranger, member, "not signed by this authority", "not signed by the peer's authority");
    tt_secure_destroy(member);
    tt_secure_destroy(stranger);
}

static void token_excludes_certificate(void **state)
{
    struct tt_secure *member = papers_secure(&papers, PAPER_MEMBER),
                     *token = ends_secure(ENDS_TOKEN);

    (void)state;
    part(member, token, "certificate security", "token security");
    part(token, member, "requires a certificate, but this process has a token",
         "has a token, but this process requires a certificate");
    tt_secure_destroy(member);
    tt_secure_destroy(token);
}

/* ---- security settings of a run in the environment ---- */

static void say(const char *security, const char *token, const struct tt_secure_conf *files)
{
    const char *const said[][2] = {
        { "TUTTI_SECURITY", security },
        { "TUTTI_TOKEN", token },
        { "TUTTI_CERTIFICATE", files ? files->certificate : NULL },
        { "TUTTI_KEY", files ? files->key : NULL },
        { "TUTTI_AUTHORITY", files ? files->authority : NULL },
    };

    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (said[i][1])
            setenv(said[i][0], said[i][1], 1);
        else
            unsetenv(said[i][0]);
}

static void environment_selects_the_security(void **state)
{
    const struct tt_secure_conf files = papers_conf(&papers, PAPER_MEMBER);
    const struct {
        const char *security, *token;
        bool files, asked;
        enum tt_secure_mode mode;
    } cases[] = {
        { NULL, NULL, false, false, TT_SECURE_PLAIN },
        { NULL, "", false, false, TT_SECURE_PLAIN },
        { NULL, NULL, true, false, TT_SECURE_PLAIN },
        { "plain", NULL, false, true, TT_SECURE_PLAIN },
        { "plain", ENDS_TOKEN, true, true, TT_SECURE_PLAIN },
        { NULL, ENDS_TOKEN, true, true, TT_SECURE_TOKEN },
        { "token", ENDS_TOKEN, true, true, TT_SECURE_TOKEN },
        { "certificate", NULL, true, true, TT_SECURE_CERTIFICATE },
        { "certificate", ENDS_TOKEN, true, true, TT_SECURE_CERTIFICATE },
    };
    const struct {
        const char *security, *told;
    } wrong[] = { { "token", "TUTTI_TOKEN" },
                  { "certificate", "TUTTI_CERTIFICATE is not set" },
                  { "tls", "is \"tls\"" } };
    struct tt_secure_conf conf;
    struct tt_secure *s;
    bool asked;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        say(cases[i].security, cases[i].token, cases[i].files ? &files : NULL);
        assert_int_equal(tt_security_of_run(&conf, &asked), TUTTI_OK);
        assert_int_equal(asked, cases[i].asked);
        assert_int_equal(conf.mode, cases[i].mode);
        assert_int_equal(tt_secure_create(&s, &conf), TUTTI_OK);
        tt_secure_destroy(s);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        say(wrong[i].security, NULL, NULL);
        assert_int_equal(tt_security_of_run(&conf, &asked), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), wrong[i].told));
    }
    say(NULL, NULL, NULL);
}

/* A stream keeps a reference to its context, even after all other references were released. */
static void referenced_context_stays(void **state)
{
    struct tt_secure *s = ends_secure(ENDS_TOKEN), *again = tt_secure_get(s);
    struct ends e;

    (void)state;
    assert_ptr_equal(again, s);
    ends_open(&e, again, again, false);
    tt_secure_destroy(s);
    assert_int_equal(ends_shake(&e), 0);
    ends_close(&e);
    tt_secure_destroy(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weak_token_is_refused),
        cmocka_unit_test(invalid_file_is_named_with_reason),
        cmocka_unit_test(unacceptable_certificate_is_refused_early),
        cmocka_unit_test(members_of_one_authority_connect),
        cmocka_unit_test(foreign_authority_is_reported_at_both),
        cmocka_unit_test(token_excludes_certificate),
        cmocka_unit_test(environment_selects_the_security),
        cmocka_unit_test(referenced_context_stays),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
