/* Marks of this process, of another network namespace, and of an ended process. */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/mark.h"
#include "support/unit.h"

static void mark_exists_until_its_end(void **state)
{
    struct tt_mark m;
    uint64_t number;

    (void)state;
    tt_mark_init(&m);
    number = m.number;
    assert_int_not_equal(number, 0);
    assert_int_equal(tt_mark_find(number), TT_MARK_HERE);
    assert_int_equal(tt_mark_find(number), TT_MARK_HERE);
    tt_mark_fini(&m);
    assert_int_equal(m.number, 0);
    assert_int_equal(tt_mark_find(number), TT_MARK_ELSEWHERE);
    tt_mark_fini(&m);
}

static void without_a_mark_nothing_is_known(void **state)
{
    (void)state;
    assert_int_equal(tt_mark_find(0), TT_MARK_UNKNOWN);
}

static void mark_is_namespace_local(void **state)
{
    struct tt_mark m;
    int status;
    pid_t pid;

    (void)state;
    tt_mark_init(&m);
    pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
            _exit(2);
        _exit(tt_mark_find(m.number) == TT_MARK_ELSEWHERE ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    tt_mark_fini(&m);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mark_exists_until_its_end),
        cmocka_unit_test(without_a_mark_nothing_is_known),
        cmocka_unit_test(mark_is_namespace_local),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
