/* Bytes over a connected, non-blocking socket, plain or through TLS 1.3. The calls never block; what the socket must become ready for is in
 * tt_stream_wants. One thread at a time per stream. */
#ifndef TT_SECURE_STREAM_H
#define TT_SECURE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "secure/secure.h"

struct tt_stream;

enum tt_stream_end { TT_STREAM_CONNECTS, TT_STREAM_ACCEPTS };

/* On success *out is the caller's and owns fd. */
tutti_status tt_stream_create(struct tt_stream **out, struct tt_secure *secure, int fd, enum tt_stream_end end);
/* Closes, with what TLS says at an end if that goes without waiting. NULL is fine. */
void tt_stream_destroy(struct tt_stream *s);
int tt_stream_fd(const struct tt_stream *s);

/* What follows returns bytes (> 0), 0 at the end of what the other end sent (read), or a negative errno: -EAGAIN: not now; -EPROTO: the
 * other end is none of ours (wrong token or certificate, no TLS, an older version), tt_stream_why tells; else what the system said, and
 * -ECONNRESET where TLS ends without having said so. The handshake happens by itself, in whichever is called first, at most one step of it
 * in each call; none of the caller's bytes are taken or given before it is complete. A call that failed may be repeated with other bytes. */
ssize_t tt_stream_read(struct tt_stream *s, void *data, size_t bytes);
ssize_t tt_stream_write(struct tt_stream *s, const struct iovec *parts, int nparts);
/* Goes on with the handshake, and with what write has taken but the socket has not, as read and write do too. 0: nothing is left of either. */
int tt_stream_flush(struct tt_stream *s);
/* Whether the other end has shown what it must; at once if that is nothing. */
bool tt_stream_ready(const struct tt_stream *s);
/* EPOLLIN, and EPOLLOUT where the handshake begins, write returned -EAGAIN, or write has taken what the socket has not yet. Bytes that TLS has
 * decrypted and read did not ask for yet do not make the socket readable: read until -EAGAIN. */
uint32_t tt_stream_wants(const struct tt_stream *s);
/* Why it failed, in a few words; "" if it did not. */
const char *tt_stream_why(const struct tt_stream *s);

#endif
