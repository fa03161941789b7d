/* A byte stream over a connected, non-blocking socket, plain or TLS 1.3. Calls never block;
 * tt_stream_events returns the events to wait for. One thread at a time per stream. */
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

/* On success the caller owns *out, which owns fd. */
tutti_status tt_stream_create(struct tt_stream **out, struct tt_secure *secure, int fd,
                              enum tt_stream_end end);
/* Closes, with TLS's close alert if that can be sent without blocking. NULL is allowed. */
void tt_stream_destroy(struct tt_stream *s);
int tt_stream_fd(const struct tt_stream *s);

/* Return bytes (> 0), 0 at the end of the peer's data (read), or a negative errno. -EAGAIN: not
 * now. -EPROTO: the peer is not authenticated (wrong token or certificate, no TLS, an older
 * version); see tt_stream_why. -ECONNRESET also if TLS ends without a close alert. The first calls
 * run the handshake, at most one step per call; no data passes before it is complete. A failed call
 * may be repeated with other data. */
ssize_t tt_stream_read(struct tt_stream *s, void *data, size_t bytes);
ssize_t tt_stream_write(struct tt_stream *s, const struct iovec *parts, int nparts);
/* Continues the handshake, and sends data that write has accepted; read and write do this too.
 * Returns 0 when both are complete. */
int tt_stream_flush(struct tt_stream *s);
/* Returns whether the peer is authenticated; immediately true for PLAIN. */
bool tt_stream_ready(const struct tt_stream *s);
/* Returns EPOLLIN, and also EPOLLOUT if the handshake starts, write returned -EAGAIN, or
 * accepted data is unsent. Decrypted but unread data does not make the socket readable: read
 * until -EAGAIN. */
uint32_t tt_stream_events(const struct tt_stream *s);
/* Returns why the stream failed, in a few words; "" if it did not. */
const char *tt_stream_why(const struct tt_stream *s);

#endif
