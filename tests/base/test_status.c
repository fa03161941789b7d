#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/log.h"
#include "base/status.h"
#include "support/unit.h"

static int quiet(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);
    return 0;
}

static void failure_keeps_status_and_message(void **state)
{
    (void)state;
    assert_int_equal(
        tt_fail(TUTTI_ERR_PEER_LOST, "rank %d went away after %zu bytes", 3, (size_t)17),
        TUTTI_ERR_PEER_LOST);
    assert_string_equal(tutti_last_error(), "rank 3 went away after 17 bytes");
    tt_fail(TUTTI_ERR_INVALID, "later");
    assert_string_equal(tutti_last_error(), "later");
}

static void failed_system_call_has_its_cause(void **state)
{
    (void)state;
    assert_int_equal(tt_fail_errno(ECONNREFUSED, "tcp: cannot connect to %s", "10.0.0.1"),
                     TUTTI_ERR_SYSTEM);
    assert_string_equal(tutti_last_error(), "tcp: cannot connect to 10.0.0.1: Connection refused");
}

static void out_of_descriptors_is_nomem(void **state)
{
    (void)state;
    assert_int_equal(tt_fail_errno(ENOMEM, "a"), TUTTI_ERR_NOMEM);
    assert_int_equal(tt_fail_errno(EMFILE, "a"), TUTTI_ERR_NOMEM);
    assert_int_equal(tt_fail_errno(ENFILE, "a"), TUTTI_ERR_NOMEM);
    assert_int_equal(tt_fail_errno(EACCES, "a"), TUTTI_ERR_SYSTEM);
}

static void message_may_quote_the_last_one(void **state)
{
    (void)state;
    tt_fail(TUTTI_ERR_SYSTEM, "inner");
    tt_fail(TUTTI_ERR_SYSTEM, "outer (%s)", tutti_last_error());
    assert_string_equal(tutti_last_error(), "outer (inner)");
    assert_int_equal(tt_fail_again(TUTTI_ERR_TIMEOUT, tutti_last_error() + 7), TUTTI_ERR_TIMEOUT);
    assert_string_equal(tutti_last_error(), "inner)");
}

static void oversized_message_is_truncated(void **state)
{
    static char longer[3 * TT_ERROR_BYTES];

    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    tt_fail(TUTTI_ERR_INVALID, "%s", longer);
    assert_int_equal(strlen(tutti_last_error()), TT_ERROR_BYTES - 1);
    tt_fail_errno(EIO, "%s", longer);
    assert_int_equal(strlen(tutti_last_error()), TT_ERROR_BYTES - 1);
    tt_fail_again(TUTTI_ERR_INVALID, longer);
    assert_int_equal(strlen(tutti_last_error()), TT_ERROR_BYTES - 1);
}

static void a_failure_leaves_errno_alone(void **state)
{
    (void)state;
    errno = EBADF;
    tt_fail(TUTTI_ERR_INVALID, "a");
    tt_fail_errno(EIO, "a");
    assert_int_equal(errno, EBADF);
}

static void *fails_in_another_thread(void *arg)
{
    const char **seen = arg;

    *seen = tutti_last_error()[0] == '\0' ? "" : "not empty";
    tt_fail(TUTTI_ERR_INVALID, "of the other thread");
    return NULL;
}

static void last_error_is_per_thread(void **state)
{
    const char *seen = NULL;
    pthread_t thread;

    (void)state;
    tt_fail(TUTTI_ERR_INVALID, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fails_in_another_thread, &seen), 0);
    pthread_join(thread, NULL);
    assert_string_equal(seen, "");
    assert_string_equal(tutti_last_error(), "mine");
}

static void failure_is_logged_once(void **state)
{
    struct unit_stderr c;
    char text[256];

    (void)state;
    tt_log_set(TT_LOG_ERROR);
    unit_stderr_catch(&c);
    tt_fail(TUTTI_ERR_INVALID, "count is %d", -1);
    tt_fail_again(TUTTI_ERR_INVALID, "count is -1");
    unit_stderr_release(&c, text, sizeof text);
    assert_string_equal(text, "tutti error: count is -1\n");
}

static void failed_assertion_names_its_location(void **state)
{
    struct unit_stderr c;
    char text[4096];
    int status;
    pid_t pid;

    (void)state;
    unit_stderr_catch(&c);
    pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        tt_assert(1 + 1 == 2);
        tt_assert(1 + 1 == 3);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    unit_stderr_release(&c, text, sizeof text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "assertion failed: 1 + 1 == 3 ("));
    assert_non_null(strstr(text, "test_status.c:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(failure_keeps_status_and_message, quiet),
        cmocka_unit_test_setup(failed_system_call_has_its_cause, quiet),
        cmocka_unit_test_setup(out_of_descriptors_is_nomem, quiet),
        cmocka_unit_test_setup(message_may_quote_the_last_one, quiet),
        cmocka_unit_test_setup(oversized_message_is_truncated, quiet),
        cmocka_unit_test_setup(a_failure_leaves_errno_alone, quiet),
        cmocka_unit_test_setup(last_error_is_per_thread, quiet),
        cmocka_unit_test_setup(failure_is_logged_once, quiet),
        cmocka_unit_test_setup(failed_assertion_names_its_location, quiet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
