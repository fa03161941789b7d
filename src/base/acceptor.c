#include "base/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/near.h"
#include "base/status.h"
#include "base/watched.h"

#define STARVED_NS (2 * TT_SECOND)
/* Short against a connection timeout, long against the cost of a retry. */
#define PAUSE_NS (20 * TT_MS)

tutti_status tt_acceptor_init(struct tt_acceptor *a, const char *what, int listener, int epoll,
                              epoll_data_t data)
{
    struct epoll_event ev = { .events = EPOLLIN, .data = data };
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    int err;

    if (timer < 0)
        return tt_fail_call(errno, what, "timerfd_create");
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &ev) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev) != 0) {
        err = errno;
        close(timer);
        return tt_fail_errno(err, "%s: cannot watch the listener", what);
    }
    *a = (struct tt_acceptor){ .what = what,
                               .listener = listener,
                               .near = tt_near_listen(listener),
                               .timer = timer,
                               .epoll = epoll,
                               .data = data };
    if (a->near >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, a->near, &ev) != 0) {
        close(a->near);
        a->near = -1;
    }
    return TUTTI_OK;
}

void tt_acceptor_fini(struct tt_acceptor *a)
{
    if (a->listener < 0)
        return;
    tt_watched_close(a->epoll, a->timer);
    tt_watched_close(a->epoll, a->listener);
    if (a->near >= 0)
        tt_watched_close(a->epoll, a->near);
    a->listener = a->near = -1;
}

static void watch_listener(struct tt_acceptor *a, bool on)
{
    struct epoll_event ev = { .events = on ? (uint32_t)EPOLLIN : 0u, .data = a->data };

    if (epoll_ctl(a->epoll, EPOLL_CTL_MOD, a->listener, &ev) == 0)
        a->paused = !on;
    if (a->near >= 0)
        epoll_ctl(a->epoll, EPOLL_CTL_MOD, a->near, &ev);
}

/* Returns true while accepting is paused. */
static bool is_pausing(struct tt_acceptor *a)
{
    uint64_t expirations;

    if (a->paused && read(a->timer, &expirations, sizeof expirations) == sizeof expirations)
        watch_listener(a, true);
    return a->paused;
}

static void pause_for(struct tt_acceptor *a, int err)
{
    const struct itimerspec when = { .it_value = { .tv_nsec = (long)PAUSE_NS } };

    if (!a->logged)
        tt_log(TT_LOG_WARN,
               "%s: cannot accept a connection: %s; retrying (raise RLIMIT_NOFILE with ulimit -n)",
               a->what, strerror(err));
    a->logged = true;
    if (timerfd_settime(a->timer, 0, &when, NULL) == 0)
        watch_listener(a, false);
}

/* Fallback for a sandbox that refuses accept4, with whatever error. A fork between the two calls
 * inherits the descriptor. Other errors, such as EPERM of a firewall, are returned again. */
static int accept_plainly(int listener)
{
    const int fd = accept(listener, NULL, NULL);

    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    return fd;
}

bool tt_acceptor_is_starved(const struct tt_acceptor *a)
{
    return a->starved_ns && tt_now_ns() - a->starved_ns > STARVED_NS;
}

static int take_from(int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    return fd < 0 && errno != EAGAIN && errno != EMFILE && errno != ENFILE
               ? accept_plainly(listener)
               : fd;
}

int tt_acceptor_take(struct tt_acceptor *a)
{
    int fd;

    if (is_pausing(a))
        return -1;
    fd = take_from(a->listener);
    if (fd < 0 && a->near >= 0 && errno != EMFILE && errno != ENFILE)
        fd = take_from(a->near);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        if (!a->starved_ns)
            a->starved_ns = tt_now_ns();
        pause_for(a, errno);
    } else {
        a->starved_ns = 0;
    }
    return fd;
}
