#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/log.h"
#include "support/unit.h"

static int begin(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_WARN);
    tt_log_rank(-1);
    return 0;
}

static void level_limits_the_printed_lines(void **state)
{
    struct unit_stderr c;
    char text[256];

    (void)state;
    unit_stderr_catch(&c);
    tt_log(TT_LOG_ERROR, "one");
    tt_log(TT_LOG_WARN, "two");
    tt_log(TT_LOG_INFO, "three");
    tt_log_set(TT_LOG_NONE);
    tt_log(TT_LOG_ERROR, "four");
    tt_log_set(TT_LOG_DEBUG);
    tt_log(TT_LOG_DEBUG, "five");
    tt_log(TT_LOG_NONE, "six");
    unit_stderr_release(&c, text, sizeof text);
    assert_string_equal(text, "tutti error: one\ntutti warn: two\ntutti debug: five\n");
}

static void a_hushed_thread_prints_no_errors(void **state)
{
    struct unit_stderr c;
    char text[256];

    (void)state;
    unit_stderr_catch(&c);
    tt_log_hush_errors(true);
    tt_log(TT_LOG_ERROR, "one");
    tt_log(TT_LOG_WARN, "two");
    tt_log_hush_errors(false);
    tt_log(TT_LOG_ERROR, "three");
    unit_stderr_release(&c, text, sizeof text);
    assert_string_equal(text, "tutti warn: two\ntutti error: three\n");
}

static void a_line_names_the_rank(void **state)
{
    struct unit_stderr c;
    char text[256];

    (void)state;
    tt_log_rank(12);
    unit_stderr_catch(&c);
    tt_log(TT_LOG_WARN, "%d lanes", 4);
    unit_stderr_release(&c, text, sizeof text);
    assert_string_equal(text, "tutti[12] warn: 4 lanes\n");
}

static void control_characters_cannot_forge_a_line(void **state)
{
    struct unit_stderr c;
    char text[256];

    (void)state;
    unit_stderr_catch(&c);
    tt_log(TT_LOG_WARN, "a stranger says: %s", "x\ntutti error: all is lost\r\033[2J");
    unit_stderr_release(&c, text, sizeof text);
    assert_string_equal(text, "tutti warn: a stranger says: x tutti error: all is lost  [2J\n");
}

static void oversized_line_is_truncated(void **state)
{
    static char longer[8192];
    struct unit_stderr c;
    char text[9000];

    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    unit_stderr_catch(&c);
    tt_log(TT_LOG_WARN, "%s", longer);
    unit_stderr_release(&c, text, sizeof text);
    assert_in_range(strlen(text), 1024, 2048);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

/* TUTTI_LOG is read once per process, at the first message, so this test executes itself with it:
 * see main. */
static int level_with(const char *word)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (word)
            setenv("TUTTI_LOG", word, 1);
        else
            unsetenv("TUTTI_LOG");
        execl("/proc/self/exe", "test_log", "--level", (char *)NULL);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static void environment_sets_the_level(void **state)
{
    (void)state;
    assert_int_equal(level_with(NULL), TT_LOG_WARN);
    assert_int_equal(level_with("none"), TT_LOG_NONE);
    assert_int_equal(level_with("error"), TT_LOG_ERROR);
    assert_int_equal(level_with("debug"), TT_LOG_DEBUG);
}

static void unknown_level_is_reported_default_used(void **state)
{
    struct unit_stderr c;
    char text[256];
    int level;

    (void)state;
    unit_stderr_catch(&c);
    level = level_with("loud");
    unit_stderr_release(&c, text, sizeof text);
    assert_int_equal(level, TT_LOG_WARN);
    assert_string_equal(text, "tutti warn: TUTTI_LOG=loud: unknown log level; using warn (set "
                              "none, error, warn, info or debug)\n");
}

static int level_now(void)
{
    for (int level = TT_LOG_DEBUG; level > TT_LOG_NONE; level--)
        if (tt_log_on((enum tt_log_level)level))
            return level;
    return TT_LOG_NONE;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(level_limits_the_printed_lines, begin),
        cmocka_unit_test_setup(a_hushed_thread_prints_no_errors, begin),
        cmocka_unit_test_setup(a_line_names_the_rank, begin),
        cmocka_unit_test_setup(control_characters_cannot_forge_a_line, begin),
        cmocka_unit_test_setup(oversized_line_is_truncated, begin),
        cmocka_unit_test_setup(environment_sets_the_level, begin),
        cmocka_unit_test_setup(unknown_level_is_reported_default_used, begin),
    };

    if (argc > 1 && strcmp(argv[1], "--level") == 0)
        return level_now();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
