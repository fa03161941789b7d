/* A closed descriptor causes no more events, although the child of a fork has it open. */
#include "base/watched.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "support/unit.h"

static void descriptors_of_forked_child_are_ignored(void **state)
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
        alarm(60);          /* ends the child even if this test fails */
        pause();
        _exit(0);
    }
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(epoll_wait(epoll, &ev, 1, 0), 1);
    tt_watched_close(epoll, ends[0]);
    assert_int_equal(write(ends[1], "x", 1), 1);        /* the descriptor is still open in the
                                                           child */
    assert_int_equal(epoll_wait(epoll, &ev, 1, 0), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[1]);
    close(epoll);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_of_forked_child_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
