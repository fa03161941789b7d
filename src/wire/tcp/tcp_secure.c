/* Lanes over TLS: frames are sent in TLS records. The only other difference is that TLS may hold
 * data of either direction. Unsent data blocks the lane. Received data of a partly read record does
 * not make the socket readable, so poll must handle it. */
#include "wire/tcp/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define PEEK_BYTES 4096u        /* between frames: a copy from a decrypted record, no system call */

static ssize_t as_errno(ssize_t n)
{
    if (n >= 0)
        return n;
    errno = (int)-n;
    return -1;
}

ssize_t tt_tcp_recv(int fd, struct tt_stream *stream, void *data, size_t bytes)
{
    return stream ? as_errno(tt_stream_read(stream, data, bytes))
                  : recv(fd, data, bytes, MSG_DONTWAIT);
}

ssize_t tt_tcp_send(int fd, struct tt_stream *stream, const struct iovec *parts, int nparts,
                    bool apart)
{
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (apart ? MSG_EOR : 0);
    const struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)parts,
                                .msg_iovlen = (size_t)nparts };

    if (stream)
        return as_errno(tt_stream_write(stream, parts, nparts));
    if (nparts == 1)
        return send(fd, parts->iov_base, parts->iov_len, flags);
    return sendmsg(fd, &msg, flags);
}

ssize_t tt_tcp_secure_read(struct tt_tcp_lane *lane, size_t *room)
{
    struct tt_tcp *t = lane->link->tcp;
    uint8_t *at = lane->buffer + lane->have;
    size_t bytes = PEEK_BYTES;
    ssize_t n;

    if (lane->left > 0) {
        at = lane->target ? lane->target : t->trash;
        bytes = lane->target || lane->left < TT_TCP_TRASH_BYTES ? lane->left : TT_TCP_TRASH_BYTES;
    }
    n = as_errno(tt_stream_read(lane->stream, at, bytes));
    tt_tcp_secure_more(lane, n > 0);
    *room = n > 0 ? (size_t)n : 0;
    return n;
}

bool tt_tcp_secure_holds(struct tt_tcp_lane *lane)
{
    return lane->stream && lane->fd >= 0 && !lane->send_closed &&
           tt_stream_flush(lane->stream) == -EAGAIN;
}

void tt_tcp_secure_more(struct tt_tcp_lane *lane, bool more)
{
    if (lane->more == more)
        return;
    lane->more = more;
    lane->link->tcp->nmore += more ? 1 : -1u;
}
