#include "base/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "support/unit.h"

#define WAIT_MS 60000   /* limit for expected events; no test waits for its expiry */

/* A listener on loopback in an epoll set, and a socket that is not connected yet. */
struct door {
    struct tt_acceptor a;
    struct sockaddr_in at;
    int epoll, caller;
};

static struct door door_open(void)
{
    struct door d = { .at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof d.at;

    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&d.at, bytes) == 0 && listen(fd, 8) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&d.at, &bytes), 0);
    d.epoll = epoll_create1(EPOLL_CLOEXEC);
    d.caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(d.epoll >= 0 && d.caller >= 0);
    assert_int_equal(tt_acceptor_init(&d.a, "test", fd, d.epoll, (epoll_data_t){ .u64 = 4711 }),
                     TUTTI_OK);
    return d;
}

static void door_close(struct door *d)
{
    tt_acceptor_fini(&d->a);
    close(d->caller);
    close(d->epoll);
}

static void call(struct door *d)
{
    assert_int_equal(connect(d->caller, (struct sockaddr *)&d->at, sizeof d->at), 0);
}

/* Waits until the epoll set reports the listener, and accepts. */
static int wait_and_take(struct door *d)
{
    struct epoll_event ev;

    assert_int_equal(epoll_wait(d->epoll, &ev, 1, WAIT_MS), 1);
    assert_int_equal(ev.data.u64, 4711);
    return tt_acceptor_take(&d->a);
}

static bool is_quiet(const struct door *d)
{
    struct epoll_event ev;

    return epoll_wait(d->epoll, &ev, 1, 0) == 0;
}

static void accepted_descriptor_is_non_blocking(void **state)
{
    struct door d = door_open();
    int fd;

    (void)state;
    assert_int_equal(tt_acceptor_take(&d.a), -1);
    call(&d);
    fd = wait_and_take(&d);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(tt_acceptor_take(&d.a), -1);
    close(fd);
    door_close(&d);
}

/* epoll is level-triggered: a pending connection without a free descriptor would make the listener
 * readable permanently. */
static void pending_connection_waits_for_a_descriptor(void **state)
{
    struct door d = door_open();
    struct unit_stderr caught;
    struct rlimit before;
    uint64_t until_ns;
    char text[1024];
    int fd = -1, tries = 0;

    (void)state;
    call(&d);
    unit_stderr_catch(&caught);
    before = unit_descriptors_end();
    while (tries < 3) {                                 /* each after a pause */
        assert_int_equal(wait_and_take(&d), -1);
        until_ns = tt_now_ns() + WAIT_MS * TT_MS;
        for (tries++; !is_quiet(&d);) {
            assert_true(tt_now_ns() < until_ns);
            assert_int_equal(tt_acceptor_take(&d.a), -1);
        }
    }
    unit_descriptors_again(&before);
    while (fd < 0)
        fd = wait_and_take(&d);
    unit_stderr_release(&caught, text, sizeof text);
    assert_non_null(strstr(text, "test: cannot accept a connection: Too many open files"));
    assert_null(strstr(strchr(text, '\n'), "cannot accept"));       /* logged once */
    close(fd);
    door_close(&d);
}

static void unwatchable_listener_stays_the_callers(void **state)
{
    struct tt_acceptor a = { .listener = 12345 };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(tt_acceptor_init(&a, "test", fd, fd, (epoll_data_t){ .u64 = 0 }),
                     TUTTI_ERR_SYSTEM);
    assert_int_equal(a.listener, 12345);
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted_descriptor_is_non_blocking),
        cmocka_unit_test(pending_connection_waits_for_a_descriptor),
        cmocka_unit_test(unwatchable_listener_stays_the_callers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
