/* A coordinator in a program's own process, by the public API. */
#include "tutti/coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "shown.h"
#include "support/hive.h"
#include "support/unit.h"

#define WAIT_MS 60000

static void members_use_the_reported_address(void **state)
{
    static const char token[] = "a0b1c2d3e4f5a6b7c8d9";
    const struct tt_secure_conf secure = { .mode = TT_SECURE_TOKEN, .token = token };
    const tutti_coordinator_conf conf = { .size = sizeof conf,
                                          .run = "mine",
                                          .listen = "127.0.0.1:0,127.0.0.1:0",
                                          .token = token,
                                          .lease_ms = 10000 };
    tutti_coordinator *c = NULL;
    struct hive *h;

    (void)state;
    assert_int_equal(tutti_coordinator_create(&c, &conf), TUTTI_OK);
    assert_non_null(tutti_coordinator_address(c, 0));
    assert_null(tutti_coordinator_address(c, 2));
    h = hive_create("mine", 3, 1, 3, false, &secure);
    hive_add_address(h, tutti_coordinator_address(c, 0));
    assert_true(hive_gather(h, WAIT_MS));
    assert_int_equal(tutti_coordinator_check(c), TUTTI_OK);
    hive_destroy(h);
    tutti_coordinator_destroy(c);
    tutti_coordinator_destroy(NULL);
}

static void two_coordinators_share_a_process(void **state)
{
    tutti_coordinator *a = NULL, *b = NULL;

    (void)state;
    unsetenv("TUTTI_TOKEN");
    assert_int_equal(tutti_coordinator_create(&a, NULL), TUTTI_OK);
    assert_int_equal(tutti_coordinator_create(&b, NULL), TUTTI_OK);
    assert_string_not_equal(tutti_coordinator_address(a, 0), tutti_coordinator_address(b, 0));
    tutti_coordinator_destroy(a);
    tutti_coordinator_destroy(b);
}

static void its_page_shows_the_run(void **state)
{
    const tutti_coordinator_conf conf = {
        .size = sizeof conf, .run = "shown", .insecure = 1, .http = "127.0.0.1:0"
    };
    tutti_coordinator *c = NULL, *silent = NULL;

    (void)state;
    assert_int_equal(tutti_coordinator_create(&c, &conf), TUTTI_OK);
    assert_non_null(tutti_coordinator_http(c));
    shown_await(tutti_coordinator_http(c), "/status.json", "\"run\":\"shown\"");
    shown_await(tutti_coordinator_http(c), "/status.json", "\"standing_by\":false");
    shown_await(tutti_coordinator_http(c), "/healthz", "ok");
    assert_int_equal(tutti_coordinator_create(&silent, NULL), TUTTI_OK);
    assert_null(tutti_coordinator_http(silent));
    tutti_coordinator_destroy(silent);
    tutti_coordinator_destroy(c);
}

/* The configuration of an older program: its struct ends before `store`. The coordinator must not
 * read beyond it. */
static void older_program_is_served(void **state)
{
    tutti_coordinator_conf conf = { .size = offsetof(tutti_coordinator_conf, store),
                                    .insecure = 1 };
    tutti_coordinator *c = NULL;

    (void)state;
    memset(&conf.store, 0xff, sizeof conf - offsetof(tutti_coordinator_conf, store));
    assert_int_equal(tutti_coordinator_create(&c, &conf), TUTTI_OK);
    assert_null(tutti_coordinator_http(c));
    tutti_coordinator_destroy(c);
}

static void invalid_settings_are_reported(void **state)
{
    const struct {
        tutti_coordinator_conf conf;
        const char *why;
    } cases[] = {
        { { .size = 3 }, "size" },
        { { .size = sizeof cases[0].conf, .token = "x", .insecure = 1 }, "mutually exclusive" },
        { { .size = sizeof cases[0].conf, .key = "k" }, "set together" },
        { { .size = sizeof cases[0].conf, .lease_ms = -1 }, "conf.lease_ms is -1" },
        { { .size = sizeof cases[0].conf, .journal = "/nowhere/at/all" }, "/nowhere/at/all" },
        { { .size = sizeof cases[0].conf, .journal = "" }, "conf.journal is empty" },
        { { .size = sizeof cases[0].conf, .listen = "here" }, "\"here\"" },
        { { .size = sizeof cases[0].conf, .listen = "" }, "no listen address" },
        { { .size = sizeof cases[0].conf, .token = "short" }, "token" },
        { { .size = sizeof cases[0].conf, .http = "here" }, "here" },
        { { .size = sizeof cases[0].conf, .store = "file:///a" }, "file:///a" },
        { { .size = sizeof cases[0].conf, .store = "etcd://127.0.0.1:1/a", .journal = "b" },
          "use one of them" },
    };
    tutti_coordinator *c = NULL;

    (void)state;
    tt_log_set(TT_LOG_NONE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (tutti_coordinator_create(&c, &cases[i].conf) == TUTTI_OK)
            fail_msg("case %zu works", i);
        if (!strstr(tutti_last_error(), cases[i].why))
            fail_msg("case %zu: \"%s\" was expected in \"%s\"", i, cases[i].why,
                     tutti_last_error());
        assert_null(c);
    }
    assert_int_equal(tutti_coordinator_create(NULL, NULL), TUTTI_ERR_INVALID);
    tt_log_set(TT_LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_use_the_reported_address),
        cmocka_unit_test(two_coordinators_share_a_process),
        cmocka_unit_test(its_page_shows_the_run),
        cmocka_unit_test(older_program_is_served),
        cmocka_unit_test(invalid_settings_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
