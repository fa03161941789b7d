/* Messages over a stream: each with its length before it (u32, little-endian), whole or not at all. What is sent waits in a bounded queue; what
 * arrives is bounded by frame_max before a byte of it is stored, and a stranger who says nothing costs only its entry. One thread at a time. */
#ifndef TT_SECURE_CHANNEL_H
#define TT_SECURE_CHANNEL_H

#include <stdbool.h>

#include "secure/stream.h"

/* A message that many channels may have in their queues; freed with its last reference. */
struct tt_parcel;
struct tt_parcel *tt_parcel_new(const void *data, size_t bytes);    /* NULL: no memory; the caller has a reference */
struct tt_parcel *tt_parcel_join(const void *head, size_t head_bytes, const void *body, size_t body_bytes);    /* one message of both */
void tt_parcel_drop(struct tt_parcel *p);

struct tt_channel;

struct tt_channel_conf {
    size_t frame_max;       /* longest message that is taken */
    size_t queue_max;       /* bytes that may wait to be sent, of which one message may be the whole; more end the channel: -ENOBUFS */
};

/* On success *out is the caller's and owns `stream`. */
tutti_status tt_channel_create(struct tt_channel **out, struct tt_stream *stream, const struct tt_channel_conf *conf);
/* What waits is lost. NULL is fine. */
void tt_channel_destroy(struct tt_channel *c);
struct tt_stream *tt_channel_stream(struct tt_channel *c);
/* From the next message on, frame_max is this: a stranger may be allowed less than who has proved itself. */
void tt_channel_allow(struct tt_channel *c, size_t frame_max);

/* Queues a copy of data[bytes], or a reference to a parcel, and sends what goes. 0, or the negative errno that ended the channel: nothing more
 * is sent, but what the other end said before it left is still there for tt_channel_next, perhaps why. */
int tt_channel_send(struct tt_channel *c, const void *data, size_t bytes);
int tt_channel_send_parcel(struct tt_channel *c, struct tt_parcel *p);
/* Sends what goes without waiting. 0 (tt_channel_queued tells what is left), or the negative errno that ended it. */
int tt_channel_flush(struct tt_channel *c);
size_t tt_channel_queued(const struct tt_channel *c);
/* The next message that is here whole: 1, with *data valid until the next call; 0: none yet; else the negative errno that ended the channel
 * (-EPIPE: the other end closed it between messages; -EPROTO: it broke the rules; -EMSGSIZE: longer than frame_max). */
int tt_channel_next(struct tt_channel *c, const void **data, size_t *bytes);
/* EPOLLIN and EPOLLOUT. */
uint32_t tt_channel_wants(const struct tt_channel *c);

#endif
