/* Closing of descriptors in an epoll set. */
#ifndef TT_BASE_WATCHED_H
#define TT_BASE_WATCHED_H

#include <stddef.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Must be called before fd is closed. Closing alone does not remove it from the epoll set if a
 * forked child has the descriptor too. As long as it is open in any process, epoll reports its
 * events, with data that may be freed. */
static inline void tt_watched_remove(int epoll, int fd)
{
    epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

static inline void tt_watched_close(int epoll, int fd)
{
    tt_watched_remove(epoll, fd);
    close(fd);
}

#endif
