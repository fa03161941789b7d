#include "tools/run/run_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"

#define HEADER_BYTES 12u
#define READ_BYTES (64u << 10)

/* Makes room for `bytes` more bytes after `end`, and moves the contents to the start of the buffer.
 * Queues and streams use the same layout. */
static bool reserve(uint8_t **at, size_t *begin, size_t *end, size_t *capacity, size_t bytes)
{
    size_t wanted = *capacity ? *capacity : READ_BYTES;
    uint8_t *more;

    if (*capacity - *end >= bytes)
        return true;
    if (*begin > 0) {
        memmove(*at, *at + *begin, *end - *begin);
        *end -= *begin;
        *begin = 0;
    }
    while (wanted - *end < bytes)
        wanted *= 2;
    if (wanted == *capacity)
        return true;
    more = realloc(*at, wanted);
    if (!more)
        return false;
    *at = more;
    *capacity = wanted;
    return true;
}

bool frame_put(struct frame_queue *q, uint32_t kind, uint32_t subject, const void *data,
               size_t bytes)
{
    struct tt_writer w = { 0 };

    if (!reserve(&q->at, &q->begin, &q->end, &q->capacity, HEADER_BYTES + bytes))
        return false;
    w.begin = w.at = q->at + q->end;
    w.end = w.begin + HEADER_BYTES + bytes;
    tt_write_u32(&w, kind);
    tt_write_u32(&w, subject);
    tt_write_u32(&w, (uint32_t)bytes);
    if (bytes)
        tt_write_bytes(&w, data, bytes);
    q->end += HEADER_BYTES + bytes;
    return true;
}

bool frame_put_words(struct frame_queue *q, uint32_t kind, uint32_t subject, const uint32_t *words,
                     size_t n)
{
    uint8_t data[32];
    struct tt_writer w = { .begin = data, .at = data, .end = data + sizeof data };

    for (size_t i = 0; i < n; i++)
        tt_write_u32(&w, words[i]);
    return !w.bad && frame_put(q, kind, subject, data, (size_t)(w.at - w.begin));
}

size_t frame_unsent(const struct frame_queue *q)
{
    return q->end - q->begin;
}

int frame_flush(struct frame_queue *q, int fd)
{
    while (q->begin < q->end) {
        const ssize_t n = write(fd, q->at + q->begin, q->end - q->begin);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : errno;
        q->begin += (size_t)n;
    }
    q->begin = q->end = 0;
    return 0;
}

void frame_queue_fini(struct frame_queue *q)
{
    free(q->at);
    *q = (struct frame_queue){ 0 };
}

enum frame_read frame_read(struct frame_stream *s, int fd)
{
    ssize_t n;

    if (!reserve(&s->at, &s->begin, &s->end, &s->capacity, READ_BYTES))
        return FRAME_READ_END;
    do
        n = read(fd, s->at + s->end, READ_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return FRAME_READ_NONE;
    if (n <= 0)
        return FRAME_READ_END;
    s->end += (size_t)n;
    return FRAME_READ_SOME;
}

bool frame_append(struct frame_stream *s, const void *data, size_t bytes)
{
    if (!reserve(&s->at, &s->begin, &s->end, &s->capacity, bytes))
        return false;
    if (bytes)
        memcpy(s->at + s->end, data, bytes);
    s->end += bytes;
    return true;
}

enum frame_next frame_next(struct frame_stream *s, struct frame *out)
{
    struct tt_reader r;
    struct frame f;

    tt_reader_init(&r, s->at ? s->at + s->begin : NULL, s->end - s->begin);
    f.kind = tt_read_u32(&r);
    f.subject = tt_read_u32(&r);
    f.bytes = tt_read_u32(&r);
    /* the kind in an incomplete header may already be invalid */
    if (s->end - s->begin >= sizeof f.kind) {
        struct tt_reader first;
        uint32_t kind;

        tt_reader_init(&first, s->at + s->begin, sizeof kind);
        kind = tt_read_u32(&first);
        if (kind < FRAME_SUBTREE || kind > FRAME_DONE)
            return FRAME_NEXT_BAD;
    }
    if (r.bad)
        return FRAME_NEXT_PARTIAL;
    if (f.bytes > (f.kind == FRAME_SUBTREE ? FRAME_SUBTREE_MAX : FRAME_BYTES_MAX))
        return FRAME_NEXT_BAD;
    f.data = tt_reader_take(&r, f.bytes);
    if (r.bad)
        return FRAME_NEXT_PARTIAL;
    s->begin += HEADER_BYTES + f.bytes;
    *out = f;
    return FRAME_NEXT_OK;
}

void frame_excerpt(const struct frame_stream *s, char *out, size_t bytes)
{
    size_t n = 0;

    for (size_t i = s->begin; i < s->end && n + 1 < bytes; i++)
        out[n++] = s->at[i] >= ' ' && s->at[i] < 127 ? (char)s->at[i] : '.';
    out[n] = '\0';
}

void frame_stream_fini(struct frame_stream *s)
{
    free(s->at);
    *s = (struct frame_stream){ 0 };
}

bool frame_words(const struct frame *f, uint32_t *words, size_t n)
{
    struct tt_reader r;

    tt_reader_init(&r, f->data, f->bytes);
    for (size_t i = 0; i < n; i++)
        words[i] = tt_read_u32(&r);
    return !r.bad && r.at == r.end;
}
