/* Descriptors that an epoll instance watches. */
#ifndef TT_BASE_WATCHED_H
#define TT_BASE_WATCHED_H

#include <stddef.h>
#include <sys/epoll.h>
#include <unistd.h>

/* To be called before fd is closed. Closing alone does not end it: the child of a fork has the descriptor, too, and as long as it is open somewhere epoll
 * goes on telling of it, with data that may have been freed. */
static inline void tt_watched_forget(int epoll, int fd) { epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL); }

static inline void tt_watched_close(int epoll, int fd)
{
    tt_watched_forget(epoll, fd);
    close(fd);
}

#endif
