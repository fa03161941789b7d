/* Second listeners while lo is down, in a network namespace of a child process. */
#include "base/near.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/acceptor.h"
#include "support/unit.h"

#define NO_NAMESPACE 77

static struct sockaddr_in address(const char *ip, uint16_t port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

    assert_int_equal(inet_pton(AF_INET, ip, &a.sin_addr), 1);
    return a;
}

/* Opens a listener; *a receives its port. */
static int listen_at(struct sockaddr_in *a)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    socklen_t bytes = sizeof *a;

    assert_int_equal(tt_near_bind(fd, (struct sockaddr *)a, bytes), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)a, &bytes), 0);
    return fd;
}

/* Runs f in a child whose lo has never been up. */
static void with_lo_down(void (*f)(void))
{
    const pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
            _exit(NO_NAMESPACE);
        f();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_NAMESPACE)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void connect_and_accept(void)
{
    struct sockaddr_in one = address("127.0.0.1", 0), all = address("0.0.0.0", 0),
                       far = address("192.0.2.1", 4000), to;
    const int epoll = epoll_create1(0);
    struct tt_acceptor a;
    int fd, came;

    if (!tt_near_lo_is_down())
        _exit(1);
    fd = listen_at(&one);
    if (tt_acceptor_init(&a, "test", fd, epoll, (epoll_data_t){ .u64 = 1 }) || a.near < 0)
        _exit(2);
    if (!tt_near_applies((struct sockaddr *)&one) || tt_near_applies((struct sockaddr *)&far))
        _exit(3);
    to = address("127.0.0.2", ntohs(one.sin_port));
    if (tt_near_connect((struct sockaddr *)&to) >= 0 || errno != ECONNREFUSED)
        _exit(4);
    fd = tt_near_connect((struct sockaddr *)&one);
    came = tt_acceptor_take(&a);
    if (fd < 0 || came < 0 || write(fd, "x", 1) != 1 || read(came, &to, 1) != 1)
        _exit(5);
    if (tt_acceptor_take(&a) >= 0)
        _exit(6);
    tt_acceptor_fini(&a);
    if (tt_near_connect((struct sockaddr *)&one) >= 0 || errno != ECONNREFUSED)
        _exit(7);

    fd = listen_at(&all);
    if (tt_acceptor_init(&a, "test", fd, epoll, (epoll_data_t){ .u64 = 1 }))
        _exit(8);
    to = address("127.0.0.1", ntohs(all.sin_port));
    if (tt_near_connect((struct sockaddr *)&to) < 0 || tt_acceptor_take(&a) < 0)
        _exit(9);
}

static void local_connections_need_no_lo(void **state)
{
    (void)state;
    with_lo_down(connect_and_accept);
}

static void bring_lo_up(void)
{
    struct sockaddr_in all = address("0.0.0.0", 0), one = address("127.0.0.1", 4000),
                       far = address("192.0.2.1", 4000);
    struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };

    if (ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &lo) != 0)
        _exit(NO_NAMESPACE);
    if (tt_near_lo_is_down() || tt_near_applies((struct sockaddr *)&one) ||
        tt_near_listen(listen_at(&all)) >= 0)
        _exit(1);
    if (tt_near_bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&far, sizeof far) == 0 ||
        errno != EADDRNOTAVAIL)
        _exit(2);
}

static void no_second_listener_with_lo_up(void **state)
{
    (void)state;
    with_lo_down(bring_lo_up);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_connections_need_no_lo),
        cmocka_unit_test(no_second_listener_with_lo_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
