#include "held_lanes.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "held_posts.h"

#define HELD_FDS 1024
/* maximum number of calls during which a connection accepts nothing */
#define HELD_CALLS 64
#define FREE_BYTES 1024         /* first bytes of a connection, which are never delayed */

/* Connections of this process, by descriptor. The first bytes of each are not delayed: they are a
 * handshake, for which a new connection has space. libfabric's tcp provider, which connects at the
 * first message, relies on that. If the kernel accepts only a part of its reply, version 1.17 sends
 * all of it again if errno happens to be EAGAIN, and the peer misinterprets the data. */
static struct {
    _Atomic uint64_t cookie;    /* socket cookie of the kernel, because descriptors are reused */
    _Atomic uint64_t bytes;     /* sent since held_lanes_begin */
    _Atomic uint32_t refused;   /* number of further calls to refuse */
} connections[HELD_FDS];
static atomic_bool holds_up;
static _Atomic uint64_t draws;
static _Thread_local uint32_t calls;    /* number of send calls */
static _Atomic uint32_t all_calls;      /* of all threads */

void held_lanes_begin(const struct rank *r)
{
    draws = (r->job->seed * JOB_RANKS_MAX + r->rank) << 32;
    holds_up = true;
    held_posts_begin();
}

uint32_t held_lanes_calls(void)
{
    return calls;
}

uint32_t held_lanes_all_calls(void)
{
    return all_calls;
}

uint64_t held_lanes_draw(uint64_t n)
{
    return tt_mix64(atomic_fetch_add(&draws, 1)) % n;
}

static bool is_free(int fd)
{
    uint64_t cookie = 0;
    socklen_t bytes = sizeof cookie;

    if (!holds_up || fd < 0 || fd >= HELD_FDS ||
        getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes) != 0)
        return true;
    if (connections[fd].cookie != cookie)
        connections[fd].bytes = 0;
    connections[fd].cookie = cookie;
    return connections[fd].bytes < FREE_BYTES;
}

/* Decides whether to simulate a full socket buffer (EAGAIN), so that data on one lane arrives much
 * later than on another. */
static bool is_held(int fd)
{
    if (is_free(fd))
        return false;
    if (connections[fd].refused == 0 && held_lanes_draw(8) == 0)
        connections[fd].refused = (uint32_t)held_lanes_draw(HELD_CALLS);
    if (connections[fd].refused == 0)
        return false;
    connections[fd].refused--;
    errno = EAGAIN;
    return true;
}

/* Returns how many bytes of a call are passed to the kernel. */
static size_t cut(int fd, size_t bytes)
{
    return bytes > 1 && !is_free(fd) && held_lanes_draw(4) == 0 ? 1 + held_lanes_draw(bytes - 1)
                                                                : bytes;
}

static ssize_t sent(int fd, ssize_t bytes)
{
    if (holds_up && bytes > 0 && fd < HELD_FDS)
        connections[fd].bytes += (uint64_t)bytes;
    return bytes;
}

/* The library is linked statically; these functions replace those of the C library. */
ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    calls++;
    all_calls++;
    return is_held(fd) ? -1
                       : sent(fd, syscall(SYS_sendto, fd, data, cut(fd, bytes), flags, NULL, 0));
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct iovec first;
    struct msghdr part = *msg;

    calls++;
    all_calls++;
    if (is_held(fd))
        return -1;
    if (msg->msg_iovlen > 0 && msg->msg_controllen == 0) {
        first = msg->msg_iov[0];
        first.iov_len = cut(fd, first.iov_len);
        if (first.iov_len != msg->msg_iov[0].iov_len) {
            part.msg_iov = &first;
            part.msg_iovlen = 1;
        }
    }
    return sent(fd, syscall(SYS_sendmsg, fd, &part, flags));
}
