/* Short messages, of which several come before anything goes the other way, are looked at in the socket's queue (MSG_PEEK) and taken out of it later.
 *
 * When a read empties that queue, and two short segments have come since this end sent something, the kernel acknowledges them before the read
 * returns: it sends a packet, which on loopback the other end of the connection digests on the reader's processor. So the second of two messages
 * takes nearly twice as long as the first. As long as a byte is left in the queue the acknowledgement waits, for bytes of ours to go with or for its timer. It
 * goes when looks find nothing for a while, or after so many messages that the sender may wait for it.
 *
 * A process that exits with bytes unread resets its connections, and what the other end's kernel does not have of its last messages then is lost. So
 * nothing is left unread where bytes leave the machine, nor while bytes of ours are in this kernel.
 *
 * While a lane peeks, its buffer holds what the socket's queue begins with, digested or not: the next read, of whichever kind, brings that again. */
#include "wire/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define KEPT_BYTES 1024u        /* that are digested, and still read again */
#define VAIN_MAX 32             /* looks */
#define UNANSWERED_MAX 6        /* reads: a connection begins with ten packets that are not acknowledged */

bool tt_tcp_peeked_take(struct tt_tcp_lane *lane)
{
    ssize_t taken = lane->have;

    if (!lane->peeks)
        return true;
    if (lane->have)
        taken = recv(lane->fd, lane->buffer, lane->have, MSG_TRUNC | MSG_DONTWAIT);    /* they are there: nothing is copied */
    if (taken != (ssize_t)lane->have) {
        errno = taken >= 0 || errno == EAGAIN ? EPROTO : errno;     /* they were there */
        return false;
    }
    lane->peeks = false;
    tt_tcp_forget_digested(lane);
    return true;
}

/* Whether the other end's kernel has what this end has sent; a little of it has always room there. */
static bool is_delivered(struct tt_tcp_lane *lane)
{
    int pending = 0;

    if (lane->sent_bytes > TT_TCP_BRIEF_BYTES && (ioctl(lane->fd, SIOCOUTQ, &pending) != 0 || pending > 0))
        return false;
    if (lane->sent_bytes > TT_TCP_BRIEF_BYTES)
        lane->sent_bytes = 0;
    return true;
}

/* Whether to leave in the queue what the next read finds. */
static bool is_to_peek(struct tt_tcp_lane *lane)
{
    return !lane->bye && lane->unanswered > 0 && lane->unanswered < UNANSWERED_MAX && lane->vain < VAIN_MAX &&
           !lane->bulky && (lane->peeks || lane->have == 0) && lane->link->tcp->nactive <= TT_TCP_FEW_LANES &&
           !lane->link->tcp->wire.crowded && !lane->paced && is_delivered(lane);
}

ssize_t tt_tcp_read_between(struct tt_tcp_lane *lane, size_t *room)
{
    uint32_t again, most;
    bool peek;
    ssize_t n;

    if (lane->at > KEPT_BYTES && !tt_tcp_peeked_take(lane))
        return -1;
    peek = is_to_peek(lane);
    again = lane->peeks ? lane->have : 0;
    most = again + lane->read_bytes < TT_TCP_READ_MORE ? again + lane->read_bytes : TT_TCP_READ_MORE;   /* of which `again` are known */
    n = recv(lane->fd, lane->buffer + lane->have - again, most, MSG_DONTWAIT | (peek ? MSG_PEEK : 0));
    *room = most - again;
    if (n < 0 || (n == 0 && again == 0))
        return n;
    lane->peeks = peek;
    if (n <= (ssize_t)again) {
        lane->vain += peek;
        if (!peek)
            tt_tcp_forget_digested(lane);
        errno = n < (ssize_t)again ? EPROTO : EAGAIN;
        return -1;
    }
    lane->vain = 0;
    lane->unanswered += lane->unanswered < UNANSWERED_MAX;
    lane->bulky = n > (ssize_t)TT_TCP_BRIEF_BYTES;
    return n - again;
}
