/* Messages over a stream: each with a length prefix (u32, little-endian), delivered whole or not at
 * all. Unsent messages wait in a bounded queue. A received message is limited to frame_max before
 * any byte of it is stored, so a silent unauthenticated peer costs only its entry. One thread at a
 * time. */
#ifndef TT_SECURE_CHANNEL_H
#define TT_SECURE_CHANNEL_H

#include <stdbool.h>

#include "secure/stream.h"

/* A reference-counted message that may be in the queues of many channels. */
struct tt_parcel;
/* NULL: out of memory; the caller has a reference */
struct tt_parcel *tt_parcel_new(const void *data, size_t bytes);
/* a message of both parts */
struct tt_parcel *tt_parcel_join(const void *head, size_t head_bytes, const void *body,
                                 size_t body_bytes);
void tt_parcel_drop(struct tt_parcel *p);

struct tt_channel;

struct tt_channel_conf {
    size_t frame_max;       /* maximum length of a received message */
    size_t queue_max;       /* maximum queued bytes; a single message may use all of them. A message
                               beyond it fails the channel with -ENOBUFS */
};

/* On success the caller owns *out, which owns `stream`. */
tutti_status tt_channel_create(struct tt_channel **out, struct tt_stream *stream,
                               const struct tt_channel_conf *conf);
/* Drops queued messages. NULL is allowed. */
void tt_channel_destroy(struct tt_channel *c);
struct tt_stream *tt_channel_stream(struct tt_channel *c);
/* Changes frame_max from the next message on: the limit of an unauthenticated peer may be lower. */
void tt_channel_allow(struct tt_channel *c, size_t frame_max);

/* Queue a copy of data[bytes], or a reference to a parcel, and send without blocking. Return 0, or
 * the negative errno that ended the channel. Then nothing more is sent, but the peer's last
 * messages, which may state the cause, are still available from tt_channel_next. */
int tt_channel_send(struct tt_channel *c, const void *data, size_t bytes);
int tt_channel_send_parcel(struct tt_channel *c, struct tt_parcel *p);
/* Sends without blocking. Returns 0 (tt_channel_queued is the rest), or the negative errno that
 * ended the channel. */
int tt_channel_flush(struct tt_channel *c);
size_t tt_channel_queued(const struct tt_channel *c);
/* Returns 1 and the next complete message, with *data valid until the next call; 0: none yet; or
 * the negative errno that ended the channel. -EPIPE: the peer closed it between messages. -EPROTO:
 * the peer violated the protocol. -EMSGSIZE: longer than frame_max. */
int tt_channel_next(struct tt_channel *c, const void **data, size_t *bytes);
/* Returns the needed events: EPOLLIN and EPOLLOUT. */
uint32_t tt_channel_events(const struct tt_channel *c);

#endif
