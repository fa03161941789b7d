#include "secure/channel.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/bytes.h"
#include "base/status.h"
#include "secure/internal.h"

#define LENGTH_BYTES 4u
#define READ_BYTES 4096u            /* minimum space of a read, once data has arrived */
#define KEEP_BYTES (64u << 10)      /* a longer buffer is freed when it is empty */
#define PARTS_MAX 16

/* ---- parcels ---- */

struct tt_parcel {
    atomic_uint references;
    size_t bytes;                   /* including its length prefix */
    uint8_t data[];
};

struct tt_parcel *tt_parcel_join(const void *head, size_t head_bytes, const void *body,
                                 size_t body_bytes)
{
    struct tt_parcel *p;
    struct tt_writer w;

    if (head_bytes > UINT32_MAX || body_bytes > UINT32_MAX - head_bytes)
        return NULL;
    p = malloc(sizeof *p + LENGTH_BYTES + head_bytes + body_bytes);
    if (!p)
        return NULL;
    atomic_init(&p->references, 1);
    p->bytes = LENGTH_BYTES + head_bytes + body_bytes;
    tt_writer_init(&w, p->data, LENGTH_BYTES);
    tt_write_u32(&w, (uint32_t)(head_bytes + body_bytes));
    if (head_bytes > 0)
        memcpy(p->data + LENGTH_BYTES, head, head_bytes);
    if (body_bytes > 0)
        memcpy(p->data + LENGTH_BYTES + head_bytes, body, body_bytes);
    return p;
}

struct tt_parcel *tt_parcel_new(const void *data, size_t bytes)
{
    return tt_parcel_join(data, bytes, NULL, 0);
}

void tt_parcel_drop(struct tt_parcel *p)
{
    if (p && atomic_fetch_sub_explicit(&p->references, 1, memory_order_acq_rel) == 1)
        free(p);
}

/* ---- a channel ---- */

/* A queued parcel. */
struct waiting {
    struct waiting *next;
    struct tt_parcel *parcel;
};
/* overhead, also of empty messages */
#define WAITING_COST (sizeof(struct waiting) + sizeof(struct tt_parcel))

struct tt_channel {
    struct tt_stream *stream;
    struct tt_channel_conf conf;
    int ended;                      /* negative errno that ended the channel; 0: none */
    int deaf;                       /* negative errno of sending; received data may still be
                                       readable */

    struct waiting *first, **last;
    size_t gone;                    /* bytes of the first parcel that are sent */
    size_t queued, cost;            /* queued data: in bytes, and including overhead */

    uint8_t *buffer;                /* received, undelivered data: buffer[at .. have) */
    size_t at, have, cap;
    bool heard;                     /* a message was delivered */
};

tutti_status tt_channel_create(struct tt_channel **out, struct tt_stream *stream,
                               const struct tt_channel_conf *conf)
{
    struct tt_channel *c = calloc(1, sizeof *c);

    if (!c)
        return tt_fail(TUTTI_ERR_NOMEM, "secure: out of memory for a channel");
    c->stream = stream;
    c->conf = *conf;
    c->last = &c->first;
    *out = c;
    return TUTTI_OK;
}

/* Removes the first parcel. */
static void channel_drop_first(struct tt_channel *c)
{
    struct waiting *w = c->first;

    c->first = w->next;
    if (!c->first)
        c->last = &c->first;
    c->cost -= w->parcel->bytes + WAITING_COST;
    c->gone = 0;
    tt_parcel_drop(w->parcel);
    free(w);
}

void tt_channel_destroy(struct tt_channel *c)
{
    if (!c)
        return;
    while (c->first)
        channel_drop_first(c);
    tt_stream_destroy(c->stream);
    free(c->buffer);
    free(c);
}

struct tt_stream *tt_channel_stream(struct tt_channel *c)
{
    return c->stream;
}

void tt_channel_allow(struct tt_channel *c, size_t frame_max)
{
    c->conf.frame_max = frame_max;
}

size_t tt_channel_queued(const struct tt_channel *c)
{
    return c->queued;
}

uint32_t tt_channel_events(const struct tt_channel *c)
{
    return c->deaf ? EPOLLIN
                   : tt_stream_events(c->stream) |
                         (c->first && tt_stream_ready(c->stream) ? EPOLLOUT : 0);
}

/* ---- sending ---- */

/* Lists the unsent data in parts[PARTS_MAX]. */
static int channel_gather(const struct tt_channel *c, struct iovec *parts)
{
    size_t gone = c->gone;
    int n = 0;

    for (struct waiting *w = c->first; w && n < PARTS_MAX; w = w->next, gone = 0)
        parts[n++] = (struct iovec){ .iov_base = w->parcel->data + gone,
                                     .iov_len = w->parcel->bytes - gone };
    return n;
}

/* The stream has accepted that many bytes. */
static void channel_advance(struct tt_channel *c, size_t bytes)
{
    c->queued -= bytes;
    c->gone += bytes;
    while (c->first && c->gone >= c->first->parcel->bytes) {
        const size_t over = c->gone - c->first->parcel->bytes;

        channel_drop_first(c);
        c->gone = over;
    }
}

int tt_channel_flush(struct tt_channel *c)
{
    struct iovec parts[PARTS_MAX];
    ssize_t n = 0;

    if (c->ended || c->deaf)
        return c->ended ? c->ended : c->deaf;
    while (c->first && n >= 0) {
        n = tt_stream_write(c->stream, parts, channel_gather(c, parts));
        if (n > 0)
            channel_advance(c, (size_t)n);
    }
    if (!c->first)
        n = tt_stream_flush(c->stream);
    if (n < 0 && n != -EAGAIN)
        c->deaf = (int)n;
    return c->deaf;
}

