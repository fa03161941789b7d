#include "boot/frame.h"

#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"

#define FIRST_BYTES 2048u

void tt_framer_init(struct tt_framer *f, size_t body_max)
{
    *f = (struct tt_framer){ .body_max = body_max };
}

void tt_framer_fini(struct tt_framer *f)
{
    free(f->buf);
    *f = (struct tt_framer){ .bad = true };
}

/* Moves the remaining bytes to the front, then grows the buffer if less than half is free, up to
 * one whole frame. */
uint8_t *tt_framer_space(struct tt_framer *f, size_t *room)
{
    const size_t most = TT_FRAME_HEADER_BYTES + f->body_max;

    if (f->begin > 0) {
        memmove(f->buf, f->buf + f->begin, f->end - f->begin);
        f->end -= f->begin;
        f->begin = 0;
    }
    if (f->end * 2 >= f->cap && f->cap < most) {
        const size_t twice = f->cap ? f->cap * 2 : FIRST_BYTES;
        const size_t cap = twice < most ? twice : most;
        uint8_t *buf = realloc(f->buf, cap);

        if (!buf && f->end == f->cap)
            return NULL;
        if (buf) {
            f->buf = buf;
            f->cap = cap;
        }
    }
    tt_assert(f->end < f->cap);     /* a full buffer contains a whole frame, which tt_framer_next
                                       must return first */
    *room = f->cap - f->end;
    return f->buf + f->end;
}

void tt_framer_added(struct tt_framer *f, size_t n)
{
    tt_assert(n <= f->cap - f->end);
    f->end += n;
}

bool tt_framer_next(struct tt_framer *f, struct tt_frame *out)
{
    struct tt_reader r;
    uint8_t magic[2], type, zero;
    uint32_t bytes;

    if (f->bad)
        return false;
    tt_reader_init(&r, f->buf ? f->buf + f->begin : NULL, f->end - f->begin);
    tt_read_bytes(&r, magic, 2);
    type = tt_read_u8(&r);
    zero = tt_read_u8(&r);
    bytes = tt_read_u32(&r);
    if (r.bad)
        return false;
    if (magic[0] != 'T' || magic[1] != 't' || zero != 0 || bytes > f->body_max) {
        f->bad = true;
        return false;
    }
    if ((size_t)(r.end - r.at) < bytes)
        return false;
    *out = (struct tt_frame){ .type = type, .body = r.at, .bytes = bytes };
    f->begin += TT_FRAME_HEADER_BYTES + bytes;
    return true;
}

void tt_frame_header(uint8_t out[TT_FRAME_HEADER_BYTES], uint8_t type, size_t bytes)
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_FRAME_HEADER_BYTES);
    tt_write_bytes(&w, "Tt", 2);
    tt_write_u8(&w, type);
    tt_write_u8(&w, 0);
    tt_write_u32(&w, (uint32_t)bytes);
}
