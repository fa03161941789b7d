#include "boot/tree_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/watched.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct tt_tree_stream *tt_tree_stream_create(int fd, int epoll, size_t body_max, bool connecting)
{
    struct epoll_event ev = { .events = connecting ? EPOLLOUT : EPOLLIN };
    struct tt_tree_stream *c = calloc(1, sizeof *c);
    int err;

    if (!c)
        return NULL;
    ev.data.ptr = c;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        err = errno;
        free(c);
        errno = err;
        return NULL;
    }
    tt_framer_init(&c->in, body_max);
    c->fd = fd;
    c->epoll = epoll;
    c->passed_fd = c->received_fd = -1;
    return c;
}

void tt_tree_stream_destroy(struct tt_tree_stream *c)
{
    if (!c)
        return;
    tt_watched_close(c->epoll, c->fd);
    if (c->received_fd >= 0)
        close(c->received_fd);
    tt_framer_fini(&c->in);
    free(c->out);
    free(c);
}

void tt_tree_stream_watch(struct tt_tree_stream *c)
{
    const bool writing = c->sent < c->out_bytes;
    struct epoll_event ev = { .events = EPOLLIN | (writing ? (uint32_t)EPOLLOUT : 0u),
                              .data.ptr = c };

    c->writing = writing;
    if (epoll_ctl(c->epoll, EPOLL_CTL_MOD, c->fd, &ev) != 0)
        c->dead = true;
}

/* sendmsg with a descriptor to be passed, which the kernel duplicates. */
static ssize_t send_with_descriptor(const struct tt_tree_stream *c, const void *data, size_t bytes)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = { .iov_base = (void *)data, .iov_len = bytes };
    const struct msghdr m = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control.room,
                              .msg_controllen = sizeof control.room };
    struct cmsghdr *h;

    memset(&control, 0, sizeof control);
    h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &c->passed_fd, sizeof(int));
    return sendmsg(c->fd, &m, MSG_NOSIGNAL);
}

/* Returns the number of bytes sent; 0: the socket is full, or broken (sets dead). */
static size_t stream_send_some(struct tt_tree_stream *c, const uint8_t *data, size_t bytes)
{
    const ssize_t n = c->passed_fd >= 0 ? send_with_descriptor(c, data, bytes)
                                        : send(c->fd, data, bytes, MSG_NOSIGNAL);

    if (n > 0) {
        c->passed_fd = -1;
        return (size_t)n;
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        c->dead = true;
    return 0;
}

/* Appends to the queue. Breaks the connection if out of memory. */
static void stream_queue(struct tt_tree_stream *c, const uint8_t *data, size_t bytes)
{
    if (c->sent == c->out_bytes)
        c->sent = c->out_bytes = 0;
    if (c->out_bytes + bytes > c->out_cap) {
        const size_t cap =
            c->out_bytes + bytes < 2 * c->out_cap ? 2 * c->out_cap : c->out_bytes + bytes;
        uint8_t *out = realloc(c->out, cap);

        if (!out) {
            c->dead = true;
            return;
        }
        c->out = out;
        c->out_cap = cap;
    }
    memcpy(c->out + c->out_bytes, data, bytes);
    c->out_bytes += bytes;
}

void tt_tree_stream_send(struct tt_tree_stream *c, const void *data, size_t bytes)
{
    size_t n = 0;

    if (c->dead)
        return;
    if (c->sent == c->out_bytes)
        n = stream_send_some(c, data, bytes);
    if (n < bytes && !c->dead) {
        stream_queue(c, (const uint8_t *)data + n, bytes - n);
        if (!c->writing)
            tt_tree_stream_watch(c);
    }
}

void tt_tree_stream_flush(struct tt_tree_stream *c)
{
    while (!c->dead && c->sent < c->out_bytes) {
        const size_t n = stream_send_some(c, c->out + c->sent, c->out_bytes - c->sent);

        if (n == 0)
            break;
        c->sent += n;
    }
    if (c->dead)
        return;
    if (c->sent < c->out_bytes ? !c->writing : c->writing)
        tt_tree_stream_watch(c);
    if (c->closing && c->sent == c->out_bytes)
        c->dead = true;
}

/* Keeps the last descriptor of a message, and closes others. */
static void take_descriptors(struct tt_tree_stream *c, struct msghdr *m)
{
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        const size_t n = h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS
                             ? (h->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                             : 0;

        for (size_t i = 0; i < n; i++) {
            if (c->received_fd >= 0)
                close(c->received_fd);
            memcpy(&c->received_fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
        }
    }
}

/* Also works for TCP, which passes no descriptors. */
bool tt_tree_stream_receive(struct tt_tree_stream *c)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(4 * sizeof(int))];
    } control;
    size_t room = 0;
    struct iovec part = { .iov_base = tt_framer_space(&c->in, &room) };
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = control.room,
                        .msg_controllen = sizeof control.room };
    ssize_t n;

    if (!part.iov_base)
        return false;
    part.iov_len = room;
    n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    take_descriptors(c, &m);
    tt_framer_added(&c->in, (size_t)n);
    return true;
}

/* ---- the table as a file ---- */

int tt_tree_file_create(size_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
        errno = EFBIG;      /* a write beyond the limit ends the process with SIGXFSZ */
        return -1;
    }
    return memfd_create("tutti-start-up", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

bool tt_tree_file_fill(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(fd, (const uint8_t *)data + done, bytes - done);

        if (n <= 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return fcntl(fd, F_ADD_SEALS, SEALS) == 0;
}

const uint8_t *tt_tree_file_map(int fd, size_t bytes)
{
    const int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : -1;
    struct stat st;
    void *at;

    /* sealed: it can neither change nor become shorter while it is read */
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 ||
        st.st_size != (off_t)bytes || bytes == 0)
        return NULL;
    at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}
