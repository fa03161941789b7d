#include "base/bytes.h"

#include <string.h>

/* The next n bytes, or NULL (and bad, for good) if they are not there. */
static const uint8_t *take(struct tt_reader *r, size_t n)
{
    const uint8_t *at = r->at;

    if (r->bad || n > (size_t)(r->end - r->at)) {
        r->bad = true;
        return NULL;
    }
    r->at += n;
    return at;
}

static uint64_t read_le(struct tt_reader *r, size_t n)
{
    const uint8_t *at = take(r, n);
    uint64_t v = 0;

    for (size_t i = 0; at && i < n; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

/* Begins reading data[bytes], which stays the caller's and must outlive the reader. */
void tt_reader_init(struct tt_reader *r, const void *data, size_t bytes)
{
    static const uint8_t nothing;

    r->at = data ? data : &nothing;     /* so that no pointer arithmetic is done on NULL */
    r->end = r->at + bytes;
    r->bad = false;
}

uint8_t tt_read_u8(struct tt_reader *r)
{
    return (uint8_t)read_le(r, 1);
}

uint16_t tt_read_u16(struct tt_reader *r)
{
    return (uint16_t)read_le(r, 2);
}

uint32_t tt_read_u32(struct tt_reader *r)
{
    return (uint32_t)read_le(r, 4);
}

uint64_t tt_read_u64(struct tt_reader *r)
{
    return read_le(r, 8);
}

void tt_read_bytes(struct tt_reader *r, void *out, size_t n)
{
    const uint8_t *at = take(r, n);

    if (n == 0)
        return;
    if (at)
        memcpy(out, at, n);
    else
        memset(out, 0, n);
}

/* On failure out is "" (if it has room for that). */
void tt_read_string(struct tt_reader *r, char *out, size_t cap)
{
    const size_t n = tt_read_u16(r);
    const uint8_t *at = take(r, n);

    if (!at || n >= cap || memchr(at, '\0', n)) {
        r->bad = true;
        if (cap > 0)
            out[0] = '\0';
        return;
    }
    memcpy(out, at, n);
    out[n] = '\0';
}

/* Room for the next n bytes, or NULL (and bad, for good) if there is none. */
static uint8_t *reserve(struct tt_writer *w, size_t n)
{
    uint8_t *at = w->at;

    if (w->bad || n > (size_t)(w->end - w->at)) {
        w->bad = true;
        return NULL;
    }
    w->at += n;
    return at;
}

static void write_le(struct tt_writer *w, uint64_t v, size_t n)
{
    uint8_t *at = reserve(w, n);

    for (size_t i = 0; at && i < n; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

/* Begins writing into data[bytes], which stays the caller's and must outlive the writer. */
void tt_writer_init(struct tt_writer *w, void *data, size_t bytes)
{
    static uint8_t nowhere;

    w->begin = w->at = data ? data : &nowhere;
    w->end = w->begin + bytes;
    w->bad = false;
}

/* How many bytes were written so far. */
size_t tt_writer_bytes(const struct tt_writer *w)
{
    return (size_t)(w->at - w->begin);
}

void tt_write_u8(struct tt_writer *w, uint8_t v)
{
    write_le(w, v, 1);
}

void tt_write_u16(struct tt_writer *w, uint16_t v)
{
    write_le(w, v, 2);
}

void tt_write_u32(struct tt_writer *w, uint32_t v)
{
    write_le(w, v, 4);
}

void tt_write_u64(struct tt_writer *w, uint64_t v)
{
    write_le(w, v, 8);
}

void tt_write_bytes(struct tt_writer *w, const void *data, size_t n)
{
    uint8_t *at = reserve(w, n);

    if (at && n > 0)
        memcpy(at, data, n);
}

/* Length and characters go in together or not at all; a string longer than a u16 can say is bad. */
void tt_write_string(struct tt_writer *w, const char *s)
{
    const size_t n = strlen(s);
    uint8_t *at = n > UINT16_MAX ? NULL : reserve(w, 2 + n);

    if (!at) {
        w->bad = true;
        return;
    }
    at[0] = (uint8_t)n;
    at[1] = (uint8_t)(n >> 8);
    memcpy(at + 2, s, n);
}