int tt_channel_send_parcel(struct tt_channel *c, struct tt_parcel *p)
{
    struct waiting *w;

    if (c->ended || c->deaf)
        return c->ended ? c->ended : c->deaf;
    if (p->bytes - LENGTH_BYTES > c->conf.queue_max ||
        (c->first && c->cost + p->bytes + WAITING_COST > c->conf.queue_max))
        return c->ended = -ENOBUFS;
    w = malloc(sizeof *w);
    if (!w)
        return c->ended = -ENOMEM;
    atomic_fetch_add_explicit(&p->references, 1, memory_order_relaxed);
    *w = (struct waiting){ .parcel = p };
    *c->last = w;
    c->last = &w->next;
    c->queued += p->bytes;
    c->cost += p->bytes + WAITING_COST;
    return tt_channel_flush(c);
}

int tt_channel_send(struct tt_channel *c, const void *data, size_t bytes)
{
    struct tt_parcel *p;
    int n;

    if (c->ended || c->deaf)
        return c->ended ? c->ended : c->deaf;
    p = tt_parcel_new(data, bytes);
    if (!p)
        return c->ended = -ENOMEM;
    n = tt_channel_send_parcel(c, p);
    tt_parcel_drop(p);
    return n;
}

/* ---- receiving ---- */

/* Returns whether the first data on a plain channel is TLS: the start of a handshake or an alert.
 * As a length it would be at least 66,325. */
static bool input_is_tls(const struct tt_channel *c)
{
    const uint8_t *data = c->buffer + c->at;

    return !c->heard && (data[0] == 22 || data[0] == 21) && data[1] == 3 && data[2] >= 1 &&
           data[2] <= 4;
}

/* Makes the TLS peer fail too: two empty messages are not a TLS record. */
static int channel_refuse_tls(struct tt_channel *c)
{
    static const uint8_t nothing[2 * LENGTH_BYTES];
    const struct iovec part = { .iov_base = (void *)(uintptr_t)nothing, .iov_len = sizeof nothing };

    tt_stream_write(c->stream, &part, 1);
    return tt_stream_fail(c->stream, -EPROTO,
                          "the peer uses TLS, but this process does not (set a token or "
                          "certificate for this process)");
}

/* Returns the bytes of the next message; 0 if its length is incomplete; negative if it is too
 * long. */
static ssize_t next_message_bytes(struct tt_channel *c)
{
    struct tt_reader r;
    uint32_t bytes;

    if (c->have - c->at < LENGTH_BYTES)
        return 0;
    tt_reader_init(&r, c->buffer + c->at, LENGTH_BYTES);
    bytes = tt_read_u32(&r);
    if (input_is_tls(c))
        return channel_refuse_tls(c);
    if (bytes <= c->conf.frame_max)
        return (ssize_t)(LENGTH_BYTES + (size_t)bytes);
    return tt_stream_fail(c->stream, -EMSGSIZE, "the peer sent a message longer than allowed");
}

/* Makes space for a message of `whole` bytes, growing with the received data, not with the
 * announced length. */
static bool channel_reserve(struct tt_channel *c, size_t whole)
{
    const size_t have = c->have - c->at;
    size_t cap = c->cap;
    uint8_t *grown;

    if (c->at > 0)
        memmove(c->buffer, c->buffer + c->at, have);
    c->at = 0;
    c->have = have;
    if (have == 0 && cap > KEEP_BYTES) {
        free(c->buffer);
        c->buffer = NULL;
        c->cap = cap = 0;
    }
    if (have < cap)
        return true;
    cap = cap ? 2 * cap : READ_BYTES;
    if (whole > 0 && cap > whole && whole >= READ_BYTES)
        cap = whole;
    grown = realloc(c->buffer, cap);
    if (!grown)
        return false;
    c->buffer = grown;
    c->cap = cap;
    return true;
}

/* Converts the result of a read without data: 0 if data may still arrive, or the error that ends
 * the channel. */
static int read_ended(struct tt_channel *c, ssize_t n)
{
    if (n == -EAGAIN)
        return 0;
    if (n < 0)
        return c->ended = (int)n;
    if (c->have == c->at)
        return c->ended = -EPIPE;
    return c->ended = tt_stream_fail(c->stream, -EPROTO,
                                     "the peer closed the connection within a message");
}

int tt_channel_next(struct tt_channel *c, const void **data, size_t *bytes)
{
    ssize_t whole, n;

    if (c->first)
        tt_channel_flush(c);
    for (;;) {
        if (c->ended)
            return c->ended;
        whole = next_message_bytes(c);
        if (whole < 0)
            return c->ended = (int)whole;
        if (whole > 0 && c->have - c->at >= (size_t)whole)
            break;
        if (!channel_reserve(c, (size_t)whole))
            return c->ended = -ENOMEM;
        n = tt_stream_read(c->stream, c->buffer + c->have, c->cap - c->have);
        if (n <= 0)
            return read_ended(c, n);
        c->have += (size_t)n;
    }
    *data = c->buffer + c->at + LENGTH_BYTES;
    *bytes = (size_t)whole - LENGTH_BYTES;
    c->at += (size_t)whole;
    c->heard = true;
    return 1;
}
