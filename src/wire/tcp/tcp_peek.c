/* Short messages, several of which arrive before this end sends, are read by MSG_PEEK and removed
 * from the socket later.
 *
 * If a read empties the socket, and two short segments have arrived since this end last sent, the
 * kernel acknowledges them before the read returns. It sends a packet, which on loopback the other
 * end processes on the reader's CPU. The second of two messages then takes nearly twice as long as
 * the first. While a byte remains in the socket, the acknowledgement waits for data of ours or for
 * its timer. The data is removed when several peeks have found nothing new, or before the sender
 * has to wait for the acknowledgement.
 *
 * A process that exits with unread data resets its connections, and the other end's kernel may then
 * lose its last messages. Therefore no data remains unread on connections that leave the machine,
 * nor while data of ours is in this kernel.
 *
 * While a lane peeks, its buffer holds the start of the socket's data, parsed or not: the next
 * read, of either kind, returns it again. */
#include "wire/tcp/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define KEPT_BYTES 1024u        /* parsed bytes that may stay in the socket and be read again */
#define VAIN_MAX 32             /* peeks */
#define UNANSWERED_MAX 6        /* reads: a connection starts with a window of ten packets */

bool tt_tcp_peeked_take(struct tt_tcp_lane *lane)
{
    ssize_t taken = lane->have;

    if (!lane->peeks)
        return true;
    if (lane->have)
        /* known to be available; with MSG_TRUNC nothing is copied */
        taken = recv(lane->fd, lane->buffer, lane->have, MSG_TRUNC | MSG_DONTWAIT);
    if (taken != (ssize_t)lane->have) {
        errno = taken >= 0 || errno == EAGAIN ? EPROTO : errno;     /* these bytes were available
                                                                       before */
        return false;
    }
    lane->peeks = false;
    tt_tcp_drop_parsed(lane);
    return true;
}

/* Returns whether the other end's kernel has all that this end has sent; a few bytes always fit
 * there. */
static bool sent_is_delivered(struct tt_tcp_lane *lane)
{
    int pending = 0;

    if (lane->sent_bytes > TT_TCP_BRIEF_BYTES &&
        (ioctl(lane->fd, SIOCOUTQ, &pending) != 0 || pending > 0))
        return false;
    if (lane->sent_bytes > TT_TCP_BRIEF_BYTES)
        lane->sent_bytes = 0;
    return true;
}

/* Returns whether the next read shall leave its data in the socket. */
static bool should_peek(struct tt_tcp_lane *lane)
{
    return !lane->bye && lane->unanswered_reads > 0 && lane->unanswered_reads < UNANSWERED_MAX &&
           lane->empty_peeks < VAIN_MAX && !lane->last_read_long &&
           (lane->peeks || lane->have == 0) && lane->link->tcp->nactive <= TT_TCP_FEW_LANES &&
           !lane->link->tcp->wire.crowded && !lane->paced && sent_is_delivered(lane);
}

ssize_t tt_tcp_read_between(struct tt_tcp_lane *lane, size_t *room)
{
    uint32_t again, most;
    bool peek;
    ssize_t n;

    if (lane->at > KEPT_BYTES && !tt_tcp_peeked_take(lane))
        return -1;
    peek = should_peek(lane);
    again = lane->peeks ? lane->have : 0;
    /* of which `again` were read before */
    most =
        again + lane->read_bytes < TT_TCP_READ_MORE ? again + lane->read_bytes : TT_TCP_READ_MORE;
    n = recv(lane->fd, lane->buffer + lane->have - again, most,
             MSG_DONTWAIT | (peek ? MSG_PEEK : 0));
    *room = most - again;
    if (n < 0 || (n == 0 && again == 0))
        return n;
    lane->peeks = peek;
    if (n <= (ssize_t)again) {
        lane->empty_peeks += peek;
        if (!peek)
            tt_tcp_drop_parsed(lane);
        errno = n < (ssize_t)again ? EPROTO : EAGAIN;
        return -1;
    }
    lane->empty_peeks = 0;
    lane->unanswered_reads += lane->unanswered_reads < UNANSWERED_MAX;
    lane->last_read_long = n > (ssize_t)TT_TCP_BRIEF_BYTES;
    return n - again;
}
