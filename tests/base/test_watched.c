/* What is closed is heard of no more, though the child of a fork has it, too. */
#include "base/watched.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "support/unit.h"

static void what_the_child_of_a_fork_holds_is_forgotten(void **state)
{
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = { .events = EPOLLIN };
    int ends[2];
    pid_t child;

    (void)state;
    assert_true(epoll >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &ev), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);          /* also if this test fails */
        pause();
        _exit(0);
    }
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(epoll_wait(epoll, &ev, 1, 0), 1);
    tt_watched_close(epoll, ends[0]);
    assert_int_equal(write(ends[1], "x", 1), 1);        /* the child has it still */
    assert_int_equal(epoll_wait(epoll, &ev, 1, 0), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[1]);
    close(epoll);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_child_of_a_fork_holds_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
