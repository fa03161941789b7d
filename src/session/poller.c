/* The descriptors that the service thread polls, and its wake-up. */
#include <sys/epoll.h>
#include <unistd.h>

#include "session/run.h"

bool tt_poller_watch(tutti_run *run, int fd, uint32_t events, void *data)
{
    struct epoll_event ev = { .events = events, .data.ptr = data };

    return epoll_ctl(run->epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

void tt_poller_change(tutti_run *run, int fd, uint32_t events, void *data)
{
    struct epoll_event ev = { .events = events, .data.ptr = data };

    epoll_ctl(run->epoll, EPOLL_CTL_MOD, fd, &ev);
}

void tt_poller_unwatch(tutti_run *run, int fd)
{
    epoll_ctl(run->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void tt_run_wake(tutti_run *run)
{
    const uint64_t one = 1;

    if (write(run->wake_fd, &one, sizeof one) < 0)
        return; /* a full eventfd wakes as well */
}
